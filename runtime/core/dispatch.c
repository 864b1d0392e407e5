/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From an op to its handler: what each opcode allows is one table, checked in one place. */
#include "object.h"

#include <errno.h>

#define FIELD(name) (1u << QUOIT_FIELD_##name)
#define PAYLOAD                                                                                              \
    (QUOIT_OPF_QUIET | QUOIT_OPF_BORROW | QUOIT_OPF_IOV | QUOIT_OPF_ARENA_SEND | QUOIT_OPF_ARENA_RECV)
#define STREAM QT_KIND(QUOIT_HANDLE_STREAM)
#define DATAGRAM QT_KIND(QUOIT_HANDLE_DATAGRAM)
#define FILE_ QT_KIND(QUOIT_HANDLE_FILE)
#define DIRECTORY QT_KIND(QUOIT_HANDLE_DIRECTORY)
#define CHANNEL QT_KIND(QUOIT_HANDLE_CHANNEL)
#define ANY                                                                                                  \
    (STREAM | FILE_ | DIRECTORY | QT_KIND(QUOIT_HANDLE_LISTENER) | QT_KIND(QUOIT_HANDLE_TIMER) |             \
     QT_KIND(QUOIT_HANDLE_POLL) | DATAGRAM | CHANNEL)

typedef struct qt_op_rule {
    void (*execute)(qt_worker *w, const quoit_op *op, qt_object *object);
    uint32_t flags;  /* allowed */
    uint32_t fields; /* that may be other than zero, besides opcode, flags, user_data, target, timeout_ns */
    uint32_t kinds;  /* of the target; 0: there is none */
    bool may_lack;   /* the target may be 0 */
    bool raw_target; /* the handler looks it up itself */
    bool while_closing; /* also on an object that is closing */
    bool local;         /* not by quoit_post */
    bool admits;        /* lets connections in: not while the worker drains */
} qt_op_rule;

static void execute_nop(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    qt_succeed(w, op, 0);
}

