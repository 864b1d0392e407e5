/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* channels.c: messages between workers: what they carry, their order, and what happens when there is no room. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "pair.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ll

static void carries_its_words(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 4);
    struct pump *senders[2] = {&pair.from, &pair.to};
    for (int i = 0; i < 2; i++) { /* from another worker, from the channel's own */
        quoit_event event = op_must(
            senders[i], op_channel_send(senders[i], pair.channel, UINT64_MAX - 5, -125, 0xDEADBEEF), 0);
        CHECK_EQ(event.flags, 0);
        event = op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0));
        CHECK_EQ(event.result, -125); /* a word, no status: the flag says so */
        CHECK_EQ(event.value, UINT64_MAX - 5);
        CHECK_EQ(event.aux, 0xDEADBEEF);
        CHECK_EQ(event.flags, QUOIT_EVF_MESSAGE);
        CHECK_EQ(event.source, pair.channel);
        CHECK_EQ(event.len, 0);
        CHECK_EQ(event.buffer, 0);
        CHECK_EQ(event.offset, 0);
    }
    pair_close(&pair);
}

static uint64_t next_word;

static void check_next(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind == QUOIT_OP_CHANNEL_RECV && event->flags & QUOIT_EVF_MESSAGE)
        CHECK_EQ(event->value, next_word++);
}

/* A MULTI recv is told each message once, in order, also those that came before it. */
static void one_recv_for_all(void) {
    struct pair pair;
    uint64_t word = 0;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 1000);
    pair.to.on_event = check_next;
    for (int i = 0; i < 100; i++)
        op_channel_send(&pair.from, pair.channel, word++, 0, 0);
    pump_settle(&pair.from);
    uint64_t recv = op_channel_recv(&pair.to, pair.channel, QUOIT_OPF_MULTI);
    PUMP_UNTIL(&pair.to, next_word == word);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < round * 7; i++)
            op_channel_send(&pair.from, pair.channel, word++, 0, 0);
        pump_settle(&pair.from);
        PUMP_UNTIL(&pair.to, next_word == word);
    }
    CHECK(!op_ended(&pair.to, recv));
    CHECK_EQ(op_record(&pair.to, recv)->last.flags, QUOIT_EVF_MORE | QUOIT_EVF_MESSAGE);
    pair_close(&pair);
}

/* Without room a send waits: each message that is taken lets in one, the oldest, and tells its sender. */
static void waits_for_room(void) {
    struct pair pair;
    uint64_t sends[10];
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 3);
    for (uint64_t i = 0; i < 10; i++)
        sends[i] = op_channel_send(i % 4 == 3 ? &pair.to : &pair.from, pair.channel, i, 0, 0);
    for (uint64_t i = 0; i < 10; i++) /* in this order, one array of ops at a time */
        i % 4 == 3 ? pump_settle(&pair.to) : pump_settle(&pair.from);
    pump_settle(&pair.to);
    int inside = 0;
    for (uint64_t i = 0; i < 10; i++)
        inside += op_ended(i % 4 == 3 ? &pair.to : &pair.from, sends[i]);
    CHECK_EQ(inside, 3);
    for (int taken = 1; taken <= 10; taken++) {
        quoit_event event = op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0));
        CHECK_EQ(event.flags, QUOIT_EVF_MESSAGE);
        pump_settle(&pair.from);
        pump_settle(&pair.to);
        inside = 0;
        for (uint64_t i = 0; i < 10; i++)
            inside += op_ended(i % 4 == 3 ? &pair.to : &pair.from, sends[i]);
        CHECK_EQ(inside, taken + 3 < 10 ? taken + 3 : 10);
    }
    for (uint64_t i = 0; i < 10; i++)
        CHECK_EQ(op_record(i % 4 == 3 ? &pair.to : &pair.from, sends[i])->last.result, 0);
    pair_close(&pair);
}

static uint64_t last_told;

