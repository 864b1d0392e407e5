/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* timeouts.c: timeout_ns on each kind of op: it ends with -ETIMEDOUT, not early, and nothing is lost. */
#define _GNU_SOURCE
#include "calls.h"
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON 30000000u

/* Gives the op that was put into the array last a time limit. */
static uint64_t limit(struct pump *pump, uint64_t id, uint64_t ns) {
    ((quoit_op *)(uintptr_t)pump->batch->ops)[pump->nops - 1].timeout_ns = ns;
    return id;
}

/* The op times out, and not before its time; times count from the batch's now_ns. */
static quoit_event must_time_out(struct pump *pump, uint64_t id) {
    uint64_t begun = pump->batch->now_ns;
    limit(pump, id, SOON);
    quoit_event event = op_must(pump, id, -ETIMEDOUT);
    CHECK(pump->batch->now_ns >= begun + SOON);
    CHECK_EQ(event.len, 0);
    return event;
}

static void recv_times_out(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open(&pump);
    for (size_t i = 0; i < 4; i++) {
        must_time_out(&pump, op_recv(&pump, link.stream, 0, 0));
        peer_send_pattern(&pump, link.fd, 1, i * 100, 100);
        op_must(&pump, limit(&pump, op_recv(&pump, link.stream, 0, 0), 10000000000u), 100);
    }
    CHECK_PATTERN(stream_of(&pump, link.stream)->data, 1, 0, 400);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* MULTI: the limit is on the op as a whole; its bytes till then are told. */
static void multi_recv_times_out(void) {
    struct pump pump;
    size_t sent = 0;
    pump_open(&pump, NULL);
    pump.collect = true;
    struct link link = link_open(&pump);
    struct stream *stream = stream_of(&pump, link.stream);
    for (int i = 0; i < 10; i++) {
        uint64_t recv = limit(&pump, op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0), 5000000);
        do {
            peer_send_pattern(&pump, link.fd, 1, sent, 100);
            sent += 100;
            pump_turn(&pump, 1000000);
        } while (!op_ended(&pump, recv));
        CHECK_EQ(op_record(&pump, recv)->last.result, -ETIMEDOUT);
    }
    while (stream->len < sent)
        op_finish(&pump, op_recv(&pump, link.stream, 0, 0));
    CHECK_PATTERN(stream->data, 1, 0, sent);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void accept_times_out(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    must_time_out(&pump, op_accept(&pump, listener, 0));
    must_time_out(&pump, op_accept(&pump, listener, QUOIT_OPF_MULTI));
    int fd = peer_connect(&addr);
    op_must(&pump, limit(&pump, op_accept(&pump, listener, 0), 10000000000u), 0);
    close(fd);
    pump_close(&pump);
}

static void send_times_out(void) {
    struct pump pump;
    enum { SIZE = 8 << 20 };
    static char data[SIZE];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, SIZE);
    uint64_t send = limit(&pump, op_send(&pump, link.stream, data, SIZE, QUOIT_OPF_BORROW), SOON);
    uint64_t behind = limit(&pump, op_send(&pump, link.stream, data, 1000, 0), SOON);
    quoit_event event = op_must(&pump, send, -ETIMEDOUT);
    CHECK(event.value > 0 && event.value < SIZE);
    CHECK_EQ(op_must(&pump, behind, -ETIMEDOUT).value, 0);
    /* What was told to have left is what arrives; the next send goes on from there. */
    uint64_t rest = op_send(&pump, link.stream, data + event.value, SIZE - event.value, QUOIT_OPF_BORROW);
    peer_recv_pattern(&pump, link.fd, 1, 0, SIZE);
    op_must(&pump, rest, (int64_t)(SIZE - event.value));
    link_close(&pump, &link);
    pump_close(&pump);
}

static void shutdown_times_out(void) {
    struct pump pump;
    static char data[8 << 20];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t send = op_send(&pump, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
    must_time_out(&pump, op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND));
    CHECK(!op_ended(&pump, send));
    static char sink[8 << 20];
    peer_recv(&pump, link.fd, sink, sizeof sink);
    op_must(&pump, send, sizeof data);
    op_must(&pump, op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND), 0);
    peer_expect_end(&pump, link.fd);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void connect_times_out(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    uint64_t dials[8];
    int late = 0;
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 0); /* a backlog of one */
    for (int i = 0; i < 8; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
        op->addr = (uintptr_t)&addr;
        op->len = sizeof addr;
        op->timeout_ns = SOON;
        dials[i] = op->user_data;
    }
    for (int i = 0; i < 8; i++) {
        quoit_event event = op_finish(&pump, dials[i]);
        CHECK(event.result == 0 || event.result == -ETIMEDOUT);
        late += event.result != 0;
    }
    CHECK(late >= 4);
    CHECK_EQ(stats_of(&pump).objects_live, 8 - late);
    close(listener);
    pump_close(&pump);
}

