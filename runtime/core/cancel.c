/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Asking ops to end: QUOIT_OP_CANCEL, and quoit_stop for all of them. Each op then tells its own last event. */
#include "object.h"

#include <errno.h>

static bool matches(const qt_pending *p, uint32_t opcode, uint64_t user_data, bool by_user_data) {
    if (opcode != 0 ? p->opcode != opcode : p->opcode == QUOIT_OP_CLOSE)
        return false;
    return p->verdict == 0 && (!by_user_data || p->user_data == user_data);
}

static uint32_t end_matching(qt_link *list, const quoit_op *op, bool by_user_data) {
    uint32_t count = 0;
    qt_link *at = list->next;
    while (at != list) {
        qt_pending *p = qt_container(at, qt_pending, link);
        at = at->next;
        if (matches(p, op->arg, op->arg2, by_user_data)) {
            count++;
            qt_pending_end(p, -ECANCELED);
        }
    }
    return count;
}

/*
 * Ops without a target, by their user_data: those that have no object yet, and timers and polls, whose handle a
 * program that did not ask ARMED does not know. Ending one may free it, and no other.
 */
static uint32_t end_named(qt_worker *w, const quoit_op *op) {
    uint32_t count = 0;
    qt_index_node *node = qt_index_next(&w->named, op->arg2, NULL);
    while (node != NULL) {
        qt_pending *p = qt_container(node, qt_pending, by_data);
        node = qt_index_next(&w->named, op->arg2, node);
        bool closing = p->object != NULL && p->object->closing;
        if (op->arg != 0 && !closing && matches(p, op->arg, op->arg2, true)) {
            count++;
            qt_pending_end(p, -ECANCELED);
        }
    }
    return count;
}

void qt_op_cancel(qt_worker *w, const quoit_op *op, qt_object *object) {
    uint32_t count = object ? end_matching(&object->pendings, op, op->arg2 != 0) : end_named(w, op);
    if (object != NULL && object->kind == QUOIT_HANDLE_CHANNEL)
        count += qt_channel_cancel_sends(w, op);
    if (count == 0)
        qt_refuse(w, op, -ENOENT, 0);
    else if (!(op->flags & QUOIT_OPF_QUIET))
        qt_event(w, op->opcode, op->target, op->user_data, count);
}

void qt_stop_begin(qt_worker *w) {
    w->draining = true;
    for (uint32_t slot = 0; slot < w->handles.capacity; slot++)
        if (w->handles.slots[slot].object != NULL)
            qt_object_abort(w->handles.slots[slot].object);
    qt_link *at = w->loose.next;
    while (at != &w->loose) {
        qt_pending *p = qt_container(at, qt_pending, link);
        at = at->next;
        qt_pending_end(p, -ECANCELED);
    }
}
