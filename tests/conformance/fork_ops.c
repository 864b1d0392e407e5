/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fork_ops.c: a runtime stays with the process that made it; a child is told so and does no harm. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Forks; the child runs the function and ends, and must have done so well. */
static void in_a_child(void (*function)(struct pump *), struct pump *pump) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        function(pump);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        FAIL("the child ended with status %x", status);
}

static quoit_status never_called(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    (void)ctx, (void)worker, (void)batch;
    FAIL("a callback ran in the child");
}

static void every_call(struct pump *pump) {
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    quoit_worker *worker;
    quoit_addr addr;
    char text[64];
    CHECK_EQ(quoit_turn(pump->worker, 0, 0), QUOIT_E_FORKED);
    CHECK_EQ(quoit_turn(pump->worker, 0, -1), QUOIT_E_FORKED);
    CHECK_EQ(quoit_turn_nb(pump->worker, 0), QUOIT_E_FORKED);
    CHECK_EQ(quoit_submit(pump->worker, 0), QUOIT_E_FORKED);
    CHECK_EQ(quoit_run(pump->worker, never_called, NULL), QUOIT_E_FORKED);
    CHECK_EQ(quoit_worker_start(pump->worker, never_called, NULL), QUOIT_E_FORKED);
    CHECK_EQ(quoit_worker_fd(pump->worker), QUOIT_E_FORKED);
    CHECK_EQ(quoit_post(pump->handle, &op, 1), QUOIT_E_FORKED);
    CHECK_EQ(quoit_stop(pump->handle), QUOIT_E_FORKED);
    CHECK_EQ(quoit_worker_create(pump->runtime, NULL, &worker), QUOIT_E_FORKED);
    CHECK_EQ(quoit_log_read(pump->runtime, text, sizeof text, NULL), QUOIT_E_FORKED);
    CHECK_EQ(quoit_peer_addr(pump->worker, pump->listener, &addr), QUOIT_E_FORKED);
    CHECK_EQ(quoit_file_size(pump->worker, pump->listener), QUOIT_E_FORKED);
    /* What needs no runtime works. */
    CHECK_EQ(quoit_version(), QUOIT_VERSION_NUM);
    CHECK(!strcmp(quoit_status_name(QUOIT_E_FORKED), "QUOIT_E_FORKED"));
    CHECK_EQ(quoit_handle_kind(pump->handle), QUOIT_HANDLE_WORKER);
    CHECK_EQ(quoit_op_supported(QUOIT_OP_NOP), 1);
    CHECK(quoit_now(QUOIT_CLOCK_MONOTONIC) > 0);
}

static void destroy_all(struct pump *pump) {
    CHECK_EQ(quoit_runtime_destroy(pump->runtime), QUOIT_OK);
    CHECK_EQ(quoit_turn(pump->worker, 0, 0), QUOIT_E_CLOSED);
    CHECK_EQ(quoit_runtime_destroy(pump->runtime), QUOIT_E_CLOSED);
}

static void destroy_worker(struct pump *pump) {
    CHECK_EQ(quoit_worker_destroy(pump->worker), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(pump->runtime), QUOIT_OK);
}

static void leave_at_once(struct pump *pump) {
    (void)pump;
}

/* An echo goes on through forks of each kind: nothing is lost, no peer sees an end. */
static void parent_goes_on(void) {
    static void (*const children[])(struct pump *) = {every_call, destroy_all, destroy_worker, leave_at_once};
    struct pump pump;
    char data[3000], back[3000];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pump.on_event = on_event_echo;
    op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    uint64_t timer = op_timer(&pump, 3600000000000ull, 0, 0);
    for (int i = 0; i < 12; i++) {
        memset(data, i, sizeof data);
        peer_send(&pump, link.fd, data, sizeof data);
        if (i % 3)
            pump_turn_nb(&pump);
        in_a_child(children[i % 4], &pump);
        peer_recv(&pump, link.fd, back, sizeof back);
        CHECK(!memcmp(data, back, sizeof data));
    }
    CHECK(!op_ended(&pump, timer));
    close(link.fd);
    pump_close(&pump);
}

/* Before its first turn a worker has no owner; the child's copy is no worker all the same. */
static void before_the_first_turn(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    in_a_child(every_call, &pump);
    in_a_child(destroy_all, &pump);
    op_must(&pump, op_simple(&pump, QUOIT_OP_NOP, 0), 0);
    pump_close(&pump);
}

static void new_runtime(struct pump *old) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    char text[5];
    (void)old;
    pump_open(&pump, NULL);
    serve_echo(&pump, &addr);
    int fd = peer_connect(&addr);
    peer_send(&pump, fd, "hello", 5);
    peer_recv(&pump, fd, text, 5);
    CHECK(!memcmp(text, "hello", 5));
    close(fd);
    pump_close(&pump);
}

static void destroy_then_new_runtime(struct pump *old) {
    destroy_all(old);
    new_runtime(old);
}

/* A child may make a runtime of its own, with the parent's still there or destroyed. */
static void child_makes_its_own(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    in_a_child(new_runtime, &pump);
    in_a_child(destroy_then_new_runtime, &pump);
    link_close(&pump, &link);
    pump_close(&pump);
}

static quoit_status count_batches(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    (void)worker, (void)batch;
    __atomic_add_fetch((int *)ctx, 1, __ATOMIC_RELEASE);
    return 0;
}

static void destroy_started(struct pump *pump) {
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    CHECK_EQ(quoit_post(pump->handle, &op, 1), QUOIT_E_FORKED);
    destroy_all(pump); /* its thread is not here to be joined */
}

static void worker_on_a_thread(void) {
    struct pump pump;
    int batches = 0;
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    pump_open(&pump, NULL);
    CHECK_EQ(quoit_worker_start(pump.worker, count_batches, &batches), QUOIT_OK);
    for (int i = 1; i <= 5; i++) {
        in_a_child(destroy_started, &pump);
        CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
        while (__atomic_load_n(&batches, __ATOMIC_ACQUIRE) < i)
            CHECK(test_now_ns() < test_deadline_ns());
    }
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
    CHECK_EQ(quoit_worker_join(pump.worker), QUOIT_OK);
    pump_abandon(&pump);
}

static const struct test_case cases[] = {
    {"parent_goes_on", parent_goes_on},
    {"before_the_first_turn", before_the_first_turn},
    {"child_makes_its_own", child_makes_its_own},
    {"worker_on_a_thread", worker_on_a_thread},
};
TEST_GROUP(fork_ops, cases);
