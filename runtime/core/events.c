/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where events are written: the batch while a turn fills it and has room, else a queue that the next turns empty first. */
#include "worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static quoit_event *queue_slot(qt_event_queue *q) {
    if (q->count == q->capacity) {
        uint32_t capacity = q->capacity ? q->capacity * 2 : 256;
        quoit_event *items = malloc((size_t)capacity * sizeof *items);
        /* An accepted op must tell its last event: without memory for it there is no honest way on. */
        if (items == NULL)
            abort();
        for (uint32_t i = 0; i < q->count; i++)
            items[i] = q->items[(q->head + i) & (q->capacity - 1)];
        free(q->items);
        q->items = items;
        q->head = 0;
        q->capacity = capacity;
    }
    return &q->items[(q->head + q->count++) & (q->capacity - 1)];
}

quoit_event *qt_event(qt_worker *w, uint32_t kind, uint64_t source, uint64_t user_data, int64_t result) {
    quoit_batch *batch = w->batch;
    quoit_event *event;
    if (w->filling && w->queue.count == 0 && batch->nevents < batch->events_max)
        event = &w->events[batch->nevents++];
    else
        event = queue_slot(&w->queue);
    *event = (quoit_event){.kind = kind, .source = source, .user_data = user_data, .result = result};
    QT_COUNT(w, events, 1);
    return event;
}

/* A loan begins when its event reaches the batch, so that events that wait keep their bytes. */
void qt_events_move(qt_worker *w) {
    quoit_batch *batch = w->batch;
    qt_event_queue *q = &w->queue;
    while (q->count > 0 && batch->nevents < batch->events_max) {
        w->events[batch->nevents++] = q->items[q->head];
        q->head = (q->head + 1) & (q->capacity - 1);
        q->count--;
    }
}

quoit_event *qt_pending_event(qt_pending *p, int64_t result) {
    quoit_event *event = qt_event(p->worker, p->opcode, p->source, p->user_data, result);
    event->flags = QUOIT_EVF_MORE;
    return event;
}

void qt_refuse(qt_worker *w, const quoit_op *op, int64_t status, uint32_t field) {
    quoit_event *event = qt_event(w, op->opcode, op->target, op->user_data, status);
    event->aux = field;
}

void qt_succeed(qt_worker *w, const quoit_op *op, uint64_t value) {
    if (op->flags & QUOIT_OPF_QUIET)
        return;
    quoit_event *event = qt_event(w, op->opcode, op->target, op->user_data, 0);
    event->value = value;
}
