/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* regressions.c: faults that were found by trying to break the library, each with the least that shows it. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Events wait inside while the batch holds one and NOPs come first: what is done meanwhile is not told yet. */
static const quoit_worker_options one_event = {.events_max = 1, .ops_max = 64};

static void queue_nops(struct pump *pump, int count) {
    for (int i = 0; i < count; i++)
        op_simple(pump, QUOIT_OP_NOP, 0);
}

static uint64_t open_null(struct pump *pump) {
    quoit_op *op = op_new(pump, QUOIT_OP_OPEN, 0);
    op->addr = (uint64_t)(uintptr_t) "/dev/null";
    op->len = 9;
    op->arg = QUOIT_OPEN_READ | QUOIT_OPEN_WRITE;
    return op->user_data;
}

/* The kernel had connected or opened before the stop: its handle came when every object was closed already. */
static void stop_when_connect_has_won(void) {
    struct pump pump;
    char name[64];
    snprintf(name, sizeof name, "@quoit-regression-%d", (int)getpid());
    quoit_addr addr = addr_unix(name);
    pump_open(&pump, &one_event);
    int listener = peer_listen(&addr, 8);
    queue_nops(&pump, 8);
    quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uint64_t)(uintptr_t)&addr;
    op->len = sizeof addr;
    pump_turn_nb(&pump);
    CHECK_EQ(quoit_stop(pump.handle), 0);
    pump_close(&pump);
    close(listener);
}

static void stop_when_open_has_won(void) {
    struct pump pump;
    pump_open(&pump, &one_event);
    queue_nops(&pump, 40);
    open_null(&pump);
    for (int i = 0; i < 20; i++)
        pump_turn(&pump, 1000000);
    CHECK_EQ(quoit_stop(pump.handle), 0);
    pump_close(&pump);
}

struct closing {
    struct pump pump;
    int number; /* of the file's descriptor */
};

static void *close_untold(void *arg) {
    struct closing *c = arg;
    c->number = dup(0);
    close(c->number);
    quoit_event opened = op_must(&c->pump, open_null(&c->pump), 0);
    queue_nops(&c->pump, 8);
    op_close(&c->pump, opened.value, 0);
    pump_turn_nb(&c->pump);
    return NULL;
}

/* The number was free for others from the kernel's close on: the worker's end must not close it once more. */
static void destroy_when_closed_untold(void) {
    struct closing c;
    pump_open(&c.pump, &one_event);
    thread_join(thread_start(close_untold, &c));
    int others = dup(0);
    CHECK_EQ(others, c.number);
    pump_abandon(&c.pump);
    CHECK(fcntl(others, F_GETFD) >= 0);
    close(others);
}

static void *close_unsent(void *arg) {
    struct closing *c = arg;
    quoit_event opened = op_must(&c->pump, open_null(&c->pump), 0);
    op_close(&c->pump, opened.value, 0);
    pump_submit(&c->pump);
    return NULL;
}

/* A close that the kernel was not told of yet; the runner counts the descriptors. */
static void destroy_when_close_was_not_submitted(void) {
    struct closing c;
    pump_open(&c.pump, &one_event);
    thread_join(thread_start(close_unsent, &c));
    pump_abandon(&c.pump);
}

static void *turn_once(void *arg) {
    struct pump *pump = arg;
    op_must(pump, op_simple(pump, QUOIT_OP_NOP, 0), 0);
    return (void *)pthread_self();
}

struct successor {
    struct pump *pump;
    pthread_t before;
};

static void *succeed(void *arg) {
    struct successor *s = arg;
    CHECK_EQ(quoit_turn_nb(s->pump->worker, 0), QUOIT_E_THREAD);
    return (void *)(uintptr_t)pthread_equal(s->before, pthread_self());
}

/* A new thread may get the pthread_t of the one that ended: it is not the owner for that. */
static void thread_with_the_name_of_the_owner(void) {
    int same = 0;
    for (int i = 0; i < 20; i++) {
        struct pump pump;
        pump_open(&pump, NULL);
        struct successor s = {.pump = &pump};
        s.before = (pthread_t)thread_join(thread_start(turn_once, &pump));
        same += thread_join(thread_start(succeed, &s)) != NULL;
        pump_abandon(&pump);
    }
    if (same == 0)
        test_skip("no thread got the pthread_t of another");
}

static quoit_status ignore_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    (void)ctx, (void)worker, (void)batch;
    return 0;
}

static void *destroy_worker(void *arg) {
    struct pump *pump = arg;
    quoit_status status = quoit_worker_destroy(pump->worker);
    CHECK(status == 0 || status == QUOIT_E_BUSY || status == QUOIT_E_CLOSED);
    return (void *)(uintptr_t)(status == 0);
}

