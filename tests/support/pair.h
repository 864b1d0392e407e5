/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pair.h: two workers of one runtime, for what goes from one to the other. */
#ifndef TEST_PAIR_H
#define TEST_PAIR_H

#include "ops.h"

/* The channel, if there is one, is received by `to`. */
struct pair {
    struct pump to, from;
    quoit_handle channel;
};

void pair_open(struct pair *pair, uint32_t type, uint32_t capacity);
void pair_close(struct pair *pair);

quoit_handle channel_new(struct pump *pump, uint32_t type, uint32_t capacity);
uint64_t op_channel_send(struct pump *pump, quoit_handle channel, uint64_t word1, int64_t word2,
                         uint32_t number);
uint64_t op_channel_recv(struct pump *pump, quoit_handle channel, uint32_t flags);
/* The next message, which must be this one. */
void channel_expect(struct pump *pump, quoit_handle channel, uint64_t word1);

/* Turns without waiting until nothing more comes. */
void pump_settle(struct pump *pump);

#endif