static void poll_times_out(void) {
    struct pump pump;
    int pipes[2];
    pump_open(&pump, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < 3; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_POLL, 0);
        op->offset = pipes[0];
        op->arg = QUOIT_POLL_IN;
        must_time_out(&pump, op->user_data);
    }
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
}

static void timer_times_out(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    must_time_out(&pump, op_timer(&pump, 3600000000000ull, 0, 0));
    op_must(&pump, limit(&pump, op_timer(&pump, 1000000, 0, 0), 10000000000u), 1);
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

/* One that waits in the queue is never begun; one that runs ends when it ends. */
static void offload_times_out(void) {
    struct pump pump;
    int pipes[2];
    quoit_runtime_options options = {.struct_size = sizeof options, .pool_threads = 1};
    quoit_runtime *runtime = runtime_open(&options);
    pump_open_in(&pump, runtime, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    uint64_t runs = limit(&pump, op_new_wait_for_byte(&pump, pipes[0])->user_data, 10 * SOON);
    pump_submit(&pump);
    PUMP_POLL(&pump, waits_begun() == 1);
    uint64_t waits = limit(&pump, op_new_wait_for_byte(&pump, pipes[0])->user_data, SOON);
    op_must(&pump, waits, -ETIMEDOUT);
    op_must(&pump, op_timer(&pump, 10 * SOON, 0, 0), 1); /* the running one is late now, too */
    CHECK(!op_ended(&pump, runs));
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    quoit_event event = op_finish(&pump, runs);
    CHECK(event.result == 0 ? event.value == 7 : event.result == -ETIMEDOUT);
    CHECK_EQ(waits_begun(), 1);
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

/* A pipe's read that waits: the bytes that come later are for the next one. */
static void pipe_read_times_out(void) {
    struct pump pump;
    char path[64];
    snprintf(path, sizeof path, "/tmp/quoit-test-%d.fifo", (int)getpid());
    pump_open(&pump, NULL);
    CHECK_EQ(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    quoit_op *op = op_new(&pump, QUOIT_OP_OPEN, 0);
    op->addr = (uintptr_t)path;
    op->len = (uint32_t)strlen(path);
    op->arg = QUOIT_OPEN_READ;
    quoit_handle file = op_must(&pump, op->user_data, 0).value;
    for (int i = 0; i < 3; i++) {
        op = op_new(&pump, QUOIT_OP_READ, file);
        op->offset = -1;
        op->len = 100;
        must_time_out(&pump, op->user_data);
        CHECK_EQ(write(fd, "hello", 5), 5);
        op = op_new(&pump, QUOIT_OP_READ, file);
        op->offset = -1;
        op->len = 100;
        quoit_event event = op_must(&pump, op->user_data, 5);
        CHECK(!memcmp(event_data(&pump, &event), "hello", 5));
    }
    close(fd);
    unlink(path);
    pump_close(&pump);
}

/* Far more limits than ever come due: they cost nothing once their op ended. */
static void limits_that_are_kept(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int i = 0; i < 500; i++) {
        uint64_t recv = limit(&pump, op_recv(&pump, link.stream, 0, 0), 3600000000000u + (uint64_t)i);
        peer_send(&pump, link.fd, "x", 1);
        op_must(&pump, recv, 1);
    }
    CHECK_EQ(pump_turn_nb(&pump), 0);
    CHECK_EQ(pump.batch->next_ns, -1); /* no deadline stands */
    op_must(&pump, limit(&pump, op_recv(&pump, link.stream, 0, 0), 1), -ETIMEDOUT);
    uint64_t never = limit(&pump, op_recv(&pump, link.stream, 0, 0), UINT64_MAX);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pump, 1000000), 0);
    CHECK(!op_ended(&pump, never));
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"recv_times_out", recv_times_out},
    {"multi_recv_times_out", multi_recv_times_out},
    {"accept_times_out", accept_times_out},
    {"send_times_out", send_times_out},
    {"shutdown_times_out", shutdown_times_out},
    {"connect_times_out", connect_times_out},
    {"poll_times_out", poll_times_out},
    {"timer_times_out", timer_times_out},
    {"offload_times_out", offload_times_out},
    {"pipe_read_times_out", pipe_read_times_out},
    {"limits_that_are_kept", limits_that_are_kept},
};
TEST_GROUP(timeouts, cases);
