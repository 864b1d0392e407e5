/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runner.h: runs each test in a process of its own, with a time limit, and says how it ended.
 *
 * A test passes when its process exits with 0, has asserted which driver ran (pump_open does), holds as many open
 * file descriptors as it began with, and has freed what the library allocated for it.
 */
#ifndef TEST_RUNNER_H
#define TEST_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEST_EXIT_FAILED 1
#define TEST_EXIT_SKIPPED 77

struct test_case {
    const char *name;
    void (*body)(void);
};

struct test_group {
    const char *name;
    const struct test_case *cases;
    size_t count;
};

#define TEST_GROUP(group, list)                                                                              \
    const struct test_group group_##group = {                                                                \
        .name = #group, .cases = (list), .count = sizeof(list) / sizeof(*(list))}

/* What the command line asked for. */
struct test_settings {
    uint32_t driver;        /* QUOIT_DRIVER_* put into the options; AUTO leaves them alone */
    uint32_t expect_driver; /* the rung that must run; AUTO: what quoit_probe_driver says */
    uint32_t events_max;    /* of workers whose test does not choose, 0 the default */
    bool grease;
    unsigned seconds; /* a test's time limit */
};

extern struct test_settings test_settings;

/* Hooks that main may set: called in the test's process around its body. */
extern void (*test_before)(void);
extern void (*test_after)(void);

int runner_main(int argc, char **argv, const struct test_group *const *groups, size_t count);

const char *test_name(void);

/* The time (CLOCK_MONOTONIC, ns) by which a test must have what it waits for: before its limit ends it dumb. */
uint64_t test_deadline_ns(void);
uint64_t test_now_ns(void);

/* Notes the driver that ran; a test that never does so fails. */
void test_note_driver(uint32_t driver);

/* Ends the test as skipped; the reason is printed. */
_Noreturn void test_skip(const char *reason);

/* Whether sanitizers make everything slow: loops that only add repetitions may be shorter then. */
bool test_is_slow(void);

/* QUOIT_DRIVER_* of a name as in QUOIT_DRIVER, or UINT32_MAX; and back. */
uint32_t driver_number(const char *name);
const char *driver_text(uint32_t driver);

#endif
