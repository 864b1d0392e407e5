/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* clocks.c: what timers promise, on each of the three clocks: order, grids without drift, any deadline a number can say. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define MS 1000000ll
#define HOUR (3600 * 1000 * MS)
#define CLOCKS 3

static quoit_op *new_timer(struct pump *pump, uint32_t clock, int64_t offset, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_TIMER, 0);
    op->arg = clock;
    op->offset = offset;
    op->flags = flags;
    return op;
}

static uint64_t timer_at(struct pump *pump, uint32_t clock, int64_t deadline) {
    return new_timer(pump, clock, deadline, QUOIT_OPF_ABS)->user_data;
}

static uint64_t timer_after(struct pump *pump, uint32_t clock, int64_t span) {
    return new_timer(pump, clock, span, 0)->user_data;
}

static void fires_on_each(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (uint32_t clock = 0; clock < CLOCKS; clock++) {
        int64_t deadline = quoit_now(clock) + 20 * MS;
        op_must(&pump, timer_at(&pump, clock, deadline), 1);
        CHECK(quoit_now(clock) >= deadline);
        int64_t begun = quoit_now(clock);
        pump_turn_nb(&pump);
        op_must(&pump, timer_after(&pump, clock, 20 * MS), 1);
        CHECK(quoit_now(clock) - begun >= 20 * MS);
    }
    pump_close(&pump);
}

struct due {
    int64_t deadline;
    uint32_t clock;
};

static struct due *dues;
static uint64_t first_id;
static uint32_t fired;
static uint32_t last_of[CLOCKS]; /* the number of the last that fired, from 1 */

static void check_due(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind != QUOIT_OP_TIMER || event->result != 1)
        return;
    uint32_t number = (uint32_t)(event->user_data - first_id);
    const struct due *due = &dues[number];
    CHECK(quoit_now(due->clock) >= due->deadline);
    if (last_of[due->clock] != 0) {
        const struct due *last = &dues[last_of[due->clock] - 1];
        CHECK(last->deadline < due->deadline ||
              (last->deadline == due->deadline && last_of[due->clock] - 1 < number));
    }
    last_of[due->clock] = number + 1;
    fired++;
}

/* By deadline, equal ones by arming: on each clock, all three of them armed among one another. */
static void in_order(uint32_t count, uint32_t steps, int64_t step) {
    struct pump pump;
    uint64_t random = 5;
    int64_t base[CLOCKS];
    pump_open(&pump, NULL);
    dues = calloc(count, sizeof *dues);
    fired = 0;
    pump.on_event = check_due;
    for (uint32_t clock = 0; clock < CLOCKS; clock++) {
        base[clock] = quoit_now(clock) + 60 * MS;
        last_of[clock] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t clock = (uint32_t)(pattern_random(&random) % CLOCKS);
        int64_t deadline = base[clock] + (int64_t)(pattern_random(&random) % steps) * step;
        dues[i] = (struct due){deadline, clock};
        uint64_t id = timer_at(&pump, clock, deadline);
        if (i == 0)
            first_id = id;
        CHECK_EQ(id - first_id, i);
    }
    PUMP_UNTIL(&pump, fired == count);
    pump_close(&pump);
    free(dues);
}

static void in_order_on_each(void) {
    in_order(6000, 150, 2 * MS);
}

static void closer_than_a_tick(void) {
    in_order(3000, 300, MS / 3);
}

static void equal_deadlines_by_arming(void) {
    in_order(3000, 1, 0);
}

static uint64_t told[CLOCKS];
static uint32_t told_count;

static void note_order(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind == QUOIT_OP_TIMER)
        told[told_count++] = event->user_data;
}

/* Due together, of several clocks: who is late for longest comes first. */
static void clocks_among_one_another(void) {
    struct pump pump;
    uint32_t order[][CLOCKS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    pump_open(&pump, NULL);
    pump.on_event = note_order;
    for (size_t round = 0; round < sizeof order / sizeof *order; round++) {
        uint64_t ids[CLOCKS];
        told_count = 0;
        for (uint32_t clock = 0; clock < CLOCKS; clock++)
            ids[clock] = timer_at(&pump, clock, quoit_now(clock) - (1 + order[round][clock]) * HOUR);
        pump_submit(&pump);
        int64_t until = quoit_now(QUOIT_CLOCK_MONOTONIC) + 3 * MS;
        while (quoit_now(QUOIT_CLOCK_MONOTONIC) < until)
            ; /* the tick in which they were armed must be over on every clock */
        PUMP_UNTIL(&pump, told_count == CLOCKS);
        for (uint32_t clock = 0; clock < CLOCKS; clock++)
            CHECK_EQ(told[CLOCKS - 1 - order[round][clock]], ids[clock]);
    }
    pump_close(&pump);
}

/* However late the events come, their counts say where on the grid the clock is: a beat that counted from the last event would not. */
static void periods_keep_to_the_grid(uint32_t clock) {
    struct pump pump;
    int64_t period = 3 * MS + 1, count = 0;
    pump_open(&pump, NULL);
    int64_t base = quoit_now(clock) + 5 * MS;
    quoit_op *op = new_timer(&pump, clock, base, QUOIT_OPF_ABS);
    uint64_t timer = op->user_data;
    op->arg2 = (uint64_t)period;
    for (uint32_t events = 1; events <= 25; events++) {
        int64_t before;
        do {
            before = quoit_now(clock);
            pump_check_time(&pump, "a beat", __FILE__, __LINE__);
            pump_turn(&pump, 200 * MS);
        } while (op_record(&pump, timer)->events < events);
        CHECK_EQ(op_record(&pump, timer)->events, events);
        count += op_record(&pump, timer)->last.result;
        CHECK(count >= 1 + (before - base) / period);
        CHECK(count <= 1 + (quoit_now(clock) - base) / period);
        if (events % 5 == 0)
            for (int64_t until = quoit_now(clock) + 7 * MS; quoit_now(clock) < until;)
                ; /* the program is busy elsewhere */
    }
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, timer), 1);
    op_must(&pump, timer, -ECANCELED);
    pump_close(&pump);
}

