/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Closing. Gracefully a stream sends what is queued, then FIN, and throws away input until the peer's FIN or the deadline. An
 * abort shuts down, cancels, and closes. Either way the descriptor is closed when no kernel request names it any more, and
 * the handle's last event is told when that is done.
 */
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static void free_object(qt_object *object) {
    qt_worker *w = object->worker;
    uint8_t kind = object->kind;
    qt_pending *p = object->close_op;
    bool datagram = kind == QUOIT_HANDLE_DATAGRAM;
    uint64_t unsent = kind == QUOIT_HANDLE_STREAM || datagram ? ((qt_stream *)object)->unsent
                      : kind == QUOIT_HANDLE_CHANNEL          ? qt_channel_retire(object)
                                                              : 0;
    object->close_op = NULL;
    qt_handle_free(w, object);
    if (p != NULL) {
        qt_list_remove(&p->link);
        p->object = NULL;
        qt_finish(p, 0, unsent);
    }
    assert(qt_list_empty(&object->pendings));
    if (kind == QUOIT_HANDLE_STREAM || datagram) {
        qt_stream *s = (qt_stream *)object;
        qt_list_remove(&s->dirty_link);
        qt_listener_stream_gone(s);
        qt_silence_end(s);
        qt_slab_free(datagram ? &w->datagrams : &w->streams, s);
    } else if (kind == QUOIT_HANDLE_CHANNEL) {
        free(object);
    } else {
        qt_slab_free(&w->objects, object);
    }
}

static void closed(qt_req *req, const qt_completion *c) {
    (void)c; /* close(2) frees the descriptor whatever it answers */
    qt_object *object = req->owner;
    qt_worker *w = object->worker;
    qt_req_free(&w->requests, req);
    free_object(object);
    qt_listeners_retry(w);
}

static void submit_close(qt_object *object) {
    qt_worker *w = object->worker;
    assert(object->reqs == 0 && object->closing != QT_CLOSE_SUBMITTED);
    object->closing = QT_CLOSE_SUBMITTED;
    if (object->close_op != NULL)
        qt_timer_disarm(&w->wheel, &object->close_op->deadline);
    qt_req *req = qt_request(w, QT_REQ_CLOSE, object->fd, object, closed);
    if (req == NULL)
        abort(); /* a descriptor that can be neither used nor closed */
    if (object->adopted)
        qt_adopted_drop(w, object->fd);
    object->fd = -1; /* the driver's now: once closed, its number is somebody else's */
    qt_submit(w, req);
}

/* The result of 0 that is no end. */
static bool is_empty_message(const qt_stream *s) {
    const qt_datagram *d = (const qt_datagram *)s;
    return s->object.kind == QUOIT_HANDLE_DATAGRAM && !qt_seqpacket_is_end(d, 0, d->in.msg_controllen);
}

static void discard_done(qt_req *req, const qt_completion *c) {
    qt_stream *s = req->owner;
    qt_worker *w = s->object.worker;
    bool fin = req->code == QT_REQ_SHUTDOWN;
    s->close_req = NULL;
    s->object.reqs--;
    qt_req_free(&w->requests, req);
    if (fin)
        s->eof |= c->res < 0; /* not connected any more: nothing will come */
    else if (c->res <= 0 && c->res != -EINTR && c->res != -EAGAIN && !(c->res == 0 && is_empty_message(s)))
        s->eof = true;
    qt_close_advance(&s->object);
}

static void request(qt_stream *s, uint8_t code) {
    qt_req *req = qt_request(s->object.worker, code, s->object.fd, s, discard_done);
    if (req == NULL) {
        s->eof = true;
        qt_close_advance(&s->object);
        return;
    }
    if (code == QT_REQ_SHUTDOWN) {
        req->op_flags = SHUT_WR;
    } else if (s->object.kind == QUOIT_HANDLE_DATAGRAM) {
        qt_seqpacket_discard((qt_datagram *)s, req);
    } else {
        req->addr =
            (uint64_t)(uintptr_t)s->object.worker->sink; /* what comes after close is read by nobody */
        req->len = QT_SINK_SIZE;
    }
    s->close_req = req;
    s->object.reqs++;
    qt_submit(s->object.worker, req);
}

/* What is queued has left: FIN, input until the peer's, the close. */
static void say_farewell(qt_stream *s) {
    if (!s->fin_sent) {
        s->fin_sent = true;
        request(s, QT_REQ_SHUTDOWN);
    } else if (!s->eof) {
        request(s, QT_REQ_DISCARD);
    } else if (s->object.reqs == 0) { /* else zero-copy sends: their bytes are not all acknowledged */
        submit_close(&s->object);
    }
}

static void advance_stream(qt_stream *s) {
    if (s->object.closing == QT_CLOSE_SUBMITTED)
        return;
    if (s->object.closing == QT_ABORTING) {
        if (s->object.reqs == 0 && s->send_head == NULL && s->recv == NULL && s->recv_fd == NULL)
            submit_close(&s->object);
        return;
    }
    if (s->send_head != NULL || s->recv_req != NULL || s->recv != NULL || s->recv_fd != NULL ||
        s->close_req != NULL || s->send_req != NULL)
        return;
    say_farewell(s);
}

/* One without a connection has no end to tell its peer of, and nothing to discard. */
static void advance_datagram(qt_datagram *d) {
    qt_object *object = &d->stream.object;
    if (object->closing == QT_CLOSE_SUBMITTED || object->reqs > 0 || d->stream.recv != NULL ||
        !qt_list_empty(&d->waiting) || !qt_list_empty(&d->flying))
        return;
    if (d->sequenced && object->closing == QT_CLOSING)
        say_farewell(&d->stream);
    else
        submit_close(object);
}

