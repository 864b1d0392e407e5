/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* splice_ends.c: how splices end: asked to, late, with the objects that close or fail; nothing is lost untold. */
#define _GNU_SOURCE
#include "splice_ends.h"

#include "check.h"
#include "groups.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

/* A splice between two streams, the peer of the first sending so much, that of the second reading nothing. */
struct flow {
    struct pump pump;
    struct link from, to;
    uint64_t id;
    size_t sent;
};

static void flow_open(struct flow *flow, uint64_t timeout_ns) {
    pump_open(&flow->pump, NULL);
    flow->from = link_open(&flow->pump);
    flow->to = link_open(&flow->pump);
    flow->id = op_splice(&flow->pump, flow->from.stream, flow->to.stream, 0);
    newest_op(&flow->pump)->timeout_ns = timeout_ns;
    flow->sent = 0;
    pump_turn_nb(&flow->pump);
}

/* Until nothing moves: what was taken is in the second socket, or waits for room there. */
static void fill_up(struct flow *flow) {
    static char data[65536];
    for (int idle = 0; idle < 20;) {
        pattern_fill(data, 1, flow->sent, sizeof data);
        ssize_t done = write(flow->from.fd, data, sizeof data);
        if (done > 0)
            flow->sent += (size_t)done;
        idle = done > 0 ? 0 : idle + 1;
        pump_turn(&flow->pump, done > 0 ? 0 : 1000000);
    }
}

/* What arrived is a part of the pattern, and its length is as told. */
static quoit_event arrives(struct flow *flow, int64_t result) {
    size_t got = 0;
    while (!op_ended(&flow->pump, flow->id)) {
        size_t there = peer_queued(flow->to.fd);
        peer_recv_pattern(&flow->pump, flow->to.fd, 1, got, there);
        got += there;
        pump_turn(&flow->pump, there ? 0 : 1000000);
        pump_check_time(&flow->pump, "the splice to end", __FILE__, __LINE__);
    }
    quoit_event event = op_must(&flow->pump, flow->id, result);
    CHECK(event.value >= got);
    peer_recv_pattern(&flow->pump, flow->to.fd, 1, got, event.value - got);
    return event;
}

static void flow_close(struct flow *flow) {
    link_close(&flow->pump, &flow->from);
    link_close(&flow->pump, &flow->to);
    pump_close(&flow->pump);
}

/* What was not taken is the source's still: the next receive brings it, from the byte on where the splice stopped. */
static void rest_is_there(struct flow *flow, uint64_t taken) {
    size_t rest = flow->sent - taken;
    if (rest == 0)
        return;
    uint64_t recv = op_recv(&flow->pump, flow->from.stream, 0, 0);
    quoit_event event = op_finish(&flow->pump, recv);
    CHECK(event.result > 0);
    CHECK_PATTERN(event_data(&flow->pump, &event), 1, taken, event.len);
}

/* Cancelled or late with a destination that is full: the op waits until what it took has arrived, and no byte is missing. */
static void ended_on_the_way(uint64_t timeout_ns) {
    struct flow flow;
    flow_open(&flow, timeout_ns);
    fill_up(&flow);
    if (timeout_ns == 0)
        op_must(&flow.pump, op_cancel(&flow.pump, flow.from.stream, QUOIT_OP_SPLICE, flow.id), 1);
    quoit_event event = arrives(&flow, timeout_ns ? -ETIMEDOUT : -ECANCELED);
    CHECK_EQ(event.value, event.offset);
    CHECK(event.value <= flow.sent && (event.value > 0 || timeout_ns));
    op_must(&flow.pump, op_send(&flow.pump, flow.to.stream, "next", 4, 0), 4);
    char text[4];
    peer_recv(&flow.pump, flow.to.fd, text, 4);
    CHECK(!memcmp(text, "next", 4));
    rest_is_there(&flow, event.offset);
    flow_close(&flow);
}

static void cancelled_on_the_way(void) {
    ended_on_the_way(0);
}

static void late_on_the_way(void) {
    ended_on_the_way(100000000);
}

/* With nothing to move it ends at once. */
static void ended_while_it_waits(void) {
    for (int late = 0; late < 2; late++) {
        struct flow flow;
        flow_open(&flow, late ? 20000000 : 0);
        peer_send_pattern(&flow.pump, flow.from.fd, 1, 0, 1000);
        peer_recv_pattern(&flow.pump, flow.to.fd, 1, 0, 1000);
        if (!late)
            op_must(&flow.pump, op_cancel(&flow.pump, flow.from.stream, 0, 0), 1);
        quoit_event event = op_must(&flow.pump, flow.id, late ? -ETIMEDOUT : -ECANCELED);
        CHECK_EQ(event.value, 1000);
        CHECK_EQ(event.offset, 1000);
        flow.sent = 1000;
        peer_send_pattern(&flow.pump, flow.from.fd, 1, 1000, 500);
        flow.sent += 500;
        rest_is_there(&flow, 1000);
        flow_close(&flow);
    }
}

