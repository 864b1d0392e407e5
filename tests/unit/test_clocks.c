/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Clocks that jump, and suspends, without touching the machine's: clock_gettime is wrapped and adds what the test says; what the
 * kernel tells of a jump is told by making the worker's own timerfd readable. Worker, drivers and sleep are real.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <quoit/quoit.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)
#define PATIENCE_S 60 /* then the test is killed; what ought to end a sleep is the only thing that does */

static atomic_llong shift_wall, shift_boot;
static atomic_int jump_fd = -1;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);

int __wrap_clock_gettime(clockid_t id, struct timespec *now) {
    int result = __real_clock_gettime(id, now);
    int64_t shift = id == CLOCK_REALTIME   ? atomic_load(&shift_wall)
                    : id == CLOCK_BOOTTIME ? atomic_load(&shift_boot)
                                           : 0;
    int64_t at = (int64_t)now->tv_sec * SECOND + now->tv_nsec + shift;
    *now = (struct timespec){at / SECOND, at % SECOND};
    return result;
}

int __wrap_timerfd_create(int clock, int flags) {
    int fd = __real_timerfd_create(clock, flags);
    if (clock == CLOCK_REALTIME)
        atomic_store(&jump_fd, fd);
    return fd;
}

static void tell_jump(void) {
    const struct itimerspec at_once = {.it_value.tv_nsec = 1};
    assert_int_equal(timerfd_settime(atomic_load(&jump_fd), 0, &at_once, NULL), 0);
}

static void jump(int64_t by) {
    atomic_fetch_add(&shift_wall, by);
    tell_jump();
}

/* Both clocks count what passes in it, the monotonic one does not. */
static void suspend(int64_t by) {
    atomic_fetch_add(&shift_boot, by);
    jump(by);
}

struct rig {
    quoit_runtime *runtime;
    quoit_worker *worker;
    quoit_batch *batch;
    uint32_t nops;
};

static void open_rig(struct rig *rig, void **state) {
    quoit_runtime_options options = {.struct_size = sizeof options, .driver = (uint32_t)(uintptr_t)*state};
    atomic_store(&shift_wall, 0);
    atomic_store(&shift_boot, 0);
    atomic_store(&jump_fd, -1);
    alarm(PATIENCE_S);
    *rig = (struct rig){0};
    if (quoit_runtime_create(&options, &rig->runtime) == QUOIT_E_DRIVER) {
        print_message("skipped: this driver cannot be had here\n");
        skip();
    }
    assert_non_null(rig->runtime);
    assert_int_equal(quoit_worker_create(rig->runtime, NULL, &rig->worker), 0);
    rig->batch = quoit_worker_batch(rig->worker);
}

static void close_rig(struct rig *rig) {
    alarm(0);
    assert_int_equal(quoit_runtime_destroy(rig->runtime), 0);
}

static int turn(struct rig *rig, int64_t timeout) {
    uint32_t nops = rig->nops;
    rig->nops = 0;
    int n = quoit_turn(rig->worker, nops, timeout);
    assert_true(n >= 0);
    return n;
}

static void arm_every(struct rig *rig, uint64_t name, uint32_t clock, int64_t at, int64_t period) {
    quoit_op *op = (quoit_op *)(uintptr_t)rig->batch->ops + rig->nops++;
    *op = (quoit_op){.opcode = QUOIT_OP_TIMER,
                     .user_data = name,
                     .flags = QUOIT_OPF_ABS,
                     .arg = clock,
                     .offset = at,
                     .arg2 = (uint64_t)period};
}

static void arm(struct rig *rig, uint64_t name, uint32_t clock, int64_t at) {
    arm_every(rig, name, clock, at, 0);
}

static void arm_after(struct rig *rig, uint64_t name, uint32_t clock, int64_t span) {
    arm(rig, name, clock, span);
    ((quoit_op *)(uintptr_t)rig->batch->ops)[rig->nops - 1].flags = 0;
}

static const quoit_event *event(const struct rig *rig, int number) {
    return (const quoit_event *)(uintptr_t)rig->batch->events + number;
}

/* The next sleep ends with one event, this timer's. */
static void expect(struct rig *rig, uint64_t name, int64_t result) {
    int n;
    do
        n = turn(rig, HOUR / 2);
    while (n == 0 &&
           rig->batch->flags & QUOIT_BATCH_INTERRUPTED); /* by what is left of another test's ring */
    assert_int_equal(n, 1);
    assert_int_equal(event(rig, 0)->user_data, name);
    assert_int_equal(event(rig, 0)->result, result);
}

static bool asleep(pid_t thread) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    const char *end = length > 0 ? strrchr(text, ')') : NULL;
    return end != NULL && end[2] == 'S';
}

