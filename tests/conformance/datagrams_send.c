/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* datagrams_send.c: sending datagrams: from which memory, to whom, in which order, and what cannot be sent. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct pair {
    struct pump pump;
    quoit_handle socket;
    quoit_addr here, there;
    int fd;
};

static void pair_open(struct pair *pair, const quoit_worker_options *options) {
    pump_open(&pair->pump, options);
    pair->here = addr_v4(0);
    pair->there = addr_v4(0);
    pair->socket = bind_on(&pair->pump, &pair->here, 0);
    pair->fd = peer_bind(&pair->there);
}

static void pair_close(struct pair *pair) {
    close(pair->fd);
    op_must(&pair->pump, op_close(&pair->pump, pair->socket, 0), 0);
    pump_close(&pair->pump);
}

static void expect(struct pair *pair, const void *data, size_t len) {
    static char got[65536];
    quoit_addr from;
    CHECK_EQ(peer_recv_from(&pair->pump, pair->fd, got, sizeof got, &from), len);
    CHECK(!memcmp(got, data, len));
    CHECK(!memcmp(&from, &pair->here, sizeof from));
}

static void one_by_one(void) {
    static char data[65507];
    struct pair pair;
    pair_open(&pair, NULL);
    pattern_fill(data, 1, 0, sizeof data);
    for (size_t len = 1; len < sizeof data; len = len * 3 + 1) {
        uint64_t send = op_sendmsg(&pair.pump, pair.socket, &pair.there, data, len, 0);
        expect(&pair, data, len);
        op_must(&pair.pump, send, (int64_t)len);
    }
    CHECK_EQ(stats_of(&pair.pump).send_bytes_queued, 0);
    pair_close(&pair);
}

/* Many in one batch, more than are with the kernel at a time: each arrives, each ends, in order. */
static void a_batch_of_them(void) {
    enum { COUNT = 200 };
    struct pair pair;
    uint64_t sends[COUNT];
    uint32_t numbers[COUNT];
    pair_open(&pair, NULL);
    for (uint32_t n = 0; n < COUNT; n++)
        numbers[n] = n, sends[n] = op_sendmsg(&pair.pump, pair.socket, &pair.there, &numbers[n], sizeof n,
                                              n % 3 ? 0 : QUOIT_OPF_QUIET);
    for (uint32_t n = 0; n < COUNT; n++)
        expect(&pair, &n, sizeof n);
    for (uint32_t n = 0; n < COUNT; n++)
        if (n % 3)
            op_must(&pair.pump, sends[n], sizeof n);
    pair_close(&pair);
}

static void memories(void) {
    static const char text[] = "payload of a datagram";
    static quoit_iov slices[60];
    struct pair pair;
    char whole[60];
    pair_open(&pair, NULL);
    op_must(&pair.pump, op_sendmsg(&pair.pump, pair.socket, &pair.there, text, sizeof text, QUOIT_OPF_BORROW),
            sizeof text);
    expect(&pair, text, sizeof text);
    for (uint32_t i = 0; i < 60; i++) {
        whole[i] = (char)('A' + i);
        slices[i] = (quoit_iov){.addr = (uintptr_t)&whole[i], .len = 1};
    }
    static const uint32_t flags[] = {0, QUOIT_OPF_BORROW};
    for (int i = 0; i < 2; i++)
        for (uint32_t n = 0; n <= 60; n += 3) {
            uint64_t send =
                op_sendmsg(&pair.pump, pair.socket, &pair.there, slices, n, QUOIT_OPF_IOV | flags[i]);
            expect(&pair, whole, n);
            op_must(&pair.pump, send, n);
        }
    /* In the scratch region: payload, and the peer's address. */
    for (int i = 0; i < 100; i++) {
        uint64_t at = pair.pump.batch->scratch_off;
        char *scratch = (char *)(uintptr_t)(pair.pump.batch->send_base + at);
        CHECK(at > 0); /* what lies at 0 would be none */
        memcpy(scratch + 8 + 128, text, sizeof text);
        memcpy(scratch, &pair.there, sizeof pair.there);
        quoit_op *op = op_new(&pair.pump, QUOIT_OP_SENDMSG, pair.socket);
        uint64_t id = op->user_data;
        op->flags = QUOIT_OPF_ARENA_SEND;
        op->addr = at + 8 + 128;
        op->len = sizeof text;
        op->arg2 = at;
        op_must(&pair.pump, id, sizeof text);
        expect(&pair, text, sizeof text);
    }
    quoit_op *op = op_new(&pair.pump, QUOIT_OP_SENDMSG, pair.socket);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->arg2 = pair.pump.batch->send_size;
    CHECK_EQ(op_must(&pair.pump, op->user_data, QUOIT_E_RANGE).aux, QUOIT_FIELD_ARG2);
    pair_close(&pair);
}