static void check_send_order(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind != QUOIT_OP_CHANNEL_SEND)
        return;
    CHECK_EQ(event->result, 0);
    CHECK(event->user_data > last_told);
    last_told = event->user_data;
}

/* A sender's ends come in the order of its sends, also when a later one would find room at once. */
static void ends_in_order(void) {
    struct pair pair;
    uint64_t word = 0;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 2);
    pair.from.on_event = check_send_order;
    pair.to.on_event = check_next;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 4; i++)
            op_channel_send(&pair.from, pair.channel, word++, 0, 0);
        pump_turn_nb(&pair.from);
        op_finish(&pair.to,
                  op_channel_recv(&pair.to, pair.channel, 0)); /* the third is in: its letter is on the way */
        op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0));
        op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0)); /* room for one more */
        uint64_t late = op_channel_send(&pair.from, pair.channel, word++, 0, 0);
        pump_turn_nb(&pair.from);
        op_must(&pair.from, late, 0);
        while (next_word < word)
            op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0));
    }
    pair_close(&pair);
}

/* A send that is cancelled, or late, is not in the channel; one that won is, and says so. */
static void taken_back(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 1);
    op_must(&pair.from, op_channel_send(&pair.from, pair.channel, 1, 0, 0), 0);
    for (int i = 0; i < 20; i++) {
        uint64_t keeps = op_channel_send(&pair.from, pair.channel, 2, 0, 0);
        uint64_t send = op_channel_send(&pair.from, pair.channel, 666, 0, 0);
        uint64_t behind = op_channel_send(&pair.from, pair.channel, 3, 0, 0);
        if (i % 2)
            pump_settle(&pair.from);
        op_must(&pair.from, op_cancel(&pair.from, 0, QUOIT_OP_CHANNEL_SEND, send), 1);
        CHECK_EQ(op_must(&pair.from, send, -ECANCELED).value, 0);
        op_must(&pair.from, op_cancel(&pair.from, 0, QUOIT_OP_CHANNEL_SEND, send), -ENOENT);
        quoit_op *op = op_new(&pair.from, QUOIT_OP_CHANNEL_SEND, pair.channel);
        uint64_t late = op->user_data;
        op->addr = 667;
        op->timeout_ns = MS;
        op_must(&pair.from, late, -ETIMEDOUT);
        CHECK(!op_ended(&pair.from, keeps) && !op_ended(&pair.from, behind));
        /* This cancel comes when the message is in, its letter on the way or open: the op wins. */
        channel_expect(&pair.to, pair.channel, 1);
        uint64_t cancel = op_cancel(&pair.from, 0, QUOIT_OP_CHANNEL_SEND, keeps);
        if (i % 2)
            pump_submit(&pair.from); /* a turn would open the letter first */
        op_must(&pair.from, cancel, i % 2 ? 1 : -ENOENT);
        op_must(&pair.from, keeps, 0);
        channel_expect(&pair.to, pair.channel, 2);
        op_must(&pair.from, behind, 0);
        channel_expect(&pair.to, pair.channel, 3);
        op = op_new(&pair.from, QUOIT_OP_CHANNEL_SEND, pair.channel);
        op->addr = 1;
        op->timeout_ns = 3600000 * MS; /* in time */
        op_must(&pair.from, op->user_data, 0);
    }
    channel_expect(&pair.to, pair.channel, 1);
    pair_close(&pair);
}

