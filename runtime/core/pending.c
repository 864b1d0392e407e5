/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Accepted ops from acceptance to their last event. */
#include "object.h"
#include "worker.h"

#include <assert.h>
#include <errno.h>

static void deadline_passed(qt_timer *timer) {
    qt_pending_end(qt_container(timer, qt_pending, deadline), -ETIMEDOUT);
}

qt_pending *qt_pending_new(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_pending *p = qt_slab_alloc(&w->pendings);
    if (p == NULL) {
        qt_refuse(w, op, -ENOMEM, 0);
        return NULL;
    }
    p->worker = w;
    p->object = object;
    p->opcode = op->opcode;
    p->flags = op->flags;
    p->source = op->target;
    p->user_data = op->user_data;
    p->arg = op->arg;
    qt_list_append(object ? &object->pendings : &w->loose, &p->link);
    if (object == NULL || op->target == 0)
        qt_index_add(&w->named, &p->by_data, p->user_data);
    qt_timer_init(&p->deadline, deadline_passed);
    if (op->timeout_ns != 0)
        qt_timer_arm(&w->wheel, &p->deadline, qt_after(qt_now(w), op->timeout_ns));
    __atomic_store_n(&w->stats.ops_live, w->pendings.live, __ATOMIC_RELAXED);
    return p;
}

void qt_pending_drop(qt_pending *p) {
    qt_worker *w = p->worker;
    assert(p->req == NULL && p->state == NULL);
    qt_timer_disarm(&w->wheel, &p->deadline);
    qt_list_remove(&p->link);
    qt_index_remove(&w->named, &p->by_data);
    qt_slab_free(&w->pendings, p);
    __atomic_store_n(&w->stats.ops_live, w->pendings.live, __ATOMIC_RELAXED);
}

quoit_event *qt_finish(qt_pending *p, int64_t result, uint64_t value) {
    quoit_event *event = NULL;
    if (result < 0 || !(p->flags & QUOIT_OPF_QUIET)) {
        event = qt_event(p->worker, p->opcode, p->source, p->user_data, result);
        event->value = value;
    }
    qt_pending_drop(p);
    return event;
}

/* Messages have a queue of their own. */
static bool is_message(const qt_pending *p) {
    return p->object != NULL && p->object->kind == QUOIT_HANDLE_DATAGRAM &&
           (p->opcode == QUOIT_OP_SENDMSG || p->opcode == QUOIT_OP_SEND_FD || p->opcode == QUOIT_OP_SHUTDOWN);
}

/* The first reason to end an op is the one it tells. */
void qt_pending_end(qt_pending *p, int32_t verdict) {
    if (p->verdict != 0)
        return;
    p->verdict = verdict;
    switch (p->opcode) {
    case QUOIT_OP_ACCEPT:
        qt_accept_end(p);
        break;
    case QUOIT_OP_RECV:
    case QUOIT_OP_RECVMSG:
        qt_recv_end(p);
        break;
    case QUOIT_OP_SEND:
    case QUOIT_OP_SENDV:
    case QUOIT_OP_SENDMSG:
    case QUOIT_OP_SEND_FD:
    case QUOIT_OP_SHUTDOWN:
        if (is_message(p))
            qt_sendmsg_end(p);
        else
            qt_send_end(p);
        break;
    case QUOIT_OP_MOVE:
        qt_move_end(p);
        break;
    case QUOIT_OP_SPLICE:
        qt_splice_end(p);
        break;
    case QUOIT_OP_CLOSE:
        qt_close_end(p);
        break;
    case QUOIT_OP_TIMER:
        qt_timer_end(p);
        break;
    case QUOIT_OP_CHANNEL_SEND:
        qt_channel_send_end(p);
        break;
    case QUOIT_OP_CHANNEL_RECV:
        qt_channel_recv_end(p);
        break;
    case QUOIT_OP_OFFLOAD:
        qt_offload_end(p);
        break;
    default: /* one kernel request: connect, poll, open, read, write, fsync, recv fd */
        assert(p->req != NULL);
        qt_cancel_request(p->worker, p->req);
        break;
    }
}

void qt_pending_discard(qt_pending *p) {
    if (p->opcode == QUOIT_OP_CONNECT)
        qt_connect_discard(p);
    else if (p->opcode == QUOIT_OP_POLL)
        qt_poll_discard(p);
    else if (p->opcode == QUOIT_OP_RECV_FD)
        qt_recv_fd_discard(p);
    else if (is_message(p))
        qt_sendmsg_discard(p);
    else if (p->opcode == QUOIT_OP_SPLICE)
        qt_splice_discard(p);
    else if (p->opcode == QUOIT_OP_OPEN || p->opcode == QUOIT_OP_READ || p->opcode == QUOIT_OP_WRITE)
        qt_file_discard(p);
}
