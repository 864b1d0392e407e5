/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timer objects: one-shot, periodic, re-armed. A period keeps to its grid: it does not drift, and missed beats are counted. */
#include "../sys/clock.h"
#include "object.h"

#include <errno.h>

void qt_timer_object_free(qt_timer_object *t) {
    qt_worker *w = t->object.worker;
    qt_timer_disarm(&w->wheel, &t->timer);
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
    qt_timer_disarm(&t->object.worker->wheel, &t->timer);
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
    int64_t missed = (qt_now(w) - timer->deadline_ns) / t->period_ns;
    int64_t beats = 1 + (missed > 0 ? missed : 0);
    int64_t next;
    if (__builtin_mul_overflow(beats, t->period_ns, &next) ||
        __builtin_add_overflow(timer->deadline_ns, next, &next))
        next = INT64_MAX;
    qt_pending_event(p, beats)->value = t->object.handle;
    qt_timer_arm(&w->wheel, timer, next);
}

/* The op's time on CLOCK_MONOTONIC. */
static int64_t deadline_of(qt_worker *w, const quoit_op *op) {
    int64_t from = qt_now(w);
    int64_t deadline;
    int64_t span = op->offset;
    if (op->flags & QUOIT_OPF_ABS) {
        if (op->arg == QUOIT_CLOCK_MONOTONIC)
            return op->offset;
        /* Both clocks are read now: the worker's time is that of the last batch, and the timer would be early by its age. */
        if (__builtin_sub_overflow(op->offset, qt_clock_ns(op->arg), &span))
            return INT64_MIN;
        from = qt_now_ns();
    }
    if (__builtin_add_overflow(from, span, &deadline))
        return span > 0 ? INT64_MAX : INT64_MIN;
    return deadline;
}

static void rearm(qt_worker *w, const quoit_op *op, qt_timer_object *t) {
    t->period_ns = (int64_t)op->arg2;
    qt_timer_arm(&w->wheel, &t->timer, deadline_of(w, op));
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
    t->period_ns = (int64_t)op->arg2;
    qt_pending *p = qt_pending_new(w, op, &t->object);
    if (p == NULL) {
        qt_timer_object_free(t);
        return;
    }
    if (op->flags & QUOIT_OPF_ARMED)
        qt_pending_event(p, 0)->value = t->object.handle;
    qt_timer_arm(&w->wheel, &t->timer, deadline_of(w, op));
}

void qt_timer_end(qt_pending *p) {
    end_timer((qt_timer_object *)p->object, p, p->verdict);
}
