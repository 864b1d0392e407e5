/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* recv_ops.c: receiving: single and MULTI, the end of the stream, pause and resume. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void single_shot(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 100);
    quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 100);
    CHECK_EQ(event.flags & ~(uint32_t)QUOIT_EVF_NONEMPTY, QUOIT_EVF_LENT);
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 100);
    CHECK_EQ(event.value, 100);
    CHECK_EQ(event.buffer >> 48 & 0xFF, pump.handle >> 48 & 0xFF);
    /* Nothing is received that nobody asked for. */
    peer_send_pattern(&pump, link.fd, 1, 100, 50);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pump, 1000000), 0);
    event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 50);
    CHECK_PATTERN(event_data(&pump, &event), 1, 100, 50);
    CHECK_EQ(event.value, 50); /* the total is the op's */
    link_close(&pump, &link);
    pump_close(&pump);
}

static void cap_of_a_single_shot(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 1000);
    for (uint32_t at = 0, cap = 1; at < 1000; at += cap, cap = cap * 2 + at < 1000 ? cap * 2 : 1000 - at) {
        quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, cap), cap);
        CHECK_PATTERN(event_data(&pump, &event), 1, at, cap);
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

static void cap_beyond_a_buffer(void) {
    struct pump pump;
    quoit_worker_options options = {.recv_buffer_size = 512};
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 5000);
    for (size_t at = 0; at < 5000;) {
        quoit_event event = op_finish(&pump, op_recv(&pump, link.stream, 0, 100000));
        CHECK(event.result > 0 && event.result <= 512);
        CHECK_PATTERN(event_data(&pump, &event), 1, at, event.len);
        at += event.len;
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

static void cap_of_multi(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open(&pump);
    uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 100);
    peer_send_pattern(&pump, link.fd, 1, 0, 950);
    struct stream *stream = stream_of(&pump, link.stream);
    PUMP_UNTIL(&pump, stream->len == 950);
    CHECK(stream->recv_events >= 10); /* none brought more than 100 */
    CHECK_PATTERN(stream->data, 1, 0, 950);
    CHECK(!op_ended(&pump, recv));
    link_close(&pump, &link);
    pump_close(&pump);
}

static void multi_goes_on(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open_recv(&pump, &recv);
    struct stream *stream = stream_of(&pump, link.stream);
    for (size_t i = 0; i < 500; i++) {
        peer_send_pattern(&pump, link.fd, 1, i * 10, 10);
        PUMP_UNTIL(&pump, stream->len == (i + 1) * 10);
    }
    CHECK_PATTERN(stream->data, 1, 0, stream->len);
    CHECK(!op_ended(&pump, recv) && op_record(&pump, recv)->events == 500);
    op_must(&pump, op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0), QUOIT_E_BUSY);
    op_must(&pump, op_recv(&pump, link.stream, 0, 0), QUOIT_E_BUSY);
    CHECK(!op_ended(&pump, recv)); /* the refused ones did it no harm */
    link_close(&pump, &link);
    CHECK_EQ(op_record(&pump, recv)->last.result, -ECANCELED);
    CHECK_EQ(op_record(&pump, recv)->last.len, 0);
    pump_close(&pump);
}

static void end_by_flag_alone(void) {
    static const bool multi[] = {true, false};
    for (int i = 0; i < 2; i++) {
        struct pump pump;
        pump_open(&pump, NULL);
        struct link link = link_open(&pump);
        uint64_t recv = op_recv(&pump, link.stream, multi[i] ? QUOIT_OPF_MULTI : 0, 0);
        CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
        quoit_event event = op_must(&pump, recv, 0);
        CHECK_EQ(event.flags, QUOIT_EVF_EOF);
        CHECK_EQ(event.len, 0);
        CHECK_EQ(event.buffer, 0);
        event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 0); /* and again, for those who ask again */
        CHECK_EQ(event.flags, QUOIT_EVF_EOF);
        op_must(&pump, op_send(&pump, link.stream, "still", 5, 0), 5);
        char text[5];
        peer_recv(&pump, link.fd, text, 5);
        link_close(&pump, &link);
        pump_close(&pump);
    }
}

