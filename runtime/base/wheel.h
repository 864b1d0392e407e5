/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hierarchical timer wheel: 6 levels of 64 slots, 1 ms a tick. Arm and disarm are O(1) and make no system call. Timers
 * never expire early; those due together expire by deadline, equal ones in the order they were armed. One thread.
 */
#ifndef QT_WHEEL_H
#define QT_WHEEL_H

#include "list.h"

#include <stdbool.h>
#include <stdint.h>

#define QT_WHEEL_LEVELS 6
#define QT_WHEEL_SLOTS 64

typedef struct qt_timer qt_timer;
typedef void (*qt_timer_fn)(qt_timer *timer);

struct qt_timer {
    qt_link link; /* must be initialised by qt_timer_init */
    int64_t deadline_ns;
    uint64_t order;
    qt_timer_fn expired;
    uint8_t level;
    uint8_t slot;
    bool armed;
};

typedef struct qt_wheel {
    qt_link slots[QT_WHEEL_LEVELS][QT_WHEEL_SLOTS];
    uint64_t occupied[QT_WHEEL_LEVELS];
    int64_t tick; /* last tick that was expired */
    uint64_t order;
    uint64_t armed;
} qt_wheel;

void qt_wheel_init(qt_wheel *wheel, int64_t now_ns);
void qt_timer_init(qt_timer *timer, qt_timer_fn expired);
void qt_timer_arm(qt_wheel *wheel, qt_timer *timer, int64_t deadline_ns); /* re-arms an armed one */
void qt_timer_disarm(qt_wheel *wheel, qt_timer *timer); /* no effect on one that is not armed */

/* Expires what is due; `expired` may arm and disarm timers, also those still due. Returns how many expired. */
uint32_t qt_wheel_expire(qt_wheel *wheel, int64_t now_ns);

/* The two halves of that, for who expires several wheels in one order: what is due, in its order; each then expires. */
void qt_wheel_collect(qt_wheel *wheel, int64_t now_ns, qt_link *due);
void qt_wheel_fire(qt_wheel *wheel, qt_timer *timer);

/* Its clock was set back: every timer is placed anew, in the order it had. No effect when it was not. */
void qt_wheel_rewind(qt_wheel *wheel, int64_t now_ns);

/* When the wheel must be expired next (it may turn out that nothing is due); -1 when no timer is armed. */
int64_t qt_wheel_next_ns(const qt_wheel *wheel);

#endif