/* By the handle of a channel of one's own: its sends of this worker, its recv, or both; another worker's is refused. */
static void cancelled_by_the_channel(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 1);
    for (int i = 0; i < 3; i++) {
        uint64_t full = op_channel_send(&pair.to, pair.channel, 1, 0, 0);
        uint64_t sends[3], other = op_channel_send(&pair.from, pair.channel, 2, 0, 0);
        op_must(&pair.to, full, 0);
        pump_settle(&pair.from);
        for (int k = 0; k < 3; k++)
            sends[k] = op_channel_send(&pair.to, pair.channel, 3, 0, 0);
        pump_settle(&pair.to);
        if (i == 0)
            op_must(&pair.to, op_cancel(&pair.to, pair.channel, 0, 0), 3);
        else if (i == 1)
            op_must(&pair.to, op_cancel(&pair.to, pair.channel, QUOIT_OP_CHANNEL_SEND, 0), 3);
        else
            for (int k = 0; k < 3; k++)
                op_must(&pair.to, op_cancel(&pair.to, pair.channel, QUOIT_OP_CHANNEL_SEND, sends[k]), 1);
        for (int k = 0; k < 3; k++)
            op_must(&pair.to, sends[k], -ECANCELED);
        op_must(&pair.to, op_cancel(&pair.to, pair.channel, QUOIT_OP_CHANNEL_RECV, 0), -ENOENT);
        op_must(&pair.from, op_cancel(&pair.from, pair.channel, 0, 0), QUOIT_E_WORKER);
        CHECK(!op_ended(&pair.from, other));
        channel_expect(&pair.to, pair.channel, 1);
        op_must(&pair.from, other, 0);
        channel_expect(&pair.to, pair.channel, 2);
    }
    pair_close(&pair);
}

static void quiet_sends(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 2);
    pair.to.on_event = check_next;
    for (uint64_t i = 0; i < 6; i++) { /* four of them wait */
        op_channel_send(&pair.from, pair.channel, i, 0, 0);
        ((quoit_op *)(uintptr_t)pair.from.batch->ops)[pair.from.nops - 1].flags = QUOIT_OPF_QUIET;
    }
    pump_settle(&pair.from);
    op_channel_recv(&pair.to, pair.channel, QUOIT_OPF_MULTI);
    PUMP_UNTIL(&pair.to, next_word == 6);
    pump_settle(&pair.from);
    CHECK_EQ(stats_of(&pair.from).ops_live, 0);
    quoit_op *op = op_new(&pair.from, QUOIT_OP_CHANNEL_SEND, pair.channel + (1ull << 24));
    op->flags = QUOIT_OPF_QUIET; /* quiet, but it fails */
    op_must(&pair.from, op->user_data, QUOIT_E_STALE);
    pair_close(&pair);
}

/* The recv's ends lose nothing. */
static void recv_comes_and_goes(void) {
    struct pair pair;
    uint64_t word = 0;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 100);
    pair.to.on_event = check_next;
    for (int i = 0; i < 60; i++) {
        while (next_word < word)
            op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0));
        uint64_t recv = op_channel_recv(&pair.to, pair.channel, i % 2 ? QUOIT_OPF_MULTI : 0);
        op_must(&pair.to, op_channel_recv(&pair.to, pair.channel, 0), QUOIT_E_BUSY);
        CHECK(!op_ended(&pair.to, recv));
        if (i % 3 == 0) {
            op_must(&pair.to, op_cancel(&pair.to, pair.channel, QUOIT_OP_CHANNEL_RECV, 0), 1);
            CHECK_EQ(op_must(&pair.to, recv, -ECANCELED).flags, 0);
        } else if (i % 3 == 1) {
            op_channel_send(&pair.from, pair.channel, word++, 0, 0);
            op_channel_send(&pair.from, pair.channel, word++, 0, 0);
            pump_settle(&pair.from);
            uint64_t cancel = op_cancel(&pair.to, pair.channel, QUOIT_OP_CHANNEL_RECV, 0);
            op_finish(&pair.to, cancel);
            quoit_event event = op_finish(&pair.to, recv);
            CHECK(event.flags & QUOIT_EVF_MESSAGE || event.result == -ECANCELED);
        } else {
            op_channel_send(&pair.from, pair.channel, word++, 0, 0);
            pump_settle(&pair.from);
            PUMP_UNTIL(&pair.to, op_record(&pair.to, recv)->events > 0);
            op_cancel(&pair.to, pair.channel, QUOIT_OP_CHANNEL_RECV, 0);
            op_finish(&pair.to, recv);
        }
        uint64_t both = op_channel_recv(&pair.to, pair.channel, 0);
        uint64_t cancel = op_cancel(&pair.to, pair.channel, QUOIT_OP_CHANNEL_RECV, both); /* in one batch */
        op_finish(&pair.to, cancel);
        op_finish(&pair.to, both);
    }
    while (next_word < word)
        op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0));
    quoit_op *op = op_new(&pair.to, QUOIT_OP_CHANNEL_RECV, pair.channel);
    uint64_t late = op->user_data;
    op->flags = QUOIT_OPF_MULTI;
    op->timeout_ns = MS;
    CHECK_EQ(op_must(&pair.to, late, -ETIMEDOUT).flags, 0);
    op_must(&pair.from, op_channel_send(&pair.from, pair.channel, word++, 0, 0), 0);
    op = op_new(&pair.to, QUOIT_OP_CHANNEL_RECV, pair.channel);
    op->timeout_ns = 3600000 * MS;
    CHECK_EQ(op_finish(&pair.to, op->user_data).flags, QUOIT_EVF_MESSAGE);
    pair_close(&pair);
}

