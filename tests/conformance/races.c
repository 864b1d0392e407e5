/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * races.c: cancels made before, while and after their op comes about. The moment is varied from try to try, and each
 * must make up more than one try of twenty.
 *
 *   before   nothing has come about: the cancel wins, the op ends with -ECANCELED
 *   during   it has come about but was not told yet: either may win; if the op does, it brings what it has
 *   after    the op's event was told: the cancel ends with -ENOENT, and nothing else happens
 */
#define _GNU_SOURCE
#include "calls.h"
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define TRIES 300

enum moment { BEFORE, DURING, AFTER };

struct tally {
    int moments[3];
    int won_during; /* by the op */
};

static void check_tally(const struct tally *tally, const char *what) {
    int all = 0, least = TRIES / 20;
    for (int i = 0; i < 3; i++)
        all += tally->moments[i];
    CHECK_EQ(all, TRIES);
    if (tally->moments[BEFORE] <= least || tally->moments[DURING] <= least || tally->moments[AFTER] <= least)
        FAIL("%s: of %d tries %d were before, %d during, %d after: each must be above %d", what, all,
             tally->moments[BEFORE], tally->moments[DURING], tally->moments[AFTER], least);
}

/* What keeps an op's event inside while the op is done: the batch holds one event, and others come first. */
static const quoit_worker_options one_event = {.events_max = 1, .ops_max = 64};

static void fill_queue(struct pump *pump, int count) {
    for (int i = 0; i < count; i++)
        op_simple(pump, QUOIT_OP_NOP, 0);
}

/* Takes both ends and checks that they fit each other and the moment. */
static void judge(struct pump *pump, struct tally *tally, uint64_t op, uint64_t cancel, enum moment moment,
                  const char *what) {
    bool was_told = op_ended(pump, op);
    quoit_event event = op_finish(pump, op), asked = op_finish(pump, cancel);
    if (moment == DURING && was_told)
        moment = AFTER; /* it came through sooner than the try meant */
    if (moment == AFTER) {
        CHECK(asked.result == -ENOENT && event.result >= 0);
    } else if (moment == BEFORE) {
        if (event.result != -ECANCELED || asked.result != 1)
            FAIL("%s: cancelled before, it ended with %lld, the cancel with %lld", what,
                 (long long)event.result, (long long)asked.result);
    } else if (event.result == -ECANCELED) {
        CHECK_EQ(asked.result, 1);
    } else {
        CHECK(event.result >= 0 && (asked.result == 1 || asked.result == -ENOENT));
        tally->won_during++;
    }
    tally->moments[moment]++;
}

/* Bytes: whatever the outcome, each arrives once and in order. */
static void recv_against_cancel(void) {
    struct pump pump;
    struct tally tally = {0};
    size_t sent = 0;
    pump_open(&pump, &one_event);
    pump.collect = true;
    struct link link = link_open(&pump);
    for (int i = 0; i < TRIES; i++) {
        enum moment moment = (enum moment)(i % 3);
        if (moment != BEFORE)
            peer_send_pattern(&pump, link.fd, 1, sent, 64);
        if (moment == DURING)
            fill_queue(&pump, 4 + i % 5);
        uint64_t recv = op_recv(&pump, link.stream, 0, 0);
        if (moment == AFTER)
            op_finish(&pump, recv);
        for (int turns = moment == AFTER ? 0 : i / 3 % 3; turns; turns--)
            pump_turn_nb(&pump);
        uint64_t cancel = op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0);
        judge(&pump, &tally, recv, cancel, moment, "recv");
        if (moment == BEFORE)
            peer_send_pattern(&pump, link.fd, 1, sent, 64);
        sent += 64;
        while (moment == DURING && pump_turn_nb(&pump) > 0)
            ;
        while (stream_of(&pump, link.stream)->len < sent)
            op_finish(&pump, op_recv(&pump, link.stream, 0, 0));
    }
    CHECK_EQ(stream_of(&pump, link.stream)->len, sent);
    CHECK_PATTERN(stream_of(&pump, link.stream)->data, 1, 0, sent);
    check_tally(&tally, "recv");
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Two of one deadline: when the first is told the second is due and waits inside. The op wins each of those races. */
static void timer_against_cancel(void) {
    struct pump pump;
    struct tally tally = {0};
    pump_open(&pump, &one_event);
    for (int i = 0; i < TRIES; i++) {
        enum moment moment = (enum moment)(i % 3);
        quoit_op *op = op_new(&pump, QUOIT_OP_TIMER, 0);
        op->flags = QUOIT_OPF_ABS;
        op->offset = quoit_now(QUOIT_CLOCK_MONOTONIC) + (moment == BEFORE ? 3600000000000ll : 1000000);
        int64_t deadline = op->offset;
        uint64_t first = op->user_data;
        op = op_new(&pump, QUOIT_OP_TIMER, 0);
        op->flags = QUOIT_OPF_ABS;
        op->offset = deadline;
        uint64_t timer = op->user_data;
        if (moment == BEFORE && i % 2)
            pump_turn_nb(&pump);
        if (moment == DURING)
            op_must(&pump, first, 1);
        if (moment == AFTER)
            op_must(&pump, timer, 1);
        judge(&pump, &tally, timer, op_cancel(&pump, 0, QUOIT_OP_TIMER, timer), moment, "timer");
        if (moment == BEFORE)
            op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, first), 1);
    }
    check_tally(&tally, "timer");
    CHECK_EQ(tally.won_during, tally.moments[DURING]);
    pump_close(&pump);
}