/* Of a start and two destroys at one time, one has its way. */
static void start_against_destroy(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker_options options = {.ring_entries = 8, .cq_entries = 16, .recv_buffers = 8};
    options.struct_size = sizeof options;
    for (int i = 0; i < (test_is_slow() ? 200 : 1000); i++) {
        struct pump pump = {0};
        CHECK_EQ(quoit_worker_create(runtime, &options, &pump.worker), 0);
        pthread_t one = thread_start(destroy_worker, &pump);
        pthread_t two = thread_start(destroy_worker, &pump);
        quoit_status started = quoit_worker_start(pump.worker, ignore_batch, NULL);
        int destroyed = (thread_join(one) != NULL) + (thread_join(two) != NULL);
        CHECK_EQ(destroyed, started == 0 ? 0 : 1);
        if (started != 0)
            continue;
        CHECK_EQ(quoit_stop(quoit_worker_handle(pump.worker)), 0);
        CHECK_EQ(quoit_worker_join(pump.worker), 0);
        CHECK_EQ(quoit_worker_destroy(pump.worker), 0);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), 0);
}

static void empty_send_without_a_region(void) {
    struct pump pump;
    static char data[4096];
    quoit_worker_options options = {.scratch_len = 1 << 16, .send_arena = 1 << 16};
    pump_open(&pump, &options);
    struct link slow = link_open(&pump), idle = link_open(&pump);
    while (pump.batch->scratch_len != 0) {
        pump_check_time(&pump, "a region that stays pinned", __FILE__, __LINE__);
        quoit_op *op = op_new(&pump, QUOIT_OP_SEND, slow.stream);
        op->flags = QUOIT_OPF_ARENA_SEND;
        op->addr = pump.batch->scratch_off;
        op->len = 1 << 16;
        pump_turn_nb(&pump);
    }
    quoit_op *op = op_new(&pump, QUOIT_OP_SEND, idle.stream);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->addr = pump.batch->scratch_off;
    op_must(&pump, op->user_data, 0);
    op_must(&pump, op_send(&pump, idle.stream, data, sizeof data, 0), sizeof data);
    link_close(&pump, &slow);
    link_close(&pump, &idle);
    pump_close(&pump);
}

/* A turn that does not wait ends though each of its rounds leaves work for the next. */
static void input_after_close_is_read_in_parts(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    size_t queued = peer_fill(link.fd, 1);
    uint64_t closed = op_close(&pump, link.stream, 0);
    CHECK(queued > 1 << 20);
    CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
    while (!op_ended(&pump, closed)) {
        uint64_t before = stats_of(&pump).system_calls;
        pump_check_time(&pump, "the close", __FILE__, __LINE__);
        pump_turn_nb(&pump);
        uint64_t calls = stats_of(&pump).system_calls - before;
        if (calls > 60)
            FAIL("a turn that does not wait made %llu system calls", (unsigned long long)calls);
    }
    close(link.fd);
    op_must(&pump, closed, 0);
    pump_close(&pump);
}

static void strange_arg_of_sendv(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    quoit_op *op = op_new(&pump, QUOIT_OP_SENDV, link.stream);
    op->flags = QUOIT_OPF_IOV;
    op->arg = QUOIT_SEND_CORK | 0x80;
    CHECK_EQ(op_must(&pump, op->user_data, QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* A connect that waits for room in a Unix listener is cancelled by a signal: that was told as -EINTR. */
static void cut_a_connect_that_waits(void) {
    struct pump pump;
    char name[64];
    snprintf(name, sizeof name, "@quoit-regression-%d", (int)getpid());
    quoit_addr addr = addr_unix(name);
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 0), filler = peer_connect(&addr);
    for (int i = 0; i < 40; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
        op->addr = (uint64_t)(uintptr_t)&addr;
        op->len = sizeof addr;
        op->timeout_ns = i % 2 ? 2000000 : 0;
        uint64_t connect = op->user_data;
        if (i % 2) {
            op_must(&pump, connect, -ETIMEDOUT);
            continue;
        }
        for (int turns = i % 5; turns; turns--)
            pump_turn(&pump, 1000000);
        op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_CONNECT, connect), 1);
        op_must(&pump, connect, -ECANCELED);
    }
    close(filler);
    close(listener);
    pump_close(&pump);
}

/* Sends that went to the kernel behind another in one message waited for the peer, whatever was asked of them. */
static void cut_a_send_in_the_middle_of_a_message(void) {
    struct pump pump;
    static uint8_t big[24 << 20]; /* more than the kernel takes */
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t first = op_send(&pump, link.stream, big, sizeof big, QUOIT_OPF_BORROW);
    uint64_t late = op_send(&pump, link.stream, "late", 4, 0);
    ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns = 20000000;
    uint64_t second = op_send(&pump, link.stream, "second", 6, 0);
    uint64_t third = op_send(&pump, link.stream, "third", 5, 0);
    for (int i = 0; i < 5; i++)
        pump_turn(&pump, 1000000);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND, second), 1);
    op_must(&pump, second, -ECANCELED);
    op_must(&pump, late, -ETIMEDOUT);
    CHECK(!op_ended(&pump, first) && !op_ended(&pump, third));
    uint8_t *got = malloc(sizeof big);
    CHECK(got != NULL);
    peer_recv(&pump, link.fd, got, sizeof big);
    peer_recv(&pump, link.fd, got, 5);
    CHECK(memcmp(got, "third", 5) == 0);
    op_must(&pump, first, sizeof big);
    op_must(&pump, third, 5);
    free(got);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* The peer's last bytes and its end come in one wake: io_uring's multishot receive forgot the end. */