struct mover {
    void (*move)(int64_t by);
    int64_t by;
    pid_t sleeper;
    pthread_t thread;
};

static void *move_when_asleep(void *arg) {
    const struct mover *mover = arg;
    while (!asleep(mover->sleeper))
        sched_yield();
    mover->move(mover->by);
    return NULL;
}

/* The clock moves when this thread sleeps next. */
static void move_in_sleep(struct mover *mover, void (*move)(int64_t by), int64_t by) {
    *mover = (struct mover){.move = move, .by = by, .sleeper = (pid_t)syscall(SYS_gettid)};
    assert_int_equal(pthread_create(&mover->thread, NULL, move_when_asleep, mover), 0);
}

static void join(struct mover *mover) {
    assert_int_equal(pthread_join(mover->thread, NULL), 0);
}

static void forwards_ends_a_sleep(void **state) {
    struct rig rig;
    struct mover mover;
    open_rig(&rig, state);
    int64_t noon = quoit_now(QUOIT_CLOCK_WALL) + HOUR;
    arm(&rig, 1, QUOIT_CLOCK_WALL, noon);
    arm(&rig, 2, QUOIT_CLOCK_WALL, noon + HOUR);
    arm(&rig, 3, QUOIT_CLOCK_BOOT, quoit_now(QUOIT_CLOCK_BOOT) + HOUR);
    arm_after(&rig, 4, QUOIT_CLOCK_WALL, HOUR); /* spans: of no clock that is set */
    arm_after(&rig, 5, QUOIT_CLOCK_BOOT, HOUR);
    arm_after(&rig, 6, QUOIT_CLOCK_MONOTONIC, HOUR);
    assert_int_equal(turn(&rig, 0), 0);
    move_in_sleep(&mover, jump, HOUR);
    expect(&rig, 1, 1);
    join(&mover);
    assert_true(quoit_now(QUOIT_CLOCK_WALL) >= noon);
    assert_int_equal(turn(&rig, 20 * MS), 0);
    move_in_sleep(&mover, jump, HOUR);
    expect(&rig, 2, 1);
    join(&mover);
    close_rig(&rig);
}

static void back_takes_the_timers_with_it(void **state) {
    struct rig rig;
    struct mover mover;
    open_rig(&rig, state);
    int64_t noon = quoit_now(QUOIT_CLOCK_WALL) + 50 * MS;
    arm(&rig, 1, QUOIT_CLOCK_WALL, noon);
    assert_int_equal(turn(&rig, 0), 0);
    jump(-HOUR);
    arm_after(&rig, 2, QUOIT_CLOCK_MONOTONIC, 200 * MS);
    expect(&rig, 2, 1); /* and not noon's, which is an hour away now */
    /* Between the two times: it is not as late as the clock was early. */
    int64_t between = quoit_now(QUOIT_CLOCK_WALL) + 20 * MS;
    arm(&rig, 3, QUOIT_CLOCK_WALL, between);
    expect(&rig, 3, 1);
    assert_true(quoit_now(QUOIT_CLOCK_WALL) >= between);
    move_in_sleep(&mover, jump, HOUR);
    expect(&rig, 1, 1);
    join(&mover);
    assert_true(quoit_now(QUOIT_CLOCK_WALL) >= noon);
    close_rig(&rig);
}

/* However often it jumps: those of one time come in the order of arming, all by their time. */
static void order_outlives_jumps(void **state) {
    struct rig rig;
    open_rig(&rig, state);
    int64_t base = quoit_now(QUOIT_CLOCK_WALL);
    for (uint64_t i = 0; i < 90; i++)
        arm(&rig, 1 + i, QUOIT_CLOCK_WALL, base + HOUR + (int64_t)(i % 3) * HOUR);
    assert_int_equal(turn(&rig, 0), 0);
    static const int64_t jumps[] = {-HOUR / 2, HOUR / 4, -24 * 365 * HOUR, HOUR, 24 * 365 * HOUR, -HOUR / 3};
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        jump(jumps[i]);
        sum += jumps[i];
        assert_int_equal(turn(&rig, 0), 0);
    }
    jump(5 * HOUR - sum);
    uint64_t told = 0;
    for (int n; told < 90; told += (uint64_t)n) {
        n = turn(&rig, HOUR / 2);
        assert_true(n > 0 || rig.batch->flags & QUOIT_BATCH_INTERRUPTED);
        for (int i = 0; i < n; i++) {
            uint64_t place = told + (uint64_t)i;
            assert_int_equal(event(&rig, i)->user_data, 1 + place % 30 * 3 + place / 30);
        }
    }
    close_rig(&rig);
}

