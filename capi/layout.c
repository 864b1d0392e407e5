/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * layout.c: prints layout.json, what the C compiler makes of the public headers. Every binding compares it
 * with its own sizeof and offsetof. Written by tools/abi/make_layout.py: do not edit.
 * Build it with: cc -Icapi/include capi/layout.c
 */
#include <quoit/quoit.h>

#include <inttypes.h>
#include <stdio.h>

typedef struct field {
    const char *name;
    const char *type;
    size_t offset;
    size_t size;
    size_t count;
} field;

typedef struct layout {
    const char *name;
    const char *growth; /* "frozen", or "grown": at its end, behind struct_size */
    size_t size;
    size_t align;
    const field *fields;
    size_t field_count;
} layout;

typedef struct constant {
    const char *family;
    const char *name;
    int64_t value;
} constant;

/* clang-format off */
/* The compiler names the type, so that a typedef is told by what it stands for. */
#define TYPE_NAME(x) \
    _Generic((x), char: "char", int8_t: "int8_t", uint8_t: "uint8_t", int16_t: "int16_t", uint16_t: "uint16_t", \
             int32_t: "int32_t", uint32_t: "uint32_t", int64_t: "int64_t", uint64_t: "uint64_t", \
             float: "float", double: "double", quoit_addr: "quoit_addr")
