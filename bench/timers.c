/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How much a timer costs: arming, cancelling, expiring, and memory. Times are the thread's own (CLOCK_THREAD_CPUTIME_ID), so that a busy
 * machine disturbs them little.
 *
 *   quoit-bench-timers COUNT ROUNDS     COUNT armed at once, ROUNDS times; one JSON object
 */
#include <quoit/quoit.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
#define HOUR (3600 * 1000 * MS)
#define STEP 7919 /* prime: every timer once, none beside the one before */
#define PER_TICK 1000

static quoit_worker *worker;
static quoit_batch *batch;
static uint32_t nops;
static uint64_t told;

static void die(const char *what, int64_t status) {
    fprintf(stderr, "quoit-bench-timers: %s: %s\n", what, quoit_status_name((quoit_status)status));
    exit(1);
}

static int64_t spent_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t resident(void) {
    long long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%lld %lld", &size, &pages) != 2)
        die("/proc/self/statm", -1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void give(void) {
    quoit_status taken = quoit_submit(worker, nops);
    if (taken < 0)
        die("submit", taken);
    nops = 0;
}

static quoit_op *new_op(uint32_t opcode) {
    if (nops == batch->ops_max)
        give();
    quoit_op *op = (quoit_op *)(uintptr_t)batch->ops + nops++;
    memset(op, 0, sizeof *op);
    op->opcode = opcode;
    return op;
}

/* Turns until so many timers have told their last event, each with this result. */
static void until_told(uint64_t count, int64_t result, int64_t patience) {
    while (told < count) {
        int n = quoit_turn(worker, nops, patience);
        nops = 0;
        if (n < 0)
            die("turn", n);
        for (int i = 0; i < n; i++) {
            const quoit_event *event = (const quoit_event *)(uintptr_t)batch->events + i;
            if (event->kind != QUOIT_OP_TIMER || event->result != result)
                die("a timer", event->result);
        }
        told += (uint64_t)n;
    }
}

static uint64_t scattered(uint64_t i, uint64_t count) {
    return i * STEP % count;
}

/* Deadlines from `from` on, so close together that each tick has its share. */
static void arm_all(uint64_t count, int64_t from, int64_t span) {
    for (uint64_t i = 0; i < count; i++) {
        quoit_op *op = new_op(QUOIT_OP_TIMER);
        op->user_data = i + 1;
        op->flags = QUOIT_OPF_ABS;
        op->offset = from + (int64_t)((double)scattered(i, count) / (double)count * (double)span);
    }
    give();
    told = 0;
}

static void cancel_all(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        quoit_op *op = new_op(QUOIT_OP_CANCEL);
        op->flags = QUOIT_OPF_QUIET;
        op->arg = QUOIT_OP_TIMER;
        op->arg2 = scattered(i, count) + 1;
    }
    give();
    until_told(count, -ECANCELED, 0);
}

struct costs {
    int64_t first, arm, cancel, expire, memory;
};

static void one_round(uint64_t count, struct costs *costs) {
    int64_t memory = resident(), start = spent_ns();
    arm_all(count, quoit_now(QUOIT_CLOCK_MONOTONIC) + HOUR, HOUR);
    if (costs->first == 0) /* its memory comes with it */
        costs->first = spent_ns() - start;
    if (resident() - memory > costs->memory)
        costs->memory = resident() - memory;
    start = spent_ns();
    cancel_all(count);
    costs->cancel += spent_ns() - start;
    int64_t span = (int64_t)(count / PER_TICK) * MS;
    start = spent_ns(); /* in memory that is there by now */
    arm_all(count, quoit_now(QUOIT_CLOCK_MONOTONIC) + 2 * span, span ? span : 1);
    costs->arm += spent_ns() - start;
    start = spent_ns();
    until_told(count, 1, -1);
    costs->expire += spent_ns() - start;
}

int main(int argc, char **argv) {
    struct costs costs = {0};
    quoit_runtime *runtime;
    uint64_t count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t rounds = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (count == 0 || count > 10000000 || count % STEP == 0 || rounds == 0) {
        fprintf(stderr, "usage: quoit-bench-timers COUNT ROUNDS (COUNT 1 to 10000000, no multiple of %d)\n",
                STEP);
        return 2;
    }
    quoit_worker_options options = {.struct_size = sizeof options, .objects_max = (uint32_t)count + 16};
    quoit_status status = quoit_runtime_create(NULL, &runtime);
    if (status >= 0)
        status = quoit_worker_create(runtime, &options, &worker);
    if (status < 0)
        die("runtime", status);
    batch = quoit_worker_batch(worker);
    quoit_turn_nb(worker, 0);
    for (uint64_t i = 0; i < rounds; i++)
        one_round(count, &costs);
    double each = (double)count * (double)rounds;
    printf("{\"driver\":%d,\"count\":%llu,\"rounds\":%llu,\"first_ns\":%.1f,\"arm_ns\":%.1f,\"cancel_ns\":%."
           "1f,\"expire_ns\":%.1f,"
           "\"bytes\":%.1f}\n",
           quoit_runtime_driver(runtime), (unsigned long long)count, (unsigned long long)rounds,
           (double)costs.first / (double)count, (double)costs.arm / each, (double)costs.cancel / each,
           (double)costs.expire / each, (double)costs.memory / (double)count);
    quoit_runtime_destroy(runtime);
    return 0;
}
