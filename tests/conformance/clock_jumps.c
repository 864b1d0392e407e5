/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * clock_jumps.c: the kernel's clocks are moved under timers that wait. The wall clock is set only on a machine that is there for the
 * tests (QUOIT_TEST_SETS_CLOCK, which the guests of ./dev kernels have); time namespaces need their capability.
 */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)

static uint64_t timer_at(struct pump *pump, uint32_t clock, int64_t deadline) {
    quoit_op *op = op_new(pump, QUOIT_OP_TIMER, 0);
    op->flags = QUOIT_OPF_ABS;
    op->arg = clock;
    op->offset = deadline;
    return op->user_data;
}

static uint64_t timer_after(struct pump *pump, uint32_t clock, int64_t span) {
    quoit_op *op = op_new(pump, QUOIT_OP_TIMER, 0);
    op->arg = clock;
    op->offset = span;
    return op->user_data;
}

static void may_set_clock(void) {
    const char *word = getenv("QUOIT_TEST_SETS_CLOCK");
    if (word == NULL || strcmp(word, "1") != 0)
        test_skip("the wall clock of this machine is not the tests' to set (QUOIT_TEST_SETS_CLOCK)");
}

static void jump(int64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t at = (int64_t)now.tv_sec * SECOND + now.tv_nsec + ns;
    CHECK_EQ(clock_settime(CLOCK_REALTIME, &(struct timespec){at / SECOND, at % SECOND}), 0);
}

static bool asleep(pid_t thread) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    const char *end = length > 0 ? strrchr(text, ')') : NULL;
    return end != NULL && end[2] == 'S';
}

struct jumper {
    pid_t sleeper;
    int64_t by;
};

static void *jump_when_asleep(void *arg) {
    const struct jumper *jumper = arg;
    while (!asleep(jumper->sleeper))
        sched_yield();
    jump(jumper->by);
    return NULL;
}

/* One sleep, in which the clock is moved; nothing else ends it. */
static void turn_and_jump(struct pump *pump, int64_t by) {
    struct jumper jumper = {gettid(), by};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, jump_when_asleep, &jumper), 0);
    while (pump_turn(pump, HOUR / 2) == 0 && pump->batch->flags & QUOIT_BATCH_INTERRUPTED)
        ;
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void set_forwards(void) {
    struct pump pump;
    may_set_clock();
    pump_open(&pump, NULL);
    int64_t deadline = quoit_now(QUOIT_CLOCK_WALL) + HOUR;
    uint64_t wall = timer_at(&pump, QUOIT_CLOCK_WALL, deadline);
    uint64_t later = timer_at(&pump, QUOIT_CLOCK_WALL, deadline + HOUR);
    uint64_t span = timer_after(&pump, QUOIT_CLOCK_WALL, HOUR);
    uint64_t boot = timer_after(&pump, QUOIT_CLOCK_BOOT, HOUR);
    uint64_t monotonic = timer_after(&pump, QUOIT_CLOCK_MONOTONIC, HOUR);
    pump_turn_nb(&pump);
    turn_and_jump(&pump, HOUR);
    CHECK(op_ended(&pump, wall));
    CHECK_EQ(op_record(&pump, wall)->last.result, 1);
    CHECK(quoit_now(QUOIT_CLOCK_WALL) >= deadline);
    pump_turn_nb(&pump);
    CHECK(!op_ended(&pump, later) && !op_ended(&pump, span) && !op_ended(&pump, boot) &&
          !op_ended(&pump, monotonic));
    jump(-HOUR);
    pump_close(&pump);
}

/* What was near is far then; and a timer between the two times is not late. */
static void set_back(void) {
    struct pump pump;
    may_set_clock();
    pump_open(&pump, NULL);
    int64_t deadline = quoit_now(QUOIT_CLOCK_WALL) + 100 * MS;
    uint64_t far = timer_at(&pump, QUOIT_CLOCK_WALL, deadline);
    pump_turn_nb(&pump);
    jump(-HOUR);
    op_must(&pump, timer_after(&pump, QUOIT_CLOCK_MONOTONIC, 300 * MS), 1);
    CHECK(!op_ended(&pump, far));
    int64_t between = quoit_now(QUOIT_CLOCK_WALL) + 50 * MS;
    op_must(&pump, timer_at(&pump, QUOIT_CLOCK_WALL, between), 1);
    CHECK(quoit_now(QUOIT_CLOCK_WALL) >= between && quoit_now(QUOIT_CLOCK_WALL) < deadline);
    turn_and_jump(&pump, HOUR);
    op_must(&pump, far, 1);
    CHECK(quoit_now(QUOIT_CLOCK_WALL) >= deadline);
    pump_close(&pump);
}