static uint64_t op_poll(struct pump *pump, int fd) {
    quoit_op *op = op_new(pump, QUOIT_OP_POLL, 0);
    op->offset = fd;
    op->arg = QUOIT_POLL_IN;
    return op->user_data;
}

static void poll_against_cancel(void) {
    struct pump pump;
    struct tally tally = {0};
    int pipes[2];
    char byte = 0;
    pump_open(&pump, &one_event);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
    for (int i = 0; i < TRIES; i++) {
        enum moment moment = (enum moment)(i % 3);
        if (moment != BEFORE)
            CHECK_EQ(write(pipes[1], &byte, 1), 1);
        if (moment == DURING)
            fill_queue(&pump, 4 + i % 4);
        uint64_t poll = op_poll(&pump, pipes[0]);
        if (moment == AFTER)
            op_must(&pump, poll, QUOIT_POLL_IN);
        for (int turns = moment == AFTER ? 0 : i / 3 % 3; turns; turns--)
            pump_turn_nb(&pump);
        judge(&pump, &tally, poll, op_cancel(&pump, 0, QUOIT_OP_POLL, poll), moment, "poll");
        if (moment != BEFORE)
            CHECK_EQ(read(pipes[0], &byte, 1), 1);
    }
    check_tally(&tally, "poll");
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
}

/* Connections: each is accepted once, none is lost between a cancel and the next accept. */
static void accept_against_cancel(void) {
    struct pump pump;
    struct tally tally = {0};
    quoit_addr addr = addr_v4(0);
    static int fds[TRIES];
    pump_open(&pump, &one_event);
    quoit_handle listener = listen_on(&pump, &addr);
    for (uint32_t i = 0; i < TRIES; i++) {
        enum moment moment = (enum moment)(i % 3);
        if (moment != BEFORE)
            fds[i] = peer_connect(&addr);
        if (moment == DURING)
            fill_queue(&pump, 4 + (int)i % 4);
        uint64_t accept = op_accept(&pump, listener, 0);
        if (moment == AFTER)
            op_must(&pump, accept, 0);
        for (uint32_t turns = moment == AFTER ? 0 : i / 3 % 3; turns; turns--)
            pump_turn_nb(&pump);
        judge(&pump, &tally, accept, op_cancel(&pump, listener, QUOIT_OP_ACCEPT, 0), moment, "accept");
        if (moment == BEFORE)
            fds[i] = peer_connect(&addr);
        if (pump.nstreams < i + 1)
            op_must(&pump, op_accept(&pump, listener, 0), 0);
    }
    CHECK_EQ(pump.nstreams, TRIES);
    for (int i = 0; i < TRIES; i++)
        close(fds[i]);
    check_tally(&tally, "accept");
    pump_close(&pump);
}

