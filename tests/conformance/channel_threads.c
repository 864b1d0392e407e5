/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* channel_threads.c: many workers, each on its thread, send to one: every message once, in order, whatever ends meanwhile. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "pair.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SENDERS = 4, WINDOW = 8 };

/* A worker on a thread of its own that keeps some sends in flight until it has given all, or the channel ends. */
struct sender {
    quoit_runtime *runtime;
    quoit_handle channel;
    uint32_t number, total;
    uint32_t cancel_every; /* asks each so many-th of them to end; 0 never */
    uint64_t sent, cancelled, late, piped;
    uint8_t *in; /* per message: it ended with success */
};

/* Read by the receiver meanwhile. */
static void count(uint64_t *what) {
    __atomic_store_n(what, *what + 1, __ATOMIC_RELAXED);
}

static void take_end(struct sender *sender, struct pump *pump, uint64_t id, uint32_t index) {
    switch (op_finish(pump, id).result) {
    case 0:
        count(&sender->sent);
        sender->in[index] = 1;
        break;
    case -ECANCELED:
        count(&sender->cancelled);
        break;
    case -ETIMEDOUT:
        count(&sender->late);
        break;
    case -EPIPE:
    case QUOIT_E_STALE:
        sender->piped++;
        break;
    default:
        FAIL("a send ended with %lld", (long long)op_record(pump, id)->last.result);
    }
}

static void *send_all(void *arg) {
    struct sender *sender = arg;
    struct pump pump;
    uint64_t ids[WINDOW] = {0}, random = sender->number + 1;
    uint32_t i;
    pump_open_in(&pump, sender->runtime, NULL);
    for (i = 0; i < sender->total && !sender->piped; i++) {
        if (ids[i % WINDOW])
            take_end(sender, &pump, ids[i % WINDOW], i - WINDOW);
        uint64_t id = op_channel_send(&pump, sender->channel, i, (int64_t)i * -3, sender->number);
        ids[i % WINDOW] = id;
        if (!sender->cancel_every || pattern_random(&random) % sender->cancel_every)
            continue;
        if (i % 3 == 0)
            ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns =
                1 + pattern_random(&random) % 100000;
        else if (i % 3 == 1)
            pump_turn_nb(&pump);
        if (i % 3)
            op_cancel(&pump, 0, QUOIT_OP_CHANNEL_SEND, id);
    }
    for (uint32_t k = i > WINDOW ? i - WINDOW : 0; k < i; k++)
        take_end(sender, &pump, ids[k % WINDOW], k);
    pump_close(&pump);
    return NULL;
}

struct crowd {
    struct pump pump;
    quoit_handle channel;
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    uint8_t *got[SENDERS];
    int64_t newest[SENDERS];
    uint64_t received;
};

static void take_message(struct pump *pump, const quoit_event *event) {
    struct crowd *crowd = pump->ctx;
    if (event->kind != QUOIT_OP_CHANNEL_RECV || !(event->flags & QUOIT_EVF_MESSAGE))
        return;
    CHECK(event->aux < SENDERS);
    CHECK(event->value < crowd->senders[event->aux].total);
    CHECK_EQ(event->result, (int64_t)event->value * -3);
    CHECK((int64_t)event->value > crowd->newest[event->aux]); /* in its sender's order, so never twice */
    crowd->newest[event->aux] = (int64_t)event->value;
    crowd->got[event->aux][event->value] = 1;
    crowd->received++;
}

