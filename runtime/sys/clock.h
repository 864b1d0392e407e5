/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Clocks in nanoseconds. */
#ifndef QT_CLOCK_H
#define QT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t qt_clock_read(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* CLOCK_MONOTONIC: the worker's time. */
static inline int64_t qt_now_ns(void) {
    return qt_clock_read(CLOCK_MONOTONIC);
}

/* One of QUOIT_CLOCK_* (0 monotonic, 1 boot, 2 wall). */
static inline int64_t qt_clock_ns(uint32_t clock) {
    return qt_clock_read(clock == 1 ? CLOCK_BOOTTIME : clock == 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC);
}

#endif
