/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/timer.h: clocks. Timers: quoit/op.h, QUOIT_OP_TIMER. Resolution is 1 ms; none fires early. */
#ifndef QUOIT_TIMER_H
#define QUOIT_TIMER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A timer's arg. MONOTONIC does not count time in suspend; BOOT does; WALL is the calendar (Unix time). */
#define QUOIT_CLOCK_MONOTONIC 0
#define QUOIT_CLOCK_BOOT 1
#define QUOIT_CLOCK_WALL 2

/* The clock's time in ns, or a negative status. Any thread. Since 0.1. */
QUOIT_API int64_t quoit_now(uint32_t clock);

#ifdef __cplusplus
}
#endif

#endif
