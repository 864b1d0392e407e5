/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* timers.c: deadlines in their order, periods, re-arming, clocks, and the time a turn may sleep. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ll

static uint64_t op_timer_at(struct pump *pump, uint32_t clock, int64_t deadline) {
    quoit_op *op = op_new(pump, QUOIT_OP_TIMER, 0);
    op->flags = QUOIT_OPF_ABS;
    op->arg = clock;
    op->offset = deadline;
    return op->user_data;
}

static void one_shot(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    static const uint64_t after[] = {0, 1, 999999, 1000000, 1000001, 20000000};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        int64_t begun = quoit_now(QUOIT_CLOCK_MONOTONIC);
        pump_turn_nb(&pump); /* "now" is the batch's */
        uint64_t timer = op_timer(&pump, after[i], 0, 0);
        quoit_event event = op_must(&pump, timer, 1);
        CHECK(quoit_now(QUOIT_CLOCK_MONOTONIC) - begun >= (int64_t)after[i]); /* never early */
        CHECK_EQ(event.flags, 0);
        CHECK_EQ(quoit_handle_kind(event.value), QUOIT_HANDLE_TIMER);
        op_must(&pump, op_close(&pump, event.value, 0), QUOIT_E_STALE); /* gone with its event */
    }
    CHECK_EQ(stats_of(&pump).timers_fired, 6);
    pump_close(&pump);
}

struct due {
    int64_t deadline;
    uint32_t number; /* of arming */
};

static struct due *dues;
static uint64_t first_id;
static int64_t latest;
static uint32_t latest_number, fired;

/* By deadline; those of one deadline by arming. The resolution is 1 ms: closer ones may share a tick. */
static void check_due(struct pump *pump, const quoit_event *event) {
    if (event->kind != QUOIT_OP_TIMER || event->result != 1)
        return;
    const struct due *due = &dues[event->user_data - first_id];
    CHECK(quoit_now(QUOIT_CLOCK_MONOTONIC) >= due->deadline);
    CHECK(pump->batch->now_ns >= (uint64_t)due->deadline);
    CHECK(due->deadline >= latest);
    CHECK(due->deadline > latest || due->number > latest_number);
    latest = due->deadline;
    latest_number = due->number;
    fired++;
}

static void in_order(uint32_t count, int64_t step) {
    struct pump pump;
    uint64_t random = 3;
    pump_open(&pump, NULL);
    dues = calloc(count, sizeof *dues);
    fired = 0;
    latest = 0;
    pump.on_event = check_due;
    int64_t base = (quoit_now(QUOIT_CLOCK_MONOTONIC) / MS + 60) * MS;
    for (uint32_t i = 0; i < count; i++) {
        int64_t deadline = base + (int64_t)(pattern_random(&random) % 300) * step;
        uint64_t id = op_timer_at(&pump, QUOIT_CLOCK_MONOTONIC, deadline);
        if (i == 0)
            first_id = id;
        CHECK_EQ(id - first_id, i);
        dues[i] = (struct due){deadline, i};
    }
    PUMP_UNTIL(&pump, fired == count);
    quoit_stats stats = stats_of(&pump);
    CHECK_EQ(stats.timers_fired, count);
    pump_close(&pump);
    free(dues);
}

static void ten_thousand_in_order(void) {
    in_order(10000, MS);
}

static void equal_deadlines_by_arming(void) {
    in_order(3000, 100 * MS / 300);
}

static void same_deadline_for_all(void) {
    in_order(3000, 0);
}

static void periodic(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t timer = op_timer(&pump, 5 * MS, 3 * MS, 0);
    uint64_t begun = pump.batch->now_ns, count = 0;
    quoit_handle handle = 0;
    for (uint32_t events = 1; count < 20; events++) {
        PUMP_UNTIL(&pump, op_record(&pump, timer)->events == events);
        const quoit_event *event = &op_record(&pump, timer)->last;
        CHECK(event->result >= 1 && event->flags & QUOIT_EVF_MORE);
        CHECK(!handle || handle == event->value);
        handle = event->value;
        count += (uint64_t)event->result;
        CHECK(pump.batch->now_ns >= begun + 5 * (uint64_t)MS + (count - 1) * 3 * (uint64_t)MS);
    }
    op_must(&pump, op_close(&pump, handle, 0), 0);
    CHECK_EQ(op_record(&pump, timer)->last.result, -ECANCELED);
    pump_close(&pump);
}