/* The batch bounds what a turn tells; what is left is told by the next, without a wait, and the network has its turn too. */
static void never_more_than_the_batch(void) {
    struct pump to, from;
    quoit_worker_options options = {.events_max = 3, .ops_max = 64};
    quoit_runtime *runtime = runtime_open(NULL);
    for (uint32_t events_max = 1; events_max <= 4; events_max++) {
        options.events_max = events_max;
        pump_open_in(&to, runtime, &options);
        pump_open_in(&from, runtime, NULL);
        quoit_handle channels[2];
        uint64_t recvs[2], network;
        struct link link = link_open_recv(&to, &network);
        for (int i = 0; i < 2; i++) {
            channels[i] = channel_new(&to, QUOIT_CHANNEL_MANY_TO_ONE, 500);
            recvs[i] = op_channel_recv(&to, channels[i], QUOIT_OPF_MULTI);
        }
        pump_settle(&to);
        for (uint64_t i = 0; i < 400; i++)
            op_channel_send(&from, channels[i % 2], i, 0, 0);
        pump_settle(&from);
        uint32_t turns = 0;
        while (op_record(&to, recvs[0])->events + op_record(&to, recvs[1])->events < 400) {
            pump_check_time(&to, "all messages", __FILE__, __LINE__);
            if (turns % 8 == 0 && turns < 80)
                peer_send(&to, link.fd, "x", 1);
            CHECK(pump_turn_nb(&to) <= (int)events_max);
            turns++;
            if (turns == 200) /* the bytes did not wait for the messages, nor one channel for the other */
                CHECK(op_record(&to, network)->events > 0);
            if (turns == 200 && events_max == 1)
                CHECK(op_record(&to, recvs[0])->events > 20 && op_record(&to, recvs[1])->events > 20);
        }
        CHECK(turns >= 400 / events_max);
        link_close(&to, &link);
        pump_close(&from);
        pump_close(&to);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void wrong_uses(void) {
    struct pair pair;
    static const struct {
        uint32_t type, capacity, field;
    } wrong[] = {
        {0, 0, QUOIT_FIELD_LEN},
        {0, QUOIT_CHANNEL_MAX + 1, QUOIT_FIELD_LEN},
        {0, UINT32_MAX, QUOIT_FIELD_LEN},
        {QUOIT_CHANNEL_ONESHOT, 2, QUOIT_FIELD_LEN},
        {QUOIT_CHANNEL_ONESHOT + 1, 1, QUOIT_FIELD_ARG},
        {UINT32_MAX, 1, QUOIT_FIELD_ARG},
    };
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        quoit_op *op = op_new(&pair.to, QUOIT_OP_CHANNEL, 0);
        op->arg = wrong[i].type;
        op->len = wrong[i].capacity;
        CHECK_EQ(op_must(&pair.to, op->user_data, QUOIT_E_FIELD).aux, wrong[i].field);
    }
    quoit_handle big = channel_new(&pair.to, QUOIT_CHANNEL_MANY_TO_ONE, QUOIT_CHANNEL_MAX);
    op_must(&pair.from, op_channel_send(&pair.from, big, 1, 0, 0), 0);
    op_must(&pair.from, op_channel_send(&pair.from, pair.from.handle, 1, 0, 0), QUOIT_E_KIND);
    op_must(&pair.from, op_channel_send(&pair.from, 10ull << 56 | 7, 1, 0, 0), QUOIT_E_HANDLE);
    op_must(&pair.from, op_channel_send(&pair.from, pair.channel ^ (0x55ull << 48), 1, 0, 0), QUOIT_E_STALE);
    op_must(&pair.from, op_channel_recv(&pair.from, pair.channel, 0), QUOIT_E_WORKER);
    op_must(&pair.from, op_close(&pair.from, pair.channel, 0), QUOIT_E_WORKER);
    quoit_addr addr;
    CHECK_EQ(quoit_local_addr(pair.to.worker, pair.channel, &addr), QUOIT_E_KIND);
    pair_close(&pair);
}

/* The first worker that sends is the only one. */
static void one_to_one(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_ONE_TO_ONE, 1);
    op_must(&pair.from, op_channel_send(&pair.from, pair.channel, 1, 0, 0), 0);
    CHECK_EQ(op_must(&pair.to, op_channel_send(&pair.to, pair.channel, 2, 0, 0), QUOIT_E_BUSY).aux,
             QUOIT_FIELD_TARGET);
    uint64_t waits = op_channel_send(&pair.from, pair.channel, 3, 0, 0);
    channel_expect(&pair.to, pair.channel, 1);
    op_must(&pair.from, waits, 0);
    channel_expect(&pair.to, pair.channel, 3);
    op_must(&pair.to, op_channel_send(&pair.to, pair.channel, 2, 0, 0), QUOIT_E_BUSY);
    pair_close(&pair);
}

