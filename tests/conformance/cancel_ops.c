/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* cancel_ops.c: asking ops to end: by object, by opcode, by user_data; what ends and what does not. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void recv_by_stream(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int i = 0; i < 20; i++) {
        uint64_t recv = op_recv(&pump, link.stream, i % 2 ? QUOIT_OPF_MULTI : 0, 0);
        if (i % 3)
            pump_turn_nb(&pump);
        op_must(&pump, op_cancel(&pump, link.stream, i % 4 < 2 ? QUOIT_OP_RECV : 0, 0), 1);
        quoit_event event = op_must(&pump, recv, -ECANCELED);
        CHECK_EQ(event.flags, 0);
        CHECK_EQ(event.len, 0);
    }
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0), -ENOENT);
    op_must(&pump, op_cancel(&pump, link.stream, 0, 0), -ENOENT);
    /* The stream lives on, nothing is lost. */
    peer_send_pattern(&pump, link.fd, 1, 0, 1000);
    CHECK_EQ(op_finish(&pump, op_recv(&pump, link.stream, 0, 0)).result, 1000);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void recv_and_cancel_in_one_batch(void) {
    struct pump pump;
    size_t got = 0, sent = 0;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open(&pump);
    for (int i = 0; i < 50; i++) {
        if (i % 2) {
            peer_send_pattern(&pump, link.fd, 1, sent, 100);
            sent += 100;
        }
        uint64_t recv = op_recv(&pump, link.stream, 0, 100);
        uint64_t cancel = op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0);
        quoit_event asked = op_finish(&pump, cancel), event = op_finish(&pump, recv);
        CHECK(asked.result == 1 || asked.result == -ENOENT);
        CHECK(event.result == -ECANCELED || event.result > 0);
        if (asked.result == -ENOENT)
            CHECK(event.result > 0);
        got += event.len;
    }
    while (got < sent)
        got += op_finish(&pump, op_recv(&pump, link.stream, 0, 0)).len;
    CHECK_EQ(stream_of(&pump, link.stream)->len, sent);
    CHECK_PATTERN(stream_of(&pump, link.stream)->data, 1, 0, sent);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Who comes second finds nothing to ask: the op is ending already. */
static void asked_once(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int i = 0; i < 20; i++) {
        uint64_t recv = op_recv(&pump, link.stream, i % 2 ? QUOIT_OPF_MULTI : 0, 0);
        quoit_op *op = op_new(&pump, QUOIT_OP_POLL, 0);
        op->offset = link.fd;
        op->arg = QUOIT_POLL_IN;
        uint64_t poll = op->user_data, cancels[5];
        pump_turn_nb(&pump);
        cancels[0] = op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0);
        cancels[1] = op_cancel(&pump, 0, QUOIT_OP_POLL, poll);
        cancels[2] = op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0);
        cancels[3] = op_cancel(&pump, link.stream, 0, 0);
        cancels[4] = op_cancel(&pump, 0, QUOIT_OP_POLL, poll);
        for (int k = 0; k < 5; k++)
            op_must(&pump, cancels[k], k < 2 ? 1 : -ENOENT);
        op_must(&pump, recv, -ECANCELED);
        op_must(&pump, poll, -ECANCELED);
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

static void accept_by_listener(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI);
    int fd = peer_connect(&addr);
    PUMP_UNTIL(&pump, pump.nstreams == 1);
    op_must(&pump, op_cancel(&pump, listener, QUOIT_OP_ACCEPT, 0), 1);
    op_must(&pump, accept, -ECANCELED);
    int later = peer_connect(&addr);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pump, 1000000), 0); /* it waits in the backlog */
    op_must(&pump, op_accept(&pump, listener, 0), 0);
    close(fd);
    close(later);
    pump_close(&pump);
}

/* What left, left: a cancelled send tells how much, and those behind it end too. */
static void sends_by_stream(void) {
    struct pump pump;
    enum { SIZE = 8 << 20 };
    static char data[SIZE];
    uint64_t sends[3], left = 0;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, SIZE);
    for (int i = 0; i < 3; i++)
        sends[i] = op_send(&pump, link.stream, data, SIZE, QUOIT_OPF_BORROW);
    pump_turn_nb(&pump);
    quoit_event asked = op_finish(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND, 0));
    CHECK_EQ(asked.result, 3);
    for (int i = 0; i < 3; i++) {
        quoit_event event = op_must(&pump, sends[i], -ECANCELED);
        CHECK(event.value < SIZE && (i == 0 || event.value == 0));
        left += event.value;
    }
    memset(data, 0xEE, SIZE); /* it is the program's again */
    peer_recv_pattern(&pump, link.fd, 1, 0, left);
    op_must(&pump, op_send(&pump, link.stream, "x", 1, 0), 1);
    char byte;
    peer_recv(&pump, link.fd, &byte, 1);
    CHECK_EQ(byte, 'x');
    link_close(&pump, &link);
    pump_close(&pump);
}