static void no_drift_on_each(void) {
    for (uint32_t clock = 0; clock < CLOCKS; clock++)
        periods_keep_to_the_grid(clock);
}

static const int64_t far[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2, 1ll << 62};
#define FAR (sizeof far / sizeof *far)

static void never_comes(void) {
    struct pump pump;
    uint64_t ids[CLOCKS * FAR * 2];
    size_t n = 0;
    pump_open(&pump, NULL);
    for (uint32_t clock = 0; clock < CLOCKS; clock++)
        for (size_t i = 0; i < FAR; i++) {
            ids[n++] = timer_at(&pump, clock, far[i]);
            ids[n++] = timer_after(&pump, clock, far[i]);
        }
    op_must(&pump, timer_after(&pump, QUOIT_CLOCK_MONOTONIC, 20 * MS), 1);
    CHECK(pump.batch->next_ns > 0);
    while (n-- > 0) {
        CHECK(!op_ended(&pump, ids[n]));
        op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, ids[n]), 1);
    }
    pump_turn_nb(&pump);
    CHECK_EQ(pump.batch->next_ns, -1);
    pump_close(&pump);
}

static void came_long_ago(void) {
    struct pump pump;
    static const int64_t past[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, -HOUR, -1, 0, 1};
    pump_open(&pump, NULL);
    for (uint32_t clock = 0; clock < CLOCKS; clock++) {
        for (size_t i = 0; i < sizeof past / sizeof *past; i++)
            op_must(&pump, timer_at(&pump, clock, past[i]), 1);
        for (size_t i = 0; i < 5; i++) {
            quoit_op *op = new_timer(&pump, clock, past[i], 0); /* a span cannot be negative */
            CHECK_EQ(op_must(&pump, op->user_data, QUOIT_E_FIELD).aux, QUOIT_FIELD_OFFSET);
        }
    }
    quoit_op *op = new_timer(&pump, CLOCKS, 0, QUOIT_OPF_ABS);
    CHECK_EQ(op_must(&pump, op->user_data, QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    pump_close(&pump);
}

/* The beats that were missed since the beginning of numbers, and the next one after now. */
static void periods_overflow(void) {
    struct pump pump;
    static const struct {
        int64_t at;
        uint64_t period;
        int64_t beats; /* of the first event, 0: it depends on the clock */
    } cases[] = {
        {INT64_MIN, 1, INT64_MAX}, {INT64_MIN, INT64_MAX, 2}, {INT64_MIN / 2, INT64_MAX, 1},
        {-1, INT64_MAX, 1},        {0, INT64_MAX, 1},         {INT64_MIN, 1000 * (uint64_t)HOUR, 0},
    };
    pump_open(&pump, NULL);
    for (uint32_t clock = 0; clock < CLOCKS; clock++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            quoit_op *op = new_timer(&pump, clock, cases[i].at, QUOIT_OPF_ABS);
            uint64_t timer = op->user_data;
            op->arg2 = cases[i].period;
            PUMP_UNTIL(&pump, op_record(&pump, timer)->events > 0);
            const quoit_event *event = &op_record(&pump, timer)->last;
            CHECK(event->result > 0 && event->flags & QUOIT_EVF_MORE);
            if (cases[i].period > 1)
                CHECK_EQ(op_record(&pump, timer)->events, 1);
            if (cases[i].beats != 0 && op_record(&pump, timer)->events == 1)
                CHECK_EQ(event->result, cases[i].beats);
            op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_TIMER, timer), 1);
        }
    quoit_op *op = new_timer(&pump, QUOIT_CLOCK_BOOT, 0, 0);
    op->arg2 = (uint64_t)INT64_MAX + 1;
    CHECK_EQ(op_must(&pump, op->user_data, QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG2);
    pump_close(&pump);
}

static void rearmed_on_another_clock(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    uint64_t timer = new_timer(&pump, QUOIT_CLOCK_BOOT, HOUR, QUOIT_OPF_ARMED)->user_data;
    PUMP_UNTIL(&pump, op_record(&pump, timer)->events == 1);
    quoit_handle handle = op_record(&pump, timer)->last.value;
    for (uint32_t i = 0; i < 30; i++) {
        quoit_op *op = new_timer(&pump, i % CLOCKS, quoit_now(i % CLOCKS) + HOUR, QUOIT_OPF_ABS);
        op->target = handle;
        op_record(&pump, op->user_data)->target = handle;
        op_must(&pump, op->user_data, 0);
    }
    CHECK(!op_ended(&pump, timer));
    quoit_op *op = new_timer(&pump, QUOIT_CLOCK_WALL, quoit_now(QUOIT_CLOCK_WALL) + MS, QUOIT_OPF_ABS);
    op->target = handle;
    op_record(&pump, op->user_data)->target = handle;
    op_must(&pump, timer, 1);
    pump_turn_nb(&pump);
    CHECK_EQ(pump.batch->next_ns, -1); /* it left nothing behind on the other clocks */
    pump_close(&pump);
}

/* A sleeping worker wakes for each clock once, not again and again; next_ns tells a host when. */
static void sleeping_until_each(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (uint32_t clock = 0; clock < CLOCKS; clock++) {
        quoit_stats before = stats_of(&pump);
        uint64_t timer = timer_at(&pump, clock, quoit_now(clock) + 150 * MS);
        pump_turn_nb(&pump);
        CHECK(op_ended(&pump, timer) || (pump.batch->next_ns >= 0 && pump.batch->next_ns <= 152 * MS));
        op_must(&pump, timer, 1);
        CHECK(stats_of(&pump).parks - before.parks <= 20);
    }
    pump_close(&pump);
}

/* The worker's descriptor wakes a host for timers of every clock. */
static void hosts_wake_for_each(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    int fd = quoit_worker_fd(pump.worker);
    CHECK(fd >= 0);
    for (uint32_t i = 0; i < 30; i++) {
        uint64_t timer = timer_at(&pump, i % CLOCKS, quoit_now(i % CLOCKS) + i % 4 * MS);
        pump_turn_nb(&pump);
        while (!op_ended(&pump, timer)) {
            CHECK_EQ(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 20000), 1);
            pump_turn_nb(&pump);
        }
    }
    pump_close(&pump);
}