static void crowd_open(struct crowd *crowd, uint32_t type, uint32_t capacity, uint32_t senders,
                       uint32_t total, uint32_t cancel_every) {
    memset(crowd, 0, sizeof *crowd);
    pump_open(&crowd->pump, NULL);
    crowd->pump.on_event = take_message;
    crowd->pump.ctx = crowd;
    crowd->channel = channel_new(&crowd->pump, type, capacity);
    for (uint32_t i = 0; i < senders; i++) {
        crowd->newest[i] = -1;
        crowd->got[i] = calloc(total, 1);
        crowd->senders[i] = (struct sender){.runtime = crowd->pump.runtime,
                                            .channel = crowd->channel,
                                            .number = i,
                                            .total = total,
                                            .cancel_every = cancel_every,
                                            .in = calloc(total, 1)};
        CHECK(crowd->got[i] && crowd->senders[i].in);
        crowd->threads[i] = thread_start(send_all, &crowd->senders[i]);
    }
}

static uint64_t crowd_join(struct crowd *crowd, uint32_t senders) {
    uint64_t sent = 0;
    for (uint32_t i = 0; i < senders; i++) {
        thread_join(crowd->threads[i]);
        sent += crowd->senders[i].sent;
    }
    return sent;
}

/* A send that succeeded is a message that came, and no other came. */
static void crowd_close(struct crowd *crowd, uint32_t senders, uint64_t dropped) {
    uint64_t missing = 0;
    for (uint32_t i = 0; i < senders; i++) {
        struct sender *sender = &crowd->senders[i];
        for (uint32_t k = 0; k < sender->total; k++) {
            CHECK(sender->in[k] >= crowd->got[i][k]);
            missing += sender->in[k] > crowd->got[i][k];
        }
        free(sender->in);
        free(crowd->got[i]);
    }
    CHECK_EQ(missing, dropped);
    pump_close(&crowd->pump);
}

static uint32_t some(uint32_t many) {
    return test_is_slow() ? many / 10 : many;
}

static void many_to_one(void) {
    struct crowd crowd;
    uint32_t total = some(20000);
    crowd_open(&crowd, QUOIT_CHANNEL_MANY_TO_ONE, 16, SENDERS, total, 0);
    uint64_t recv = op_channel_recv(&crowd.pump, crowd.channel, QUOIT_OPF_MULTI);
    PUMP_UNTIL(&crowd.pump, crowd.received == (uint64_t)SENDERS * total);
    CHECK_EQ(crowd_join(&crowd, SENDERS), crowd.received);
    CHECK(!op_ended(&crowd.pump, recv));
    crowd_close(&crowd, SENDERS, 0);
}

/* A receiver that takes them one by one, as a task that awaits each does. */
static void one_by_one(void) {
    struct crowd crowd;
    uint32_t total = some(10000);
    crowd_open(&crowd, QUOIT_CHANNEL_ONE_TO_ONE, 2, 1, total, 0);
    while (crowd.received < total)
        op_finish(&crowd.pump, op_channel_recv(&crowd.pump, crowd.channel, 0));
    CHECK_EQ(crowd_join(&crowd, 1), total);
    crowd_close(&crowd, 1, 0);
}

/* Cancels and deadlines that hit sends before, while and after they find room. */
static void with_cancels(void) {
    struct crowd crowd;
    uint32_t total = some(10000);
    crowd_open(&crowd, QUOIT_CHANNEL_MANY_TO_ONE, 2, SENDERS, total, 4);
    uint64_t random = 3, recv = 0, ended = 0, cancelled = 0;
    for (uint32_t turns = 0; ended < (uint64_t)SENDERS * total; turns++) {
        if (!recv || op_ended(&crowd.pump, recv))
            recv = op_channel_recv(&crowd.pump, crowd.channel,
                                   pattern_random(&random) % 4 ? QUOIT_OPF_MULTI : 0);
        if (turns % 50 == 49)
            op_cancel(&crowd.pump, crowd.channel, QUOIT_OP_CHANNEL_RECV, 0);
        pump_check_time(&crowd.pump, "the senders", __FILE__, __LINE__);
        pump_turn(&crowd.pump, 1000000);
        ended = cancelled = 0;
        for (int i = 0; i < SENDERS; i++) {
            uint64_t given = __atomic_load_n(&crowd.senders[i].cancelled, __ATOMIC_RELAXED);
            cancelled += given;
            ended += given + __atomic_load_n(&crowd.senders[i].late, __ATOMIC_RELAXED) +
                     __atomic_load_n(&crowd.senders[i].sent, __ATOMIC_RELAXED);
        }
    }
    uint64_t sent = crowd_join(&crowd, SENDERS);
    while (crowd.received < sent) {
        if (op_ended(&crowd.pump, recv))
            recv = op_channel_recv(&crowd.pump, crowd.channel, QUOIT_OPF_MULTI);
        pump_check_time(&crowd.pump, "what is inside", __FILE__, __LINE__);
        pump_turn(&crowd.pump, 1000000);
    }
    CHECK(cancelled > 0 && sent > 0);
    crowd_close(&crowd, SENDERS, 0);
}