static void answer(struct pump *pump, const quoit_event *event) {
    if (event->kind != QUOIT_OP_RECVMSG || event->result < 0)
        return;
    quoit_op *op = op_new(pump, QUOIT_OP_SENDMSG, event->source);
    op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET;
    op->addr = event->offset;
    op->len = event->len;
    op->arg2 = event->buffer;
}

/* From where they lie, to whom they came from: nothing is copied, nothing kept. */
static void echo(void) {
    static const uint32_t caps[] = {0, 500, 60000};
    static char data[500];
    for (int i = 0; i < 3; i++) {
        struct pair pair;
        pair_open(&pair, NULL);
        pair.pump.on_event = answer;
        op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, caps[i]);
        quoit_addr other = addr_v4(0);
        int second = peer_bind(&other), first = pair.fd;
        for (size_t n = 0; n < 200; n++) {
            pattern_fill(data, n, 0, n);
            pair.fd = n % 3 ? first : second;
            peer_send_to(pair.fd, &pair.here, data, n);
            expect(&pair, data, n);
        }
        pair.fd = first;
        close(second);
        quoit_stats stats = stats_of(&pair.pump);
        CHECK_EQ(stats.bytes_sent, stats.bytes_received);
        pair_close(&pair);
    }
}

/* Received bytes on to somebody else, by another socket: with slices, and by a connected one. */
static void forwarded(void) {
    struct pair pair;
    quoit_addr out_addr = addr_v4(0), final = addr_v4(0);
    char got[64];
    pair_open(&pair, NULL);
    quoit_handle out = bind_on(&pair.pump, &out_addr, 0);
    int fd = peer_bind(&final);
    peer_send_to(pair.fd, &pair.here, "pass it on", 10);
    quoit_event event = op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 0), 10);
    quoit_iov slices[2] = {{.addr = event.offset, .len = 5, .flags = event.buffer & 0xFFFFFF},
                           {.addr = event.offset + 7, .len = 3, .flags = event.buffer & 0xFFFFFF}};
    uint64_t send = op_sendmsg(&pair.pump, out, &final, slices, 2, QUOIT_OPF_ARENA_RECV | QUOIT_OPF_IOV);
    quoit_bind_options options = {.struct_size = sizeof options, .peer = final};
    op_must(&pair.pump, send, 8);
    CHECK_EQ(peer_recv_from(&pair.pump, fd, got, sizeof got, NULL), 8);
    CHECK(!memcmp(got, "pass  on", 8));
    quoit_op *op = op_new(&pair.pump, QUOIT_OP_BIND, 0);
    op->arg2 = (uintptr_t)&options;
    quoit_handle joined = op_must(&pair.pump, op->user_data, 0).value;
    peer_send_to(pair.fd, &pair.here, "once more", 9);
    event = op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 0), 9);
    op = op_new(&pair.pump, QUOIT_OP_SENDMSG, joined);
    op->flags = QUOIT_OPF_ARENA_RECV;
    op->addr = event.offset;
    op->len = event.len;
    op->arg2 = event.buffer;
    op_must(&pair.pump, op->user_data, 9);
    CHECK_EQ(peer_recv_from(&pair.pump, fd, got, sizeof got, NULL), 9);
    /* The loan has ended. */
    op = op_new(&pair.pump, QUOIT_OP_SENDMSG, joined);
    op->flags = QUOIT_OPF_ARENA_RECV;
    op->addr = event.offset;
    op->len = event.len;
    op->arg2 = event.buffer;
    CHECK_EQ(op_must(&pair.pump, op->user_data, QUOIT_E_STALE).aux, QUOIT_FIELD_ARG2);
    close(fd);
    pair_close(&pair);
}

