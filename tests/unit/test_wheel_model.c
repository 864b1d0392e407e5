/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The timer wheel against a list that is searched from end to end: random arming, re-arming, disarming and leaps in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/wheel.h"

#include <stdlib.h>

#define MS INT64_C(1000000)
#define TIMERS 128
#define STEPS 60000

struct modelled {
    qt_timer timer;
    bool armed;
    int64_t
        due_tick; /* when it must expire: not before its deadline, nor in the tick in which it was armed */
};

static struct modelled timers[TIMERS];
static qt_wheel wheel;
static int64_t now;
static uint64_t seed;
static uint32_t expired;

static uint64_t roll(uint64_t below) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* Spans of all levels, with those near the borders of the levels more often than chance would have them. */
static int64_t span(void) {
    int64_t ticks = (int64_t)roll(UINT64_C(1) << (6 * roll(5) + 6));
    if (roll(4) == 0)
        ticks = (INT64_C(1) << (6 * roll(5))) + (int64_t)roll(3) - 1;
    return ticks * MS + (int64_t)roll(MS);
}

static void arm(struct modelled *m) {
    int64_t deadline = roll(10) == 0 ? now - (int64_t)roll(5 * MS) : now + span();
    int64_t tick = deadline <= 0 ? 0 : (deadline - 1) / MS + 1;
    qt_timer_arm(&wheel, &m->timer, deadline);
    m->armed = true;
    m->due_tick = tick > wheel.tick ? tick : wheel.tick + 1;
}

static void disarm(struct modelled *m) {
    qt_timer_disarm(&wheel, &m->timer);
    m->armed = false;
}

static void change_one(void) {
    struct modelled *m = &timers[roll(TIMERS)];
    if (roll(3) == 0)
        disarm(m);
    else
        arm(m);
}

static void ring(qt_timer *timer) {
    struct modelled *m = qt_container(timer, struct modelled, timer);
    assert_true(m->armed);
    assert_true(m->due_tick <= now / MS);
    m->armed = false;
    expired++;
    if (roll(2) == 0) /* others too, some of which are due in this very tick */
        change_one();
}

static int64_t earliest(void) {
    int64_t first = INT64_MAX;
    for (int i = 0; i < TIMERS; i++)
        if (timers[i].armed && timers[i].due_tick < first)
            first = timers[i].due_tick;
    return first;
}

static void check(void) {
    uint64_t armed = 0;
    int64_t first = earliest();
    for (int i = 0; i < TIMERS; i++) {
        assert_int_equal(timers[i].timer.armed, timers[i].armed);
        armed += timers[i].armed;
    }
    assert_int_equal(wheel.armed, armed);
    assert_true(first > wheel.tick);
    int64_t next = qt_wheel_next_ns(&wheel);
    if (armed == 0) {
        assert_int_equal(next, -1);
    } else {
        assert_true(next <= first * MS);     /* never told too late, */
        assert_true(next > wheel.tick * MS); /* and never for a tick that is over */
    }
}

static void run(int64_t start, uint64_t with_seed) {
    seed = with_seed;
    now = start;
    expired = 0;
    qt_wheel_init(&wheel, now);
    for (int i = 0; i < TIMERS; i++) {
        qt_timer_init(&timers[i].timer, ring);
        timers[i].armed = false;
    }
    for (int step = 0; step < STEPS; step++) {
        for (uint64_t changes = roll(4); changes > 0; changes--)
            change_one();
        int64_t next = qt_wheel_next_ns(&wheel);
        uint64_t way = roll(8);
        if (way < 5 && next >= 0)
            now = next > now ? next : now;
        else if (way < 7)
            now += (int64_t)roll(3 * MS);
        else
            now += span() / 4;
        uint32_t before = expired;
        uint32_t told = qt_wheel_expire(&wheel, now);
        assert_int_equal(told, expired - before);
        check();
    }
    assert_true(expired > STEPS / 4);
}

static void from_zero(void **state) {
    (void)state;
    run(0, 0x9E3779B97F4A7C15u);
}

static void from_an_odd_time(void **state) {
    (void)state;
    run(987654321987654321, 0xD1B54A32D192ED03u);
}

static void over_the_end_of_the_span(void **state) {
    (void)state;
    run((INT64_C(1) << 36) * MS - 3600 * 1000 * MS, 0x2545F4914F6CDD1Du);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_zero),
        cmocka_unit_test(from_an_odd_time),
        cmocka_unit_test(over_the_end_of_the_span),
    };
    return cmocka_run_group_tests_name("timer wheel against a model", tests, NULL, NULL);
}