static void timer_by_user_data(void) {
    struct pump pump;
    uint64_t ids[10];
    pump_open(&pump, NULL);
    for (int i = 0; i < 10; i++)
        ids[i] = op_timer(&pump, 3600000000000ull, 0, 0);
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, ids[4]), 1);
    op_must(&pump, ids[4], -ECANCELED);
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, ids[4]), -ENOENT);
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_POLL, ids[5]), -ENOENT); /* of another opcode */
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, 12345), -ENOENT);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(op_ended(&pump, ids[i]), i == 4);
    pump_close(&pump);
}

static void timer_by_handle(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t timer = op_timer(&pump, 3600000000000ull, 0, QUOIT_OPF_ARMED);
    PUMP_UNTIL(&pump, op_record(&pump, timer)->events);
    quoit_handle handle = op_record(&pump, timer)->last.value;
    CHECK_EQ(quoit_handle_kind(handle), QUOIT_HANDLE_TIMER);
    op_must(&pump, op_cancel(&pump, handle, 0, 0), 1);
    op_must(&pump, timer, -ECANCELED);
    op_must(&pump, op_cancel(&pump, handle, 0, 0), QUOIT_E_STALE);
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

static void poll_by_user_data(void) {
    struct pump pump;
    int pipes[2];
    pump_open(&pump, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < 10; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_POLL, 0);
        op->offset = pipes[0];
        op->arg = QUOIT_POLL_IN;
        uint64_t poll = op->user_data;
        if (i % 2)
            pump_turn_nb(&pump);
        op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_POLL, poll), 1);
        op_must(&pump, poll, -ECANCELED);
    }
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
}

/* A connect that cannot come about: the listener's backlog is full. */
static void connect_by_user_data(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    uint64_t dials[8];
    int open = 0;
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 0);
    for (int i = 0; i < 8; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
        op->addr = (uintptr_t)&addr;
        op->len = sizeof addr;
        dials[i] = op->user_data;
    }
    for (int i = 0; i < 5; i++)
        pump_turn(&pump, 2000000);
    for (int i = 0; i < 8; i++) {
        if (op_ended(&pump, dials[i])) {
            open++;
            continue;
        }
        op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_CONNECT, dials[i]), 1);
        CHECK_EQ(op_must(&pump, dials[i], -ECANCELED).value, 0);
    }
    CHECK(open < 8);
    CHECK_EQ(stats_of(&pump).objects_live, open);
    close(listener);
    pump_close(&pump);
}

static void wrong_targets(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    op_must(&pump, op_cancel(&pump, link.stream + (1ull << 24), QUOIT_OP_RECV, 0), QUOIT_E_STALE);
    CHECK(op_finish(&pump, op_cancel(&pump, 0, 0, 77)).result < 0); /* of no object and no opcode */
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_ACCEPT, 0), -ENOENT);
    quoit_op *op = op_new(&pump, QUOIT_OP_CANCEL, link.stream);
    op->flags = QUOIT_OPF_QUIET;
    op->arg = QUOIT_OP_RECV;
    op_must(&pump, op->user_data, -ENOENT); /* quiet, but it failed */
    link_close(&pump, &link);
    pump_close(&pump);
}

/* All ops of an object in one go; those of its neighbours stay. */
static void everything_of_a_stream(void) {
    struct pump pump;
    static char data[8 << 20];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump), other = link_open(&pump);
    uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    uint64_t send = op_send(&pump, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
    uint64_t end = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
    uint64_t stays = op_recv(&pump, other.stream, QUOIT_OPF_MULTI, 0);
    pump_turn_nb(&pump);
    op_must(&pump, op_cancel(&pump, link.stream, 0, 0), 3);
    op_must(&pump, recv, -ECANCELED);
    op_must(&pump, send, -ECANCELED);
    op_must(&pump, end, -ECANCELED);
    CHECK(!op_ended(&pump, stays));
    peer_send(&pump, other.fd, "x", 1);
    PUMP_UNTIL(&pump, op_record(&pump, stays)->events);
    link_close(&pump, &link);
    link_close(&pump, &other);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"recv_by_stream", recv_by_stream},
    {"recv_and_cancel_in_one_batch", recv_and_cancel_in_one_batch},
    {"asked_once", asked_once},
    {"accept_by_listener", accept_by_listener},
    {"sends_by_stream", sends_by_stream},
    {"timer_by_user_data", timer_by_user_data},
    {"timer_by_handle", timer_by_handle},
    {"poll_by_user_data", poll_by_user_data},
    {"connect_by_user_data", connect_by_user_data},
    {"wrong_targets", wrong_targets},
    {"everything_of_a_stream", everything_of_a_stream},
};
TEST_GROUP(cancel_ops, cases);