static void a_period_keeps_to_the_wall(void **state) {
    struct rig rig;
    struct mover mover;
    open_rig(&rig, state);
    int64_t base = quoit_now(QUOIT_CLOCK_WALL) + 60 * SECOND;
    arm_every(&rig, 1, QUOIT_CLOCK_WALL, base, 60 * SECOND);
    assert_int_equal(turn(&rig, 0), 0);
    move_in_sleep(&mover, jump, 10 * 60 * SECOND);
    expect(&rig, 1, 10);
    join(&mover);
    move_in_sleep(&mover, jump, 60 * SECOND);
    expect(&rig, 1, 1);
    join(&mover);
    jump(-3 * 60 * SECOND);
    assert_int_equal(turn(&rig, 20 * MS), 0);
    jump(3 * 60 * SECOND);
    assert_int_equal(turn(&rig, 20 * MS), 0);
    move_in_sleep(&mover, jump, 60 * SECOND); /* the next beat is where the grid has it */
    expect(&rig, 1, 1);
    join(&mover);
    close_rig(&rig);
}

static void suspend_counts_for_boot_and_wall(void **state) {
    struct rig rig;
    struct mover mover;
    open_rig(&rig, state);
    arm_after(&rig, 1, QUOIT_CLOCK_BOOT, HOUR);
    arm_after(&rig, 2, QUOIT_CLOCK_MONOTONIC, 2 * HOUR);
    arm(&rig, 3, QUOIT_CLOCK_WALL, quoit_now(QUOIT_CLOCK_WALL) + 3 * HOUR);
    arm_every(&rig, 4, QUOIT_CLOCK_BOOT, quoit_now(QUOIT_CLOCK_BOOT) + 8 * HOUR, HOUR);
    assert_int_equal(turn(&rig, 0), 0);
    move_in_sleep(&mover, suspend, HOUR + SECOND);
    expect(&rig, 1, 1);
    join(&mover);
    move_in_sleep(&mover, suspend, 2 * HOUR);
    expect(&rig, 3, 1);
    join(&mover);
    move_in_sleep(&mover, suspend, 6 * HOUR);
    expect(&rig, 4, 2);
    join(&mover);
    close_rig(&rig);
}

static void a_host_is_woken(void **state) {
    struct rig rig;
    open_rig(&rig, state);
    struct pollfd host = {.fd = quoit_worker_fd(rig.worker), .events = POLLIN};
    for (uint64_t i = 1; i <= 10; i++) {
        arm(&rig, i, QUOIT_CLOCK_WALL, quoit_now(QUOIT_CLOCK_WALL) + HOUR);
        while (turn(&rig, 0) > 0 || poll(&host, 1, 0) > 0)
            ;
        jump(HOUR);
        int n = 0;
        while (n == 0) {
            assert_int_equal(poll(&host, 1, -1), 1);
            n = turn(&rig, 0);
        }
        assert_int_equal(event(&rig, 0)->user_data, i);
    }
    close_rig(&rig);
}

/* One descriptor a worker, and none before it is needed. */
static void opened_when_needed(void **state) {
    struct rig rig;
    open_rig(&rig, state);
    arm(&rig, 1, QUOIT_CLOCK_MONOTONIC, 0);
    expect(&rig, 1, 1);
    arm_after(&rig, 2, QUOIT_CLOCK_WALL, 0);
    expect(&rig, 2, 1);
    assert_int_equal(atomic_load(&jump_fd), -1);
    arm(&rig, 3, QUOIT_CLOCK_WALL, 0);
    expect(&rig, 3, 1);
    int fd = atomic_exchange(&jump_fd, -1);
    assert_true(fd >= 0);
    arm(&rig, 4, QUOIT_CLOCK_BOOT, 0);
    expect(&rig, 4, 1);
    assert_int_equal(atomic_load(&jump_fd), -1);
    close_rig(&rig);
    struct itimerspec left;
    assert_int_equal(timerfd_gettime(fd, &left), -1); /* closed with the worker */
}

#define ON(name, driver, test)                                                                               \
    { #test " (" name ")", test, NULL, NULL, (void *)(uintptr_t)(driver) }
#define ON_EACH(test)                                                                                        \
    ON("uring-defer", QUOIT_DRIVER_URING_DEFER, test), ON("uring-coop", QUOIT_DRIVER_URING_COOP, test),      \
        ON("uring-plain", QUOIT_DRIVER_URING_PLAIN, test), ON("epoll", QUOIT_DRIVER_EPOLL, test)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(forwards_ends_a_sleep),
        ON_EACH(back_takes_the_timers_with_it),
        ON_EACH(order_outlives_jumps),
        ON_EACH(a_period_keeps_to_the_wall),
        ON_EACH(suspend_counts_for_boot_and_wall),
        ON_EACH(a_host_is_woken),
        ON_EACH(opened_when_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
