/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The timer wheel: never early, in order, over all its levels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/wheel.h"

#include <stdlib.h>

#define MS INT64_C(1000000)
#define MANY 20000

typedef struct alarm {
    qt_timer timer;
    int64_t fired_at;
    uint32_t position; /* in the order of expiry, from 1 */
} alarm;

static int64_t now;
static uint32_t fired;
static qt_wheel *armer; /* when set, an expiring alarm is armed again a second later, once */

static void ring(qt_timer *timer) {
    alarm *a = qt_container(timer, alarm, timer);
    a->fired_at = now;
    a->position = ++fired;
    if (armer != NULL) {
        qt_timer_arm(armer, timer, now + 1000 * MS);
        armer = NULL;
    }
}

static void begin(qt_wheel *wheel, int64_t at) {
    now = at;
    fired = 0;
    armer = NULL;
    qt_wheel_init(wheel, at);
}

/* Goes from one time the wheel names to the next, as a worker does. */
static void run_until(qt_wheel *wheel, int64_t end) {
    while (now < end) {
        int64_t next = qt_wheel_next_ns(wheel);
        now = next < 0 || next > end ? end : next > now ? next : now + MS;
        qt_wheel_expire(wheel, now);
    }
}

static void never_early_and_less_than_a_tick_late(void **state) {
    (void)state;
    static const int64_t spans[] = {0,
                                    1,
                                    MS - 1,
                                    MS,
                                    MS + 1,
                                    63 * MS,
                                    64 * MS,
                                    65 * MS,
                                    4095 * MS,
                                    4096 * MS,
                                    4097 * MS,
                                    262144 * MS,
                                    262145 * MS,
                                    3600000 * MS,
                                    86400000 * MS,
                                    16777216 * MS,
                                    INT64_C(1073741824) * MS,
                                    INT64_C(68719476736) * MS};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        qt_wheel wheel;
        alarm a = {0};
        begin(&wheel, 123456789);
        qt_timer_init(&a.timer, ring);
        int64_t deadline = now + spans[i];
        qt_timer_arm(&wheel, &a.timer, deadline);
        run_until(&wheel, deadline + 2 * MS);
        assert_int_equal(fired, 1);
        assert_true(a.fired_at >= deadline);
        assert_true(a.fired_at <= deadline + 2 * MS);
        assert_int_equal(qt_wheel_next_ns(&wheel), -1);
    }
}

static void in_order_of_deadline_then_arming(void **state) {
    (void)state;
    qt_wheel wheel;
    alarm *alarms = calloc(MANY, sizeof *alarms);
    begin(&wheel, 5000 * MS);
    srand(7);
    for (int i = 0; i < MANY; i++) {
        qt_timer_init(&alarms[i].timer, ring);
        qt_timer_arm(&wheel, &alarms[i].timer, now + (rand() % 5000) * (int64_t)(MS / 4));
    }
    qt_wheel_expire(&wheel, now += 2000 * MS);
    assert_int_equal(fired, MANY);
    alarm **order = calloc(MANY + 1, sizeof *order);
    for (int i = 0; i < MANY; i++)
        order[alarms[i].position] = &alarms[i];
    for (int i = 2; i <= MANY; i++) {
        const alarm *a = order[i - 1];
        const alarm *b = order[i];
        assert_true(a->timer.deadline_ns < b->timer.deadline_ns ||
                    (a->timer.deadline_ns == b->timer.deadline_ns && a < b));
    }
    free(order);
    free(alarms);
}

static void disarmed_ones_stay_silent(void **state) {
    (void)state;
    qt_wheel wheel;
    alarm alarms[200] = {0};
    begin(&wheel, 0);
    for (int i = 0; i < 200; i++) {
        qt_timer_init(&alarms[i].timer, ring);
        qt_timer_arm(&wheel, &alarms[i].timer, i * 37 * MS);
    }
    for (int i = 0; i < 200; i += 2)
        qt_timer_disarm(&wheel, &alarms[i].timer);
    run_until(&wheel, 10000 * MS);
    assert_int_equal(fired, 100);
    for (int i = 0; i < 200; i++)
        assert_int_equal(alarms[i].position != 0, i % 2);
    assert_int_equal(wheel.armed, 0);
}

static void may_be_armed_again_while_it_expires(void **state) {
    (void)state;
    qt_wheel wheel;
    alarm a = {0};
    begin(&wheel, 0);
    qt_timer_init(&a.timer, ring);
    qt_timer_arm(&wheel, &a.timer, 10 * MS);
    armer = &wheel;
    run_until(&wheel, 500 * MS);
    assert_int_equal(fired, 1);
    run_until(&wheel, 1500 * MS);
    assert_int_equal(fired, 2);
}

/* The wheel's span ends after 2^36 ms of its clock: a machine that has been up for two years comes to that. */
static void over_the_end_of_the_span(void **state) {
    (void)state;
    qt_wheel wheel;
    alarm near = {0};
    alarm far = {0};
    int64_t end = (INT64_C(1) << 36) * MS;
    begin(&wheel, end - 10 * MS);
    qt_timer_init(&near.timer, ring);
    qt_timer_init(&far.timer, ring);
    qt_timer_arm(&wheel, &near.timer, end + 5 * MS);
    qt_timer_arm(&wheel, &far.timer, end + 100000 * MS);
    run_until(&wheel, end + 10 * MS);
    assert_int_equal(near.position, 1);
    assert_int_equal(far.position, 0);
    run_until(&wheel, end + 100010 * MS);
    assert_int_equal(far.position, 2);
    assert_true(far.fired_at >= end + 100000 * MS);
}

static void huge_and_negative_deadlines(void **state) {
    (void)state;
    qt_wheel wheel;
    alarm never = {0};
    alarm past = {0};
    begin(&wheel, 1000 * MS);
    qt_timer_init(&never.timer, ring);
    qt_timer_init(&past.timer, ring);
    qt_timer_arm(&wheel, &never.timer, INT64_MAX);
    qt_timer_arm(&wheel, &past.timer, INT64_MIN);
    run_until(&wheel, 1010 * MS);
    assert_int_equal(past.position, 1);
    assert_int_equal(never.position, 0);
    qt_timer_disarm(&wheel, &never.timer);
    assert_int_equal(wheel.armed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_early_and_less_than_a_tick_late),
        cmocka_unit_test(in_order_of_deadline_then_arming),
        cmocka_unit_test(disarmed_ones_stay_silent),
        cmocka_unit_test(may_be_armed_again_while_it_expires),
        cmocka_unit_test(over_the_end_of_the_span),
        cmocka_unit_test(huge_and_negative_deadlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