/* The grid is the wall's: beats that the clock jumped over are counted. */
static void set_under_a_period(void) {
    struct pump pump;
    may_set_clock();
    pump_open(&pump, NULL);
    int64_t base = quoit_now(QUOIT_CLOCK_WALL) + 60 * SECOND;
    uint64_t timer = timer_at(&pump, QUOIT_CLOCK_WALL, base);
    ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].arg2 = 60ull * SECOND;
    pump_turn_nb(&pump);
    turn_and_jump(&pump, 10 * 60 * SECOND);
    CHECK_EQ(op_record(&pump, timer)->events, 1);
    CHECK_EQ(op_record(&pump, timer)->last.result, 10);
    turn_and_jump(&pump, 60 * SECOND);
    CHECK_EQ(op_record(&pump, timer)->events, 2);
    CHECK_EQ(op_record(&pump, timer)->last.result, 1);
    jump(-11 * 60 * SECOND);
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, timer), 1);
    pump_close(&pump);
}

/* A host sleeps on the worker's descriptor. */
static void set_under_a_host(void) {
    struct pump pump;
    may_set_clock();
    pump_open(&pump, NULL);
    struct pollfd host = {.fd = quoit_worker_fd(pump.worker), .events = POLLIN};
    for (int i = 0; i < 5; i++) {
        uint64_t timer = timer_at(&pump, QUOIT_CLOCK_WALL, quoit_now(QUOIT_CLOCK_WALL) + HOUR);
        pump_turn_nb(&pump);
        while (poll(&host, 1, 0) > 0)
            pump_turn_nb(&pump);
        jump(HOUR);
        while (!op_ended(&pump, timer)) {
            CHECK_EQ(poll(&host, 1, 20000), 1);
            pump_turn_nb(&pump);
        }
        jump(-HOUR);
    }
    pump_close(&pump);
}

static void each_clock_fires(bool hosted) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct pollfd host = {.fd = hosted ? quoit_worker_fd(pump.worker) : -1, .events = POLLIN};
    for (uint32_t clock = QUOIT_CLOCK_MONOTONIC; clock <= QUOIT_CLOCK_WALL; clock++) {
        int64_t deadline = quoit_now(clock) + 20 * MS;
        uint64_t timer = timer_at(&pump, clock, deadline);
        for (pump_turn_nb(&pump); hosted && !op_ended(&pump, timer); pump_turn_nb(&pump))
            CHECK_EQ(poll(&host, 1, 5000), 1);
        op_must(&pump, timer, 1);
        CHECK(quoit_now(clock) >= deadline);
    }
    pump_close(&pump);
}

/* Monotonic and boot clocks of its own, apart from the machine's: by less than the time that a test has on the first of them. */
static void time_namespace(void) {
    static const char offsets[] = "monotonic 10 0\nboottime 40 0\n";
    int status;
    if (unshare(CLONE_NEWTIME) != 0)
        test_skip(errno == EPERM ? "making a time namespace is not permitted here" : "no time namespaces");
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, offsets, sizeof offsets - 1) == (ssize_t)sizeof offsets - 1);
    close(fd);
    int64_t before = quoit_now(QUOIT_CLOCK_MONOTONIC);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(quoit_now(QUOIT_CLOCK_MONOTONIC) - before >= 10 * SECOND);
        CHECK(quoit_now(QUOIT_CLOCK_BOOT) - quoit_now(QUOIT_CLOCK_MONOTONIC) > 20 * SECOND);
        each_clock_fires(false);
        each_clock_fires(true);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    struct pump pump; /* in the old one still: it tells which driver runs */
    pump_open(&pump, NULL);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"set_forwards", set_forwards},
    {"set_back", set_back},
    {"set_under_a_period", set_under_a_period},
    {"set_under_a_host", set_under_a_host},
    {"time_namespace", time_namespace},
};
TEST_GROUP(clock_jumps, cases);
