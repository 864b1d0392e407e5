/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* channel_ends.c: how channels end, by a close, by themselves, with either worker; and sends that others post. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "pair.h"
#include "peer.h"

#include <errno.h>

#define MS 1000000ll

/* Senders end at once, the receiver when it has what is inside; the close's event is the handle's last. */
static void closed_while_full(void) {
    struct pair pair;
    for (int multi = 0; multi < 2; multi++) {
        pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 3);
        uint64_t sends[6], own;
        for (uint64_t i = 0; i < 6; i++)
            sends[i] = op_channel_send(&pair.from, pair.channel, i, 0, 0);
        pump_settle(&pair.from);
        own = op_channel_send(&pair.to, pair.channel, 7, 0, 0);
        uint64_t shut = op_close(&pair.to, pair.channel, 0);
        CHECK_EQ(op_must(&pair.to, own, -EPIPE).aux, 0);
        for (int i = 0; i < 6; i++)
            op_must(&pair.from, sends[i], i < 3 ? 0 : -EPIPE);
        op_must(&pair.from, op_channel_send(&pair.from, pair.channel, 8, 0, 0), -EPIPE);
        op_must(&pair.to, op_channel_send(&pair.to, pair.channel, 8, 0, 0), -EPIPE);
        op_must(&pair.to, op_close(&pair.to, pair.channel, 0), QUOIT_E_CLOSING);
        CHECK(!op_ended(&pair.to, shut));
        quoit_event last;
        if (multi) {
            last = op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, QUOIT_OPF_MULTI));
        } else {
            channel_expect(&pair.to, pair.channel, 0);
            channel_expect(&pair.to, pair.channel, 1);
            last = op_finish(&pair.to, op_channel_recv(&pair.to, pair.channel, 0));
        }
        CHECK_EQ(last.value, 2);
        CHECK_EQ(last.flags, QUOIT_EVF_MESSAGE | QUOIT_EVF_EOF);
        CHECK_EQ(op_must(&pair.to, shut, 0).value, 0);
        op_must(&pair.to, op_channel_recv(&pair.to, pair.channel, 0), QUOIT_E_STALE);
        op_must(&pair.from, op_channel_send(&pair.from, pair.channel, 8, 0, 0), QUOIT_E_STALE);
        pair_close(&pair);
    }
}

static void closed_while_empty(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 3);
    uint64_t recv = op_channel_recv(&pair.to, pair.channel, QUOIT_OPF_MULTI);
    op_must(&pair.from, op_channel_send(&pair.from, pair.channel, 1, 0, 0), 0);
    PUMP_UNTIL(&pair.to, op_record(&pair.to, recv)->events == 1);
    uint64_t shut = op_close(&pair.to, pair.channel, 0);
    quoit_event last = op_must(&pair.to, recv, 0);
    CHECK_EQ(last.flags, QUOIT_EVF_EOF); /* alone: there is no message in it */
    CHECK_EQ(last.value, 0);
    CHECK_EQ(op_must(&pair.to, shut, 0).value, 0);
    quoit_handle other = channel_new(&pair.to, QUOIT_CHANNEL_MANY_TO_ONE, 3);
    op_must(&pair.to, op_close(&pair.to, other, 0), 0); /* nobody receives: it ends at once */
    for (uint32_t multi = 0; multi < 2; multi++)        /* there is no end to tell any more: no handle */
        CHECK_EQ(
            op_must(&pair.to, op_channel_recv(&pair.to, other, multi * QUOIT_OPF_MULTI), QUOIT_E_STALE).aux,
            QUOIT_FIELD_TARGET);
    other = channel_new(&pair.to, QUOIT_CHANNEL_MANY_TO_ONE, 3);
    shut = op_close(&pair.to, other, 0);
    recv = op_channel_recv(&pair.to, other, 0); /* the same in one array */
    op_must(&pair.to, shut, 0);
    op_must(&pair.to, recv, QUOIT_E_STALE);
    CHECK_EQ(stats_of(&pair.to).objects_live, 0);
    pair_close(&pair);
}