static const qt_op_rule rules[] = {
    [QUOIT_OP_NOP] = {execute_nop, QUOIT_OPF_QUIET, 0, 0, .may_lack = true},
    [QUOIT_OP_LISTEN] = {qt_op_listen, QUOIT_OPF_ARENA_SEND,
                         FIELD(ADDR) | FIELD(LEN) | FIELD(ARG) | FIELD(ARG2), 0, .may_lack = true,
                         .admits = true},
    [QUOIT_OP_ACCEPT] = {qt_op_accept, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV | QUOIT_OPF_KEEP, 0,
                         QT_KIND(QUOIT_HANDLE_LISTENER), .admits = true},
    [QUOIT_OP_CONNECT] = {qt_op_connect, QUOIT_OPF_ARENA_SEND,
                          FIELD(ADDR) | FIELD(LEN) | FIELD(ARG) | FIELD(ARG2), 0, .may_lack = true},
    [QUOIT_OP_RECV] = {qt_op_recv, QUOIT_OPF_MULTI | QUOIT_OPF_KEEP, FIELD(LEN), STREAM},
    [QUOIT_OP_RECV_PAUSE] = {qt_op_recv_pause, QUOIT_OPF_QUIET, 0, STREAM | DATAGRAM},
    [QUOIT_OP_RECV_RESUME] = {qt_op_recv_resume, QUOIT_OPF_QUIET, 0, STREAM | DATAGRAM},
    [QUOIT_OP_SEND] = {qt_op_send, PAYLOAD | QUOIT_OPF_ZEROCOPY,
                       FIELD(ADDR) | FIELD(LEN) | FIELD(ARG) | FIELD(ARG2), STREAM},
    [QUOIT_OP_SENDV] = {qt_op_send, PAYLOAD | QUOIT_OPF_ZEROCOPY,
                        FIELD(ADDR) | FIELD(LEN) | FIELD(ARG) | FIELD(ARG2), STREAM},
    [QUOIT_OP_SHUTDOWN] = {qt_op_shutdown, QUOIT_OPF_QUIET, FIELD(ARG), STREAM | DATAGRAM},
    [QUOIT_OP_CLOSE] = {qt_op_close, QUOIT_OPF_QUIET | QUOIT_OPF_ABORT, 0, ANY, .while_closing = true},
    [QUOIT_OP_CANCEL] = {qt_op_cancel, QUOIT_OPF_QUIET, FIELD(ARG) | FIELD(ARG2), ANY, .may_lack = true,
                         .while_closing = true},
    [QUOIT_OP_TIMER] = {qt_op_timer, QUOIT_OPF_ABS | QUOIT_OPF_ARMED,
                        FIELD(ARG) | FIELD(OFFSET) | FIELD(ARG2), QT_KIND(QUOIT_HANDLE_TIMER),
                        .may_lack = true},
    [QUOIT_OP_POST] = {qt_op_post, QUOIT_OPF_QUIET, FIELD(ADDR) | FIELD(ARG) | FIELD(OFFSET) | FIELD(ARG2),
                       QT_KIND(QUOIT_HANDLE_WORKER), .raw_target = true},
    [QUOIT_OP_POLL] = {qt_op_poll, QUOIT_OPF_MULTI | QUOIT_OPF_ARMED, FIELD(ARG) | FIELD(OFFSET), 0,
                       .may_lack = true},
    [QUOIT_OP_OPEN] = {qt_op_open, QUOIT_OPF_ARENA_SEND,
                       FIELD(ADDR) | FIELD(LEN) | FIELD(ARG) | FIELD(OFFSET), DIRECTORY, .may_lack = true},
    [QUOIT_OP_READ] = {qt_op_read, QUOIT_OPF_BORROW, FIELD(ADDR) | FIELD(LEN) | FIELD(OFFSET), FILE_},
    [QUOIT_OP_WRITE] = {qt_op_write, PAYLOAD, FIELD(ADDR) | FIELD(LEN) | FIELD(OFFSET) | FIELD(ARG2), FILE_},
    [QUOIT_OP_FSYNC] = {qt_op_fsync, 0, FIELD(ARG), FILE_},
    [QUOIT_OP_OFFLOAD] = {qt_op_offload, QUOIT_OPF_ARGS | QUOIT_OPF_ARENA_SEND, FIELD(ADDR) | FIELD(LEN), 0,
                          .may_lack = true},
    [QUOIT_OP_KEEP] = {qt_op_keep, QUOIT_OPF_QUIET, 0, QT_KIND(QUOIT_HANDLE_BUFFER), .raw_target = true,
                       .local = true},
    [QUOIT_OP_RELEASE] = {qt_op_release, QUOIT_OPF_QUIET, 0, QT_KIND(QUOIT_HANDLE_BUFFER), .raw_target = true,
                          .local = true},
    [QUOIT_OP_BIND] = {qt_op_bind, QUOIT_OPF_ARENA_SEND, FIELD(ADDR) | FIELD(LEN) | FIELD(ARG2), 0,
                       .may_lack = true},
    [QUOIT_OP_RECVMSG] = {qt_op_recvmsg, QUOIT_OPF_MULTI | QUOIT_OPF_KEEP, FIELD(LEN), DATAGRAM},
    [QUOIT_OP_SENDMSG] = {qt_op_sendmsg, PAYLOAD,
                          FIELD(ADDR) | FIELD(LEN) | FIELD(ARG) | FIELD(OFFSET) | FIELD(ARG2), DATAGRAM},
    [QUOIT_OP_MULTICAST] = {qt_op_multicast, QUOIT_OPF_QUIET | QUOIT_OPF_ARENA_SEND,
                            FIELD(ADDR) | FIELD(LEN) | FIELD(ARG), DATAGRAM},
    [QUOIT_OP_ADOPT] = {qt_op_adopt, 0, FIELD(ARG) | FIELD(OFFSET), 0, .may_lack = true},
    [QUOIT_OP_DETACH] = {qt_op_detach, 0, 0, STREAM | DATAGRAM | QT_KIND(QUOIT_HANDLE_LISTENER) | FILE_},
    [QUOIT_OP_SPLICE] = {qt_op_splice, 0, FIELD(ADDR) | FIELD(LEN) | FIELD(ARG) | FIELD(OFFSET) | FIELD(ARG2),
                         STREAM | FILE_},
    [QUOIT_OP_SEND_FD] = {qt_op_send_fd, QUOIT_OPF_QUIET | QUOIT_OPF_ARENA_SEND,
                          FIELD(ADDR) | FIELD(LEN) | FIELD(OFFSET), STREAM | DATAGRAM},
    [QUOIT_OP_RECV_FD] = {qt_op_recv_fd, 0, FIELD(LEN), STREAM | DATAGRAM},
    [QUOIT_OP_MOVE] = {qt_op_move, 0, FIELD(ADDR) | FIELD(ARG2), STREAM},
    [QUOIT_OP_SOCKET_SET] = {qt_op_socket_set, QUOIT_OPF_QUIET, FIELD(ARG) | FIELD(OFFSET), QT_SOCKETS},
    [QUOIT_OP_CHANNEL] = {qt_op_channel, 0, FIELD(LEN) | FIELD(ARG), 0, .may_lack = true},
    [QUOIT_OP_CHANNEL_SEND] = {qt_op_channel_send, QUOIT_OPF_QUIET, FIELD(ADDR) | FIELD(ARG) | FIELD(OFFSET),
                               CHANNEL, .raw_target = true},
    [QUOIT_OP_CHANNEL_RECV] = {qt_op_channel_recv, QUOIT_OPF_MULTI, 0, CHANNEL, .while_closing = true},
};

