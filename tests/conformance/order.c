/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* order.c: what comes before what. The pump checks most of it in every test; these provoke it. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Peers that came, spoke and went before the worker looked: accept, then bytes, then the end. */
static void accept_before_data(void) {
    enum { PEERS = 60 };
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    quoit_worker_options options = {.recv_buffers = 16};
    pump_open(&pump, &options);
    pump.collect = true;
    quoit_handle listener = listen_on(&pump, &addr);
    for (int i = 0; i < PEERS; i++) {
        int fd = peer_connect(&addr);
        peer_send_pattern(NULL, fd, 3, 0, (size_t)i * 100);
        close(fd);
    }
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    for (int ended = 0; ended < PEERS;) {
        pump_check_time(&pump, "all peers to have ended", __FILE__, __LINE__);
        pump_turn(&pump, 200000000);
        ended = 0;
        for (uint32_t i = 0; i < pump.nstreams; i++)
            ended += pump.streams[i]->eof;
    }
    CHECK_EQ(pump.nstreams, PEERS);
    CHECK_EQ(op_record(&pump, accept)->events, PEERS);
    for (int i = 0; i < PEERS; i++) {
        CHECK_EQ(pump.streams[i]->len, i * 100);
        CHECK_PATTERN(pump.streams[i]->data, 3, 0, pump.streams[i]->len);
    }
    pump_close(&pump);
}

static void auto_recv_carries_the_accepts_user_data(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_AUTO_RECV); /* one stream, its recv MULTI */
    int fd = peer_connect(&addr);
    quoit_handle stream = op_must(&pump, accept, 0).value;
    for (int i = 1; i <= 3; i++) {
        peer_send(&pump, fd, "x", 1);
        PUMP_UNTIL(&pump, stream_of(&pump, stream)->total == (uint64_t)i);
        CHECK_EQ(stream_of(&pump, stream)->recv_id, accept);
    }
    op_must(&pump, op_recv(&pump, stream, 0, 0), QUOIT_E_BUSY); /* it is armed already */
    CHECK_EQ(op_must(&pump, op_cancel(&pump, stream, QUOIT_OP_RECV, 0), 1).result, 1);
    PUMP_UNTIL(&pump, stream_of(&pump, stream)->auto_ended);
    CHECK_EQ(stream_of(&pump, stream)->end, -ECANCELED);
    peer_send(&pump, fd, "yz", 2);
    CHECK_EQ(op_finish(&pump, op_recv(&pump, stream, 0, 0)).result, 2); /* an own one now */
    close(fd);
    pump_close(&pump);
}

static void bytes_in_order(void) {
    struct pump pump;
    enum { TOTAL = 8 << 20 };
    quoit_worker_options options = {.recv_buffers = 32};
    uint64_t recv;
    pump_open(&pump, &options);
    pump.collect = true;
    struct link link = link_open_recv(&pump, &recv);
    peer_send_pattern(&pump, link.fd, 9, 0, TOTAL);
    CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
    op_finish(&pump, recv);
    struct stream *stream = stream_of(&pump, link.stream);
    CHECK(stream->eof);
    CHECK_EQ(stream->len, TOTAL);
    CHECK_PATTERN(stream->data, 9, 0, TOTAL);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Sends of many kinds and sizes on one stream: their bytes and their ends in the order they were given. */
static void sends_in_order(void) {
    enum { SENDS = 400 };
    struct pump pump;
    static uint64_t ids[SENDS];
    static char *own[SENDS];
    uint64_t random = 1, at = 0;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int i = 0; i < SENDS; i++) {
        size_t len = pattern_random(&random) % (i % 50 == 0 ? 60000 : 3000);
        own[i] = malloc(len + 1);
        pattern_fill(own[i], 4, at, len);
        ids[i] = op_send(&pump, link.stream, own[i], len,
                         i % 3 == 1   ? QUOIT_OPF_BORROW
                         : i % 7 == 2 ? QUOIT_OPF_QUIET
                                      : 0);
        at += len;
        if (i % 37 == 0)
            pump_turn_nb(&pump);
        else if (i % 11 == 0)
            pump_submit(&pump);
    }
    peer_recv_pattern(&pump, link.fd, 4, 0, at);
    for (int i = 0; i < SENDS; i++) {
        if (!(op_record(&pump, ids[i])->flags & QUOIT_OPF_QUIET))
            CHECK(op_finish(&pump, ids[i]).result >= 0);
        free(own[i]);
    }
    CHECK_EQ(stats_of(&pump).bytes_sent, at);
    link_close(&pump, &link);
    pump_close(&pump);
}

