/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* lifecycle.c: runtimes and workers from create to destroy, and what their ends leave behind. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static void open_and_close(void) {
    for (int i = 0; i < 5; i++) {
        struct pump pump;
        pump_open(&pump, NULL);
        op_must(&pump, op_simple(&pump, QUOIT_OP_NOP, 0), 0);
        pump_close(&pump);
    }
}

static void worker_never_turned(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker *worker;
    CHECK_EQ(quoit_worker_create(runtime, NULL, &worker), QUOIT_OK);
    CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
    CHECK_EQ(quoit_worker_create(runtime, NULL, &worker), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK); /* takes the worker with it */
    CHECK_EQ(quoit_turn(worker, 0, 0), QUOIT_E_CLOSED);
}

static quoit_status never_called(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    (void)ctx, (void)worker, (void)batch;
    FAIL("a callback ran on a dead worker");
}

static void calls_after_destroy(void) {
    struct pump pump;
    quoit_addr addr;
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    quoit_worker *another;
    char text[64];
    pump_open(&pump, NULL);
    quoit_worker *worker = pump.worker;
    quoit_runtime *runtime = pump.runtime;
    quoit_handle handle = pump.handle;
    op_must(&pump, op_simple(&pump, QUOIT_OP_NOP, 0), 0);
    pump_close(&pump);
    CHECK_EQ(quoit_turn(worker, 0, 0), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_turn_nb(worker, 0), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_submit(worker, 0), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_run(worker, never_called, NULL), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_worker_start(worker, never_called, NULL), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_worker_join(worker), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_worker_fd(worker), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_worker_destroy(worker), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_peer_addr(worker, 0, &addr), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_local_addr(worker, 0, &addr), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_file_size(worker, 0), QUOIT_E_CLOSED);
    CHECK(quoit_worker_batch(worker) == NULL);
    CHECK_EQ(quoit_worker_handle(worker), 0);
    quoit_status posted = quoit_post(handle, &op, 1), stopped = quoit_stop(handle);
    CHECK(posted == QUOIT_E_STALE || posted == QUOIT_E_CLOSED);
    CHECK_EQ(stopped, QUOIT_E_STALE);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_runtime_driver(runtime), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_runtime_driver_reason(runtime, text, sizeof text), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_worker_create(runtime, NULL, &another), QUOIT_E_CLOSED);
}