/* An ABORT, and a deadline, drop what is inside and say how much; the recv is cancelled. */
static void dropped(void) {
    struct pair pair;
    for (int how = 0; how < 4; how++) {
        pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 3);
        uint64_t sends[5], recv = 0;
        for (uint64_t i = 0; i < 5; i++)
            sends[i] = op_channel_send(&pair.from, pair.channel, i, 0, 0);
        pump_settle(&pair.from);
        if (how == 3) { /* the recv and the close in one array: nothing was told yet */
            recv = op_channel_recv(&pair.to, pair.channel, QUOIT_OPF_MULTI);
        }
        quoit_op *op = op_new(&pair.to, QUOIT_OP_CLOSE, pair.channel);
        uint64_t shut = op->user_data;
        if (how == 0 || how == 3)
            op->flags = QUOIT_OPF_ABORT;
        else if (how == 1)
            op->timeout_ns = MS;
        else {
            op->timeout_ns = 3600000 * MS;
            pump_settle(&pair.to);
            CHECK(!op_ended(&pair.to, shut));
            op_must(&pair.to, op_close(&pair.to, pair.channel, QUOIT_OPF_ABORT), QUOIT_E_CLOSING);
        }
        CHECK_EQ(op_must(&pair.to, shut, 0).value, 3);
        if (recv)
            CHECK_EQ(op_must(&pair.to, recv, -ECANCELED).flags, 0);
        for (int i = 0; i < 5; i++)
            op_must(&pair.from, sends[i], i < 3 ? 0 : -EPIPE);
        pair_close(&pair);
    }
}

/* A close that names no time waits while messages are taken, and close_timeout_ns after that. */
static void patience(void) {
    struct pump pump;
    quoit_worker_options options = {.close_timeout_ns = 50 * MS};
    pump_open(&pump, &options);
    quoit_handle channel = channel_new(&pump, QUOIT_CHANNEL_MANY_TO_ONE, 10);
    for (uint64_t i = 0; i < 10; i++)
        op_must(&pump, op_channel_send(&pump, channel, i, 0, 0), 0);
    uint64_t shut = op_close(&pump, channel, 0);
    for (uint64_t i = 0; i < 6; i++)
        channel_expect(&pump, channel, i);
    CHECK_EQ(op_must(&pump, shut, 0).value, 4);
    pump_close(&pump);
}