/* A close in the middle of it all: what was taken in is received, or counted as dropped. */
static void closed_in_the_middle(void) {
    for (int round = 0; round < 6; round++) {
        struct crowd crowd;
        uint32_t abort = round % 2 ? QUOIT_OPF_ABORT : 0;
        crowd_open(&crowd, QUOIT_CHANNEL_MANY_TO_ONE, 8, SENDERS, 1000000, 0);
        uint64_t recv = op_channel_recv(&crowd.pump, crowd.channel, QUOIT_OPF_MULTI);
        PUMP_UNTIL(&crowd.pump, crowd.received > (uint64_t)round * 100);
        uint64_t shut = op_close(&crowd.pump, crowd.channel, abort);
        uint64_t dropped = op_must(&crowd.pump, shut, 0).value;
        quoit_event last = op_finish(&crowd.pump, recv);
        if (!abort) {
            CHECK(last.flags & QUOIT_EVF_EOF);
            CHECK_EQ(dropped, 0);
        }
        CHECK_EQ(crowd_join(&crowd, SENDERS), crowd.received + dropped);
        crowd_close(&crowd, SENDERS, dropped);
    }
}

struct short_life {
    quoit_runtime *runtime;
    quoit_handle channel;
    uint32_t round;
};

/* A sender that is destroyed with sends that wait, and letters that it has not opened. */
static void *send_and_go(void *arg) {
    struct short_life *life = arg;
    struct pump pump;
    pump_open_in(&pump, life->runtime, NULL);
    for (uint64_t i = 0; i < 8; i++)
        op_channel_send(&pump, life->channel, i, 0, life->round);
    for (uint32_t turns = life->round % 4; turns; turns--)
        pump_turn_nb(&pump);
    pump_submit(&pump);
    pump_abandon(&pump);
    return NULL;
}

/* Both workers end at the same time, with sends between them in every state: nothing hangs, leaks or is touched too late. */
static void both_ends_go(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    for (uint32_t round = 0; round < some(100); round++) {
        struct pump pump;
        pump_open_in(&pump, runtime, NULL);
        struct short_life lives[2];
        pthread_t threads[2];
        quoit_handle channel = channel_new(&pump, QUOIT_CHANNEL_MANY_TO_ONE, 3);
        if (round % 3)
            op_channel_recv(&pump, channel, round % 2 ? QUOIT_OPF_MULTI : 0);
        for (int i = 0; i < 2; i++) {
            lives[i] = (struct short_life){runtime, channel, round + (uint32_t)i};
            threads[i] = thread_start(send_and_go, &lives[i]);
        }
        for (uint32_t turns = round % 7; turns; turns--)
            pump_turn(&pump, 50000);
        if (round % 5 == 0)
            pump_drain(&pump);
        pump_abandon(&pump);
        for (int i = 0; i < 2; i++)
            thread_join(threads[i]);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static const struct test_case cases[] = {
    {"many_to_one", many_to_one},   {"one_by_one", one_by_one},
    {"with_cancels", with_cancels}, {"closed_in_the_middle", closed_in_the_middle},
    {"both_ends_go", both_ends_go},
};
TEST_GROUP(channel_threads, cases);