static void null_arguments(void) {
    struct pump pump;
    quoit_addr addr;
    uint64_t address;
    pump_open(&pump, NULL);
    CHECK_EQ(quoit_turn(NULL, 0, 0), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_turn_nb(NULL, 0), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_submit(NULL, 0), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_run(NULL, never_called, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_run(pump.worker, NULL, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_worker_start(NULL, never_called, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_worker_start(pump.worker, NULL, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_worker_join(NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_worker_fd(NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_worker_destroy(NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_runtime_destroy(NULL), QUOIT_E_ARGUMENT);
    CHECK(quoit_worker_batch(NULL) == NULL);
    CHECK_EQ(quoit_worker_handle(NULL), 0);
    CHECK_EQ(quoit_peer_addr(pump.worker, pump.handle, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_peer_addr(NULL, pump.handle, &addr), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_local_addr(pump.worker, pump.handle, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_file_size(NULL, 0), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_post(pump.handle, NULL, 1), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_stats_read(pump.handle, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_stats_text(pump.handle, NULL, 10), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_symbol(NULL, NULL, &address), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_symbol(NULL, "strlen", NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_turn(pump.worker, 0, -2), QUOIT_E_ARGUMENT);
    pump_close(&pump);
}

static void too_many_ops(void) {
    struct pump pump;
    quoit_worker_options options = {.ops_max = 8, .events_max = 8};
    pump_open(&pump, &options);
    for (int i = 0; i < 8; i++)
        op_simple(&pump, QUOIT_OP_NOP, 0);
    CHECK_EQ(quoit_turn(pump.worker, 9, 0), QUOIT_E_TOO_MANY);
    CHECK_EQ(quoit_turn_nb(pump.worker, UINT32_MAX), QUOIT_E_TOO_MANY);
    CHECK_EQ(quoit_submit(pump.worker, 9), QUOIT_E_TOO_MANY);
    CHECK_EQ(stats_of(&pump).ops, 0); /* none was taken */
    CHECK_EQ(pump_turn(&pump, -1), 8);
    pump_close(&pump);
}

static void worker_handles_are_unique(void) {
    struct pump pumps[6];
    for (int i = 0; i < 6; i += 2) {
        pump_open(&pumps[i], NULL);
        pump_open_in(&pumps[i + 1], pumps[i].runtime, NULL);
    }
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) {
            CHECK(pumps[i].handle != pumps[k].handle);
            CHECK((pumps[i].handle >> 48 & 0xFF) != (pumps[k].handle >> 48 & 0xFF));
        }
    for (int i = 5; i >= 0; i--)
        pump_close(&pumps[i]);
}

/* A worker number used again must not make an old handle true. */
static void old_worker_handle(void) {
    struct pump pump;
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    pump_open(&pump, NULL);
    quoit_handle old = pump.handle;
    pump_close(&pump);
    for (int i = 0; i < 300; i++) { /* more than there are worker numbers */
        quoit_worker_options options = {
            .struct_size = sizeof options, .recv_buffers = 1, .ring_entries = 8, .cq_entries = 16};
        quoit_runtime *runtime = i % 100 ? pump.runtime : runtime_open(NULL);
        quoit_worker *worker;
        pump.runtime = runtime;
        CHECK_EQ(quoit_worker_create(runtime, &options, &worker), QUOIT_OK);
        CHECK(quoit_worker_handle(worker) != old);
        CHECK(quoit_post(old, &op, 1) < 0);
        CHECK_EQ(quoit_turn_nb(worker, 0), 0);
        CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
        if (i % 100 == 99)
            CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
    }
}

/* Everything in flight is let go of; peers see the end. */
static void destroy_with_ops_in_flight(void) {
    for (int round = 0; round < 3; round++) {
        struct pump pump;
        int pipes[2];
        static char payload[1 << 20];
        pump_open(&pump, NULL);
        struct link quiet = link_open(&pump), busy = link_open(&pump);
        CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
        op_accept(&pump, pump.listener, QUOIT_OPF_MULTI);
        op_recv(&pump, quiet.stream, QUOIT_OPF_MULTI, 0);
        op_send(&pump, busy.stream, payload, sizeof payload, 0);
        op_timer(&pump, 3600000000000ull, 0, 0);
        quoit_op *poll = op_new(&pump, QUOIT_OP_POLL, 0);
        poll->offset = pipes[0];
        poll->arg = QUOIT_POLL_IN;
        pump_turn_nb(&pump);
        if (round == 1)
            pump_turn_nb(&pump);
        if (round == 2)
            op_close(&pump, busy.stream, 0), pump_turn_nb(&pump);
        pump_abandon(&pump);
        peer_expect_end(NULL, quiet.fd);
        close(quiet.fd);
        close(busy.fd);
        close(pipes[0]);
        close(pipes[1]);
    }
}

static void stop_ends_each_op(void) {
    struct pump pump;
    int pipes[2];
    static char payload[8 << 20];
    quoit_worker_options options = {.send_limit = 16 << 20};
    pump_open(&pump, &options);
    struct link quiet = link_open(&pump), busy = link_open(&pump);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    uint64_t ids[6], n = 0;
    ids[n++] = op_accept(&pump, pump.listener, QUOIT_OPF_MULTI);
    ids[n++] = op_recv(&pump, quiet.stream, QUOIT_OPF_MULTI, 0);
    ids[n++] = op_send(&pump, busy.stream, payload, sizeof payload, 0);
    ids[n++] = op_timer(&pump, 3600000000000ull, 0, 0);
    ids[n++] = op_timer(&pump, 3600000000000ull, 3600000000000ull, 0);
    quoit_op *poll = op_new(&pump, QUOIT_OP_POLL, 0);
    poll->offset = pipes[0];
    poll->arg = QUOIT_POLL_IN;
    ids[n++] = poll->user_data;
    pump_turn_nb(&pump);
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
    uint64_t late = op_timer(&pump, 1, 0, 0);
    pump_drain(&pump);
    for (uint64_t i = 0; i < n; i++)
        CHECK_EQ(op_record(&pump, ids[i])->last.result, -ECANCELED);
    CHECK_EQ(op_record(&pump, late)->last.result, QUOIT_E_CLOSING);
    CHECK(op_record(&pump, ids[2])->last.value < sizeof payload);
    pump_abandon(&pump);
    close(quiet.fd);
    close(busy.fd);
    close(pipes[0]);
    close(pipes[1]);
}

static void stop_an_idle_worker(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK); /* before its first turn */
    pump_close(&pump);
}

static void turn_waits_no_longer(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t begun = test_now_ns();
    CHECK_EQ(pump_turn(&pump, 0), 0);
    CHECK_EQ(pump_turn_nb(&pump), 0);
    while (test_now_ns() - begun < 60000000)
        CHECK_EQ(pump_turn(&pump, 20000000), 0);
    CHECK(test_now_ns() - begun < 5000000000ull);
    quoit_stats stats = stats_of(&pump);
    CHECK(stats.ticks < 1000); /* it did sleep */
    pump_close(&pump);
}

static volatile sig_atomic_t signals;

static void on_signal(int number) {
    (void)number;
    signals = signals + 1;
}

static void signal_interrupts_the_wait(void) {
    struct pump pump;
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval every = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    pump_open(&pump, NULL);
    pump_turn_nb(&pump);
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &every, NULL), 0);
    do {
        CHECK_EQ(pump_turn(&pump, -1), 0);
        CHECK(signals > 0);
    } while (!(pump.batch->flags & QUOIT_BATCH_INTERRUPTED));
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
    pump_turn_nb(&pump);
    CHECK(!(pump.batch->flags & QUOIT_BATCH_INTERRUPTED)); /* told once */
    pump_close(&pump);
}

static void grease_is_ignored(void) {
    struct pump pump;
    quoit_worker_options options = {.flags = QUOIT_WORKER_GREASE};
    quoit_addr addr = addr_v4(0);
    char data[64];
    pump_open(&pump, &options);
    serve_echo(&pump, &addr);
    int fd = peer_connect(&addr);
    for (int i = 0; i < 2000 || !pump.greased; i++) {
        CHECK(i < 100000);
        peer_send(&pump, fd, data, sizeof data);
        peer_recv(&pump, fd, data, sizeof data);
    }
    close(fd);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"open_and_close", open_and_close},
    {"worker_never_turned", worker_never_turned},
    {"calls_after_destroy", calls_after_destroy},
    {"null_arguments", null_arguments},
    {"too_many_ops", too_many_ops},
    {"worker_handles_are_unique", worker_handles_are_unique},
    {"old_worker_handle", old_worker_handle},
    {"destroy_with_ops_in_flight", destroy_with_ops_in_flight},
    {"stop_ends_each_op", stop_ends_each_op},
    {"stop_an_idle_worker", stop_an_idle_worker},
    {"turn_waits_no_longer", turn_waits_no_longer},
    {"signal_interrupts_the_wait", signal_interrupts_the_wait},
    {"grease_is_ignored", grease_is_ignored},
};
TEST_GROUP(lifecycle, cases);
