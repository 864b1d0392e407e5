/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Draining: the worker takes no new connection, the program is told, what was accepted may finish within the grace, and then the
 * worker stops. What waits in the backlog of a listener is accepted first: closing it would reset those connections.
 */
#include "drain.h"

#include "object.h"

#include <errno.h>
#include <poll.h>

static void limit_due(qt_timer *timer) {
    qt_container(timer, qt_drain, limit)->late = true;
}

void qt_drain_init(qt_worker *w) {
    atomic_init(&w->drain.asked_ns, QT_DRAIN_NOT_ASKED);
    w->drain.grace_ns = QT_DRAIN_NOT_ASKED;
    qt_timer_init(&w->drain.limit, limit_due);
}

void qt_drain_ask(qt_worker *w, uint64_t grace_ns) {
    uint_fast64_t before = atomic_load(&w->drain.asked_ns);
    if (grace_ns == QT_DRAIN_NOT_ASKED)
        grace_ns--;
    while (grace_ns < before && !atomic_compare_exchange_weak(&w->drain.asked_ns, &before, grace_ns))
        ;
    qt_wake(w);
}

bool qt_drain_asked(qt_worker *w) {
    return !w->draining && atomic_load(&w->drain.asked_ns) != w->drain.grace_ns;
}

static bool readable(qt_worker *w, const qt_listener *l) {
    struct pollfd item = {.fd = l->object.fd, .events = POLLIN};
    QT_COUNT(w, system_calls, 1);
    return poll(&item, 1, 0) == 1;
}

/*
 * The kernel's accept is taken back before the socket is closed, and what it brought is told; what came to the backlog meanwhile is
 * accepted by one more, as often as the backlog is long.
 */
static void finish_listener(qt_worker *w, qt_listener *l) {
    bool more = l->last_accepts > 0 && readable(w, l);
    l->last_accepts -= more;
    if (l->accept_req != NULL) {
        if (!more && !l->accept_req->cancelled)
            qt_cancel_request(w, l->accept_req);
        return;
    }
    bool accepts = l->accept != NULL && !l->accept->verdict && qt_list_empty(&l->stalled_link);
    if (!accepts || (!more && l->held_count == 0))
        qt_object_abort(&l->object);
    else if (qt_listener_takes(l))
        qt_listener_arm(l); /* else it waits for a stream to end: no more are allowed at a time */
}

/* True when none is left. */
static bool finish_listeners(qt_worker *w) {
    bool left = false;
    for (uint32_t slot = 0; slot < w->handles.capacity; slot++) {
        qt_object *object = w->handles.slots[slot].object;
        if (object == NULL || object->kind != QUOIT_HANDLE_LISTENER)
            continue;
        left = true;
        if (!object->closing)
            finish_listener(w, (qt_listener *)object);
    }
    return !left;
}

static void begin(qt_worker *w, uint64_t grace_ns) {
    bool first = w->drain.grace_ns == QT_DRAIN_NOT_ASKED;
    w->drain.grace_ns = grace_ns;
    if (grace_ns == 0)
        w->drain.late = true;
    else
        qt_timer_arm(&w->wheel, &w->drain.limit, qt_after(qt_now(w), grace_ns));
    if (!first)
        return;
    w->drain.listening = true;
    quoit_event *event = qt_event(w, QUOIT_KIND_DRAIN, 0, 0, 0);
    event->flags = QUOIT_EVF_MORE;
    event->value = w->drain.streams;
    for (uint32_t slot = 0; slot < w->handles.capacity; slot++) {
        qt_object *object = w->handles.slots[slot].object;
        if (object == NULL || object->kind != QUOIT_HANDLE_LISTENER)
            continue;
        qt_listener *l = (qt_listener *)object;
        l->last_accepts = l->backlog;
        qt_balance_leave(l);
    }
    /* What other workers had handed over before they saw that. */
    qt_mailbox_open(&w->mailbox, w);
}

void qt_drain_end(qt_worker *w, int32_t result) {
    if (w->drain.grace_ns == QT_DRAIN_NOT_ASKED || w->drain.over)
        return;
    w->drain.over = true;
    qt_timer_disarm(&w->wheel, &w->drain.limit);
    qt_event(w, QUOIT_KIND_DRAIN, 0, 0, result)->value = w->drain.streams;
}

void qt_drain_advance(qt_worker *w) {
    qt_drain *d = &w->drain;
    if (qt_drain_asked(w))
        begin(w, atomic_load(&d->asked_ns));
    if (d->grace_ns == QT_DRAIN_NOT_ASKED || w->draining)
        return;
    if (d->listening && finish_listeners(w))
        d->listening = false;
    bool finished = !d->listening && d->streams == 0;
    if (!finished && !d->late)
        return;
    qt_drain_end(w, finished ? 0 : -ETIMEDOUT);
    atomic_store(&w->stop, true);
    qt_stop_begin(w);
}