/* One message, told to both; then the handle is gone. */
static void oneshot(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_ONESHOT, 1);
    for (int i = 0; i < 12; i++) {
        quoit_handle channel = channel_new(&pair.to, QUOIT_CHANNEL_ONESHOT, 1);
        uint64_t recv = 0;
        uint32_t multi = i % 2 ? QUOIT_OPF_MULTI : 0;
        if (i % 3 == 0)
            recv = op_channel_recv(&pair.to, channel, multi);
        pump_settle(&pair.to);
        CHECK_EQ(op_must(&pair.from, op_channel_send(&pair.from, channel, 5, -5, 55), 0).flags,
                 QUOIT_EVF_EOF);
        op_must(&pair.from, op_channel_send(&pair.from, channel, 6, 0, 0), -EPIPE);
        if (!recv)
            recv = op_channel_recv(&pair.to, channel, multi);
        quoit_event event = op_finish(&pair.to, recv);
        CHECK_EQ(event.flags, QUOIT_EVF_MESSAGE | QUOIT_EVF_EOF);
        CHECK_EQ(event.result, -5);
        CHECK_EQ(event.value, 5);
        CHECK_EQ(event.aux, 55);
        CHECK_EQ(stats_of(&pair.to).objects_live, 1);
        op_must(&pair.to, op_channel_recv(&pair.to, channel, 0), QUOIT_E_STALE);
        op_must(&pair.to, op_close(&pair.to, channel, 0), QUOIT_E_STALE);
        op_must(&pair.from, op_channel_send(&pair.from, channel, 6, 0, 0), QUOIT_E_STALE);
    }
    /* Closed before anything came: the end, without a message. */
    uint64_t recv = op_channel_recv(&pair.to, pair.channel, 0);
    uint64_t shut = op_close(&pair.to, pair.channel, 0);
    CHECK_EQ(op_must(&pair.to, recv, 0).flags, QUOIT_EVF_EOF);
    op_must(&pair.to, shut, 0);
    /* Closed with its message inside: that is still had. */
    quoit_handle channel = channel_new(&pair.to, QUOIT_CHANNEL_ONESHOT, 1);
    op_must(&pair.from, op_channel_send(&pair.from, channel, 9, 0, 0), 0);
    shut = op_close(&pair.to, channel, 0);
    pump_settle(&pair.to);
    CHECK(!op_ended(&pair.to, shut));
    CHECK_EQ(op_finish(&pair.to, op_channel_recv(&pair.to, channel, 0)).value, 9);
    op_must(&pair.to, shut, 0);
    /* A oneshot answers while another send of the worker waits: still in order, still told. */
    quoit_handle full = channel_new(&pair.to, QUOIT_CHANNEL_MANY_TO_ONE, 1);
    op_must(&pair.from, op_channel_send(&pair.from, full, 1, 0, 0), 0);
    uint64_t waits = op_channel_send(&pair.from, full, 2, 0, 0);
    channel = channel_new(&pair.to, QUOIT_CHANNEL_ONESHOT, 1);
    CHECK_EQ(op_must(&pair.from, op_channel_send(&pair.from, channel, 9, 0, 0), 0).flags, QUOIT_EVF_EOF);
    CHECK(!op_ended(&pair.from, waits));
    pair_close(&pair);
}

/* The receiver's worker stops, or is destroyed without: senders elsewhere are told, none waits for ever. */
static void the_receiver_goes(void) {
    struct pair pair;
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        uint64_t sends[6];
        pump_open(&pair.from, NULL);
        pump_open_in(&pair.to, pair.from.runtime, NULL);
        pair.channel = channel_new(&pair.to, QUOIT_CHANNEL_MANY_TO_ONE, 2);
        uint64_t recv = destroyed ? 0 : op_channel_recv(&pair.to, pair.channel, QUOIT_OPF_MULTI);
        quoit_handle quiet = channel_new(&pair.to, QUOIT_CHANNEL_MANY_TO_ONE, 2);
        for (uint64_t i = 0; i < 6; i++)
            sends[i] = op_channel_send(&pair.from, i % 2 ? quiet : pair.channel, i, 0, 0);
        op_channel_send(&pair.from, quiet, 6, 0, 0);
        pump_settle(&pair.from);
        if (destroyed) {
            pump_abandon(&pair.to);
        } else {
            pump_drain(&pair.to);
            quoit_event last = op_record(&pair.to, recv)->last;
            CHECK(last.result == -ECANCELED || last.flags & QUOIT_EVF_MESSAGE);
            pump_abandon(&pair.to);
        }
        for (int i = 0; i < 6; i++) {
            quoit_event event = op_finish(&pair.from, sends[i]);
            CHECK(event.result == (i < 4 ? 0 : -EPIPE) || (!destroyed && !(i % 2) && event.result == 0));
        }
        op_must(&pair.from, op_channel_send(&pair.from, pair.channel, 1, 0, 0), QUOIT_E_STALE);
        pump_close(&pair.from);
    }
}

