/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The program that every release keeps compiled, to be run against each later library. It asserts values, because
 * a program with a wrong struct or constant still starts and ends: what it was compiled with must mean the same.
 */
#include <quoit/quoit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000LL
#define PAYLOAD 100000u
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* user_data of the ops below; accept's comes back with the server's receives too. */
enum {
    LISTEN = 1,
    SERVE,
    CONNECT,
    CLIENT_RECV,
    CLIENT_SEND,
    SERVER_SEND,
    CLOSE_CLIENT,
    CLOSE_SERVER,
    BAD,
    TICK,
    CALL
};

static void fail(const char *what, long long is, long long should) {
    fprintf(stderr, "compat: %s is %lld, should be %lld\n", what, is, should);
    exit(1);
}

static void equal(const char *what, long long is, long long should) {
    if (is != should)
        fail(what, is, should);
}

static void check_version(void) {
    equal("major version", quoit_version() >> 16, QUOIT_VERSION_NUM >> 16);
    if (quoit_version() < QUOIT_VERSION_NUM)
        fail("version", quoit_version(), QUOIT_VERSION_NUM);
    unsigned major = 0, minor = 0, patch = 0;
    if (sscanf(quoit_version_text(), "%u.%u.%u", &major, &minor, &patch) != 3)
        fail("parts of the version text", 0, 3);
    equal("version text", major << 16 | minor << 8 | patch, quoit_version());
}

