/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* threads.c: a worker belongs to the thread that turns it; calls from elsewhere, and from inside, are refused. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static quoit_status never_called(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    (void)ctx, (void)worker, (void)batch;
    FAIL("a callback ran on the wrong thread");
}

static void *wrong_thread(void *arg) {
    struct pump *pump = arg;
    quoit_addr addr;
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    CHECK_EQ(quoit_turn(pump->worker, 0, -1), QUOIT_E_THREAD);
    CHECK_EQ(quoit_turn_nb(pump->worker, 1), QUOIT_E_THREAD);
    CHECK_EQ(quoit_submit(pump->worker, 0), QUOIT_E_THREAD);
    CHECK_EQ(quoit_run(pump->worker, never_called, NULL), QUOIT_E_THREAD);
    CHECK_EQ(quoit_worker_fd(pump->worker), QUOIT_E_THREAD);
    CHECK_EQ(quoit_worker_destroy(pump->worker), QUOIT_E_THREAD);
    CHECK_EQ(quoit_peer_addr(pump->worker, pump->listener, &addr), QUOIT_E_THREAD);
    CHECK_EQ(quoit_local_addr(pump->worker, pump->listener, &addr), QUOIT_E_THREAD);
    CHECK_EQ(quoit_file_size(pump->worker, pump->listener), QUOIT_E_THREAD);
    CHECK(quoit_worker_start(pump->worker, never_called, NULL) < 0);
    /* Those for any thread. */
    op.user_data = *(uint64_t *)pump->ctx;
    CHECK_EQ(quoit_worker_handle(pump->worker), pump->handle);
    CHECK(quoit_worker_batch(pump->worker) == pump->batch);
    CHECK_EQ(quoit_post(pump->handle, &op, 1), 1);
    stats_of(pump);
    return NULL;
}