void qt_close_advance(qt_object *object) {
    switch (object->kind) {
    case QUOIT_HANDLE_STREAM:
        advance_stream((qt_stream *)object);
        break;
    case QUOIT_HANDLE_DATAGRAM:
        advance_datagram((qt_datagram *)object);
        break;
    case QUOIT_HANDLE_TIMER:
        break;
    case QUOIT_HANDLE_CHANNEL:
        free_object(object);
        break;
    default:
        if (object->reqs == 0 && object->closing != QT_CLOSE_SUBMITTED)
            submit_close(object);
        break;
    }
}

/* Asks every op of the object to end, but its close and queued sends. Those that can end at once do so within. */
static void end_ops(qt_object *object) {
    qt_link *at = object->pendings.next;
    while (at != &object->pendings) {
        qt_pending *p = qt_container(at, qt_pending, link);
        qt_link *next = at->next;
        bool send = p->opcode == QUOIT_OP_SEND || p->opcode == QUOIT_OP_SENDV ||
                    p->opcode == QUOIT_OP_SHUTDOWN || p->opcode == QUOIT_OP_SENDMSG ||
                    p->opcode == QUOIT_OP_SEND_FD;
        if (p != object->close_op && !send)
            qt_pending_end(p, -ECANCELED);
        at = next;
    }
}

static void abort_stream(qt_stream *s) {
    qt_worker *w = s->object.worker;
    s->object.closing = QT_ABORTING;
    qt_flights_break(s);
    if (s->send_req == NULL)
        qt_send_drop_all(s, -ECANCELED);
    else
        qt_cancel_request(w, s->send_req); /* the queue ends in order when that is over */
    end_ops(&s->object);
    qt_recv_drop(s);
    if (s->close_req != NULL) {
        qt_cancel_request(w, s->close_req);
    } else if (!s->fin_sent && !s->resets) { /* a FIN would tell the peer of an end that is none */
        s->fin_sent = true;
        qt_req *req = qt_request(w, QT_REQ_SHUTDOWN, s->object.fd, s, discard_done);
        if (req != NULL) {
            req->op_flags = SHUT_RDWR;
            s->close_req = req;
            s->object.reqs++;
            qt_submit(w, req);
        }
    }
    advance_stream(s);
}

static void abort_datagram(qt_datagram *d) {
    d->stream.object.closing = QT_ABORTING;
    qt_sendmsg_abort(d);
    end_ops(&d->stream.object);
    qt_recv_drop(&d->stream);
    if (d->stream.close_req != NULL)
        qt_cancel_request(d->stream.object.worker, d->stream.close_req);
    advance_datagram(d);
}

void qt_object_abort(qt_object *object) {
    if (object->closing < QT_ABORTING)
        qt_splices_cut(object);
    if (object->closing >= QT_ABORTING || (object->moving && qt_move_settle(object, -ECANCELED)))
        return;
    switch (object->kind) {
    case QUOIT_HANDLE_STREAM:
        abort_stream((qt_stream *)object);
        break;
    case QUOIT_HANDLE_DATAGRAM:
        abort_datagram((qt_datagram *)object);
        break;
    case QUOIT_HANDLE_TIMER:
    case QUOIT_HANDLE_CHANNEL:
        object->closing = QT_ABORTING;
        end_ops(object);
        free_object(object);
        break;
    default:
        object->closing = QT_ABORTING;
        end_ops(object);
        if (object->kind == QUOIT_HANDLE_LISTENER)
            qt_listener_close((qt_listener *)object);
        qt_close_advance(object);
        break;
    }
}

/* A close that names no time waits as long as bytes leave: the default is the time without progress. */
void qt_close_progress(qt_stream *s) {
    qt_worker *w = s->object.worker;
    if (s->patient && s->object.close_op != NULL)
        qt_timer_arm(&w->wheel, &s->object.close_op->deadline,
                     qt_after(qt_now(w), w->options.close_timeout_ns));
}

static void close_stream(qt_stream *s) {
    s->object.closing = QT_CLOSING;
    qt_splices_close(&s->object);
    end_ops(&s->object);
    qt_recv_drop(s);
    qt_send_mark(s); /* the flush sends what is queued, then advances */
}

void qt_op_close(qt_worker *w, const quoit_op *op, qt_object *object) {
    bool forced = op->flags & QUOIT_OPF_ABORT;
    if (object->moving && qt_move_settle(object, -ECANCELED)) {
        qt_refuse(w, op, QUOIT_E_STALE, QUOIT_FIELD_TARGET); /* the move had won */
        return;
    }
    if (object->closing) {
        /* The first close tells the end; an ABORT hastens it. */
        qt_refuse(w, op, QUOIT_E_CLOSING, QUOIT_FIELD_TARGET);
        if (forced && object->closing == QT_CLOSING)
            qt_object_abort(object);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, object);
    if (p == NULL)
        return;
    object->close_op = p;
    bool sends = object->kind == QUOIT_HANDLE_STREAM || object->kind == QUOIT_HANDLE_DATAGRAM;
    if (sends && !forced) {
        ((qt_stream *)object)->patient = op->timeout_ns == 0;
        qt_close_progress((qt_stream *)object);
        close_stream((qt_stream *)object);
    } else if (object->kind == QUOIT_HANDLE_CHANNEL && !forced) {
        qt_channel_close(object, op->timeout_ns == 0);
    } else {
        qt_object_abort(object);
    }
}

/* The deadline of a graceful close, or a stop: no more waiting. The close itself still succeeds. */
void qt_close_end(qt_pending *p) {
    qt_object *object = p->object;
    if (object != NULL && object->closing == QT_CLOSING)
        qt_object_abort(object);
}
