/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Torture: random cancels, deadlines, closes, aborts, ends and resets against ops in flight, every byte, connection,
 * descriptor and buffer accounted for. Prints one JSON object. A seed repeats a run; a fault names the world that shows it.
 */
#include "torture.h"

#include "runner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PER_WORLD 4000
#define BYTES (1u << 16)

const char *const subject_names[SUBJECTS] = {"accept",        "accept_multi", "connect",       "recv",
                                             "recv_multi",    "send",         "close",         "recvmsg",
                                             "recvmsg_multi", "sendmsg",      "close_datagram"};
const char *const cut_names[CUTS] = {"cancel", "deadline", "close", "abort", "end", "reset"};
static const char *const outcome_names[OUTCOMES] = {"before", "during", "after"};

uint32_t torture_driver;
static struct totals totals;
static struct world world;
static uint64_t seed = 1, count = 10000, only_world = UINT64_MAX;

uint64_t torture_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

_Noreturn void torture_fail(const struct lane *lane, const char *format, ...) {
    va_list list;
    fprintf(stderr, "torture: ");
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    if (lane != NULL)
        fprintf(stderr, " [lane %u, trial %llu: %s by %s]", lane->index, (unsigned long long)lane->trials,
                subject_names[lane->trial.subject], cut_names[lane->trial.cut]);
    fprintf(stderr, "\ntorture: again with --driver %s --seed %llu --world %llu\n",
            driver_text(torture_driver), (unsigned long long)seed, (unsigned long long)world.number);
    exit(1);
}

static void put(const char *name, uint64_t value) {
    printf(",\"%s\":%llu", name, (unsigned long long)value);
}

static void print_outcomes(void) {
    uint64_t sums[OUTCOMES] = {0};
    uint64_t datagrams[OUTCOMES] = {0};
    bool first = true;
    printf(",\"by\":{");
    for (int s = 0; s < SUBJECTS; s++)
        for (int c = 0; c < CUTS; c++) {
            const uint64_t *at = totals.outcomes[s][c];
            if (at[BEFORE] + at[DURING] + at[AFTER] == 0)
                continue;
            printf("%s\"%s by %s\":[%llu,%llu,%llu]", first ? "" : ",", subject_names[s], cut_names[c],
                   (unsigned long long)at[BEFORE], (unsigned long long)at[DURING],
                   (unsigned long long)at[AFTER]);
            first = false;
            for (int o = 0; o < OUTCOMES; o++)
                sums[o] += at[o], datagrams[o] += s >= RECVMSG ? at[o] : 0;
        }
    printf("}");
    for (int o = 0; o < OUTCOMES; o++)
        put(outcome_names[o], sums[o]);
    printf(",\"on_datagrams\":{");
    for (int o = 0; o < OUTCOMES; o++)
        printf("%s\"%s\":%llu", o ? "," : "", outcome_names[o], (unsigned long long)datagrams[o]);
    printf("}");
}

static bool print_totals(uint64_t began) {
    uint64_t lost = totals.in_lost + totals.out.lost + totals.datagrams.lost;
    uint64_t doubled = totals.in_doubled + totals.out.doubled + totals.datagrams.doubled;
    uint64_t wrong = totals.in_wrong + totals.out.wrong + totals.datagrams.wrong;
    printf("{\"language\":\"c\",\"driver_ran\":\"%s\"", driver_text(torture_driver));
    put("seed", seed);
    put("interleavings", totals.interleavings);
    print_outcomes();
    put("refused", totals.skipped);
    put("worlds", totals.worlds);
    put("connections", totals.connections);
    put("connections_made", totals.made);
    put("connections_accepted", totals.accepted);
    put("accepts_doubled", totals.accepts_doubled);
    put("bytes_received", totals.in_bytes);
    put("bytes_sent", totals.out.sent);
    put("bytes_torn", totals.out.owed);
    put("datagrams_sent", totals.datagrams.sent);
    put("datagrams_arrived", totals.datagrams.arrived);
    put("datagrams_torn", totals.datagrams.owed);
    put("lost", lost);
    put("doubled", doubled);
    put("wrong", wrong);
    put("fds_left", totals.fds_left);
    put("buffers_left", totals.buffers_left);
    put("objects_left", totals.objects_left);
    put("ops_left", totals.ops_left);
    printf(",\"seconds\":%.1f}\n", (double)(torture_now() - began) / 1e9);
    return lost + doubled + wrong + totals.fds_left + totals.buffers_left + totals.objects_left +
               totals.ops_left ==
           0;
}

static int usage(void) {
    fprintf(stderr, "usage: quoit-torture [--driver NAME] [--count N] [--seed N] [--world N] [--progress]\n"
                    "  --world     only this one of the run's worlds, to see a fault again\n"
                    "  --progress  a line on standard error now and then\n");
    return 2;
}

/* The driver by its name; none: what an unforced runtime gets. */
static bool choose_driver(const char *name) {
    torture_driver = name != NULL ? driver_number(name) : (uint32_t)quoit_probe_driver();
    return torture_driver != UINT32_MAX;
}

static void run_world(uint64_t number, uint64_t goal) {
    uint8_t *bytes = world.bytes;
    memset(&world, 0, sizeof world);
    world.bytes = bytes;
    world.number = number;
    world.goal = goal;
    world.seed = world.random = seed * 1000003 + number * 7919 * 65536;
    world.totals = &totals;
    world_run(&world);
}

int main(int argc, char **argv) {
    const char *driver = getenv("QUOIT_DRIVER");
    bool progress = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--progress") == 0) {
            progress = true;
            continue;
        }
        if (value == NULL)
            return usage();
        if (strcmp(argv[i], "--driver") == 0)
            driver = value;
        else if (strcmp(argv[i], "--count") == 0)
            count = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--world") == 0)
            only_world = strtoull(value, NULL, 10);
        else
            return usage();
        i++;
    }
    if (!choose_driver(driver))
        return usage();
    world.bytes = malloc(BYTES);
    uint64_t began = torture_now(), last = began;
    if (world.bytes == NULL)
        return 3;
    for (uint64_t number = 0; totals.interleavings < count; number++) {
        uint64_t left = count - totals.interleavings;
        if (only_world != UINT64_MAX)
            number = only_world;
        run_world(number, left < PER_WORLD ? left : PER_WORLD);
        if (progress && torture_now() - last > 5000000000u) {
            last = torture_now();
            fprintf(stderr, "torture %s: %llu of %llu\n", driver_text(torture_driver),
                    (unsigned long long)totals.interleavings, (unsigned long long)count);
        }
        if (only_world != UINT64_MAX)
            break;
    }
    bool good = print_totals(began);
    free(world.bytes);
    return good ? 0 : 1;
}