/* Expirations that nobody took are counted, not queued up, and the period does not drift. */
static void missed_periods_are_counted(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t timer = op_timer(&pump, MS, MS, 0);
    pump_turn_nb(&pump);
    uint32_t before = op_record(&pump, timer)->events; /* on a slow machine it may have come already */
    int64_t until = quoit_now(QUOIT_CLOCK_MONOTONIC) + 50 * MS;
    while (quoit_now(QUOIT_CLOCK_MONOTONIC) < until)
        ; /* the program is busy elsewhere */
    PUMP_UNTIL(&pump, op_record(&pump, timer)->events > before);
    CHECK(op_record(&pump, timer)->last.result >= 40);
    CHECK_EQ(op_record(&pump, timer)->events, before + 1);
    op_must(&pump, op_cancel(&pump, op_record(&pump, timer)->last.value, 0, 0), 1);
    op_must(&pump, timer, -ECANCELED);
    pump_close(&pump);
}

static quoit_event first_event;

static void note_first(struct pump *pump, const quoit_event *event) {
    if (op_record(pump, event->user_data)->events == 1)
        first_event = *event;
}

/* The event that ARMED asks for; the expiry may come in the same batch. */
static quoit_handle armed(struct pump *pump, uint64_t timer) {
    pump->on_event = note_first;
    PUMP_UNTIL(pump, op_record(pump, timer)->events);
    pump->on_event = NULL;
    CHECK_EQ(first_event.user_data, timer);
    CHECK_EQ(first_event.result, 0);
    CHECK_EQ(first_event.flags, QUOIT_EVF_MORE);
    return first_event.value;
}

static uint64_t op_rearm(struct pump *pump, quoit_handle timer, int64_t after) {
    quoit_op *op = op_new(pump, QUOIT_OP_TIMER, timer);
    op->offset = after;
    return op->user_data;
}

static void rearming(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t timer = op_timer(&pump, 3600 * 1000 * MS, 0, QUOIT_OPF_ARMED);
    quoit_handle handle = armed(&pump, timer);
    for (int i = 0; i < 5; i++)
        op_must(&pump, op_rearm(&pump, handle, 3600 * 1000 * MS), 0); /* later and later */
    uint64_t begun = pump.batch->now_ns;
    op_must(&pump, op_rearm(&pump, handle, 10 * MS), 0);
    quoit_event event = op_must(&pump, timer, 1); /* the first op answers */
    CHECK(pump.batch->now_ns >= begun + 10 * MS);
    CHECK_EQ(event.value, handle);
    op_must(&pump, op_rearm(&pump, handle, MS), QUOIT_E_STALE);
    /* Pushed on before it comes, as an idle timer is: the first deadline is void. */
    timer = op_timer(&pump, 500 * MS, 0, QUOIT_OPF_ARMED);
    handle = armed(&pump, timer);
    op_must(&pump, op_rearm(&pump, handle, 3600 * 1000 * MS), 0);
    op_must(&pump, op_timer(&pump, 600 * MS, 0, 0), 1);
    CHECK(!op_ended(&pump, timer));
    op_must(&pump, op_rearm(&pump, handle, 0), 0);
    op_must(&pump, timer, 1);
    pump_close(&pump);
}

static void armed_comes_first(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (int i = 0; i < 50; i++) {
        uint64_t timer = op_timer(&pump, 0, 0, QUOIT_OPF_ARMED);
        quoit_handle handle = armed(&pump, timer);
        CHECK_EQ(op_must(&pump, timer, 1).value, handle);
        CHECK_EQ(op_record(&pump, timer)->events, 2);
    }
    pump_close(&pump);
}

static void clocks(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (uint32_t clock = QUOIT_CLOCK_MONOTONIC; clock <= QUOIT_CLOCK_WALL; clock++) {
        int64_t deadline = quoit_now(clock) + 20 * MS;
        op_must(&pump, op_timer_at(&pump, clock, deadline), 1);
        CHECK(quoit_now(clock) >= deadline);
        op_must(&pump, op_timer_at(&pump, clock, deadline - 3600 * 1000 * MS), 1); /* past: at once */
        op_must(&pump, op_timer_at(&pump, clock, 0), 1);
        quoit_op *op = op_new(&pump, QUOIT_OP_TIMER, 0);
        op->arg = clock;
        op->offset = 2 * MS;
        op_must(&pump, op->user_data, 1);
    }
    pump_close(&pump);
}