/* The numbers are spelled out: a header that renumbers them must not renumber this table too. */
static void check_statuses(void) {
    static const struct {
        quoit_status status;
        int32_t kind;
        const char *name;
    } rows[] = {
        {0, 0, "QUOIT_OK"},
        {7, 0, "QUOIT_OK"},
        {-20001, 3, "QUOIT_E_ARGUMENT"},
        {-20002, 3, "QUOIT_E_STRUCT_SIZE"},
        {-20003, 3, "QUOIT_E_FLAGS"},
        {-20004, 3, "QUOIT_E_FIELD"},
        {-20005, 3, "QUOIT_E_OPCODE"},
        {-20007, 2, "QUOIT_E_STALE"},
        {-20008, 3, "QUOIT_E_KIND"},
        {-20009, 3, "QUOIT_E_WORKER"},
        {-20010, 3, "QUOIT_E_HANDLE"},
        {-20011, 3, "QUOIT_E_THREAD"},
        {-20012, 3, "QUOIT_E_REENTER"},
        {-20014, 2, "QUOIT_E_CLOSED"},
        {-20015, 3, "QUOIT_E_TOO_MANY"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (strcmp(quoit_status_name(rows[i].status), rows[i].name) != 0) {
            fprintf(stderr, "compat: status %d is called %s, was %s\n", rows[i].status,
                    quoit_status_name(rows[i].status), rows[i].name);
            exit(1);
        }
        equal(rows[i].name, quoit_status_class(rows[i].status), rows[i].kind);
    }
}

static void check_calls(void) {
    for (uint32_t opcode = QUOIT_OP_NOP; opcode <= QUOIT_OP_RELEASE; opcode++)
        equal("an opcode of this version supported", quoit_op_supported(opcode), 1);
    equal("opcode 0x8000 supported", quoit_op_supported(0x8000), 0);
    quoit_addr addr;
    memset(&addr, 0, sizeof addr);
    equal("quoit_addr_parse", quoit_addr_parse("[::1]:8080", 10, &addr), 0);
    equal("family of ::1", addr.family, 3);
    equal("port of [::1]:8080", addr.port, 8080);
    equal("length of ::1", addr.len, 16);
    equal("last byte of ::1", addr.bytes[15], 1);
    char text[128];
    equal("length of its text", quoit_addr_text(&addr, text, sizeof text), 10);
    equal("its text", strcmp(text, "[::1]:8080"), 0);
    if (quoit_now(QUOIT_CLOCK_MONOTONIC) <= 0)
        fail("quoit_now", quoit_now(QUOIT_CLOCK_MONOTONIC), 1);
    equal("quoit_now of no clock", quoit_now(99), -20001);
}

/* A worker with a server and a client on it. */
typedef struct state {
    quoit_worker *worker;
    quoit_batch *batch;
    uint32_t nops;
    quoit_handle server_stream;
    quoit_handle client_stream;
    uint32_t received;
    uint8_t payload[PAYLOAD];
    int closed, bad_ops, ticks, calls;
} state;

static quoit_op *add_op(state *s, uint32_t opcode, quoit_handle target, uint64_t user_data) {
    if (s->nops >= s->batch->ops_max)
        fail("ops in one turn", s->nops, s->batch->ops_max - 1);
    quoit_op *op = (quoit_op *)(uintptr_t)s->batch->ops + s->nops++;
    memset(op, 0, sizeof *op);
    op->opcode = opcode;
    op->target = target;
    op->user_data = user_data;
    return op;
}

static int64_t difference(int64_t a, int64_t b) {
    return a - b;
}

/* What the ops point at is copied by the turn; these are static to be there when it reads the ops. */
static quoit_addr addr;
static quoit_listen_options listen_options = {.struct_size = sizeof listen_options};
static const uint8_t types[2] = {QUOIT_TYPE_I64, QUOIT_TYPE_I64};
static const uint64_t args[2] = {50, 8};
static quoit_call call = {.struct_size = sizeof call, .nargs = 2, .return_type = QUOIT_TYPE_I64};

static void describe_call(quoit_op *op) {
    call.entry = (uintptr_t)difference;
    call.types = (uintptr_t)types;
    call.args = (uintptr_t)args;
    memset(op, 0, sizeof *op);
    op->opcode = QUOIT_OP_OFFLOAD;
    op->flags = QUOIT_OPF_ARGS;
    op->user_data = CALL;
    op->addr = (uintptr_t)&call;
    op->len = sizeof call;
}

static void start_server(state *s) {
    equal("quoit_addr_parse", quoit_addr_parse("127.0.0.1:0", 11, &addr), 0);
    quoit_op *op = add_op(s, QUOIT_OP_LISTEN, 0, LISTEN);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg2 = (uintptr_t)&listen_options;
    add_op(s, 0x8123, 0, BAD);
    op = add_op(s, QUOIT_OP_TIMER, 0, TICK);
    op->offset = 1000000;
    describe_call(add_op(s, QUOIT_OP_OFFLOAD, 0, CALL));
    quoit_op posted;
    describe_call(&posted);
    equal("quoit_post", quoit_post(s->batch->worker, &posted, 1), 1);
}

static void on_listen(state *s, const quoit_event *e) {
    if (e->aux == 0 || e->aux > 65535)
        fail("bound port", e->aux, 1);
    equal("kind of the listener", quoit_handle_kind(e->value), 2);
    equal("quoit_local_addr", quoit_local_addr(s->worker, e->value, &addr), 0);
    equal("port of quoit_local_addr", addr.port, e->aux);
    add_op(s, QUOIT_OP_ACCEPT, e->value, SERVE)->flags = QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV;
    quoit_op *op = add_op(s, QUOIT_OP_CONNECT, 0, CONNECT);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
}

static void on_connect(state *s, const quoit_event *e) {
    s->client_stream = e->value;
    equal("kind of the stream", quoit_handle_kind(e->value), 3);
    add_op(s, QUOIT_OP_RECV, e->value, CLIENT_RECV)->flags = QUOIT_OPF_MULTI;
    quoit_op *op = add_op(s, QUOIT_OP_SEND, e->value, CLIENT_SEND);
    op->addr = (uintptr_t)s->payload;
    op->len = PAYLOAD;
}

static void on_server_data(state *s, const quoit_event *e) {
    if (e->flags & QUOIT_EVF_EOF)
        add_op(s, QUOIT_OP_CLOSE, e->source, CLOSE_SERVER);
    if (e->len == 0)
        return;
    quoit_op *op = add_op(s, QUOIT_OP_SEND, e->source, SERVER_SEND);
    op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET;
    op->addr = e->offset;
    op->len = e->len;
    op->arg2 = e->buffer;
}

static void on_client_data(state *s, const quoit_event *e) {
    if (s->received + e->len > PAYLOAD)
        fail("bytes that came back", s->received + e->len, PAYLOAD);
    const uint8_t *bytes = (const uint8_t *)(uintptr_t)(s->batch->recv_base + e->offset);
    equal("the echoed bytes", memcmp(bytes, s->payload + s->received, e->len), 0);
    s->received += e->len;
    if (s->received == PAYLOAD)
        add_op(s, QUOIT_OP_CLOSE, s->client_stream, CLOSE_CLIENT);
}

static void on_event(state *s, const quoit_event *e) {
    if (e->user_data == BAD) {
        equal("kind of a bad op's event", e->kind, 0x8000);
        equal("aux of a bad op's event", e->aux, 0x8123);
        equal("result of a bad op's event", e->result, -20005);
        s->bad_ops++;
        return;
    }
    /* The closes race with the receives they end; any other failure is one. */
    if (e->result < 0 && e->kind != QUOIT_OP_RECV)
        fail("result of an op", e->result, 0);
    if (e->user_data == LISTEN)
        on_listen(s, e);
    else if (e->user_data == SERVE && e->kind == QUOIT_OP_ACCEPT)
        s->server_stream = e->value;
    else if (e->user_data == SERVE && e->kind == QUOIT_OP_RECV && e->result >= 0)
        on_server_data(s, e);
    else if (e->user_data == CONNECT)
        on_connect(s, e);
    else if (e->user_data == CLIENT_RECV && e->result >= 0)
        on_client_data(s, e);
    else if (e->user_data == CLIENT_SEND)
        equal("bytes sent", e->result, PAYLOAD);
    else if (e->user_data == CLOSE_CLIENT || e->user_data == CLOSE_SERVER)
        s->closed++;
    else if (e->user_data == TICK)
        s->ticks += (int)e->result;
    else if (e->user_data == CALL) {
        equal("value of an offloaded call", (long long)e->value, 42);
        s->calls++;
    }
}

static void turn(state *s) {
    uint32_t nops = s->nops;
    s->nops = 0;
    quoit_status n = quoit_turn(s->worker, nops, SECOND);
    if (n < 0)
        fail("quoit_turn", n, 0);
    equal("nevents", s->batch->nevents, n);
    const quoit_event *events = (const quoit_event *)(uintptr_t)s->batch->events;
    for (int i = 0; i < n; i++)
        on_event(s, &events[i]);
}

static void check_batch(const state *s) {
    equal("stride", s->batch->stride, 64);
    if (s->batch->struct_size < sizeof(quoit_batch))
        fail("size of the batch", s->batch->struct_size, sizeof(quoit_batch));
    equal("events_max", s->batch->events_max, 32);
    equal("ops_max", s->batch->ops_max, 256);
    equal("the batch's worker", (long long)s->batch->worker, (long long)quoit_worker_handle(s->worker));
    equal("kind of the worker", quoit_handle_kind(s->batch->worker), 1);
}

static void check_stats(const state *s) {
    quoit_stats stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    equal("quoit_stats_read", quoit_stats_read(s->batch->worker, &stats), 0);
    equal("accepts", (long long)stats.accepts, 1);
    equal("connects", (long long)stats.connects, 1);
    equal("bytes received", (long long)stats.bytes_received, 2 * PAYLOAD);
    equal("timers fired", (long long)stats.timers_fired, 1);
}

static void check_echo(void) {
    static state s;
    for (uint32_t i = 0; i < PAYLOAD; i++)
        s.payload[i] = (uint8_t)(i * 31 + i / 251);
    quoit_runtime *runtime = NULL;
    quoit_runtime_options runtime_options = {.struct_size = sizeof runtime_options};
    equal("quoit_runtime_create", quoit_runtime_create(&runtime_options, &runtime), 0);
    quoit_worker_options options = {.struct_size = sizeof options, .events_max = 32, .ops_max = 256};
    equal("quoit_worker_create", quoit_worker_create(runtime, &options, &s.worker), 0);
    s.batch = quoit_worker_batch(s.worker);
    check_batch(&s);
    start_server(&s);
    int64_t end = quoit_now(QUOIT_CLOCK_MONOTONIC) + 30 * SECOND;
    while (s.closed < 2 || s.ticks < 1 || s.calls < 2) {
        turn(&s);
        if (quoit_now(QUOIT_CLOCK_MONOTONIC) > end)
            fail("bytes echoed within 30 s", s.received, PAYLOAD);
    }
    equal("bytes echoed", s.received, PAYLOAD);
    equal("bad ops told", s.bad_ops, 1);
    check_stats(&s);
    equal("quoit_worker_destroy", quoit_worker_destroy(s.worker), 0);
    equal("quoit_runtime_destroy", quoit_runtime_destroy(runtime), 0);
}

int main(void) {
    check_version();
    check_statuses();
    check_calls();
    check_echo();
    printf("compat: compiled with %s, runs on %s\n", QUOIT_VERSION_TEXT, quoit_version_text());
    return 0;
}