static uint64_t ended_order[64];
static int ended_count;

static void note_ends(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (!(event->flags & QUOIT_EVF_MORE) && ended_count < 64)
        ended_order[ended_count++] = event->user_data;
}

/* The close's event is the last of the handle, whatever was in flight. */
static void close_comes_last(void) {
    static const uint32_t how[] = {0, QUOIT_OPF_ABORT};
    for (int i = 0; i < 2; i++) {
        struct pump pump;
        pump_open(&pump, NULL);
        struct link link = link_open(&pump);
        uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
        pump_turn_nb(&pump);
        ended_count = 0;
        pump.on_event = note_ends;
        uint64_t send = op_send(&pump, link.stream, "bye", 3, 0);
        uint64_t end = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
        uint64_t shut = op_close(&pump, link.stream, how[i]);
        CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
        op_must(&pump, shut, 0);
        CHECK(op_ended(&pump, recv) && op_ended(&pump, send) && op_ended(&pump, end));
        CHECK_EQ(ended_order[ended_count - 1], shut);
        CHECK_EQ(op_record(&pump, recv)->last.result, -ECANCELED);
        if (!how[i])
            CHECK_EQ(op_record(&pump, send)->last.result, 3);
        close(link.fd);
        pump_close(&pump);
    }
}

static void ops_given_to_a_closing_handle(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t shut = op_close(&pump, link.stream, 0); /* waits for the peer's end */
    uint64_t send = op_send(&pump, link.stream, "x", 1, 0);
    uint64_t recv = op_recv(&pump, link.stream, 0, 0);
    op_must(&pump, send, QUOIT_E_CLOSING);
    op_must(&pump, recv, QUOIT_E_CLOSING);
    CHECK(!op_ended(&pump, shut));
    op_must(&pump, op_close(&pump, link.stream, 0), QUOIT_E_CLOSING);
    peer_expect_end(&pump, link.fd);
    close(link.fd);
    op_must(&pump, shut, 0);
    op_must(&pump, op_send(&pump, link.stream, "x", 1, 0), QUOIT_E_STALE);
    op_must(&pump, op_close(&pump, link.stream, 0), QUOIT_E_STALE);
    pump_close(&pump);
}

/* A batch brings the events of one turn; with one event per batch they come one by one, the same ones. */
static void one_event_at_a_time(void) {
    struct pump pump;
    quoit_worker_options options = {.events_max = 1, .ops_max = 1};
    quoit_addr addr = addr_v4(0);
    char data[5000];
    pump_open(&pump, &options);
    serve_echo(&pump, &addr);
    int fds[20];
    for (int i = 0; i < 20; i++)
        fds[i] = peer_connect(&addr);
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < 20; i++) {
            peer_send_pattern(&pump, fds[i], (uint64_t)i, (uint64_t)round * sizeof data, sizeof data);
            peer_recv_pattern(&pump, fds[i], (uint64_t)i, (uint64_t)round * sizeof data, sizeof data);
        }
    for (int i = 0; i < 20; i++)
        close(fds[i]);
    CHECK_EQ(pump.batch->events_max, 1);
    pump_close(&pump);
}

/* Nothing ends inside submit, and the batch that is being read stays as it is. */
static void submit_brings_no_events(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    op_must(&pump, op_simple(&pump, QUOIT_OP_NOP, 0), 0);
    quoit_batch before = *pump.batch;
    quoit_event event = *pump_event(&pump, 0);
    uint64_t ids[10];
    for (int i = 0; i < 10; i++) {
        ids[i] = op_simple(&pump, QUOIT_OP_NOP, 0);
        pump_submit(&pump);
        CHECK_EQ(pump.batch->nevents, before.nevents);
        CHECK_EQ(pump.batch->tick, before.tick);
        CHECK(!memcmp(pump_event(&pump, 0), &event, sizeof event));
    }
    CHECK_EQ(quoit_submit(pump.worker, 0), 0);
    for (int i = 0; i < 10; i++)
        op_must(&pump, ids[i], 0);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"accept_before_data", accept_before_data},
    {"auto_recv_carries_the_accepts_user_data", auto_recv_carries_the_accepts_user_data},
    {"bytes_in_order", bytes_in_order},
    {"sends_in_order", sends_in_order},
    {"close_comes_last", close_comes_last},
    {"ops_given_to_a_closing_handle", ops_given_to_a_closing_handle},
    {"one_event_at_a_time", one_event_at_a_time},
    {"submit_brings_no_events", submit_brings_no_events},
};
TEST_GROUP(order, cases);
