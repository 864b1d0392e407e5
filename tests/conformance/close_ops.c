/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* close_ops.c: closing: what was sent arrives, what is in flight ends, what waits too long is cut. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* send; close in one batch: every byte arrives, then the end, and the close tells that none is unsent. */
static void send_then_close(size_t len, uint32_t flags, bool slow) {
    struct pump pump;
    quoit_worker_options options = {.send_limit = 16 << 20};
    char *data = malloc(len);
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    if (slow)
        peer_small_buffers(link.fd, 32768);
    pattern_fill(data, 1, 0, len);
    uint64_t send = op_send(&pump, link.stream, data, len, flags);
    uint64_t shut = op_close(&pump, link.stream, 0);
    pump_submit(&pump);
    if (!(flags & QUOIT_OPF_BORROW))
        memset(data, 0, len);
    CHECK_EQ(peer_recv_to_end(&pump, link.fd, 1), len);
    CHECK(!op_ended(&pump, shut)); /* the peer has not said its own end */
    close(link.fd);
    CHECK_EQ(op_must(&pump, shut, 0).value, 0);
    if (!(flags & QUOIT_OPF_QUIET))
        CHECK_EQ(op_record(&pump, send)->last.result, (int64_t)len);
    pump_close(&pump);
    free(data);
}

static void send_and_close_lose_nothing(void) {
    for (size_t len = 1; len < 8 << 20; len = len * 5 + 2)
        send_then_close(len, 0, false);
    send_then_close(8 << 20, 0, false);
}

static void send_and_close_borrowed(void) {
    send_then_close(1, QUOIT_OPF_BORROW, false);
    send_then_close(5 << 20, QUOIT_OPF_BORROW, false);
}

static void send_and_close_quiet(void) {
    send_then_close(100, QUOIT_OPF_QUIET, false);
    send_then_close(5 << 20, QUOIT_OPF_QUIET, false);
}

static void send_and_close_slow_reader(void) {
    send_then_close(1 << 20, 0, true);
    send_then_close(1 << 20, QUOIT_OPF_BORROW, true);
}

/* Bytes from the peer that nobody reads must not turn the end into a reset that eats ours. */
static void unread_input_does_not_reset(void) {
    for (int i = 0; i < 10; i++) {
        struct pump pump;
        static char data[200000];
        pump_open(&pump, NULL);
        struct link link = link_open(&pump);
        peer_send_pattern(&pump, link.fd, 2, 0, 50000);
        pattern_fill(data, 1, 0, sizeof data);
        op_send(&pump, link.stream, data, sizeof data, QUOIT_OPF_QUIET);
        uint64_t shut = op_close(&pump, link.stream, 0);
        pump_turn_nb(&pump);
        peer_send_pattern(&pump, link.fd, 2, 50000, 50000);
        CHECK_EQ(peer_recv_to_end(&pump, link.fd, 1), sizeof data);
        close(link.fd);
        op_must(&pump, shut, 0);
        pump_close(&pump);
    }
}

/* Parts of a chain: send, shutdown, more: in the order given. */
static void shutdown_waits_for_sends(void) {
    struct pump pump;
    enum { SIZE = 3 << 20 };
    static char data[SIZE];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, SIZE);
    uint64_t send = op_send(&pump, link.stream, data, SIZE, QUOIT_OPF_BORROW);
    uint64_t end = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
    uint64_t after = op_send(&pump, link.stream, "x", 1, 0);
    pump_turn_nb(&pump);
    CHECK(!op_ended(&pump, end));
    CHECK_EQ(peer_recv_to_end(&pump, link.fd, 1), SIZE);
    op_must(&pump, send, SIZE);
    op_must(&pump, end, 0);
    op_must(&pump, after, -EPIPE);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void abort_drops_what_is_owed(void) {
    struct pump pump;
    enum { SIZE = 8 << 20 };
    static char data[SIZE];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    uint64_t sends[3];
    for (int i = 0; i < 3; i++)
        sends[i] = op_send(&pump, link.stream, data, SIZE, QUOIT_OPF_BORROW);
    pump_turn_nb(&pump);
    quoit_event event = op_must(&pump, op_close(&pump, link.stream, QUOIT_OPF_ABORT), 0);
    CHECK(event.value >= 2 * SIZE && event.value <= 3 * SIZE);
    uint64_t left = 0;
    for (int i = 0; i < 3; i++) {
        const quoit_event *end = &op_record(&pump, sends[i])->last;
        CHECK(op_ended(&pump, sends[i]) && end->result < 0);
        left += end->value;
    }
    CHECK_EQ(left + event.value, 3 * SIZE);
    CHECK(op_ended(&pump, recv));
    close(link.fd);
    pump_close(&pump);
}

