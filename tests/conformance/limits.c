/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* limits.c: bounds of the process and of the options: they are told, and life goes on when there is room again. */
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
#include <sys/resource.h>
#include <unistd.h>

/* No more descriptors than are open now and these. */
static struct rlimit limit_files(int more) {
    struct rlimit before, now;
    int lowest = dup(0);
    CHECK(lowest >= 0);
    close(lowest);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    now.rlim_cur = (rlim_t)lowest + (rlim_t)more;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    return before;
}

/* A MULTI accept that meets EMFILE pauses; with each stream that closes it goes on. Nobody is turned away. */
static void accept_without_descriptors(void) {
    enum { PEERS = 30, ROOM = 5 };
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    int fds[PEERS];
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_connect(&addr);
    struct rlimit before = limit_files(ROOM);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI);
    PUMP_UNTIL(&pump, stats_of(&pump).accept_stalls > 0);
    CHECK(pump.nstreams <= ROOM && pump.nstreams > 0);
    CHECK(!op_ended(&pump, accept));
    /* It does not spin meanwhile. */
    quoit_stats from = stats_of(&pump);
    uint64_t until = test_now_ns() + 250000000;
    while (test_now_ns() < until)
        pump_turn(&pump, (int64_t)(until - test_now_ns()) + 1);
    CHECK(stats_of(&pump).system_calls - from.system_calls < 100);
    for (uint32_t closed = 0; pump.nstreams < PEERS; closed++) {
        uint32_t count = pump.nstreams;
        CHECK(closed < count);
        op_must(&pump, op_close(&pump, pump.streams[closed]->handle, QUOIT_OPF_ABORT), 0);
        PUMP_UNTIL(&pump, pump.nstreams > count);
    }
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    int late = peer_connect(&addr);
    PUMP_UNTIL(&pump, pump.nstreams == PEERS + 1);
    close(late);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    pump_close(&pump);
}