/* Boot and wall cost a worker one descriptor; without it only they fail. */
static void without_a_descriptor(void) {
    struct pump pump;
    struct rlimit before, now;
    pump_open(&pump, NULL);
    pump_turn_nb(&pump);
    uint64_t timer = new_timer(&pump, QUOIT_CLOCK_MONOTONIC, HOUR, QUOIT_OPF_ARMED)->user_data;
    PUMP_UNTIL(&pump, op_record(&pump, timer)->events == 1);
    quoit_handle handle = op_record(&pump, timer)->last.value;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    int lowest = dup(0);
    CHECK(lowest >= 0);
    close(lowest);
    now.rlim_cur = (rlim_t)lowest;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    op_must(&pump, timer_at(&pump, QUOIT_CLOCK_BOOT, 0), -EMFILE);
    op_must(&pump, timer_after(&pump, QUOIT_CLOCK_BOOT, 1), -EMFILE);
    op_must(&pump, timer_at(&pump, QUOIT_CLOCK_WALL, 0), -EMFILE);
    op_must(&pump, timer_after(&pump, QUOIT_CLOCK_WALL, 1), 1); /* a span: no clock that is set changes it */
    op_must(&pump, timer_at(&pump, QUOIT_CLOCK_MONOTONIC, 0), 1);
    quoit_op *op = new_timer(&pump, QUOIT_CLOCK_BOOT, 0, 0);
    op->target = handle;
    op_record(&pump, op->user_data)->target = handle;
    op_must(&pump, op->user_data, -EMFILE);
    CHECK(!op_ended(&pump, timer)); /* armed as it was */
    CHECK_EQ(stats_of(&pump).objects_live, 1);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    op_must(&pump, timer_at(&pump, QUOIT_CLOCK_BOOT, 0), 1);
    op_must(&pump, timer_at(&pump, QUOIT_CLOCK_WALL, 0), 1);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"fires_on_each", fires_on_each},
    {"in_order_on_each", in_order_on_each},
    {"closer_than_a_tick", closer_than_a_tick},
    {"equal_deadlines_by_arming", equal_deadlines_by_arming},
    {"clocks_among_one_another", clocks_among_one_another},
    {"no_drift_on_each", no_drift_on_each},
    {"never_comes", never_comes},
    {"came_long_ago", came_long_ago},
    {"periods_overflow", periods_overflow},
    {"rearmed_on_another_clock", rearmed_on_another_clock},
    {"sleeping_until_each", sleeping_until_each},
    {"hosts_wake_for_each", hosts_wake_for_each},
    {"without_a_descriptor", without_a_descriptor},
};
TEST_GROUP(clocks, cases);