static void cancelled_before_and_after(void) {
    struct flow flow;
    flow_open(&flow, 0);
    /* In its own batch, and while another one has its destination. */
    quoit_handle file = adopt(&flow.pump, file_of_pattern(1000));
    uint64_t second = op_splice(&flow.pump, file, flow.to.stream, 0);
    op_must(&flow.pump, op_cancel(&flow.pump, file, 0, 0), 1);
    CHECK_EQ(op_must(&flow.pump, second, -ECANCELED).offset, 0);
    second = op_splice(&flow.pump, file, flow.to.stream, 0);
    pump_turn_nb(&flow.pump);
    op_must(&flow.pump, op_cancel(&flow.pump, file, QUOIT_OP_SPLICE, second), 1);
    CHECK_EQ(op_must(&flow.pump, second, -ECANCELED).offset, 0);
    /* The end wins. */
    peer_send_pattern(&flow.pump, flow.from.fd, 1, 0, 1000);
    CHECK_EQ(shutdown(flow.from.fd, SHUT_WR), 0);
    CHECK_EQ(op_must(&flow.pump, flow.id, 1000).flags, QUOIT_EVF_EOF);
    op_must(&flow.pump, op_cancel(&flow.pump, flow.from.stream, QUOIT_OP_SPLICE, flow.id), -ENOENT);
    peer_recv_pattern(&flow.pump, flow.to.fd, 1, 0, 1000);
    /* In time. */
    uint64_t kept = op_splice(&flow.pump, file, flow.to.stream, 0);
    newest_op(&flow.pump)->timeout_ns = 10000000000;
    op_must(&flow.pump, kept, 1000);
    flow_close(&flow);
}

/* The source closes: what was taken arrives all the same, and the close waits for that. */
static void source_closes(void) {
    struct flow flow;
    flow_open(&flow, 0);
    fill_up(&flow);
    uint64_t end = op_close(&flow.pump, flow.from.stream, 0);
    quoit_event event = arrives(&flow, -ECANCELED);
    CHECK_EQ(event.value, event.offset);
    CHECK(!op_ended(&flow.pump, end));
    close(flow.from.fd);
    op_must(&flow.pump, end, 0);
    link_close(&flow.pump, &flow.to);
    pump_close(&flow.pump);
}

/* The destination closes: it sends what was taken, then its end. */
static void destination_closes(void) {
    struct flow flow;
    flow_open(&flow, 0);
    fill_up(&flow);
    uint64_t end = op_close(&flow.pump, flow.to.stream, 0);
    quoit_event event = arrives(&flow, -ECANCELED);
    CHECK_EQ(event.value, event.offset);
    peer_expect_end(&flow.pump, flow.to.fd);
    close(flow.to.fd);
    op_must(&flow.pump, end, 0);
    rest_is_there(&flow, event.offset);
    link_close(&flow.pump, &flow.from);
    pump_close(&flow.pump);
}

/* An ABORT of either, or a stop, waits for nobody: it is told what did not arrive. */
static void cut_on_the_way(void) {
    for (int how = 0; how < 3; how++) {
        struct flow flow;
        flow_open(&flow, 0);
        fill_up(&flow);
        uint64_t behind = op_send(&flow.pump, flow.to.stream, "x", 1, 0), end = 0;
        pump_turn_nb(&flow.pump);
        if (how < 2)
            end = op_close(&flow.pump, how ? flow.to.stream : flow.from.stream, QUOIT_OPF_ABORT);
        else
            CHECK_EQ(quoit_stop(flow.pump.handle), QUOIT_OK);
        quoit_event event = op_must(&flow.pump, flow.id, -ECANCELED);
        CHECK(event.value <= event.offset && event.offset <= flow.sent && event.value > 0);
        if (how < 2)
            op_must(&flow.pump, end, 0);
        if (how == 0)
            peer_recv_pattern(&flow.pump, flow.to.fd, 1, 0, event.value);
        else
            op_must(&flow.pump, behind, -ECANCELED);
        close(flow.from.fd);
        close(flow.to.fd);
        pump_close(&flow.pump);
    }
}

/* A worker that is destroyed in the middle of one leaves nothing behind: the runner counts. */
static void destroyed_on_the_way(void) {
    struct flow flow;
    flow_open(&flow, 0);
    fill_up(&flow);
    close(flow.from.fd);
    close(flow.to.fd);
    pump_abandon(&flow.pump);
}

