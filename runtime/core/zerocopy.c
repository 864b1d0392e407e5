/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends that the kernel performs from the program's memory. It says twice what becomes of one: how much it took, and, when the
 * last byte needs that memory no more, that it let go. In between more may be sent; what has left waits here for its end.
 */
#include "object.h"

#include <errno.h>

/* A zero-copy send of which the kernel may still read. */
typedef struct qt_flight {
    qt_link link; /* in its stream's flights, the oldest first */
    qt_stream *stream;
    uint64_t number;
} qt_flight;

const size_t qt_flight_size = sizeof(qt_flight);

/* The kernel has let go of all flights up to this one. */
static bool has_landed(const qt_stream *s, uint64_t number) {
    return qt_list_empty(&s->flights) || qt_container(s->flights.next, qt_flight, link)->number > number;
}

bool qt_zerocopy_fits(const qt_stream *s, const qt_piece *piece) {
    const qt_worker *w = s->object.worker;
    return piece->op->flags & QUOIT_OPF_ZEROCOPY && piece->op->opcode != QUOIT_OP_SHUTDOWN && !s->copies &&
           !w->copies && w->driver->zerocopy;
}

static void tell(qt_stream *s, qt_piece *piece) {
    qt_pending *p = piece->op;
    bool ends = piece->ends;
    int64_t result = piece->result;
    qt_piece_release(s, piece);
    if (ends)
        qt_finish(p, result, result < 0 ? p->done : 0);
}

void qt_piece_retire(qt_stream *s, qt_piece *piece, bool ends, int64_t result) {
    /* What was asked to end does so at once, if it can: order is promised to the others. */
    bool in_order = ends && (result >= 0 || !piece->op->verdict);
    piece->ends = ends;
    piece->result = result;
    if (ends)
        piece->flight = piece->op->flight;
    if (has_landed(s, piece->flight) && !(in_order && s->owed_head != NULL)) {
        tell(s, piece);
        return;
    }
    piece->next = NULL;
    *(s->owed_tail ? &s->owed_tail->next : &s->owed_head) = piece;
    s->owed_tail = piece;
}

static void tell_owed(qt_stream *s) {
    while (s->owed_head != NULL && has_landed(s, s->owed_head->flight)) {
        qt_piece *piece = s->owed_head;
        s->owed_head = piece->next;
        if (s->owed_head == NULL)
            s->owed_tail = NULL;
        tell(s, piece);
    }
}

static void land(qt_flight *flight, qt_req *req, bool copied) {
    qt_stream *s = flight->stream;
    qt_worker *w = s->object.worker;
    qt_list_remove(&flight->link);
    qt_slab_free(&w->flights, flight);
    qt_req_free(&w->requests, req);
    s->object.reqs--;
    if (copied) {
        /* Where this stream goes the kernel copies after all, later and at a higher price. */
        s->copies = true;
        QT_COUNT(w, zerocopy_copied, 1);
    }
    tell_owed(s);
}

/* Nothing has left then, and a plain send may do. */
static bool is_refused(int32_t res) {
    return res == -ENOMEM || res == -ENOBUFS || res == -EOPNOTSUPP || res == -EINVAL;
}

static void flight_done(qt_req *req, const qt_completion *c) {
    qt_flight *flight = req->owner;
    qt_stream *s = flight->stream;
    qt_worker *w = s->object.worker;
    bool answer = s->send_req == req;
    bool asked = req->cancelled;
    int32_t res = c->res;
    if (answer)
        s->send_req = NULL;
    if (!(c->flags & QT_CQ_MORE))
        land(flight, req, c->flags & QT_CQ_COPIED);
    if (answer && is_refused(res)) {
        /* EINVAL: this kernel has no such send, or does not report copies. */
        s->copies = true;
        w->copies |= res == -EINVAL;
        QT_COUNT(w, zerocopy_refused, 1);
        res = -EAGAIN;
    }
    if (answer)
        qt_send_answered(s, res, asked);
    else if (s->object.closing == QT_CLOSING)
        qt_close_progress(s);
    if (s->object.closing)
        qt_close_advance(&s->object);
    else if (s->move != NULL)
        qt_send_mark(s);
}

/* Without memory to remember it by, it stays a plain send. */
void qt_flight_begin(qt_stream *s, qt_req *req, uint64_t pieces) {
    qt_worker *w = s->object.worker;
    qt_flight *flight = qt_slab_alloc(&w->flights);
    if (flight == NULL)
        return;
    flight->stream = s;
    flight->number = ++s->flight_count;
    qt_list_append(&s->flights, &flight->link);
    req->flags |= QT_REQ_ZEROCOPY;
    req->owner = flight;
    req->done = flight_done;
    for (qt_piece *piece = s->send_head; pieces > 0; piece = piece->next, pieces--)
        piece->flight = piece->op->flight = flight->number;
    QT_COUNT(w, zerocopy_sends, 1);
}

/*
 * What waits for a peer to acknowledge it may wait for ever, and a close of the descriptor would come only after that. Disconnecting drops it
 * at once, with a reset.
 */
void qt_flights_break(qt_stream *s) {
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (qt_list_empty(&s->flights))
        return;
    QT_COUNT(s->object.worker, system_calls, 1);
    if (connect(s->object.fd, &nobody, sizeof nobody) == 0)
        s->resets = true;
}