/* Room that comes from elsewhere, not from a stream's close, is found too. */
static void descriptors_come_back_unasked(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    int fd = peer_connect(&addr);
    struct rlimit before = limit_files(0);
    op_accept(&pump, listener, QUOIT_OPF_MULTI);
    PUMP_UNTIL(&pump, stats_of(&pump).accept_stalls > 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    PUMP_UNTIL(&pump, pump.nstreams == 1);
    close(fd);
    pump_close(&pump);
}

static void others_without_descriptors(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pump_turn_nb(&pump);
    struct rlimit before = limit_files(0);
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op_must(&pump, op->user_data, -EMFILE);
    op = op_new(&pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op_must(&pump, op->user_data, -EMFILE);
    op = op_new(&pump, QUOIT_OP_OPEN, 0);
    op->addr = (uintptr_t) "/dev/null";
    op->len = 9;
    op->arg = QUOIT_OPEN_READ;
    op_must(&pump, op->user_data, -EMFILE);
    op = op_new(&pump, QUOIT_OP_POLL, 0);
    op->offset = link.fd;
    op->arg = QUOIT_POLL_OUT;
    op_must(&pump, op->user_data, -EMFILE);
    quoit_worker *worker = NULL;
    quoit_runtime *runtime = NULL;
    CHECK_EQ(quoit_worker_create(pump.runtime, NULL, &worker), -EMFILE);
    quoit_runtime_options options = {.struct_size = sizeof options, .driver = test_settings.driver};
    quoit_status status = quoit_runtime_create(&options, &runtime);
    if (status == QUOIT_OK)
        CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK); /* it needed none */
    else
        CHECK_EQ(status, -EMFILE); /* never another driver than the one that would be had */
    op_must(&pump, op_send(&pump, link.stream, "x", 1, 0), 1);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void objects_are_bounded(void) {
    struct pump pump;
    quoit_worker_options options = {.objects_max = 10};
    quoit_addr addr = addr_v4(0);
    quoit_handle timers[10];
    pump_open(&pump, &options);
    for (int i = 0; i < 10; i++) {
        uint64_t timer = op_timer(&pump, 3600000000000ull, 0, QUOIT_OPF_ARMED);
        PUMP_UNTIL(&pump, op_record(&pump, timer)->events);
        timers[i] = op_record(&pump, timer)->last.value;
    }
    op_must(&pump, op_timer(&pump, 1, 0, 0), QUOIT_E_LIMIT);
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op_must(&pump, op->user_data, QUOIT_E_LIMIT);
    op_must(&pump, op_close(&pump, timers[3], 0), 0);
    op_must(&pump, op_timer(&pump, 1, 0, 0), 1);
    pump_close(&pump);
}

/* A full table holds accepted connections back, or refuses them; the listener lives and goes on. */
static void accept_beyond_the_objects(void) {
    struct pump pump;
    quoit_worker_options options = {.objects_max = 5};
    quoit_addr addr = addr_v4(0);
    int fds[12];
    pump_open(&pump, &options);
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI);
    for (int i = 0; i < 12; i++)
        fds[i] = peer_connect(&addr);
    PUMP_UNTIL(&pump, pump.nstreams == 4);
    for (int i = 0; i < 5; i++)
        pump_turn(&pump, 1000000);
    CHECK(!op_ended(&pump, accept));
    CHECK_EQ(pump.nstreams, 4);
    op_must(&pump, op_close(&pump, pump.streams[0]->handle, QUOIT_OPF_ABORT), 0);
    int late = peer_connect(&addr);
    PUMP_UNTIL(&pump, pump.nstreams >= 5);
    close(late);
    for (int i = 0; i < 12; i++)
        close(fds[i]);
    pump_close(&pump);
}

static void workers_of_a_process(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker_options options = {.struct_size = sizeof options,
                                    .events_max = 1,
                                    .scratch_len = 4096,
                                    .recv_arena = 16 << 20,
                                    .send_arena = 16 << 20,
                                    .recv_buffers = 1,
                                    .ring_entries = 4,
                                    .cq_entries = 8};
    static quoit_worker *workers[256];
    for (int i = 0; i < 255; i++) {
        quoit_status status = quoit_worker_create(runtime, &options, &workers[i]);
        if (status)
            FAIL("worker %d is not had: %s", i + 1, quoit_status_name(status));
    }
    CHECK_EQ(quoit_worker_create(runtime, &options, &workers[255]), QUOIT_E_LIMIT);
    CHECK_EQ(quoit_worker_destroy(workers[17]), QUOIT_OK);
    CHECK_EQ(quoit_worker_create(runtime, &options, &workers[17]), QUOIT_OK);
    for (int i = 0; i < 255; i++)
        CHECK_EQ(quoit_turn_nb(workers[i], 0), 0);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void runtimes_of_a_process(void) {
    static quoit_runtime *runtimes[65];
    quoit_runtime_options options = {
        .struct_size = sizeof options, .driver = test_settings.driver, .pool_threads = 1};
    for (int i = 0; i < 64; i++)
        CHECK_EQ(quoit_runtime_create(&options, &runtimes[i]), QUOIT_OK);
    CHECK_EQ(quoit_runtime_create(&options, &runtimes[64]), QUOIT_E_LIMIT);
    CHECK_EQ(quoit_runtime_destroy(runtimes[5]), QUOIT_OK);
    CHECK_EQ(quoit_runtime_create(&options, &runtimes[5]), QUOIT_OK);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(quoit_runtime_destroy(runtimes[i]), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(runtime_open(NULL)), QUOIT_OK);
}

/* The arenas are addresses first: under a limit on these they are smaller, and the worker works. */
static void little_address_space(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("sanitizers need more address space than the limit leaves");
#else
    struct pump pump;
    struct rlimit limit = {.rlim_cur = 512 << 20, .rlim_max = 512 << 20};
    quoit_addr addr = addr_v4(0);
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    pump_open(&pump, NULL);
    CHECK(pump.batch->recv_size < 512 << 20 && pump.batch->send_size < 512 << 20);
    serve_echo(&pump, &addr);
    int fd = peer_connect(&addr);
    for (uint64_t at = 0; at < 4 << 20; at += 65536) {
        peer_send_pattern(&pump, fd, 1, at, 65536);
        peer_recv_pattern(&pump, fd, 1, at, 65536);
    }
    close(fd);
    pump_close(&pump);
#endif
}

/* Many streams come and go: nothing is left of them. */
static void comings_and_goings(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    char byte = 'x';
    pump_open(&pump, NULL);
    serve_echo(&pump, &addr);
    for (int i = 0; i < 1500; i++) {
        int fd = peer_connect(&addr);
        if (i % 3) {
            peer_send(&pump, fd, &byte, 1);
            peer_recv(&pump, fd, &byte, 1);
        }
        i % 5 ? (void)close(fd) : peer_reset(fd);
    }
    PUMP_UNTIL(&pump, stats_of(&pump).objects_live == 1);
    quoit_stats stats = stats_of(&pump);
    CHECK_EQ(stats.buffers_free, stats.buffers_total);
    CHECK_EQ(stats.accepts, 1500);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"accept_without_descriptors", accept_without_descriptors},
    {"descriptors_come_back_unasked", descriptors_come_back_unasked},
    {"others_without_descriptors", others_without_descriptors},
    {"objects_are_bounded", objects_are_bounded},
    {"accept_beyond_the_objects", accept_beyond_the_objects},
    {"workers_of_a_process", workers_of_a_process},
    {"runtimes_of_a_process", runtimes_of_a_process},
    {"little_address_space", little_address_space},
    {"comings_and_goings", comings_and_goings},
};
TEST_GROUP(limits, cases);