static void end_right_behind_bytes(void) {
    struct pump pump;
    pump_open(&pump, &(quoit_worker_options){.recv_buffers = 256, .recv_buffer_size = 64});
    for (int i = 0; i < 60; i++) {
        char name[64];
        snprintf(name, sizeof name, "@quoit-regression-%d-%d", (int)getpid(), i);
        quoit_addr addr = i % 2 ? addr_v4(0) : addr_unix(name);
        quoit_handle listener = listen_on(&pump, &addr);
        int fd = peer_connect(&addr);
        quoit_handle stream = op_must(&pump, op_accept(&pump, listener, 0), 0).value;
        uint64_t recv = op_recv(&pump, stream, QUOIT_OPF_MULTI, 0);
        if (i % 3)
            pump_turn_nb(&pump);
        peer_send_pattern(&pump, fd, 1, 0, 1 + (size_t)i * 150);
        if (i % 4 == 1)
            peer_reset(fd);
        else
            close(fd);
        quoit_event event = op_finish(&pump, recv);
        CHECK(event.result == -ECONNRESET || event.flags & QUOIT_EVF_EOF);
        op_must(&pump, op_close(&pump, stream, 0), 0);
        op_must(&pump, op_close(&pump, listener, 0), 0);
    }
    pump_close(&pump);
}

/* A stream that owed too much received no more; when that was cancelled instead of sent, it stayed so. */
static void receive_when_what_was_owed_is_cancelled(void) {
    struct pump pump;
    static uint8_t big[24 << 20];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t first = op_send(&pump, link.stream, big, sizeof big, QUOIT_OPF_BORROW);
    pump_turn(&pump, 1000000);
    uint64_t second = op_send(&pump, link.stream, big, sizeof big, QUOIT_OPF_BORROW);
    pump_turn(&pump, 1000000);
    uint8_t *got = malloc(1 << 20);
    CHECK(got != NULL);
    while (!op_ended(&pump, first)) { /* the second is still to be sent when the first has told its end */
        while (recv(link.fd, got, 1 << 20, MSG_DONTWAIT) > 0)
            ;
        pump_check_time(&pump, "the first send", __FILE__, __LINE__);
        pump_turn(&pump, 1000000);
    }
    free(got);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND, second), 1);
    op_must(&pump, second, -ECANCELED);
    uint64_t receive = op_recv(&pump, link.stream, 0, 0);
    peer_send(&pump, link.fd, "hello", 5);
    op_must(&pump, receive, 5);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void nop_again(struct pump *pump, const quoit_event *event) {
    if (event->kind == QUOIT_OP_NOP)
        op_new(pump, QUOIT_OP_NOP, 0);
}

/* Ops that end at once, each answered with another, filled every batch: what the kernel had done was never told. */
static void ops_that_end_at_once_starve_nobody(void) {
    quoit_worker_options options = {.events_max = 2};
    struct pump pump;
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    uint64_t receive = op_recv(&pump, link.stream, 0, 0);
    pump.on_event = nop_again;
    for (int i = 0; i < 5; i++)
        op_new(&pump, QUOIT_OP_NOP, 0);
    peer_send(&pump, link.fd, "hello", 5);
    for (int i = 0; i < 10000 && !op_ended(&pump, receive); i++)
        pump_turn_nb(&pump);
    CHECK(op_ended(&pump, receive));
    op_must(&pump, receive, 5);
    pump.on_event = NULL;
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"ops_that_end_at_once_starve_nobody", ops_that_end_at_once_starve_nobody},
    {"stop_when_connect_has_won", stop_when_connect_has_won},
    {"stop_when_open_has_won", stop_when_open_has_won},
    {"destroy_when_closed_untold", destroy_when_closed_untold},
    {"destroy_when_close_was_not_submitted", destroy_when_close_was_not_submitted},
    {"thread_with_the_name_of_the_owner", thread_with_the_name_of_the_owner},
    {"start_against_destroy", start_against_destroy},
    {"empty_send_without_a_region", empty_send_without_a_region},
    {"input_after_close_is_read_in_parts", input_after_close_is_read_in_parts},
    {"strange_arg_of_sendv", strange_arg_of_sendv},
    {"receive_when_what_was_owed_is_cancelled", receive_when_what_was_owed_is_cancelled},
    {"end_right_behind_bytes", end_right_behind_bytes},
    {"cut_a_connect_that_waits", cut_a_connect_that_waits},
    {"cut_a_send_in_the_middle_of_a_message", cut_a_send_in_the_middle_of_a_message},
};

TEST_GROUP(regressions, cases);