#define AT(s, f) (((s *)0)->f)
#define ONE(s, f) {#f, TYPE_NAME(AT(s, f)), offsetof(s, f), sizeof AT(s, f), 1}
#define MANY(s, f) {#f, TYPE_NAME(AT(s, f)[0]), offsetof(s, f), sizeof AT(s, f), COUNT(AT(s, f))}
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LAYOUT(s, growth) {#s, growth, sizeof(s), _Alignof(s), s##_fields, COUNT(s##_fields)}

static const field quoit_iov_fields[] = {
    ONE(quoit_iov, addr), ONE(quoit_iov, len), ONE(quoit_iov, flags),
};

static const field quoit_event_fields[] = {
    ONE(quoit_event, kind), ONE(quoit_event, flags), ONE(quoit_event, source),
    ONE(quoit_event, user_data), ONE(quoit_event, result), ONE(quoit_event, offset),
    ONE(quoit_event, len), ONE(quoit_event, aux), ONE(quoit_event, buffer), ONE(quoit_event, value),
};

static const field quoit_batch_fields[] = {
    ONE(quoit_batch, struct_size), ONE(quoit_batch, flags), ONE(quoit_batch, ops),
    ONE(quoit_batch, events), ONE(quoit_batch, nops), ONE(quoit_batch, ops_max),
    ONE(quoit_batch, nevents), ONE(quoit_batch, events_max), ONE(quoit_batch, stride),
    ONE(quoit_batch, scratch_len), ONE(quoit_batch, scratch_off), ONE(quoit_batch, now_ns),
    ONE(quoit_batch, tick), ONE(quoit_batch, next_ns), ONE(quoit_batch, recv_base),
    ONE(quoit_batch, recv_size), ONE(quoit_batch, send_base), ONE(quoit_batch, send_size),
    ONE(quoit_batch, worker), ONE(quoit_batch, reserved),
};

static const field quoit_addr_fields[] = {
    ONE(quoit_addr, family), ONE(quoit_addr, port), ONE(quoit_addr, scope), ONE(quoit_addr, flowinfo),
    ONE(quoit_addr, len), MANY(quoit_addr, bytes),
};

static const field quoit_listen_options_fields[] = {
    ONE(quoit_listen_options, struct_size), ONE(quoit_listen_options, flags),
    ONE(quoit_listen_options, streams_max), ONE(quoit_listen_options, skew_percent),
    ONE(quoit_listen_options, reserved),
};

static const field quoit_bind_options_fields[] = {
    ONE(quoit_bind_options, struct_size), ONE(quoit_bind_options, flags),
    ONE(quoit_bind_options, reserved), ONE(quoit_bind_options, peer),
};

static const field quoit_packet_info_fields[] = {
    ONE(quoit_packet_info, struct_size), ONE(quoit_packet_info, flags), ONE(quoit_packet_info, reserved),
    ONE(quoit_packet_info, source),
};

static const field quoit_op_fields[] = {
    ONE(quoit_op, opcode), ONE(quoit_op, flags), ONE(quoit_op, target), ONE(quoit_op, user_data),
    ONE(quoit_op, addr), ONE(quoit_op, len), ONE(quoit_op, arg), ONE(quoit_op, offset),
    ONE(quoit_op, arg2), ONE(quoit_op, timeout_ns),
};

static const field quoit_call_fields[] = {
    ONE(quoit_call, struct_size), ONE(quoit_call, nargs), ONE(quoit_call, entry), ONE(quoit_call, types),
    ONE(quoit_call, args), ONE(quoit_call, return_type), ONE(quoit_call, flags),
};

static const field quoit_probe_entry_fields[] = {
    ONE(quoit_probe_entry, state), ONE(quoit_probe_entry, status), ONE(quoit_probe_entry, number),
    MANY(quoit_probe_entry, name), MANY(quoit_probe_entry, reason), MANY(quoit_probe_entry, fix),
};

static const field quoit_runtime_options_fields[] = {
    ONE(quoit_runtime_options, struct_size), ONE(quoit_runtime_options, flags),
    ONE(quoit_runtime_options, driver), ONE(quoit_runtime_options, pool_threads),
    ONE(quoit_runtime_options, pool_queue), ONE(quoit_runtime_options, reserved),
    ONE(quoit_runtime_options, reserved2),
};

static const field quoit_worker_options_fields[] = {
    ONE(quoit_worker_options, struct_size), ONE(quoit_worker_options, flags),
    ONE(quoit_worker_options, events_max), ONE(quoit_worker_options, ops_max),
    ONE(quoit_worker_options, scratch_len), ONE(quoit_worker_options, reserved),
    ONE(quoit_worker_options, recv_arena), ONE(quoit_worker_options, send_arena),
    ONE(quoit_worker_options, recv_buffers), ONE(quoit_worker_options, recv_buffer_size),
    ONE(quoit_worker_options, send_limit), ONE(quoit_worker_options, kept_stream_max),
    ONE(quoit_worker_options, kept_max), ONE(quoit_worker_options, ring_entries),
    ONE(quoit_worker_options, cq_entries), ONE(quoit_worker_options, objects_max),
    ONE(quoit_worker_options, mailbox_ops), ONE(quoit_worker_options, mailbox_bytes),
    ONE(quoit_worker_options, close_timeout_ns), ONE(quoit_worker_options, cpu),
    ONE(quoit_worker_options, reserved2),
};

static const field quoit_stats_fields[] = {
    ONE(quoit_stats, struct_size), ONE(quoit_stats, driver), ONE(quoit_stats, ticks),
    ONE(quoit_stats, system_calls), ONE(quoit_stats, crossings), ONE(quoit_stats, ops),
    ONE(quoit_stats, events), ONE(quoit_stats, bytes_received), ONE(quoit_stats, bytes_sent),
    ONE(quoit_stats, accepts), ONE(quoit_stats, connects), ONE(quoit_stats, park_ns),
    ONE(quoit_stats, parks), ONE(quoit_stats, sends), ONE(quoit_stats, sends_partial),
    ONE(quoit_stats, sends_gathered), ONE(quoit_stats, recv_nobufs), ONE(quoit_stats, recv_rearms),
    ONE(quoit_stats, recv_paused), ONE(quoit_stats, cq_overflows), ONE(quoit_stats, accept_stalls),
    ONE(quoit_stats, handed_over), ONE(quoit_stats, posts_in), ONE(quoit_stats, posts_refused),
    ONE(quoit_stats, wakes), ONE(quoit_stats, offloads), ONE(quoit_stats, timers_fired),
    ONE(quoit_stats, objects_live), ONE(quoit_stats, ops_live), ONE(quoit_stats, buffers_total),
    ONE(quoit_stats, buffers_free), ONE(quoit_stats, buffers_kept), ONE(quoit_stats, send_bytes_queued),
    ONE(quoit_stats, leaked), MANY(quoit_stats, tick_ns_hist), ONE(quoit_stats, zerocopy_sends),
    ONE(quoit_stats, zerocopy_copied), ONE(quoit_stats, zerocopy_refused),
};

static const layout layouts[] = {
    LAYOUT(quoit_iov, "frozen"), LAYOUT(quoit_event, "frozen"), LAYOUT(quoit_batch, "grown"),
    LAYOUT(quoit_addr, "frozen"), LAYOUT(quoit_listen_options, "grown"),
    LAYOUT(quoit_bind_options, "grown"), LAYOUT(quoit_packet_info, "grown"), LAYOUT(quoit_op, "frozen"),
    LAYOUT(quoit_call, "grown"), LAYOUT(quoit_probe_entry, "frozen"),
    LAYOUT(quoit_runtime_options, "grown"), LAYOUT(quoit_worker_options, "grown"),
    LAYOUT(quoit_stats, "grown"),
};

static const char quoit_handle_family[] = "QUOIT_HANDLE";
static const char quoit_ok_family[] = "QUOIT_OK";
static const char quoit_e_family[] = "QUOIT_E";
static const char quoit_field_family[] = "QUOIT_FIELD";
static const char quoit_class_family[] = "QUOIT_CLASS";
static const char quoit_feature_family[] = "QUOIT_FEATURE";
static const char quoit_iov_family[] = "QUOIT_IOV";
static const char quoit_evf_family[] = "QUOIT_EVF";
static const char quoit_kind_family[] = "QUOIT_KIND";
static const char quoit_batch_family[] = "QUOIT_BATCH";
static const char quoit_open_family[] = "QUOIT_OPEN";
static const char quoit_log_family[] = "QUOIT_LOG";
static const char quoit_family_family[] = "QUOIT_FAMILY";
static const char quoit_listen_family[] = "QUOIT_LISTEN";
static const char quoit_connect_family[] = "QUOIT_CONNECT";
static const char quoit_bind_family[] = "QUOIT_BIND";
static const char quoit_send_family[] = "QUOIT_SEND";
static const char quoit_shutdown_family[] = "QUOIT_SHUTDOWN";
static const char quoit_opf_family[] = "QUOIT_OPF";
static const char quoit_op_family[] = "QUOIT_OP";
static const char quoit_datagram_family[] = "QUOIT_DATAGRAM";
static const char quoit_multicast_family[] = "QUOIT_MULTICAST";
static const char quoit_fds_family[] = "QUOIT_FDS";
static const char quoit_channel_family[] = "QUOIT_CHANNEL";
static const char quoit_read_family[] = "QUOIT_READ";
static const char quoit_poll_family[] = "QUOIT_POLL";
static const char quoit_call_family[] = "QUOIT_CALL";
static const char quoit_type_family[] = "QUOIT_TYPE";
static const char quoit_probe_family[] = "QUOIT_PROBE";
static const char quoit_driver_family[] = "QUOIT_DRIVER";
static const char quoit_runtime_family[] = "QUOIT_RUNTIME";
static const char quoit_worker_family[] = "QUOIT_WORKER";
static const char quoit_run_family[] = "QUOIT_RUN";
static const char quoit_signal_family[] = "QUOIT_SIGNAL";
static const char quoit_socket_family[] = "QUOIT_SOCKET";
static const char quoit_clock_family[] = "QUOIT_CLOCK";
static const char *const opcode_family = quoit_op_family;

static const constant constants[] = {
    {quoit_handle_family, "QUOIT_HANDLE_WORKER", QUOIT_HANDLE_WORKER},
    {quoit_handle_family, "QUOIT_HANDLE_LISTENER", QUOIT_HANDLE_LISTENER},
    {quoit_handle_family, "QUOIT_HANDLE_STREAM", QUOIT_HANDLE_STREAM},
    {quoit_handle_family, "QUOIT_HANDLE_FILE", QUOIT_HANDLE_FILE},
    {quoit_handle_family, "QUOIT_HANDLE_DIRECTORY", QUOIT_HANDLE_DIRECTORY},
    {quoit_handle_family, "QUOIT_HANDLE_TIMER", QUOIT_HANDLE_TIMER},
    {quoit_handle_family, "QUOIT_HANDLE_POLL", QUOIT_HANDLE_POLL},
    {quoit_handle_family, "QUOIT_HANDLE_BUFFER", QUOIT_HANDLE_BUFFER},
    {quoit_handle_family, "QUOIT_HANDLE_DATAGRAM", QUOIT_HANDLE_DATAGRAM},
    {quoit_handle_family, "QUOIT_HANDLE_CHANNEL", QUOIT_HANDLE_CHANNEL},
    {quoit_ok_family, "QUOIT_OK", QUOIT_OK}, {quoit_e_family, "QUOIT_E_ARGUMENT", QUOIT_E_ARGUMENT},
    {quoit_e_family, "QUOIT_E_STRUCT_SIZE", QUOIT_E_STRUCT_SIZE},
    {quoit_e_family, "QUOIT_E_FLAGS", QUOIT_E_FLAGS}, {quoit_e_family, "QUOIT_E_FIELD", QUOIT_E_FIELD},
    {quoit_e_family, "QUOIT_E_OPCODE", QUOIT_E_OPCODE},
    {quoit_e_family, "QUOIT_E_UNSUPPORTED", QUOIT_E_UNSUPPORTED},
    {quoit_e_family, "QUOIT_E_STALE", QUOIT_E_STALE}, {quoit_e_family, "QUOIT_E_KIND", QUOIT_E_KIND},
    {quoit_e_family, "QUOIT_E_WORKER", QUOIT_E_WORKER},
    {quoit_e_family, "QUOIT_E_HANDLE", QUOIT_E_HANDLE},
    {quoit_e_family, "QUOIT_E_THREAD", QUOIT_E_THREAD},
    {quoit_e_family, "QUOIT_E_REENTER", QUOIT_E_REENTER},
    {quoit_e_family, "QUOIT_E_FORKED", QUOIT_E_FORKED},
    {quoit_e_family, "QUOIT_E_CLOSED", QUOIT_E_CLOSED},
    {quoit_e_family, "QUOIT_E_TOO_MANY", QUOIT_E_TOO_MANY},
    {quoit_e_family, "QUOIT_E_RANGE", QUOIT_E_RANGE}, {quoit_e_family, "QUOIT_E_BUSY", QUOIT_E_BUSY},
    {quoit_e_family, "QUOIT_E_LIMIT", QUOIT_E_LIMIT}, {quoit_e_family, "QUOIT_E_DRIVER", QUOIT_E_DRIVER},
    {quoit_e_family, "QUOIT_E_CLOSING", QUOIT_E_CLOSING},
    {quoit_field_family, "QUOIT_FIELD_OPCODE", QUOIT_FIELD_OPCODE},
    {quoit_field_family, "QUOIT_FIELD_FLAGS", QUOIT_FIELD_FLAGS},
    {quoit_field_family, "QUOIT_FIELD_TARGET", QUOIT_FIELD_TARGET},
    {quoit_field_family, "QUOIT_FIELD_USER_DATA", QUOIT_FIELD_USER_DATA},
    {quoit_field_family, "QUOIT_FIELD_ADDR", QUOIT_FIELD_ADDR},
    {quoit_field_family, "QUOIT_FIELD_LEN", QUOIT_FIELD_LEN},
    {quoit_field_family, "QUOIT_FIELD_ARG", QUOIT_FIELD_ARG},
    {quoit_field_family, "QUOIT_FIELD_OFFSET", QUOIT_FIELD_OFFSET},
    {quoit_field_family, "QUOIT_FIELD_ARG2", QUOIT_FIELD_ARG2},
    {quoit_field_family, "QUOIT_FIELD_TIMEOUT", QUOIT_FIELD_TIMEOUT},
    {quoit_class_family, "QUOIT_CLASS_OK", QUOIT_CLASS_OK},
    {quoit_class_family, "QUOIT_CLASS_RETRY", QUOIT_CLASS_RETRY},
    {quoit_class_family, "QUOIT_CLASS_CLOSED", QUOIT_CLASS_CLOSED},
    {quoit_class_family, "QUOIT_CLASS_USAGE", QUOIT_CLASS_USAGE},
    {quoit_class_family, "QUOIT_CLASS_SYSTEM", QUOIT_CLASS_SYSTEM},
    {quoit_class_family, "QUOIT_CLASS_CANCELLED", QUOIT_CLASS_CANCELLED},
    {quoit_feature_family, "QUOIT_FEATURE_URING", QUOIT_FEATURE_URING},
    {quoit_feature_family, "QUOIT_FEATURE_EPOLL", QUOIT_FEATURE_EPOLL},
    {quoit_feature_family, "QUOIT_FEATURE_OFFLOAD", QUOIT_FEATURE_OFFLOAD},
    {quoit_iov_family, "QUOIT_IOV_MAX", QUOIT_IOV_MAX},
    {quoit_evf_family, "QUOIT_EVF_MORE", QUOIT_EVF_MORE},
    {quoit_evf_family, "QUOIT_EVF_EOF", QUOIT_EVF_EOF},
    {quoit_evf_family, "QUOIT_EVF_LENT", QUOIT_EVF_LENT},
    {quoit_evf_family, "QUOIT_EVF_KEPT", QUOIT_EVF_KEPT},
    {quoit_evf_family, "QUOIT_EVF_COPIED", QUOIT_EVF_COPIED},
    {quoit_evf_family, "QUOIT_EVF_TRUNC", QUOIT_EVF_TRUNC},
    {quoit_evf_family, "QUOIT_EVF_NONEMPTY", QUOIT_EVF_NONEMPTY},
    {quoit_evf_family, "QUOIT_EVF_MESSAGE", QUOIT_EVF_MESSAGE},
    {quoit_evf_family, "QUOIT_EVF_CREDENTIALS", QUOIT_EVF_CREDENTIALS},
    {quoit_kind_family, "QUOIT_KIND_BAD_OP", QUOIT_KIND_BAD_OP},
    {quoit_kind_family, "QUOIT_KIND_MESSAGE", QUOIT_KIND_MESSAGE},
    {quoit_kind_family, "QUOIT_KIND_MOVED", QUOIT_KIND_MOVED},
    {quoit_kind_family, "QUOIT_KIND_DRAIN", QUOIT_KIND_DRAIN},
    {quoit_kind_family, "QUOIT_KIND_GREASE", QUOIT_KIND_GREASE},
    {quoit_batch_family, "QUOIT_BATCH_INTERRUPTED", QUOIT_BATCH_INTERRUPTED},
    {quoit_batch_family, "QUOIT_BATCH_LEFT", QUOIT_BATCH_LEFT},
    {quoit_batch_family, "QUOIT_BATCH_DRAINED", QUOIT_BATCH_DRAINED},
    {quoit_open_family, "QUOIT_OPEN_READ", QUOIT_OPEN_READ},
    {quoit_open_family, "QUOIT_OPEN_WRITE", QUOIT_OPEN_WRITE},
    {quoit_open_family, "QUOIT_OPEN_CREATE", QUOIT_OPEN_CREATE},
    {quoit_open_family, "QUOIT_OPEN_EXCLUSIVE", QUOIT_OPEN_EXCLUSIVE},
    {quoit_open_family, "QUOIT_OPEN_TRUNCATE", QUOIT_OPEN_TRUNCATE},
    {quoit_open_family, "QUOIT_OPEN_APPEND", QUOIT_OPEN_APPEND},
    {quoit_open_family, "QUOIT_OPEN_DIRECTORY", QUOIT_OPEN_DIRECTORY},
    {quoit_open_family, "QUOIT_OPEN_NOFOLLOW", QUOIT_OPEN_NOFOLLOW},
    {quoit_open_family, "QUOIT_OPEN_SYNC", QUOIT_OPEN_SYNC},
    {quoit_open_family, "QUOIT_OPEN_DIRECT", QUOIT_OPEN_DIRECT},
    {quoit_log_family, "QUOIT_LOG_ERROR", QUOIT_LOG_ERROR},
    {quoit_log_family, "QUOIT_LOG_WARNING", QUOIT_LOG_WARNING},
    {quoit_log_family, "QUOIT_LOG_INFO", QUOIT_LOG_INFO},
    {quoit_log_family, "QUOIT_LOG_DEBUG", QUOIT_LOG_DEBUG},
    {quoit_family_family, "QUOIT_FAMILY_UNIX", QUOIT_FAMILY_UNIX},
    {quoit_family_family, "QUOIT_FAMILY_V4", QUOIT_FAMILY_V4},
    {quoit_family_family, "QUOIT_FAMILY_V6", QUOIT_FAMILY_V6},
    {quoit_listen_family, "QUOIT_LISTEN_REUSEPORT", QUOIT_LISTEN_REUSEPORT},
    {quoit_listen_family, "QUOIT_LISTEN_V6ONLY", QUOIT_LISTEN_V6ONLY},
    {quoit_listen_family, "QUOIT_LISTEN_DELAY", QUOIT_LISTEN_DELAY},
    {quoit_listen_family, "QUOIT_LISTEN_UNLINK", QUOIT_LISTEN_UNLINK},
    {quoit_listen_family, "QUOIT_LISTEN_FREEBIND", QUOIT_LISTEN_FREEBIND},
    {quoit_listen_family, "QUOIT_LISTEN_DEFER_ACCEPT", QUOIT_LISTEN_DEFER_ACCEPT},
    {quoit_listen_family, "QUOIT_LISTEN_SEQPACKET", QUOIT_LISTEN_SEQPACKET},
    {quoit_connect_family, "QUOIT_CONNECT_DELAY", QUOIT_CONNECT_DELAY},
    {quoit_connect_family, "QUOIT_CONNECT_SEQPACKET", QUOIT_CONNECT_SEQPACKET},
    {quoit_bind_family, "QUOIT_BIND_REUSEPORT", QUOIT_BIND_REUSEPORT},
    {quoit_bind_family, "QUOIT_BIND_V6ONLY", QUOIT_BIND_V6ONLY},
    {quoit_bind_family, "QUOIT_BIND_BROADCAST", QUOIT_BIND_BROADCAST},
    {quoit_bind_family, "QUOIT_BIND_UNLINK", QUOIT_BIND_UNLINK},
    {quoit_bind_family, "QUOIT_BIND_PKTINFO", QUOIT_BIND_PKTINFO},
    {quoit_bind_family, "QUOIT_BIND_GRO", QUOIT_BIND_GRO},
    {quoit_send_family, "QUOIT_SEND_CORK", QUOIT_SEND_CORK},
    {quoit_shutdown_family, "QUOIT_SHUTDOWN_RECV", QUOIT_SHUTDOWN_RECV},
    {quoit_shutdown_family, "QUOIT_SHUTDOWN_SEND", QUOIT_SHUTDOWN_SEND},
    {quoit_shutdown_family, "QUOIT_SHUTDOWN_BOTH", QUOIT_SHUTDOWN_BOTH},
    {quoit_opf_family, "QUOIT_OPF_MULTI", QUOIT_OPF_MULTI},
    {quoit_opf_family, "QUOIT_OPF_KEEP", QUOIT_OPF_KEEP},
    {quoit_opf_family, "QUOIT_OPF_QUIET", QUOIT_OPF_QUIET},
    {quoit_opf_family, "QUOIT_OPF_BORROW", QUOIT_OPF_BORROW},
    {quoit_opf_family, "QUOIT_OPF_IOV", QUOIT_OPF_IOV},
    {quoit_opf_family, "QUOIT_OPF_ARENA_SEND", QUOIT_OPF_ARENA_SEND},
    {quoit_opf_family, "QUOIT_OPF_ARENA_RECV", QUOIT_OPF_ARENA_RECV},
    {quoit_opf_family, "QUOIT_OPF_ARGS", QUOIT_OPF_ARGS},
    {quoit_opf_family, "QUOIT_OPF_ABS", QUOIT_OPF_ABS},
    {quoit_opf_family, "QUOIT_OPF_LINK", QUOIT_OPF_LINK},
    {quoit_opf_family, "QUOIT_OPF_AUTO_RECV", QUOIT_OPF_AUTO_RECV},
    {quoit_opf_family, "QUOIT_OPF_ZEROCOPY", QUOIT_OPF_ZEROCOPY},
    {quoit_opf_family, "QUOIT_OPF_ABORT", QUOIT_OPF_ABORT},
    {quoit_opf_family, "QUOIT_OPF_ARMED", QUOIT_OPF_ARMED},
    {quoit_op_family, "QUOIT_OP_NOP", QUOIT_OP_NOP},
    {quoit_op_family, "QUOIT_OP_LISTEN", QUOIT_OP_LISTEN},
    {quoit_op_family, "QUOIT_OP_ACCEPT", QUOIT_OP_ACCEPT},
    {quoit_op_family, "QUOIT_OP_CONNECT", QUOIT_OP_CONNECT},
    {quoit_op_family, "QUOIT_OP_RECV", QUOIT_OP_RECV},
    {quoit_op_family, "QUOIT_OP_RECV_PAUSE", QUOIT_OP_RECV_PAUSE},
    {quoit_op_family, "QUOIT_OP_RECV_RESUME", QUOIT_OP_RECV_RESUME},
    {quoit_op_family, "QUOIT_OP_SEND", QUOIT_OP_SEND},
    {quoit_op_family, "QUOIT_OP_SENDV", QUOIT_OP_SENDV},
    {quoit_op_family, "QUOIT_OP_SHUTDOWN", QUOIT_OP_SHUTDOWN},
    {quoit_op_family, "QUOIT_OP_CLOSE", QUOIT_OP_CLOSE},
    {quoit_op_family, "QUOIT_OP_CANCEL", QUOIT_OP_CANCEL},
    {quoit_op_family, "QUOIT_OP_TIMER", QUOIT_OP_TIMER},
    {quoit_op_family, "QUOIT_OP_POST", QUOIT_OP_POST}, {quoit_op_family, "QUOIT_OP_POLL", QUOIT_OP_POLL},
    {quoit_op_family, "QUOIT_OP_OPEN", QUOIT_OP_OPEN}, {quoit_op_family, "QUOIT_OP_READ", QUOIT_OP_READ},
    {quoit_op_family, "QUOIT_OP_WRITE", QUOIT_OP_WRITE},
    {quoit_op_family, "QUOIT_OP_FSYNC", QUOIT_OP_FSYNC},
    {quoit_op_family, "QUOIT_OP_OFFLOAD", QUOIT_OP_OFFLOAD},
    {quoit_op_family, "QUOIT_OP_KEEP", QUOIT_OP_KEEP},
    {quoit_op_family, "QUOIT_OP_RELEASE", QUOIT_OP_RELEASE},
    {quoit_op_family, "QUOIT_OP_BIND", QUOIT_OP_BIND},
    {quoit_op_family, "QUOIT_OP_RECVMSG", QUOIT_OP_RECVMSG},
    {quoit_op_family, "QUOIT_OP_SENDMSG", QUOIT_OP_SENDMSG},
    {quoit_op_family, "QUOIT_OP_MULTICAST", QUOIT_OP_MULTICAST},
    {quoit_op_family, "QUOIT_OP_SOCKET_SET", QUOIT_OP_SOCKET_SET},
    {quoit_op_family, "QUOIT_OP_ADOPT", QUOIT_OP_ADOPT},
    {quoit_op_family, "QUOIT_OP_DETACH", QUOIT_OP_DETACH},
    {quoit_op_family, "QUOIT_OP_SPLICE", QUOIT_OP_SPLICE},
    {quoit_op_family, "QUOIT_OP_SEND_FD", QUOIT_OP_SEND_FD},
    {quoit_op_family, "QUOIT_OP_RECV_FD", QUOIT_OP_RECV_FD},
    {quoit_op_family, "QUOIT_OP_MOVE", QUOIT_OP_MOVE},
    {quoit_op_family, "QUOIT_OP_CHANNEL", QUOIT_OP_CHANNEL},
    {quoit_op_family, "QUOIT_OP_CHANNEL_SEND", QUOIT_OP_CHANNEL_SEND},
    {quoit_op_family, "QUOIT_OP_CHANNEL_RECV", QUOIT_OP_CHANNEL_RECV},
    {quoit_datagram_family, "QUOIT_DATAGRAM_MAX", QUOIT_DATAGRAM_MAX},
    {quoit_multicast_family, "QUOIT_MULTICAST_JOIN", QUOIT_MULTICAST_JOIN},
    {quoit_multicast_family, "QUOIT_MULTICAST_LEAVE", QUOIT_MULTICAST_LEAVE},
    {quoit_fds_family, "QUOIT_FDS_MAX", QUOIT_FDS_MAX},
    {quoit_channel_family, "QUOIT_CHANNEL_MANY_TO_ONE", QUOIT_CHANNEL_MANY_TO_ONE},
    {quoit_channel_family, "QUOIT_CHANNEL_ONE_TO_ONE", QUOIT_CHANNEL_ONE_TO_ONE},
    {quoit_channel_family, "QUOIT_CHANNEL_ONESHOT", QUOIT_CHANNEL_ONESHOT},
    {quoit_channel_family, "QUOIT_CHANNEL_MAX", QUOIT_CHANNEL_MAX},
    {quoit_read_family, "QUOIT_READ_MAX", QUOIT_READ_MAX},
    {quoit_poll_family, "QUOIT_POLL_IN", QUOIT_POLL_IN},
    {quoit_poll_family, "QUOIT_POLL_OUT", QUOIT_POLL_OUT},
    {quoit_poll_family, "QUOIT_POLL_ERR", QUOIT_POLL_ERR},
    {quoit_poll_family, "QUOIT_POLL_HUP", QUOIT_POLL_HUP},
    {quoit_poll_family, "QUOIT_POLL_RDHUP", QUOIT_POLL_RDHUP},
    {quoit_poll_family, "QUOIT_POLL_PRI", QUOIT_POLL_PRI},
    {quoit_call_family, "QUOIT_CALL_ARGS_MAX", QUOIT_CALL_ARGS_MAX},
    {quoit_type_family, "QUOIT_TYPE_VOID", QUOIT_TYPE_VOID},
    {quoit_type_family, "QUOIT_TYPE_I8", QUOIT_TYPE_I8},
    {quoit_type_family, "QUOIT_TYPE_U8", QUOIT_TYPE_U8},
    {quoit_type_family, "QUOIT_TYPE_I16", QUOIT_TYPE_I16},
    {quoit_type_family, "QUOIT_TYPE_U16", QUOIT_TYPE_U16},
    {quoit_type_family, "QUOIT_TYPE_I32", QUOIT_TYPE_I32},
    {quoit_type_family, "QUOIT_TYPE_U32", QUOIT_TYPE_U32},
    {quoit_type_family, "QUOIT_TYPE_I64", QUOIT_TYPE_I64},
    {quoit_type_family, "QUOIT_TYPE_U64", QUOIT_TYPE_U64},
    {quoit_type_family, "QUOIT_TYPE_FLOAT", QUOIT_TYPE_FLOAT},
    {quoit_type_family, "QUOIT_TYPE_DOUBLE", QUOIT_TYPE_DOUBLE},
    {quoit_type_family, "QUOIT_TYPE_POINTER", QUOIT_TYPE_POINTER},
    {quoit_probe_family, "QUOIT_PROBE_USED", QUOIT_PROBE_USED},
    {quoit_probe_family, "QUOIT_PROBE_REFUSED", QUOIT_PROBE_REFUSED},
    {quoit_probe_family, "QUOIT_PROBE_UNUSED", QUOIT_PROBE_UNUSED},
    {quoit_probe_family, "QUOIT_PROBE_FACT", QUOIT_PROBE_FACT},
    {quoit_driver_family, "QUOIT_DRIVER_AUTO", QUOIT_DRIVER_AUTO},
    {quoit_driver_family, "QUOIT_DRIVER_URING", QUOIT_DRIVER_URING},
    {quoit_driver_family, "QUOIT_DRIVER_URING_DEFER", QUOIT_DRIVER_URING_DEFER},
    {quoit_driver_family, "QUOIT_DRIVER_URING_COOP", QUOIT_DRIVER_URING_COOP},
    {quoit_driver_family, "QUOIT_DRIVER_URING_PLAIN", QUOIT_DRIVER_URING_PLAIN},
    {quoit_driver_family, "QUOIT_DRIVER_EPOLL", QUOIT_DRIVER_EPOLL},
    {quoit_runtime_family, "QUOIT_RUNTIME_LOG_STDERR", QUOIT_RUNTIME_LOG_STDERR},
    {quoit_worker_family, "QUOIT_WORKER_GREASE", QUOIT_WORKER_GREASE},
    {quoit_run_family, "QUOIT_RUN_STOP", QUOIT_RUN_STOP},
    {quoit_signal_family, "QUOIT_SIGNAL_TERM", QUOIT_SIGNAL_TERM},
    {quoit_signal_family, "QUOIT_SIGNAL_INT", QUOIT_SIGNAL_INT},
    {quoit_signal_family, "QUOIT_SIGNAL_HUP", QUOIT_SIGNAL_HUP},
    {quoit_signal_family, "QUOIT_SIGNAL_QUIT", QUOIT_SIGNAL_QUIT},
    {quoit_socket_family, "QUOIT_SOCKET_NODELAY", QUOIT_SOCKET_NODELAY},
    {quoit_socket_family, "QUOIT_SOCKET_KEEPALIVE", QUOIT_SOCKET_KEEPALIVE},
    {quoit_socket_family, "QUOIT_SOCKET_KEEPALIVE_IDLE", QUOIT_SOCKET_KEEPALIVE_IDLE},
    {quoit_socket_family, "QUOIT_SOCKET_KEEPALIVE_INTERVAL", QUOIT_SOCKET_KEEPALIVE_INTERVAL},
    {quoit_socket_family, "QUOIT_SOCKET_KEEPALIVE_COUNT", QUOIT_SOCKET_KEEPALIVE_COUNT},
    {quoit_socket_family, "QUOIT_SOCKET_LINGER", QUOIT_SOCKET_LINGER},
    {quoit_socket_family, "QUOIT_SOCKET_DEFER_ACCEPT", QUOIT_SOCKET_DEFER_ACCEPT},
    {quoit_socket_family, "QUOIT_SOCKET_SEND_BUFFER", QUOIT_SOCKET_SEND_BUFFER},
    {quoit_socket_family, "QUOIT_SOCKET_RECV_BUFFER", QUOIT_SOCKET_RECV_BUFFER},
    {quoit_socket_family, "QUOIT_SOCKET_TOS", QUOIT_SOCKET_TOS},
    {quoit_socket_family, "QUOIT_SOCKET_INCOMING_CPU", QUOIT_SOCKET_INCOMING_CPU},
    {quoit_socket_family, "QUOIT_SOCKET_BUSY_POLL", QUOIT_SOCKET_BUSY_POLL},
    {quoit_socket_family, "QUOIT_SOCKET_USER_TIMEOUT", QUOIT_SOCKET_USER_TIMEOUT},
    {quoit_socket_family, "QUOIT_SOCKET_PRIORITY", QUOIT_SOCKET_PRIORITY},
    {quoit_socket_family, "QUOIT_SOCKET_MARK", QUOIT_SOCKET_MARK},
    {quoit_socket_family, "QUOIT_SOCKET_FREEBIND", QUOIT_SOCKET_FREEBIND},
    {quoit_socket_family, "QUOIT_SOCKET_V6ONLY", QUOIT_SOCKET_V6ONLY},
    {quoit_socket_family, "QUOIT_SOCKET_REUSEPORT", QUOIT_SOCKET_REUSEPORT},
    {quoit_socket_family, "QUOIT_SOCKET_CREDENTIALS", QUOIT_SOCKET_CREDENTIALS},
    {quoit_clock_family, "QUOIT_CLOCK_MONOTONIC", QUOIT_CLOCK_MONOTONIC},
    {quoit_clock_family, "QUOIT_CLOCK_BOOT", QUOIT_CLOCK_BOOT},
    {quoit_clock_family, "QUOIT_CLOCK_WALL", QUOIT_CLOCK_WALL},
};
/* clang-format on */

static void print_field(const field *f, const char *end) {
    printf("      {\"name\": \"%s\", \"offset\": %zu, \"size\": %zu, ", f->name, f->offset, f->size);
    printf("\"type\": \"%s\", \"count\": %zu}%s\n", f->type, f->count, end);
}

static void print_layout(const layout *l, const char *end) {
    printf("    \"%s\": {\"growth\": \"%s\", \"size\": %zu, ", l->name, l->growth, l->size);
    printf("\"align\": %zu, \"fields\": [\n", l->align);
    for (size_t i = 0; i < l->field_count; i++)
        print_field(&l->fields[i], i + 1 < l->field_count ? "," : "");
    printf("    ]}%s\n", end);
}

/* Constants of one family follow each other in the table. */
static void print_constants(void) {
    const char *family = "";
    for (size_t i = 0; i < COUNT(constants); i++) {
        const constant *c = &constants[i];
        if (c->family != family)
            printf("%s    \"%s\": {\n", i == 0 ? "" : "    },\n", c->family);
        family = c->family;
        int last = i + 1 == COUNT(constants) || constants[i + 1].family != family;
        printf("      \"%s\": %" PRId64 "%s\n", c->name, c->value, last ? "" : ",");
    }
    printf("    }\n");
}

static void print_opcodes(void) {
    const char *separator = "";
    for (size_t i = 0; i < COUNT(constants); i++) {
        const constant *c = &constants[i];
        if (c->family != opcode_family)
            continue;
        printf("%s    {\"name\": \"%s\", \"value\": %" PRId64 "}", separator, c->name, c->value);
        separator = ",\n";
    }
    printf("\n");
}

int main(void) {
    printf("{\n  \"version\": {\"number\": %d, \"text\": \"%s\"},\n", QUOIT_VERSION_NUM, QUOIT_VERSION_TEXT);
    printf("  \"pointer_size\": %zu,\n  \"structs\": {\n", sizeof(void *));
    for (size_t i = 0; i < COUNT(layouts); i++)
        print_layout(&layouts[i], i + 1 < COUNT(layouts) ? "," : "");
    printf("  },\n  \"constants\": {\n");
    print_constants();
    printf("  },\n  \"opcodes\": [\n");
    print_opcodes();
    printf("  ]\n}\n");
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
