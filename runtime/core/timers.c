/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timer objects: one-shot, periodic, re-armed. A period keeps to its grid: it does not drift, and missed beats are counted. */
#include "../sys/clock.h"
#include "clocks.h"
#include "object.h"

#include <errno.h>

static void disarm(qt_timer_object *t) {
    if (t->timer.armed)
        qt_timer_disarm(qt_clock_wheel(t->object.worker, t->clock), &t->timer);
}

void qt_timer_object_free(qt_timer_object *t) {
    qt_worker *w = t->object.worker;
    disarm(t);
    qt_handle_free(w, &t->object);
    qt_slab_free(&w->objects, t);
}

static qt_pending *timer_op(qt_timer_object *t) {
    for (qt_link *at = t->object.pendings.next; at != &t->object.pendings; at = at->next) {
        qt_pending *p = qt_container(at, qt_pending, link);
        if (p->opcode == QUOIT_OP_TIMER)
            return p;
    }
    return NULL;
}

/* The last event of a timer's op ends the timer, unless a close is under way, which then does. */
static void end_timer(qt_timer_object *t, qt_pending *p, int64_t result) {
    uint64_t handle = t->object.handle;
    bool closing = t->object.closing;
    disarm(t);
    qt_finish(p, result, handle);
    if (!closing)
        qt_timer_object_free(t);
}

int64_t qt_clock(uint32_t clock) {
    return qt_clock_ns(clock);
}

static void expired(qt_timer *timer) {
    qt_timer_object *t = qt_container(timer, qt_timer_object, timer);
    qt_worker *w = t->object.worker;
    qt_pending *p = timer_op(t);
    QT_COUNT(w, timers_fired, 1);
    if (t->period_ns == 0) {
        end_timer(t, p, 1);
        return;
    }
    /* The deadline may be as far in the past as a number goes: unsigned, nothing overflows. */
    int64_t now = qt_clock_now(w, t->clock);
    uint64_t period = (uint64_t)t->period_ns;
    uint64_t late = (uint64_t)now - (uint64_t)timer->deadline_ns;
    uint64_t beats = late / period + 1;
    int64_t next;
    if (__builtin_add_overflow(now - (int64_t)(late % period), t->period_ns, &next))
        next = INT64_MAX;
    qt_pending_event(p, beats > INT64_MAX ? INT64_MAX : (int64_t)beats)->value = t->object.handle;
    qt_timer_arm(qt_clock_wheel(w, t->clock), timer, next);
}

/*
 * Arms it, or re-arms it on whatever clock it was. A time from now on the wall clock is a span, which no setting of the clock
 * changes: that is the monotonic clock's. 0, or why not; then it stays as it was.
 */
static int arm(qt_worker *w, const quoit_op *op, qt_timer_object *t) {
    bool at = op->flags & QUOIT_OPF_ABS;
    uint32_t clock = op->arg == QUOIT_CLOCK_WALL && !at ? QUOIT_CLOCK_MONOTONIC : op->arg;
    int error = clock == QUOIT_CLOCK_MONOTONIC ? 0 : qt_clock_use(w, clock);
    if (error)
        return error;
    disarm(t);
    t->clock = clock;
    t->period_ns = (int64_t)op->arg2;
    qt_timer_arm(qt_clock_wheel(w, clock), &t->timer,
                 at ? op->offset : qt_after(qt_clock_now(w, clock), (uint64_t)op->offset));
    return 0;
}

static void rearm(qt_worker *w, const quoit_op *op, qt_timer_object *t) {
    int error = arm(w, op, t);
    if (error)
        qt_refuse(w, op, error, 0);
    else
        qt_succeed(w, op, t->object.handle);
}

void qt_op_timer(qt_worker *w, const quoit_op *op, qt_object *object) {
    uint32_t field = op->arg > QUOIT_CLOCK_WALL ? QUOIT_FIELD_ARG
                     : op->arg2 > INT64_MAX     ? QUOIT_FIELD_ARG2
                                                : 0;
    if (!(op->flags & QUOIT_OPF_ABS) && op->offset < 0)
        field = QUOIT_FIELD_OFFSET;
    if (field) {
        qt_refuse(w, op, QUOIT_E_FIELD, field);
        return;
    }
    if (object != NULL) {
        rearm(w, op, (qt_timer_object *)object);
        return;
    }
    qt_timer_object *t = qt_slab_alloc(&w->objects);
    int error = t ? qt_handle_new(w, &t->object, QUOIT_HANDLE_TIMER, -1) : -ENOMEM;
    if (error) {
        if (t != NULL)
            qt_slab_free(&w->objects, t);
        qt_refuse(w, op, error, 0);
        return;
    }
    qt_timer_init(&t->timer, expired);
    error = arm(w, op, t);
    if (error) {
        qt_timer_object_free(t);
        qt_refuse(w, op, error, 0);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, &t->object);
    if (p == NULL)
        qt_timer_object_free(t);
    else if (op->flags & QUOIT_OPF_ARMED)
        qt_pending_event(p, 0)->value = t->object.handle;
}

void qt_timer_end(qt_pending *p) {
    end_timer((qt_timer_object *)p->object, p, p->verdict);
}