/* Bytes that came before the end are told before it or with it, never after, never lost. */
static void end_after_bytes(void) {
    for (size_t len = 1; len < 20000; len = len * 3 + 1) {
        struct pump pump;
        uint64_t recv;
        pump_open(&pump, NULL);
        pump.collect = true;
        struct link link = link_open(&pump);
        peer_send_pattern(&pump, link.fd, 1, 0, len);
        CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
        recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
        quoit_event event = op_finish(&pump, recv);
        struct stream *stream = stream_of(&pump, link.stream);
        CHECK(event.result >= 0 && event.flags & QUOIT_EVF_EOF);
        CHECK_EQ(event.value, len);
        CHECK_EQ(stream->len, len);
        CHECK_PATTERN(stream->data, 1, 0, len);
        link_close(&pump, &link);
        pump_close(&pump);
    }
}

static void half_close_by_peer(void) {
    struct pump pump;
    uint64_t recv;
    static char data[3 << 20];
    pump_open(&pump, NULL);
    struct link link = link_open_recv(&pump, &recv);
    CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
    CHECK(op_must(&pump, recv, 0).flags & QUOIT_EVF_EOF);
    pattern_fill(data, 2, 0, sizeof data);
    uint64_t send = op_send(&pump, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
    peer_recv_pattern(&pump, link.fd, 2, 0, sizeof data);
    op_must(&pump, send, sizeof data);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void half_close_by_us(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open_recv(&pump, &recv);
    op_must(&pump, op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND), 0);
    peer_expect_end(&pump, link.fd);
    peer_send_pattern(&pump, link.fd, 1, 0, 100000);
    CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
    CHECK(op_finish(&pump, recv).flags & QUOIT_EVF_EOF);
    CHECK_EQ(stream_of(&pump, link.stream)->len, 100000);
    CHECK_PATTERN(stream_of(&pump, link.stream)->data, 1, 0, 100000);
    quoit_event event = op_finish(&pump, op_send(&pump, link.stream, "x", 1, 0));
    CHECK_EQ(event.result, -EPIPE); /* we said that we send no more */
    link_close(&pump, &link);
    pump_close(&pump);
}

static void shutdown_of_receiving(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    struct link link = link_open_recv(&pump, &recv);
    op_must(&pump, op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_RECV), 0);
    quoit_event event = op_must(&pump, recv, 0);
    CHECK(event.flags & QUOIT_EVF_EOF);
    op_must(&pump, op_send(&pump, link.stream, "x", 1, 0), 1);
    op_must(&pump, op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_BOTH), 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void reset_by_peer(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    struct link link = link_open_recv(&pump, &recv);
    pump_turn_nb(&pump);
    peer_reset(link.fd);
    quoit_event event = op_must(&pump, recv, -ECONNRESET);
    CHECK_EQ(event.flags, 0);
    CHECK_EQ(quoit_status_class((quoit_status)event.result), QUOIT_CLASS_CLOSED);
    event = op_finish(&pump, op_send(&pump, link.stream, "x", 1, 0));
    CHECK(event.result == -EPIPE || event.result == -ECONNRESET);
    CHECK_EQ(event.value, 0);
    op_must(&pump, op_close(&pump, link.stream, 0), 0); /* and does not wait for a dead peer */
    pump_close(&pump);
}

static uint64_t op_on(struct pump *pump, uint32_t opcode, quoit_handle stream) {
    return op_simple(pump, opcode, stream);
}

/* The pump fails on any receive event between the two. */
static void pause_and_resume(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open_recv(&pump, &recv);
    struct stream *stream = stream_of(&pump, link.stream);
    size_t sent = 0;
    for (int round = 0; round < 50; round++) {
        peer_send_pattern(&pump, link.fd, 1, sent, 3000);
        sent += 3000;
        if (round % 2)
            pump_turn_nb(&pump);
        op_must(&pump, op_on(&pump, QUOIT_OP_RECV_PAUSE, link.stream), 0);
        size_t before = stream->len;
        peer_send_pattern(NULL, link.fd, 1, sent, 2000);
        sent += 2000;
        for (int i = 0; i < 3; i++)
            pump_turn(&pump, 500000);
        CHECK_EQ(stream->len, before);
        op_must(&pump, op_on(&pump, QUOIT_OP_RECV_RESUME, link.stream), 0);
        PUMP_UNTIL(&pump, stream->len == sent);
    }
    CHECK_PATTERN(stream->data, 1, 0, sent);
    CHECK(!op_ended(&pump, recv));
    link_close(&pump, &link);
    pump_close(&pump);
}

static void pause_holds_the_end_back(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open_recv(&pump, &recv);
    op_must(&pump, op_on(&pump, QUOIT_OP_RECV_PAUSE, link.stream), 0);
    peer_send_pattern(&pump, link.fd, 1, 0, 5000);
    CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
    for (int i = 0; i < 5; i++)
        pump_turn(&pump, 1000000);
    CHECK_EQ(stream_of(&pump, link.stream)->recv_events, 0);
    uint64_t resume = op_on(&pump, QUOIT_OP_RECV_RESUME, link.stream);
    op_must(&pump, resume, 0);
    CHECK(op_finish(&pump, recv).flags & QUOIT_EVF_EOF);
    CHECK_EQ(stream_of(&pump, link.stream)->len, 5000);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void pause_does_not_hold_ends_of_ours(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    struct link link = link_open_recv(&pump, &recv);
    op_must(&pump, op_on(&pump, QUOIT_OP_RECV_PAUSE, link.stream), 0);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0), 1);
    op_must(&pump, recv, -ECANCELED);
    op_must(&pump, op_on(&pump, QUOIT_OP_RECV_RESUME, link.stream), 0);
    recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    op_must(&pump, op_on(&pump, QUOIT_OP_RECV_PAUSE, link.stream), 0);
    link_close(&pump, &link);
    CHECK_EQ(op_record(&pump, recv)->last.result, -ECANCELED);
    pump_close(&pump);
}

