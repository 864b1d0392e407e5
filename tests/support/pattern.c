/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "pattern.h"

#include <string.h>

/* A mixer of 64 bits: each word of eight bytes depends on the seed and on its own number. */
static uint64_t word_at(uint64_t seed, uint64_t number) {
    uint64_t x = (number + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 32)) * 0x94D049BB133111EBu;
    return x ^ (x >> 29);
}

uint64_t pattern_random(uint64_t *state) {
    return word_at(0x51, (*state)++);
}

void pattern_fill(void *data, uint64_t seed, uint64_t position, size_t len) {
    uint8_t *to = data;
    while (len) {
        uint64_t word = word_at(seed, position / 8);
        size_t skip = position % 8, part = 8 - skip < len ? 8 - skip : len;
        memcpy(to, (const uint8_t *)&word + skip, part);
        to += part;
        position += part;
        len -= part;
    }
}

size_t pattern_check(const void *data, uint64_t seed, uint64_t position, size_t len) {
    const uint8_t *from = data;
    for (size_t done = 0; done < len;) {
        uint64_t word = word_at(seed, position / 8);
        size_t skip = position % 8, part = 8 - skip < len - done ? 8 - skip : len - done;
        if (memcmp(from + done, (const uint8_t *)&word + skip, part)) {
            while (from[done] == ((const uint8_t *)&word)[skip])
                done++, skip++;
            return done;
        }
        position += part;
        done += part;
    }
    return len;
}