static void nop_again(struct pump *pump, const quoit_event *event) {
    if (event->kind == QUOIT_OP_NOP)
        op_new(pump, QUOIT_OP_NOP, 0);
}

/* Ops that end at once, each answered with another, fill every batch: messages have their turn all the same. */
static void ops_that_end_at_once_starve_no_channel(void) {
    quoit_worker_options options = {.events_max = 2};
    struct pump pump;
    pump_open(&pump, &options);
    quoit_handle channel = channel_new(&pump, QUOIT_CHANNEL_MANY_TO_ONE, 8);
    for (uint64_t word = 0; word < 8; word++)
        op_must(&pump, op_channel_send(&pump, channel, word, 0, 0), 0);
    pump.on_event = nop_again;
    for (int i = 0; i < 5; i++)
        op_new(&pump, QUOIT_OP_NOP, 0);
    for (uint64_t word = 0; word < 8; word++) {
        uint64_t receive = op_channel_recv(&pump, channel, 0);
        for (int i = 0; i < 10000 && !op_ended(&pump, receive); i++)
            pump_turn_nb(&pump);
        CHECK(op_ended(&pump, receive));
        CHECK_EQ(op_record(&pump, receive)->last.value, word);
    }
    pump.on_event = NULL;
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"carries_its_words", carries_its_words},
    {"one_recv_for_all", one_recv_for_all},
    {"waits_for_room", waits_for_room},
    {"ends_in_order", ends_in_order},
    {"taken_back", taken_back},
    {"cancelled_by_the_channel", cancelled_by_the_channel},
    {"quiet_sends", quiet_sends},
    {"recv_comes_and_goes", recv_comes_and_goes},
    {"never_more_than_the_batch", never_more_than_the_batch},
    {"wrong_uses", wrong_uses},
    {"one_to_one", one_to_one},
    {"ops_that_end_at_once_starve_no_channel", ops_that_end_at_once_starve_no_channel},
};
TEST_GROUP(channels, cases);