/* The sender's worker stops, or is destroyed without: what was in the channel stays, what waited does not come. */
static void the_sender_goes(void) {
    struct pair pair;
    for (int how = 0; how < 3; how++) {
        uint64_t sends[6];
        pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 2);
        for (uint64_t i = 0; i < 6; i++)
            sends[i] = op_channel_send(&pair.from, pair.channel, i, 0, 0);
        pump_settle(&pair.from);
        if (how == 0) {
            pump_drain(&pair.from);
            for (int i = 0; i < 6; i++)
                CHECK_EQ(op_record(&pair.from, sends[i])->last.result, i < 2 ? 0 : -ECANCELED);
        } else if (how == 1) { /* two of them are in, and their letters were not opened */
            channel_expect(&pair.to, pair.channel, 0);
            channel_expect(&pair.to, pair.channel, 1);
        }
        pump_abandon(&pair.from);
        channel_expect(&pair.to, pair.channel, how == 1 ? 2 : 0);
        channel_expect(&pair.to, pair.channel, how == 1 ? 3 : 1);
        uint64_t none = op_channel_recv(&pair.to, pair.channel, 0);
        pump_settle(&pair.to);
        CHECK(!op_ended(&pair.to, none));
        pump_close(&pair.to);
    }
}

struct poster {
    quoit_handle worker;
    quoit_op op;
};

static void *post_one(void *arg) {
    struct poster *poster = arg;
    CHECK_EQ(quoit_post(poster->worker, &poster->op, 1), 1);
    return NULL;
}

/* From a thread that is no worker: a send is posted to any worker, a close and a recv to the channel's. */
static void posted(void) {
    struct pair pair;
    pair_open(&pair, QUOIT_CHANNEL_MANY_TO_ONE, 2);
    struct pump *at[2] = {&pair.to, &pair.from};
    for (int i = 0; i < 20; i++) {
        struct pump *pump = at[i % 2];
        uint64_t recv = op_channel_recv(&pair.to, pair.channel, 0);
        pump_settle(&pair.to);
        struct poster poster = {
            pump->handle,
            {.opcode = QUOIT_OP_CHANNEL_SEND, .target = pair.channel, .addr = 77, .offset = i, .arg = 9}};
        poster.op.user_data = op_expect(pump, QUOIT_OP_CHANNEL_SEND, 0, pair.channel);
        pthread_t thread = thread_start(post_one, &poster);
        op_must(pump, poster.op.user_data, 0);
        quoit_event event = op_must(&pair.to, recv, i);
        CHECK_EQ(event.value, 77);
        CHECK_EQ(event.aux, 9);
        thread_join(thread);
    }
    struct poster close = {pair.to.handle, {.opcode = QUOIT_OP_CLOSE, .target = pair.channel}};
    close.op.user_data = op_expect(&pair.to, QUOIT_OP_CLOSE, 0, pair.channel);
    uint64_t recv = op_channel_recv(&pair.to, pair.channel, QUOIT_OPF_MULTI);
    pump_settle(&pair.to);
    thread_join(thread_start(post_one, &close));
    CHECK_EQ(op_must(&pair.to, recv, 0).flags, QUOIT_EVF_EOF);
    op_must(&pair.to, close.op.user_data, 0);
    pair_close(&pair);
}

/* Workers of two runtimes, whatever driver each has. */
static void between_runtimes(void) {
    struct pump to, from;
    pump_open(&to, NULL);
    pump_open(&from, NULL);
    quoit_handle channel = channel_new(&to, QUOIT_CHANNEL_MANY_TO_ONE, 1);
    op_must(&from, op_channel_send(&from, channel, 1, 0, 0), 0);
    uint64_t waits = op_channel_send(&from, channel, 2, 0, 0);
    pump_settle(&from);
    channel_expect(&to, channel, 1);
    op_must(&from, waits, 0);
    channel_expect(&to, channel, 2);
    pump_close(&to);
    pump_close(&from);
}

static const struct test_case cases[] = {
    {"closed_while_full", closed_while_full},
    {"closed_while_empty", closed_while_empty},
    {"dropped", dropped},
    {"patience", patience},
    {"oneshot", oneshot},
    {"the_receiver_goes", the_receiver_goes},
    {"the_sender_goes", the_sender_goes},
    {"posted", posted},
    {"between_runtimes", between_runtimes},
};
TEST_GROUP(channel_ends, cases);
