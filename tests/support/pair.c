/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "pair.h"

#include "check.h"

void pair_open(struct pair *pair, uint32_t type, uint32_t capacity) {
    pump_open(&pair->to, NULL);
    pump_open_in(&pair->from, pair->to.runtime, NULL);
    pair->channel = channel_new(&pair->to, type, capacity);
}

void pair_close(struct pair *pair) {
    pump_close(&pair->from);
    pump_close(&pair->to);
}

quoit_handle channel_new(struct pump *pump, uint32_t type, uint32_t capacity) {
    quoit_op *op = op_new(pump, QUOIT_OP_CHANNEL, 0);
    op->arg = type;
    op->len = capacity;
    quoit_handle channel = op_must(pump, op->user_data, 0).value;
    CHECK_EQ(quoit_handle_kind(channel), QUOIT_HANDLE_CHANNEL);
    CHECK_EQ(channel >> 48 & 0xFF, pump->handle >> 48 & 0xFF);
    return channel;
}

uint64_t op_channel_send(struct pump *pump, quoit_handle channel, uint64_t word1, int64_t word2,
                         uint32_t number) {
    quoit_op *op = op_new(pump, QUOIT_OP_CHANNEL_SEND, channel);
    op->addr = word1;
    op->offset = word2;
    op->arg = number;
    return op->user_data;
}

uint64_t op_channel_recv(struct pump *pump, quoit_handle channel, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_CHANNEL_RECV, channel);
    op->flags = flags;
    return op->user_data;
}

void channel_expect(struct pump *pump, quoit_handle channel, uint64_t word1) {
    quoit_event event = op_finish(pump, op_channel_recv(pump, channel, 0));
    CHECK_EQ(event.flags, QUOIT_EVF_MESSAGE);
    CHECK_EQ(event.value, word1);
}

void pump_settle(struct pump *pump) {
    while (pump_turn_nb(pump) > 0 || pump->nops > 0 || pump->batch->flags & QUOIT_BATCH_LEFT)
        ;
}