static void close_while_the_close_waits(void) {
    struct pump pump;
    static char data[8 << 20];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    op_send(&pump, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
    uint64_t graceful = op_close(&pump, link.stream, 0);
    ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns = 3600000000000u; /* no other end */
    pump_turn_nb(&pump);
    CHECK(!op_ended(&pump, graceful));
    /* An ABORT makes an end of the waiting. */
    uint64_t hard = op_close(&pump, link.stream, QUOIT_OPF_ABORT);
    quoit_event event = op_finish(&pump, graceful);
    CHECK(event.value > 0);
    op_finish(&pump, hard);
    CHECK_EQ(stats_of(&pump).objects_live, 1);
    close(link.fd);
    pump_close(&pump);
}

/* A peer that neither reads nor ends: the close's time is over, and so is the close. */
static void close_has_a_deadline(void) {
    struct pump pump;
    quoit_worker_options options = {.close_timeout_ns = 50000000};
    static char data[8 << 20];
    pump_open(&pump, &options);
    for (int i = 0; i < 2; i++) {
        struct link link = link_open(&pump);
        if (i)
            op_send(&pump, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
        uint64_t begun = test_now_ns();
        quoit_event event = op_finish(&pump, op_close(&pump, link.stream, 0));
        CHECK(event.result == 0 || event.result == -ETIMEDOUT);
        CHECK(test_now_ns() - begun >= 45000000);
        CHECK((event.value > 0) == (i == 1));
        close(link.fd);
    }
    struct link link = link_open(&pump);
    uint64_t begun = test_now_ns();
    op_close(&pump, link.stream, 0);
    ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns =
        150000000; /* the op's own time goes first */
    PUMP_UNTIL(&pump, stats_of(&pump).objects_live == 1);
    CHECK(test_now_ns() - begun >= 145000000);
    close(link.fd);
    pump_close(&pump);
}

static void close_of_each_kind(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI);
    op_must(&pump, op_close(&pump, listener, 0), 0);
    CHECK_EQ(op_record(&pump, accept)->last.result, -ECANCELED);
    quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op_must(&pump, op->user_data, -ECONNREFUSED); /* nobody listens any more */
    listener = listen_on(&pump, &addr);           /* and the port is free */
    op_must(&pump, op_close(&pump, listener, QUOIT_OPF_ABORT), 0);
    uint64_t timer = op_timer(&pump, 3600000000000ull, 0, QUOIT_OPF_ARMED);
    PUMP_UNTIL(&pump, op_record(&pump, timer)->events);
    op_must(&pump, op_close(&pump, op_record(&pump, timer)->last.value, 0), 0);
    CHECK_EQ(op_record(&pump, timer)->last.result, -ECANCELED);
    op = op_new(&pump, QUOIT_OP_OPEN, 0);
    op->addr = (uintptr_t) "/proc/self/exe";
    op->len = 14;
    op->arg = QUOIT_OPEN_READ;
    quoit_handle file = op_must(&pump, op->user_data, 0).value;
    op_must(&pump, op_close(&pump, file, 0), 0);
    CHECK_EQ(op_finish(&pump, op_close(&pump, pump.handle, 0)).result,
             QUOIT_E_KIND); /* a worker is stopped, not closed */
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

/* Connections that nobody accepted yet go with the listener; accepted ones live on. */
static void listener_closes_streams_stay(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = serve_echo(&pump, &addr);
    int fd = peer_connect(&addr);
    char byte = 'a';
    peer_send(&pump, fd, &byte, 1);
    peer_recv(&pump, fd, &byte, 1);
    op_must(&pump, op_close(&pump, listener, 0), 0);
    for (int i = 0; i < 100; i++) {
        peer_send(&pump, fd, &byte, 1);
        peer_recv(&pump, fd, &byte, 1);
    }
    close(fd);
    pump_close(&pump);
}

static void quiet_close(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (int i = 0; i < 50; i++) {
        struct link link = link_open(&pump);
        uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
        op_close(&pump, link.stream, QUOIT_OPF_QUIET | (i % 2 ? QUOIT_OPF_ABORT : 0));
        op_must(&pump, recv, -ECANCELED); /* what was armed is told all the same */
        close(link.fd);
    }
    PUMP_UNTIL(&pump, stats_of(&pump).objects_live == 1);
    op_must(&pump, op_close(&pump, 3ull << 56 | 1ull << 24, QUOIT_OPF_QUIET), QUOIT_E_WORKER);
    pump_close(&pump);
}

/* Bytes that were received before the close are told or dropped, but never after its event (the pump checks). */
static void close_under_incoming_bytes(void) {
    for (int i = 0; i < 40; i++) {
        struct pump pump;
        uint64_t recv;
        pump_open(&pump, NULL);
        struct link link = link_open_recv(&pump, &recv);
        pump_turn_nb(&pump);
        peer_fill(link.fd, 1);
        for (int k = 0; k < i % 4; k++)
            pump_turn_nb(&pump);
        uint64_t shut = op_close(&pump, link.stream, i % 2 ? QUOIT_OPF_ABORT : 0);
        pump_turn_nb(&pump);
        shutdown(link.fd, SHUT_WR); /* it fails where the ABORT has come through already */
        op_must(&pump, shut, 0);
        CHECK(op_ended(&pump, recv));
        for (int k = 0; k < 3; k++)
            CHECK_EQ(pump_turn_nb(&pump), 0);
        close(link.fd);
        pump_close(&pump);
    }
}

static const struct test_case cases[] = {
    {"send_and_close_lose_nothing", send_and_close_lose_nothing},
    {"send_and_close_borrowed", send_and_close_borrowed},
    {"send_and_close_quiet", send_and_close_quiet},
    {"send_and_close_slow_reader", send_and_close_slow_reader},
    {"unread_input_does_not_reset", unread_input_does_not_reset},
    {"shutdown_waits_for_sends", shutdown_waits_for_sends},
    {"abort_drops_what_is_owed", abort_drops_what_is_owed},
    {"close_while_the_close_waits", close_while_the_close_waits},
    {"close_has_a_deadline", close_has_a_deadline},
    {"close_of_each_kind", close_of_each_kind},
    {"listener_closes_streams_stay", listener_closes_streams_stay},
    {"quiet_close", quiet_close},
    {"close_under_incoming_bytes", close_under_incoming_bytes},
};
TEST_GROUP(close_ops, cases);