static void calls_from_another_thread(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t posted = op_expect(&pump, QUOIT_OP_NOP, 0, 0);
    pump.ctx = &posted;
    thread_join(thread_start(wrong_thread, &pump));
    op_must(&pump, posted, 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void *drive(void *arg) {
    struct pump *pump = arg;
    for (int i = 0; i < 20; i++)
        op_must(pump, op_simple(pump, QUOIT_OP_NOP, 0), 0);
    op_must(pump, op_timer(pump, 1000000, 0, 0), 1);
    return NULL;
}

/* Made here, driven there; when that thread has ended any may destroy it. */
static void owner_is_the_first_to_turn(void) {
    for (int i = 0; i < 50; i++) {
        struct pump pump;
        pump_open(&pump, NULL);
        CHECK(quoit_worker_fd(pump.worker) >= 0); /* any thread before the first turn */
        pthread_t thread = thread_start(drive, &pump);
        thread_join(thread);
        CHECK(pump.count == 21);
        pump_abandon(&pump);
    }
}

static void *drive_and_drain(void *arg) {
    drive(arg);
    pump_drain(arg);
    return NULL;
}

static void workers_on_many_threads(void) {
    enum { WORKERS = 8 };
    struct pump pumps[WORKERS];
    pthread_t threads[WORKERS];
    quoit_runtime *runtime = runtime_open(NULL);
    for (int i = 0; i < WORKERS; i++) {
        pump_open_in(&pumps[i], runtime, NULL);
        threads[i] = thread_start(drive_and_drain, &pumps[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        thread_join(threads[i]);
        pump_abandon(&pumps[i]);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

struct inside {
    struct pump *pump;
    quoit_runtime *other;
    int calls;
};

static quoit_status call_from_inside(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    struct inside *inside = ctx;
    struct pump *pump = inside->pump;
    quoit_addr addr;
    quoit_op *op = (quoit_op *)(uintptr_t)batch->ops;
    CHECK_EQ(quoit_turn(worker, 0, 0), QUOIT_E_REENTER);
    CHECK_EQ(quoit_turn_nb(worker, 0), QUOIT_E_REENTER);
    CHECK_EQ(quoit_run(worker, call_from_inside, ctx), QUOIT_E_REENTER);
    CHECK_EQ(quoit_worker_destroy(worker), QUOIT_E_REENTER);
    CHECK_EQ(quoit_runtime_destroy(pump->runtime), QUOIT_E_REENTER);
    /* Ops, posts, queries and other runtimes are fine. */
    CHECK_EQ(quoit_local_addr(worker, pump->listener, &addr), QUOIT_OK);
    for (int i = 0; i < 5; i++) {
        *op = (quoit_op){.opcode = QUOIT_OP_NOP, .flags = QUOIT_OPF_QUIET};
        CHECK_EQ(quoit_submit(worker, 1), 1);
    }
    quoit_op nop = {.opcode = QUOIT_OP_NOP, .user_data = 5};
    CHECK_EQ(quoit_post(pump->handle, &nop, 1), 1);
    CHECK_EQ(quoit_runtime_create(NULL, &inside->other), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(inside->other), QUOIT_OK);
    return ++inside->calls == 3 ? QUOIT_RUN_STOP : 0;
}

static void calls_from_inside_a_callback(void) {
    struct pump pump;
    struct inside inside = {.pump = &pump};
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    op_simple(&pump, QUOIT_OP_NOP, 0);
    pump.batch->nops = pump_give(&pump);
    CHECK_EQ(quoit_run(pump.worker, call_from_inside, &inside), QUOIT_OK);
    CHECK_EQ(inside.calls, 3);
    close(link.fd);
    pump_abandon(&pump);
}

static quoit_status join_self(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    int *answer = ctx;
    (void)batch;
    CHECK_EQ(quoit_worker_join(worker), QUOIT_E_REENTER);
    __atomic_store_n(answer, 1, __ATOMIC_RELEASE);
    return -EXDEV;
}

static void joining(void) {
    struct pump pump;
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    int answer = 0;
    pump_open(&pump, NULL);
    CHECK_EQ(quoit_worker_join(pump.worker), QUOIT_E_ARGUMENT); /* it has no thread */
    CHECK_EQ(quoit_worker_start(pump.worker, join_self, &answer), QUOIT_OK);
    CHECK_EQ(quoit_turn(pump.worker, 0, 0), QUOIT_E_THREAD);
    CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
    CHECK_EQ(quoit_worker_join(pump.worker), -EXDEV); /* what its callback ended with */
    CHECK_EQ(__atomic_load_n(&answer, __ATOMIC_ACQUIRE), 1);
    pump_abandon(&pump);
}

struct churn {
    quoit_runtime *runtime;
};

static void *create_and_destroy(void *arg) {
    struct churn *churn = arg;
    for (int i = 0; i < 40; i++) {
        quoit_worker_options options = {
            .struct_size = sizeof options, .recv_buffers = 4, .ring_entries = 8, .cq_entries = 16};
        quoit_worker *worker;
        CHECK_EQ(quoit_worker_create(churn->runtime, &options, &worker), QUOIT_OK);
        quoit_op op = {.opcode = QUOIT_OP_NOP};
        CHECK_EQ(quoit_post(quoit_worker_handle(worker), &op, 1), 1);
        CHECK_EQ(quoit_turn(worker, 0, -1), 1);
        CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
    }
    return NULL;
}

static void churn_of_workers(void) {
    struct churn churn = {runtime_open(NULL)};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(create_and_destroy, &churn);
    for (int i = 0; i < 4; i++)
        thread_join(threads[i]);
    CHECK_EQ(quoit_runtime_destroy(churn.runtime), QUOIT_OK);
}

static const struct test_case cases[] = {
    {"calls_from_another_thread", calls_from_another_thread},
    {"owner_is_the_first_to_turn", owner_is_the_first_to_turn},
    {"workers_on_many_threads", workers_on_many_threads},
    {"calls_from_inside_a_callback", calls_from_inside_a_callback},
    {"joining", joining},
    {"churn_of_workers", churn_of_workers},
};
TEST_GROUP(threads, cases);