static void far_futures(void) {
    struct pump pump;
    static const int64_t far[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2, 1ll << 62,
                                  3600ll * 24 * 365 * 100 * 1000 * MS};
    uint64_t ids[10];
    pump_open(&pump, NULL);
    for (int i = 0; i < 5; i++) {
        ids[i] = op_timer(&pump, (uint64_t)far[i], 0, 0);
        ids[i + 5] = op_timer_at(&pump, QUOIT_CLOCK_MONOTONIC, far[i]);
    }
    uint64_t period = op_timer(&pump, 2 * MS, INT64_MAX, 0);
    CHECK_EQ(op_finish(&pump, op_timer(&pump, 2 * MS, UINT64_MAX, 0)).result, QUOIT_E_FIELD);
    op_must(&pump, op_timer(&pump, 20 * MS, 0, 0), 1);
    for (int i = 0; i < 10; i++) {
        CHECK(!op_ended(&pump, ids[i]));
        op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, ids[i]), 1);
    }
    CHECK_EQ(op_record(&pump, period)->events, 1);
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, period), 1);
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

static void every_level_of_the_wheel(void) {
    struct pump pump;
    uint64_t ids[200];
    pump_open(&pump, NULL);
    /* Around each power of 64 ms, armed and taken back; the first ones fire. */
    int n = 0;
    for (int64_t power = 1; power < 1ll << 34; power *= 64)
        for (int64_t delta = -2; delta <= 2; delta++)
            if (power + delta > 0)
                ids[n++] = op_timer(&pump, (uint64_t)((power + delta) * MS), 0, 0);
    op_must(&pump, op_timer(&pump, 70 * MS, 0, 0), 1);
    int count = 0;
    for (int i = 0; i < n; i++)
        if (op_ended(&pump, ids[i]))
            count++;
        else
            op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, ids[i]), 1);
    CHECK_EQ(count, 3 + 5); /* 1, 2 and 3 ms; 62 to 66 ms */
    pump_close(&pump);
}

/* By user_data, all among many: a search through all of them for each would outlast the test's time. */
static void many_taken_back_by_user_data(void) {
    enum { COUNT = 200000 };
    static uint64_t ids[COUNT];
    struct pump pump;
    pump_open(&pump, NULL);
    for (int i = 0; i < COUNT; i++)
        ids[i] = op_timer(&pump, (uint64_t)(3600 * 1000 * MS + i * MS), 0, 0);
    pump_turn_nb(&pump);
    CHECK_EQ(stats_of(&pump).objects_live, COUNT);
    for (int i = COUNT - 1; i >= 0; i--) {
        op_cancel(&pump, 0, QUOIT_OP_TIMER, ids[i]);
        if (i % 500 == 0)
            op_must(&pump, ids[i], -ECANCELED);
    }
    PUMP_UNTIL(&pump, stats_of(&pump).objects_live == 0);
    CHECK_EQ(pump.batch->next_ns, -1);
    pump_close(&pump);
}

static void time_to_the_next(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    pump_turn_nb(&pump);
    CHECK_EQ(pump.batch->next_ns, -1);
    uint64_t far = op_timer(&pump, 3600 * 1000 * MS, 0, 0);
    pump_turn_nb(&pump);
    CHECK(pump.batch->next_ns > 0 &&
          pump.batch->next_ns <= 3601 * 1000 * MS); /* when to look; for far ones earlier */
    uint64_t near = op_timer(&pump, 50 * MS, 0, 0);
    pump_turn_nb(&pump);
    CHECK(pump.batch->next_ns > 0 && pump.batch->next_ns <= 52 * MS);
    op_must(&pump, near, 1);
    CHECK(pump.batch->next_ns > 0);
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, far), 1);
    pump_turn_nb(&pump);
    CHECK_EQ(pump.batch->next_ns, -1);
    pump_close(&pump);
}

/* A sleeping worker wakes for a timer once, not again and again. */
static void sleeping_until_a_timer(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    pump_turn_nb(&pump);
    quoit_stats before = stats_of(&pump);
    op_must(&pump, op_timer(&pump, 150 * MS, 0, 0), 1);
    quoit_stats after = stats_of(&pump);
    CHECK(after.parks - before.parks <= 20);
    CHECK(after.park_ns - before.park_ns >= 100 * MS);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"one_shot", one_shot},
    {"ten_thousand_in_order", ten_thousand_in_order},
    {"equal_deadlines_by_arming", equal_deadlines_by_arming},
    {"same_deadline_for_all", same_deadline_for_all},
    {"periodic", periodic},
    {"missed_periods_are_counted", missed_periods_are_counted},
    {"rearming", rearming},
    {"armed_comes_first", armed_comes_first},
    {"clocks", clocks},
    {"far_futures", far_futures},
    {"every_level_of_the_wheel", every_level_of_the_wheel},
    {"many_taken_back_by_user_data", many_taken_back_by_user_data},
    {"time_to_the_next", time_to_the_next},
    {"sleeping_until_a_timer", sleeping_until_a_timer},
};
TEST_GROUP(timers, cases);
