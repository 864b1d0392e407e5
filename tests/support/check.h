/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* check.h: assertions of the tests. A check that fails ends the test's process with the place and the values. */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <stdint.h>
#include <stdnoreturn.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            check_fail(__FILE__, __LINE__, "%s", #condition);                                                \
    } while (0)

/* Two integers or statuses; a negative one is shown by its name too. */
#define CHECK_EQ(got, want) check_equal(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(want))

/* A sentence about what is wrong. */
#define FAIL(...) check_fail(__FILE__, __LINE__, __VA_ARGS__)

noreturn void check_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_equal(const char *file, int line, const char *what, int64_t got, int64_t want);

#endif
