/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fd.c: the worker's descriptor in a foreign loop: level- and edge-triggered, with one event per batch. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A host: it knows of the worker only by its descriptor, and sleeps in an epoll of its own. */
struct host {
    struct pump *pump;
    int epoll;
    uint64_t sleeps;
};

static void host_open(struct host *host, struct pump *pump, uint32_t how) {
    int fd = quoit_worker_fd(pump->worker);
    struct epoll_event event = {.events = EPOLLIN | how};
    CHECK(fd >= 0);
    *host = (struct host){.pump = pump, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    CHECK_EQ(epoll_ctl(host->epoll, EPOLL_CTL_ADD, fd, &event), 0);
}

static bool readable(struct pump *pump) {
    struct pollfd item = {.fd = quoit_worker_fd(pump->worker), .events = POLLIN};
    return poll(&item, 1, 0) == 1;
}

/* A turn that never blocks; true when the host may sleep now. */
static bool host_turn(struct host *host, const char *what) {
    pump_check_time(host->pump, what, __FILE__, __LINE__);
    return pump_turn_nb(host->pump) == 0 && !(host->pump->batch->flags & QUOIT_BATCH_LEFT);
}

/* Sleeps until the descriptor wakes it. After a second without a wake there must be nothing to do. */
static void host_sleep(struct host *host, const char *what) {
    struct epoll_event event;
    host->sleeps++;
    if (epoll_wait(host->epoll, &event, 1, 1000) == 0 && !readable(host->pump) &&
        pump_turn_nb(host->pump) > 0)
        FAIL("the host slept for a second over an event, waiting for %s", what);
}

#define HOST_UNTIL(host, condition)                                                                          \
    while (!(condition))                                                                                     \
        if (host_turn(host, #condition) && !(condition))                                                     \
    host_sleep(host, #condition)

static void host_close(struct host *host) {
    close(host->epoll);
    pump_close(host->pump);
}

static void flags_of_the_descriptor(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    int fd = quoit_worker_fd(pump.worker); /* there before the first turn */
    CHECK(fd >= 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    pump_turn_nb(&pump);
    CHECK_EQ(quoit_worker_fd(pump.worker), fd); /* and always the same */
    pump_close(&pump);
}

/* Quiet when there is nothing to do, so that a level-triggered host sleeps. */
static void silent_when_idle(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    quoit_worker_fd(pump.worker);
    struct link link = link_open(&pump);
    uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    for (int i = 0; i < 20; i++) {
        while (pump_turn_nb(&pump) > 0 || pump.batch->flags & QUOIT_BATCH_LEFT)
            ;
        /* One more turn may take a wake that was on its way. */
        if (readable(&pump))
            pump_turn_nb(&pump);
        CHECK(!readable(&pump));
        peer_send(NULL, link.fd, "x", 1);
        struct pollfd item = {.fd = quoit_worker_fd(pump.worker), .events = POLLIN};
        CHECK_EQ(poll(&item, 1, 5000), 1);
        while (op_record(&pump, recv)->events == (uint32_t)i)
            pump_turn_nb(&pump);
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

enum { PEERS = 20, ROUNDS = 30, PART = 3000 };

/* Peers on a thread of their own, so that the host sleeps between their bytes. */
static void *talk(void *arg) {
    int fds[PEERS];
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_connect(arg);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PEERS; i++)
            peer_send_pattern(NULL, fds[i], (uint64_t)i, round * PART, PART);
        for (int i = 0; i < PEERS; i++)
            peer_recv_pattern(NULL, fds[i], (uint64_t)i, round * PART, PART);
    }
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    return NULL;
}

static void echo_in_a_host(uint32_t how, const quoit_worker_options *options) {
    struct pump pump;
    struct host host;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, options);
    host_open(&host, &pump, how);
    serve_echo(&pump, &addr);
    pthread_t thread = thread_start(talk, &addr);
    HOST_UNTIL(&host, pump.nstreams == PEERS && stats_of(&pump).objects_live == 1);
    thread_join(thread);
    CHECK(host.sleeps > 0);
    host_close(&host);
}

static void level_triggered(void) {
    echo_in_a_host(0, NULL);
}

static void edge_triggered(void) {
    echo_in_a_host(EPOLLET, NULL);
}

static const quoit_worker_options one_event = {.events_max = 1, .ops_max = 4};

static void level_triggered_one_event(void) {
    echo_in_a_host(0, &one_event);
}

static void edge_triggered_one_event(void) {
    echo_in_a_host(EPOLLET, &one_event);
}

static void edge_triggered_few_buffers(void) {
    quoit_worker_options options = {.events_max = 1, .ops_max = 4, .recv_buffers = 2};
    echo_in_a_host(EPOLLET, &options);
}

/* The descriptor wakes for deadlines too: the host need not look at next_ns. */
static void timers_wake_the_host(void) {
    struct pump pump;
    struct host host;
    pump_open(&pump, &one_event);
    host_open(&host, &pump, EPOLLET);
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t timers[3];
        for (uint64_t k = 0; k < 3; k++)
            timers[k] = op_timer(&pump, (i * 7 + k) % 4 * 1000000, 0, 0);
        for (int k = 0; k < 3; k++)
            HOST_UNTIL(&host, op_ended(&pump, timers[k]));
    }
    struct link link = link_open(&pump);
    quoit_op *op = op_new(&pump, QUOIT_OP_RECV, link.stream);
    op->timeout_ns = 20000000;
    uint64_t recv = op->user_data;
    HOST_UNTIL(&host, op_ended(&pump, recv));
    CHECK_EQ(op_record(&pump, recv)->last.result, -ETIMEDOUT);
    link_close(&pump, &link);
    host_close(&host);
}

struct poster {
    quoit_handle worker;
    uint64_t base;
    uint32_t count;
    atomic_uint *told; /* how many the worker has told */
};

/* Each post is made when the one before it was told: the worker sleeps most times. */
static void *post_in_step(void *arg) {
    struct poster *poster = arg;
    for (uint32_t i = 0; i < poster->count; i++) {
        quoit_op op = {.opcode = QUOIT_OP_NOP, .user_data = poster->base + i};
        CHECK_EQ(quoit_post(poster->worker, &op, 1), 1);
        while (atomic_load(poster->told) <= i)
            CHECK(test_now_ns() < test_deadline_ns());
    }
    return NULL;
}

static atomic_uint posts_told;

static void count_nops(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind == QUOIT_OP_NOP)
        atomic_fetch_add(&posts_told, 1);
}

static void posts_wake_the_host(void) {
    struct pump pump;
    struct host host;
    struct poster poster = {.count = test_is_slow() ? 500 : 2000, .told = &posts_told};
    pump_open(&pump, &one_event);
    host_open(&host, &pump, EPOLLET);
    pump.on_event = count_nops;
    poster.worker = pump.handle;
    for (uint32_t i = 0; i < poster.count; i++) {
        uint64_t id = op_expect(&pump, QUOIT_OP_NOP, 0, 0);
        poster.base = i ? poster.base : id;
    }
    pthread_t thread = thread_start(post_in_step, &poster);
    HOST_UNTIL(&host, atomic_load(&posts_told) == poster.count);
    thread_join(thread);
    host_close(&host);
}

static void stop_wakes_the_host(void) {
    struct pump pump;
    struct host host;
    pump_open(&pump, &one_event);
    host_open(&host, &pump, EPOLLET);
    struct link link = link_open(&pump);
    uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    op_timer(&pump, 3600000000000ull, 0, 0);
    for (int i = 0; i < 5; i++)
        pump_turn_nb(&pump);
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
    HOST_UNTIL(&host, pump.batch->flags & QUOIT_BATCH_DRAINED);
    CHECK_EQ(op_record(&pump, recv)->last.result, -ECANCELED);
    close(host.epoll);
    pump_check_ended(&pump);
    pump_abandon(&pump);
    close(link.fd);
}

struct stopper {
    quoit_handle worker;
    int delay;
};

/* The posts keep the host turning; the stop comes somewhere in a turn. */
static void *post_and_stop(void *arg) {
    const struct stopper *stopper = arg;
    quoit_op nop = {.opcode = QUOIT_OP_NOP};
    for (int posts = 0; posts < 100; posts++) {
        CHECK_EQ(quoit_post(stopper->worker, &nop, 1), 1);
        for (volatile int i = 0; i < stopper->delay; i++)
            ;
    }
    CHECK_EQ(quoit_stop(stopper->worker), QUOIT_OK);
    return NULL;
}

/* Also one that comes when the turn has looked for it and does not sleep yet. */
static void stop_in_mid_turn_wakes_the_host(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker_options options = {
        .struct_size = sizeof options, .ring_entries = 8, .cq_entries = 16, .recv_buffers = 8};
    for (int i = 0; i < (test_is_slow() ? 300 : 1500); i++) {
        quoit_worker *worker;
        CHECK_EQ(quoit_worker_create(runtime, &options, &worker), QUOIT_OK);
        struct stopper stopper = {.worker = quoit_worker_handle(worker), .delay = i * 7 % 2000};
        struct pollfd item = {.fd = quoit_worker_fd(worker), .events = POLLIN};
        CHECK(quoit_turn_nb(worker, 0) >= 0);
        pthread_t thread = thread_start(post_and_stop, &stopper);
        do {
            if (poll(&item, 1, 5000) != 1)
                FAIL("the host slept for five seconds over a stop (round %d)", i);
            CHECK(quoit_turn_nb(worker, 0) >= 0);
        } while (!(quoit_worker_batch(worker)->flags & QUOIT_BATCH_DRAINED));
        thread_join(thread);
        CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

/* What is left for the next turn shows on the descriptor, also when nothing new comes. */
static void left_events_keep_it_readable(void) {
    struct pump pump;
    struct host host;
    pump_open(&pump, &one_event);
    host_open(&host, &pump, 0);
    for (int i = 0; i < 4; i++)
        op_simple(&pump, QUOIT_OP_NOP, 0);
    for (int left = 3; left >= 0; left--) {
        CHECK_EQ(pump_turn_nb(&pump), 1);
        CHECK_EQ(pump.batch->flags & QUOIT_BATCH_LEFT ? 1 : 0, left > 0);
        if (left)
            CHECK(readable(&pump));
    }
    host_close(&host);
}

/* Submits between turns: nothing may sleep over ops that were taken. */
static void submitted_ops_in_a_host(void) {
    struct pump pump;
    struct host host;
    pump_open(&pump, NULL);
    host_open(&host, &pump, EPOLLET);
    struct link link = link_open(&pump);
    for (int i = 0; i < 100; i++) {
        uint64_t recv = op_recv(&pump, link.stream, 0, 0);
        pump_submit(&pump);
        uint64_t send = op_send(&pump, link.stream, "ping", 4, 0);
        pump_submit(&pump);
        HOST_UNTIL(&host, op_ended(&pump, send));
        char text[4];
        peer_recv(NULL, link.fd, text, 4);
        peer_send(NULL, link.fd, text, 4);
        HOST_UNTIL(&host, op_ended(&pump, recv));
    }
    link_close(&pump, &link);
    host_close(&host);
}

static const struct test_case cases[] = {
    {"flags_of_the_descriptor", flags_of_the_descriptor},
    {"silent_when_idle", silent_when_idle},
    {"level_triggered", level_triggered},
    {"edge_triggered", edge_triggered},
    {"level_triggered_one_event", level_triggered_one_event},
    {"edge_triggered_one_event", edge_triggered_one_event},
    {"edge_triggered_few_buffers", edge_triggered_few_buffers},
    {"timers_wake_the_host", timers_wake_the_host},
    {"posts_wake_the_host", posts_wake_the_host},
    {"stop_wakes_the_host", stop_wakes_the_host},
    {"stop_in_mid_turn_wakes_the_host", stop_in_mid_turn_wakes_the_host},
    {"left_events_keep_it_readable", left_events_keep_it_readable},
    {"submitted_ops_in_a_host", submitted_ops_in_a_host},
};
TEST_GROUP(fd, cases);
