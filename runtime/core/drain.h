/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef QT_DRAIN_H
#define QT_DRAIN_H

#include "../base/wheel.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define QT_DRAIN_NOT_ASKED UINT64_MAX

typedef struct qt_drain {
    atomic_uint_fast64_t asked_ns; /* the shortest grace that anybody asked for */
    uint64_t grace_ns;             /* the one that counts now */
    qt_timer limit;
    uint32_t streams; /* accepted and not closed, also before any drain */
    bool listening;   /* listeners are left */
    bool late;
    bool over; /* its last event was told */
} qt_drain;

struct qt_worker;

void qt_drain_init(struct qt_worker *w);
void qt_drain_ask(struct qt_worker *w, uint64_t grace_ns); /* any thread */
bool qt_drain_asked(struct qt_worker *w);                  /* and not seen yet */
void qt_drain_advance(struct qt_worker *w);                /* once a round */
void qt_drain_end(struct qt_worker *w, int32_t result);    /* tells the end, once */

#endif
