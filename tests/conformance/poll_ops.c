/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* poll_ops.c: waiting for descriptors that the library knows nothing else of. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

static uint64_t op_poll(struct pump *pump, int fd, uint32_t mask) {
    quoit_op *op = op_new(pump, QUOIT_OP_POLL, 0);
    op->offset = fd;
    op->arg = mask;
    return op->user_data;
}

static void masks(void) {
    struct pump pump;
    int pipes[2], ends[2];
    pump_open(&pump, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    quoit_event event = op_finish(&pump, op_poll(&pump, pipes[1], QUOIT_POLL_OUT));
    CHECK_EQ(event.result, QUOIT_POLL_OUT);
    CHECK_EQ(event.flags, 0);
    uint64_t poll = op_poll(&pump, pipes[0], QUOIT_POLL_IN);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pump, 1000000), 0);
    CHECK_EQ(write(pipes[1], "x", 1), 1);
    op_must(&pump, poll, QUOIT_POLL_IN);
    CHECK_EQ(op_finish(&pump, op_poll(&pump, ends[0], QUOIT_POLL_IN | QUOIT_POLL_OUT)).result,
             QUOIT_POLL_OUT);
    CHECK_EQ(shutdown(ends[1], SHUT_WR), 0);
    event = op_finish(&pump, op_poll(&pump, ends[0], QUOIT_POLL_IN | QUOIT_POLL_RDHUP));
    CHECK_EQ(event.result, QUOIT_POLL_IN | QUOIT_POLL_RDHUP);
    close(ends[1]);
    event = op_finish(&pump, op_poll(&pump, ends[0], QUOIT_POLL_IN));
    CHECK(event.result & QUOIT_POLL_HUP); /* told unasked, as poll(2) does */
    close(ends[0]);
    close(pipes[0]);
    event = op_finish(&pump, op_poll(&pump, pipes[1], QUOIT_POLL_OUT));
    CHECK(event.result & QUOIT_POLL_ERR);
    close(pipes[1]);
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

/* The descriptor is the program's: it may be closed, or polled many times over. */
static void descriptor_stays_the_programs(void) {
    struct pump pump;
    int pipes[2];
    uint64_t polls[20];
    pump_open(&pump, NULL);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < 20; i++)
        polls[i] = op_poll(&pump, pipes[0], QUOIT_POLL_IN);
    pump_turn_nb(&pump);
    int kept = dup(pipes[1]);
    close(pipes[0]); /* the worker has a duplicate */
    CHECK_EQ(write(kept, "x", 1), 1);
    for (int i = 0; i < 20; i++)
        CHECK(op_finish(&pump, polls[i]).result & QUOIT_POLL_IN);
    close(kept);
    close(pipes[1]);
    pump_close(&pump);
}

static void ready_again_and_again(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    int counter = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (uint64_t i = 1; i <= 200; i++) {
        uint64_t poll = op_poll(&pump, counter, QUOIT_POLL_IN), value;
        if (i % 2)
            pump_turn_nb(&pump);
        CHECK_EQ(write(counter, &i, 8), 8);
        op_must(&pump, poll, QUOIT_POLL_IN);
        CHECK_EQ(read(counter, &value, 8), 8);
        CHECK_EQ(value, i);
    }
    close(counter);
    pump_close(&pump);
}

/* A descriptor's number that comes back for another file must not be mistaken. */
static void numbers_are_used_again(void) {
    struct pump pump;
    int pipes[2];
    pump_open(&pump, NULL);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
        uint64_t poll = op_poll(&pump, pipes[0], QUOIT_POLL_IN);
        pump_turn_nb(&pump);
        if (i % 3 == 0) {
            op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_POLL, poll), 1);
            op_must(&pump, poll, -ECANCELED);
        } else {
            CHECK_EQ(write(pipes[1], "x", 1), 1);
            op_must(&pump, poll, QUOIT_POLL_IN);
        }
        close(pipes[0]);
        close(pipes[1]);
    }
    pump_close(&pump);
}

static void worker_polls_a_worker(void) {
    struct pump pump, other;
    pump_open(&pump, NULL);
    pump_open_in(&other, pump.runtime, NULL);
    int fd = quoit_worker_fd(other.worker);
    CHECK(fd >= 0);
    pump_turn_nb(&other);
    uint64_t poll = op_poll(&pump, fd, QUOIT_POLL_IN);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pump, 1000000), 0);
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    op.user_data = op_expect(&other, QUOIT_OP_NOP, 0, 0);
    CHECK_EQ(quoit_post(other.handle, &op, 1), 1);
    op_must(&pump, poll, QUOIT_POLL_IN);
    CHECK_EQ(pump_turn_nb(&other), 1);
    pump_close(&other);
    pump_close(&pump);
}

/* A file is always ready, as for poll(2). */
static void regular_file(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK(op_finish(&pump, op_poll(&pump, fd, QUOIT_POLL_IN)).result & QUOIT_POLL_IN);
    close(fd);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"masks", masks},
    {"descriptor_stays_the_programs", descriptor_stays_the_programs},
    {"ready_again_and_again", ready_again_and_again},
    {"numbers_are_used_again", numbers_are_used_again},
    {"worker_polls_a_worker", worker_polls_a_worker},
    {"regular_file", regular_file},
};
TEST_GROUP(poll_ops, cases);