static void files_close_on_the_way(void) {
    struct flow flow;
    flow_open(&flow, 0);
    quoit_handle source = adopt(&flow.pump, file_of_pattern(16 * MIB)),
                 sink = adopt(&flow.pump, file_of_pattern(0));
    struct link stuck = link_open(&flow.pump), idle = link_open(&flow.pump);
    uint64_t reads = op_splice(&flow.pump, source, stuck.stream, 0);
    uint64_t writes = op_splice(&flow.pump, idle.stream, sink, 0);
    pump_turn_nb(&flow.pump);
    peer_send_pattern(&flow.pump, idle.fd, 1, 0, 1000);
    for (int i = 0; i < 10; i++)
        pump_turn(&flow.pump, 1000000);
    uint64_t ends[] = {op_close(&flow.pump, source, 0), op_close(&flow.pump, sink, 0)};
    quoit_event event = op_must(&flow.pump, reads, -ECANCELED);
    CHECK(event.value <= event.offset && event.offset < 16 * MIB);
    event = op_must(&flow.pump, writes, -ECANCELED);
    CHECK(event.value <= event.offset && event.offset <= 1000);
    op_must(&flow.pump, ends[0], 0);
    op_must(&flow.pump, ends[1], 0);
    link_close(&flow.pump, &stuck);
    link_close(&flow.pump, &idle);
    flow_close(&flow);
}

/* The destination's peer goes away: the splice and those behind it fail, and the source lives. */
static void destination_fails(void) {
    struct flow flow;
    flow_open(&flow, 0);
    fill_up(&flow);
    peer_reset(flow.to.fd);
    quoit_event event = op_finish(&flow.pump, flow.id);
    CHECK(event.result == -ECONNRESET || event.result == -EPIPE);
    CHECK(event.value <= event.offset && event.offset <= flow.sent);
    rest_is_there(&flow, event.offset);
    quoit_event after = op_finish(&flow.pump, op_send(&flow.pump, flow.to.stream, "x", 1, 0));
    CHECK(after.result == -ECONNRESET || after.result == -EPIPE);
    quoit_handle file = adopt(&flow.pump, file_of_pattern(1000));
    after = op_finish(&flow.pump, op_splice(&flow.pump, file, flow.to.stream, 0));
    CHECK(after.result == -ECONNRESET || after.result == -EPIPE);
    CHECK_EQ(after.value, 0);
    op_must(&flow.pump, op_close(&flow.pump, flow.to.stream, QUOIT_OPF_ABORT), 0);
    link_close(&flow.pump, &flow.from);
    pump_close(&flow.pump);
}

/* The source's peer resets: what had come before is lost in the source, nothing that was taken is. */
static void source_fails(void) {
    struct flow flow;
    flow_open(&flow, 0);
    peer_send_pattern(&flow.pump, flow.from.fd, 1, 0, 1000);
    peer_recv_pattern(&flow.pump, flow.to.fd, 1, 0, 1000);
    peer_reset(flow.from.fd);
    quoit_event event = op_must(&flow.pump, flow.id, -ECONNRESET);
    CHECK_EQ(event.value, 1000);
    CHECK_EQ(event.offset, 1000);
    op_must(&flow.pump, op_send(&flow.pump, flow.to.stream, "x", 1, 0), 1);
    op_must(&flow.pump, op_close(&flow.pump, flow.from.stream, QUOIT_OPF_ABORT), 0);
    link_close(&flow.pump, &flow.to);
    pump_close(&flow.pump);
}

/* A file that cannot be written to. */
static void file_fails(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    quoit_handle from = adopt(&pump, file_of_pattern(1000));
    quoit_op *op = op_new(&pump, QUOIT_OP_OPEN, 0);
    op->addr = (uintptr_t) "/dev/null";
    op->len = 9;
    op->arg = QUOIT_OPEN_READ;
    quoit_handle to = op_must(&pump, op->user_data, 0).value;
    quoit_event event = op_must(&pump, op_splice(&pump, from, to, 0), -EBADF);
    CHECK_EQ(event.value, 0);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"cancelled_on_the_way", cancelled_on_the_way},
    {"late_on_the_way", late_on_the_way},
    {"ended_while_it_waits", ended_while_it_waits},
    {"cancelled_before_and_after", cancelled_before_and_after},
    {"source_closes", source_closes},
    {"destination_closes", destination_closes},
    {"cut_on_the_way", cut_on_the_way},
    {"destroyed_on_the_way", destroyed_on_the_way},
    {"files_close_on_the_way", files_close_on_the_way},
    {"destination_fails", destination_fails},
    {"source_fails", source_fails},
    {"file_fails", file_fails},
};
TEST_GROUP(splice_ends, cases);
