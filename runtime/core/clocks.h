/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The boot and the wall clock. Their timers are kept in the clock's own time, each clock in a wheel of its own, and every tick reads
 * the clock anew: so a wall clock that is set, forwards or back, takes its timers with it, and time in suspend counts for boot. A
 * worker that sleeps is woken by a descriptor which becomes readable when the wall clock jumps, as it also does after a suspend.
 * All of it is made with the first such timer.
 */
#ifndef QT_CLOCKS_H
#define QT_CLOCKS_H

#include "worker.h"

/* 0, or why a timer on that clock (QUOIT_CLOCK_BOOT or _WALL) cannot be: -EMFILE, -ENFILE, -ENOMEM. */
int qt_clock_use(qt_worker *w, uint32_t clock);

/* The clock's wheel, and its time at this batch. Any of QUOIT_CLOCK_*, the other two once they are used. */
qt_wheel *qt_clock_wheel(qt_worker *w, uint32_t clock);
int64_t qt_clock_now(const qt_worker *w, uint32_t clock);

void qt_clocks_expire(qt_worker *w);           /* what is due on any clock, by deadline */
int64_t qt_clocks_next_ns(const qt_worker *w); /* on CLOCK_MONOTONIC; -1 when no timer is armed */
void qt_clocks_destroy(qt_worker *w);          /* after the driver */

#endif