static void pause_before_recv(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send(&pump, link.fd, "x", 1);
    op_must(&pump, op_on(&pump, QUOIT_OP_RECV_PAUSE, link.stream), 0);
    uint64_t recv = op_recv(&pump, link.stream, 0, 0);
    for (int i = 0; i < 3; i++)
        pump_turn(&pump, 1000000);
    CHECK(!op_ended(&pump, recv));
    op_must(&pump, op_on(&pump, QUOIT_OP_RECV_RESUME, link.stream), 0);
    op_must(&pump, recv, 1);
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"single_shot", single_shot},
    {"cap_of_a_single_shot", cap_of_a_single_shot},
    {"cap_beyond_a_buffer", cap_beyond_a_buffer},
    {"cap_of_multi", cap_of_multi},
    {"multi_goes_on", multi_goes_on},
    {"end_by_flag_alone", end_by_flag_alone},
    {"end_after_bytes", end_after_bytes},
    {"half_close_by_peer", half_close_by_peer},
    {"half_close_by_us", half_close_by_us},
    {"shutdown_of_receiving", shutdown_of_receiving},
    {"reset_by_peer", reset_by_peer},
    {"pause_and_resume", pause_and_resume},
    {"pause_holds_the_end_back", pause_holds_the_end_back},
    {"pause_does_not_hold_ends_of_ours", pause_does_not_hold_ends_of_ours},
    {"pause_before_recv", pause_before_recv},
};
TEST_GROUP(recv_ops, cases);