/* One thread, kept busy by a first call: the second waits in the queue, or runs, or is done. */
static void offload_against_cancel(void) {
    struct pump pump;
    struct tally tally = {0};
    int pipes[2];
    quoit_runtime_options options = {.struct_size = sizeof options, .pool_threads = 1};
    quoit_runtime *runtime = runtime_open(&options);
    pump_open_in(&pump, runtime, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < TRIES; i++) {
        enum moment moment = (enum moment)(i % 3);
        int before = waits_begun();
        uint64_t first = op_wait_for_byte(&pump, pipes[0]), call = first;
        PUMP_POLL(&pump, waits_begun() > before);
        if (moment == BEFORE)
            call = op_wait_for_byte(&pump, pipes[0]);
        if (moment == AFTER) {
            CHECK_EQ(write(pipes[1], "x", 1), 1);
            CHECK_EQ(op_must(&pump, call, 0).value, 7);
        }
        uint64_t cancel = op_cancel(&pump, 0, QUOIT_OP_OFFLOAD, call);
        if (moment == DURING) {
            op_finish(&pump, cancel);
            CHECK(!op_ended(&pump, call)); /* it uses memory of the program as long as it runs */
            CHECK_EQ(write(pipes[1], "x", 1), 1);
        }
        judge(&pump, &tally, call, cancel, moment, "offload");
        if (moment == BEFORE) {
            CHECK_EQ(write(pipes[1], "x", 1), 1);
            op_must(&pump, first, 0);
        }
    }
    check_tally(&tally, "offload");
    CHECK_EQ(tally.won_during, tally.moments[DURING]);
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

/* A MULTI receive is cancelled and armed anew under a stream of bytes: none is lost, doubled or out of order. */
static void rearm_under_load(void) {
    struct pump pump;
    enum { TOTAL = 4 << 20 };
    size_t sent = 0;
    uint64_t random = 5;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open(&pump);
    struct stream *stream = stream_of(&pump, link.stream);
    int won = 0, lost = 0;
    while (stream->len < TOTAL) {
        uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
        for (uint64_t turns = pattern_random(&random) % 4; turns; turns--) {
            size_t part = pattern_random(&random) % 20000;
            if (part > TOTAL - sent)
                part = TOTAL - sent;
            peer_send_pattern(&pump, link.fd, 1, sent, part);
            sent += part;
            pump_turn_nb(&pump);
        }
        quoit_event asked = op_finish(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0));
        quoit_event event = op_finish(&pump, recv);
        CHECK(event.result == -ECANCELED || event.result > 0);
        asked.result == 1 ? won++ : lost++;
    }
    CHECK_EQ(stream->len, TOTAL);
    CHECK_PATTERN(stream->data, 1, 0, TOTAL);
    CHECK(won > 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Close against bytes, an end and a reset of the peer in all orders; the pump checks the events. */
static void close_against_the_peer(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    uint64_t random = 9;
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    for (int i = 0; i < 200; i++) {
        int fd = peer_connect(&addr);
        quoit_handle stream = op_must(&pump, op_accept(&pump, listener, 0), 0).value;
        uint64_t recv = op_recv(&pump, stream, QUOIT_OPF_MULTI, 0), shut = 0;
        bool closed = false;
        for (int step = 0; step < 4 || !shut; step++) {
            switch (pattern_random(&random) % 5) {
            case 0:
                if (!closed)
                    send(fd, "hello", 5, MSG_NOSIGNAL | MSG_DONTWAIT);
                break;
            case 1:
                if (!closed)
                    pattern_random(&random) % 2 ? peer_reset(fd) : (void)close(fd), closed = true;
                break;
            case 2:
                if (!shut)
                    shut = op_close(&pump, stream, pattern_random(&random) % 2 ? QUOIT_OPF_ABORT : 0);
                break;
            default:
                pump_turn_nb(&pump);
            }
        }
        if (!closed)
            close(fd);
        op_must(&pump, shut, 0);
        CHECK(op_ended(&pump, recv));
    }
    CHECK_EQ(stats_of(&pump).objects_live, 1);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"recv_against_cancel", recv_against_cancel},       {"timer_against_cancel", timer_against_cancel},
    {"poll_against_cancel", poll_against_cancel},       {"accept_against_cancel", accept_against_cancel},
    {"offload_against_cancel", offload_against_cancel}, {"rearm_under_load", rearm_under_load},
    {"close_against_the_peer", close_against_the_peer},
};
TEST_GROUP(races, cases);