static void what_cannot_be_sent(void) {
    static char data[70000];
    quoit_worker_options options = {.send_limit = 65536};
    struct pair pair;
    pair_open(&pair, &options);
    quoit_addr wrong = {.family = 7, .len = 4};
    CHECK_EQ(op_must(&pair.pump, op_sendmsg(&pair.pump, pair.socket, &wrong, "x", 1, 0), QUOIT_E_FIELD).aux,
             QUOIT_FIELD_ARG2);
    op_must(&pair.pump, op_sendmsg(&pair.pump, pair.socket, NULL, "x", 1, 0), -EDESTADDRREQ);
    op_must(&pair.pump, op_sendmsg(&pair.pump, pair.socket, &pair.there, data, sizeof data, QUOIT_OPF_BORROW),
            -EMSGSIZE);
    op_must(&pair.pump, op_sendmsg(&pair.pump, pair.socket, &pair.there, data, sizeof data, 0), -ENOBUFS);
    CHECK_EQ(
        op_must(&pair.pump, op_sendmsg(&pair.pump, pair.socket, &pair.there, NULL, 5, 0), QUOIT_E_FIELD).aux,
        QUOIT_FIELD_ADDR);
    quoit_op *op = op_new(&pair.pump, QUOIT_OP_SENDMSG, pair.socket);
    op->arg = 65536;
    op->arg2 = (uintptr_t)&pair.there;
    CHECK_EQ(op_must(&pair.pump, op->user_data, QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    /* The failed ones took nothing from those around them. */
    uint64_t first = op_sendmsg(&pair.pump, pair.socket, &pair.there, "one", 3, 0);
    op_sendmsg(&pair.pump, pair.socket, NULL, "x", 1, QUOIT_OPF_QUIET);
    uint64_t last = op_sendmsg(&pair.pump, pair.socket, &pair.there, "two", 3, 0);
    op_must(&pair.pump, first, 3);
    op_must(&pair.pump, last, 3);
    expect(&pair, "one", 3);
    expect(&pair, "two", 3);
    pair_close(&pair);
}

/* From another thread's post all that the op points at is copied with it. */
static void posted(void) {
    struct pair pair;
    pair_open(&pair, NULL);
    quoit_addr to = pair.there;
    char text[] = "posted";
    quoit_op op = {.opcode = QUOIT_OP_SENDMSG,
                   .target = pair.socket,
                   .addr = (uintptr_t)text,
                   .len = sizeof text,
                   .arg2 = (uintptr_t)&to};
    op.user_data = op_expect(&pair.pump, QUOIT_OP_SENDMSG, 0, pair.socket);
    CHECK_EQ(quoit_post(pair.pump.handle, &op, 1), 1);
    memset(&to, 0, sizeof to);
    memset(text, 0, sizeof text);
    op_must(&pair.pump, op.user_data, sizeof text);
    expect(&pair, "posted", sizeof text);
    pair_close(&pair);
}

static const struct test_case cases[] = {
    {"one_by_one", one_by_one}, {"a_batch_of_them", a_batch_of_them},
    {"memories", memories},     {"echo", echo},
    {"forwarded", forwarded},   {"what_cannot_be_sent", what_cannot_be_sent},
    {"posted", posted},
};
TEST_GROUP(datagrams_send, cases);
