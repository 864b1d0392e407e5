/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pattern.h: bytes that tell from which seed and position they are, so that a lost or moved one is seen. */
#ifndef TEST_PATTERN_H
#define TEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>

void pattern_fill(void *data, uint64_t seed, uint64_t position, size_t len);

/* Index of the first byte that differs, or len. */
size_t pattern_check(const void *data, uint64_t seed, uint64_t position, size_t len);

/* Random numbers that are the same in each run. */
uint64_t pattern_random(uint64_t *state);

#define CHECK_PATTERN(data, seed, position, len)                                                             \
    do {                                                                                                     \
        size_t pattern_len = (len), pattern_bad = pattern_check(data, seed, position, pattern_len);          \
        if (pattern_bad != pattern_len)                                                                      \
            FAIL("byte %zu of %zu differs at position %llu", pattern_bad, pattern_len,                       \
                 (unsigned long long)(position));                                                            \
    } while (0)

#endif