#define RULES (sizeof rules / sizeof rules[0])
#define LOCAL_FLAGS (QUOIT_OPF_BORROW | QUOIT_OPF_ARENA_SEND | QUOIT_OPF_ARENA_RECV | QUOIT_OPF_KEEP)
#define UNKNOWN_OPCODES 0x8000u

bool qt_op_known(uint32_t opcode) {
    return opcode < RULES && rules[opcode].execute != NULL;
}

static bool flags_fit(const quoit_op *op, const qt_op_rule *rule) {
    uint32_t f = op->flags;
    uint32_t sources = QUOIT_OPF_BORROW | QUOIT_OPF_ARENA_SEND | QUOIT_OPF_ARENA_RECV;
    if (f & ~rule->flags)
        return false;
    if (f & QUOIT_OPF_QUIET && f & QUOIT_OPF_BORROW)
        return false;
    if (op->opcode == QUOIT_OP_SENDV && !(f & QUOIT_OPF_IOV))
        return false;
    return __builtin_popcount(f & sources) <= 1;
}

/* The first field that the opcode does not take and that is not zero; 0 if there is none. */
static uint32_t stray_field(const quoit_op *op, const qt_op_rule *rule) {
    const struct {
        uint32_t field;
        bool set;
    } fields[] = {
        {QUOIT_FIELD_ADDR, op->addr != 0}, {QUOIT_FIELD_LEN, op->len != 0},
        {QUOIT_FIELD_ARG, op->arg != 0},   {QUOIT_FIELD_OFFSET, op->offset != 0},
        {QUOIT_FIELD_ARG2, op->arg2 != 0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].set && !(rule->fields & (1u << fields[i].field)))
            return fields[i].field;
    bool payload = rule->flags & QUOIT_OPF_ARENA_RECV && op->opcode != QUOIT_OP_SENDMSG;
    if (payload && op->arg2 != 0 && (!(op->flags & QUOIT_OPF_ARENA_RECV) || op->flags & QUOIT_OPF_IOV))
        return QUOIT_FIELD_ARG2;
    if ((op->opcode == QUOIT_OP_SEND || op->opcode == QUOIT_OP_SENDV) && op->arg & ~(uint32_t)QUOIT_SEND_CORK)
        return QUOIT_FIELD_ARG;
    return 0;
}

/* The target's object; false when the op was refused. */
static bool find_target(qt_worker *w, const quoit_op *op, const qt_op_rule *rule, qt_object **object) {
    *object = NULL;
    if (rule->raw_target)
        return true;
    if (op->target == 0) {
        if (rule->may_lack)
            return true;
        qt_refuse(w, op, QUOIT_E_HANDLE, QUOIT_FIELD_TARGET);
        return false;
    }
    quoit_status status = rule->kinds ? qt_handle_find(w, op->target, rule->kinds, object) : QUOIT_E_FIELD;
    if (status == 0 && (*object)->closing && !rule->while_closing)
        status = QUOIT_E_CLOSING;
    else if (status == 0 && (*object)->moving && !rule->while_closing)
        status = QUOIT_E_BUSY;
    if (status != 0)
        qt_refuse(w, op, status, QUOIT_FIELD_TARGET);
    return status == 0;
}

void qt_execute(qt_worker *w, const quoit_op *op) {
    QT_COUNT(w, ops, 1);
    if (op->opcode >= UNKNOWN_OPCODES) {
        /* Its own number could pass for a message: the kind says that it is not. */
        quoit_event *event = qt_event(w, QUOIT_KIND_BAD_OP, op->target, op->user_data, QUOIT_E_OPCODE);
        event->aux = op->opcode;
        return;
    }
    if (!qt_op_known(op->opcode)) {
        qt_refuse(w, op, QUOIT_E_OPCODE, QUOIT_FIELD_OPCODE);
        return;
    }
    const qt_op_rule *rule = &rules[op->opcode];
    uint32_t stray;
    qt_object *object;
    if (!flags_fit(op, rule))
        qt_refuse(w, op, QUOIT_E_FLAGS, QUOIT_FIELD_FLAGS);
    else if (w->executing_post && (rule->local || op->flags & LOCAL_FLAGS))
        qt_refuse(w, op, -EINVAL, rule->local ? QUOIT_FIELD_OPCODE : QUOIT_FIELD_FLAGS);
    else if ((stray = stray_field(op, rule)) != 0)
        qt_refuse(w, op, QUOIT_E_FIELD, stray);
    else if ((w->draining && !rule->local) || (rule->admits && w->drain.grace_ns != QT_DRAIN_NOT_ASKED))
        qt_refuse(w, op, QUOIT_E_CLOSING, 0);
    else if (find_target(w, op, rule, &object))
        rule->execute(w, op, object);
}
