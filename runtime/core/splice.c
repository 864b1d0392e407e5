/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Splices: bytes from one stream or file to another. A chunk is taken from the source, then brought to the destination to its last byte, then
 * the next one. What was taken is lost only when the destination fails or one of the two is cut off, and then it is told how much that is. In a
 * stream's send queue a splice has its place: it begins when what was given before has left.
 */
#include "splice.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NO_BOUND UINT64_MAX

const size_t qt_splice_size = sizeof(qt_splice);

static qt_stream *stream(qt_object *object) {
    return object->kind == QUOIT_HANDLE_STREAM ? (qt_stream *)object : NULL;
}

static void leave_queue(qt_stream *s, const qt_pending *p) {
    qt_piece **at = &s->send_head;
    qt_piece *before = NULL;
    while (*at != NULL && (*at)->op != p) {
        before = *at;
        at = &before->next;
    }
    qt_piece *piece = *at;
    if (piece == NULL)
        return;
    *at = piece->next;
    if (piece == s->send_tail)
        s->send_tail = before;
    qt_slab_free(&s->object.worker->pieces, piece);
}

static void free_memory(qt_worker *w, qt_splice *sp) {
    if (sp->block != NULL)
        qt_block_free(&w->blocks, sp->block, sp->room);
    qt_splice_pipe_drop(sp);
    qt_list_remove(&sp->link);
}

/* Its objects are let go of, and go on with what waited for it. */
static void release(qt_object *object, bool was_source, bool had_turn) {
    qt_stream *s = stream(object);
    object->reqs--;
    if (s != NULL && was_source)
        s->recv_fd = NULL;
    if (s != NULL && had_turn) {
        s->splicing = false;
        if (object->closing == QT_ABORTING)
            qt_send_drop_all(s, -ECANCELED);
    }
    if (s != NULL)
        qt_send_mark(s); /* for what queued up, or a move */
    if (object->closing)
        qt_close_advance(object);
}

static void finish(qt_splice *sp) {
    qt_pending *p = sp->op;
    qt_worker *w = p->worker;
    qt_object *from = sp->from, *to = sp->to;
    bool turn = sp->turn, whole = sp->taken == sp->arrived && (sp->ended || sp->left == 0);
    int64_t result = sp->status ? sp->status : whole ? (int64_t)sp->arrived : p->verdict;
    uint64_t taken = sp->taken, arrived = sp->arrived;
    uint32_t end = sp->ended && result >= 0 ? QUOIT_EVF_EOF : 0;
    assert(sp->req == NULL && (result >= 0) == (whole && !sp->status));
    if (stream(to) != NULL)
        leave_queue(stream(to), p);
    free_memory(w, sp);
    qt_slab_free(&w->splices_slab, sp);
    p->state = NULL;
    quoit_event *event = qt_finish(p, result, arrived);
    event->offset = taken;
    event->flags |= end;
    release(from, true, false);
    release(to, false, turn);
}

/* Its requests */

bool qt_splice_request(qt_splice *sp, uint8_t code, int fd, qt_req_fn done) {
    sp->req = qt_request(sp->op->worker, code, fd, sp, done);
    if (sp->req == NULL)
        sp->status = -ENOMEM;
    return sp->req != NULL;
}

void qt_splice_submit(qt_splice *sp, bool writes) {
    sp->writing = writes;
    qt_submit(sp->op->worker, sp->req);
}

int32_t qt_splice_answer(qt_req *req, const qt_completion *c) {
    qt_splice *sp = req->owner;
    sp->req = NULL;
    qt_req_free(&sp->op->worker->requests, req);
    return c->res;
}

bool qt_splice_is_passing(int32_t res) {
    return res == -ECANCELED || res == -EINTR || res == -EAGAIN;
}

void qt_splice_took(qt_splice *sp, int32_t res) {
    if (res == 0) {
        sp->ended = true;
        if (stream(sp->from) != NULL)
            stream(sp->from)->eof = true;
    } else if (res > 0) {
        sp->taken += (uint64_t)res;
        sp->left -= (uint64_t)res;
        sp->from_at += sp->from_at >= 0 ? res : 0;
        if (stream(sp->from) != NULL)
            QT_COUNT(sp->op->worker, bytes_received, res);
    } else if (!qt_splice_is_passing(res)) {
        sp->status = res;
    }
}

void qt_splice_brought(qt_splice *sp, int32_t res) {
    if (res > 0) {
        sp->arrived += (uint64_t)res;
        sp->to_at += sp->to_at >= 0 ? res : 0;
        if (stream(sp->to) == NULL)
            return;
        QT_COUNT(sp->op->worker, bytes_sent, res);
        if (sp->to->closing == QT_CLOSING)
            qt_close_progress(stream(sp->to));
    } else if (!qt_splice_is_passing(res)) {
        sp->status = res ? res : -EIO;
    }
}

static void taken(qt_req *req, const qt_completion *c) {
    qt_splice *sp = req->owner;
    int32_t res = qt_splice_answer(req, c);
    qt_splice_took(sp, res);
    sp->at = 0;
    sp->ready = res > 0 ? (uint32_t)res : 0;
    qt_splice_advance(sp);
}

static void brought(qt_req *req, const qt_completion *c) {
    qt_splice *sp = req->owner;
    int32_t res = qt_splice_answer(req, c);
    qt_splice_brought(sp, res);
    if (res > 0) {
        sp->at += (uint32_t)res;
        sp->ready -= (uint32_t)res;
    }
    qt_splice_advance(sp);
}

bool qt_splice_block(qt_splice *sp) {
    if (sp->block == NULL)
        sp->block = qt_block_alloc(&sp->op->worker->blocks, sp->room);
    if (sp->block == NULL)
        sp->status = -ENOMEM;
    return sp->block != NULL;
}

static uint32_t chunk(const qt_splice *sp) {
    return sp->left < sp->room ? (uint32_t)sp->left : sp->room;
}

/* What a pause held back comes first: bytes, then the end or error that came after them. */
static bool take_held(qt_splice *sp) {
    qt_stream *s = stream(sp->from);
    if (s == NULL || (s->held_count == 0 && !s->held_end))
        return false;
    if (s->held_count == 0) {
        s->held_end = false;
        qt_splice_took(sp, s->held_error);
    } else if (qt_splice_block(sp)) {
        sp->at = 0;
        sp->ready = qt_recv_take_held(s, sp->block, chunk(sp));
        qt_splice_took(sp, (int32_t)sp->ready);
    }
    return true;
}

static void take(qt_splice *sp) {
    if (take_held(sp)) {
        qt_splice_advance(sp);
        return;
    }
    if (qt_splice_pipe_in(sp))
        return;
    uint8_t code = stream(sp->from) != NULL ? QT_REQ_DISCARD : QT_REQ_READ;
    if (!qt_splice_block(sp) || !qt_splice_request(sp, code, sp->from->fd, taken)) {
        qt_splice_advance(sp);
        return;
    }
    sp->req->addr = (uint64_t)(uintptr_t)sp->block;
    sp->req->len = chunk(sp);
    sp->req->offset = sp->from_at;
    qt_splice_submit(sp, false);
}

static void bring(qt_splice *sp) {
    if (sp->ready == 0) {
        qt_splice_pipe_out(sp);
        return;
    }
    bool sends = stream(sp->to) != NULL;
    if (!qt_splice_request(sp, sends ? QT_REQ_SEND : QT_REQ_WRITEV, sp->to->fd, brought)) {
        qt_splice_advance(sp);
        return;
    }
    sp->slice = (struct iovec){sp->block + sp->at, sp->ready};
    sp->req->addr = sends ? (uint64_t)(uintptr_t)sp->slice.iov_base : (uint64_t)(uintptr_t)&sp->slice;
    sp->req->len = sends ? sp->ready : 1;
    sp->req->offset = sp->to_at;
    if (!sends && sp->to_at < 0)
        sp->req->op_flags = RWF_APPEND;
    qt_splice_submit(sp, true);
}

void qt_splice_advance(qt_splice *sp) {
    assert(sp->req == NULL);
    bool owes = sp->ready > 0 || sp->piped > 0;
    if (sp->cut || sp->status || (!owes && (sp->ended || sp->left == 0 || sp->op->verdict)))
        finish(sp);
    else if (owes)
        bring(sp);
    else
        take(sp);
}

/* Its place in the queue has come: all that was given before has left. */
void qt_splice_turn(qt_pending *p) {
    qt_splice *sp = p->state;
    if (sp->turn)
        return;
    sp->turn = true;
    stream(sp->to)->splicing = true;
    qt_splice_advance(sp);
}

/* Its destination can send no more. */
void qt_splice_refuse(qt_pending *p, int32_t status) {
    qt_splice *sp = p->state;
    sp->status = status;
    finish(sp);
}

/* Asked to end: nothing more is taken, and what was taken is brought still. */
void qt_splice_end(qt_pending *p) {
    qt_splice *sp = p->state;
    if (!sp->turn)
        finish(sp);
    else if (sp->req != NULL && !sp->writing)
        qt_cancel_request(p->worker, sp->req);
}

static void cut(qt_splice *sp) {
    sp->cut = true;
    if (sp->op->verdict == 0)
        sp->op->verdict = -ECANCELED;
    if (sp->req != NULL)
        qt_cancel_request(sp->op->worker, sp->req);
    else
        finish(sp);
}

void qt_splices_cut(qt_object *object) {
    qt_worker *w = object->worker;
    qt_link *at = w->splices.next;
    while (at != &w->splices) {
        qt_splice *sp = qt_container(at, qt_splice, link);
        at = at->next;
        if ((sp->from == object || sp->to == object) && !sp->cut)
            cut(sp);
    }
}

void qt_splices_close(qt_object *object) {
    qt_worker *w = object->worker;
    qt_link *at = w->splices.next;
    while (at != &w->splices) {
        qt_splice *sp = qt_container(at, qt_splice, link);
        at = at->next;
        if (sp->to == object)
            qt_pending_end(sp->op, -ECANCELED);
    }
}

void qt_splice_discard(qt_pending *p) {
    free_memory(p->worker, p->state);
}

/* The op */

static quoit_status check(qt_worker *w, const quoit_op *op, qt_object *from, qt_object **to,
                          uint32_t *field) {
    uint32_t kinds = QT_KIND(QUOIT_HANDLE_STREAM) | QT_KIND(QUOIT_HANDLE_FILE);
    if (op->arg > INT32_MAX)
        return *field = QUOIT_FIELD_ARG, QUOIT_E_FIELD;
    if (op->offset < (stream(from) != NULL ? 0 : -1) || (stream(from) != NULL && op->offset != 0))
        return *field = QUOIT_FIELD_OFFSET, QUOIT_E_FIELD;
    *field = QUOIT_FIELD_ARG2;
    quoit_status status = op->arg2 ? qt_handle_find(w, op->arg2, kinds, to) : QUOIT_E_HANDLE;
    if (status != 0)
        return status;
    if (*to == from)
        return QUOIT_E_FIELD;
    if ((*to)->closing)
        return QUOIT_E_CLOSING;
    if ((*to)->moving)
        return QUOIT_E_BUSY;
    *field = QUOIT_FIELD_ADDR;
    if ((int64_t)op->addr < -1 || (stream(*to) != NULL && op->addr != 0))
        return QUOIT_E_FIELD;
    *field = QUOIT_FIELD_TARGET;
    bool busy = stream(from) != NULL && (stream(from)->recv != NULL || stream(from)->recv_fd != NULL ||
                                         stream(from)->recv_req != NULL);
    return busy ? QUOIT_E_BUSY : 0;
}

/* Into the queue of what the destination sends. */
static bool line_up(qt_splice *sp) {
    qt_stream *s = stream(sp->to);
    if (s == NULL) {
        sp->turn = true;
        return true;
    }
    qt_piece *piece = qt_slab_alloc(&sp->op->worker->pieces);
    if (piece == NULL)
        return false;
    piece->op = sp->op;
    piece->kind = QT_PIECE_SPLICE;
    piece->last = true;
    *(s->send_tail ? &s->send_tail->next : &s->send_head) = piece;
    s->send_tail = piece;
    qt_send_mark(s);
    return true;
}

void qt_op_splice(qt_worker *w, const quoit_op *op, qt_object *from) {
    qt_object *to = NULL;
    uint32_t field = 0;
    quoit_status status = check(w, op, from, &to, &field);
    if (status != 0) {
        qt_refuse(w, op, status, field);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, from);
    if (p == NULL)
        return;
    uint64_t length = (uint64_t)op->arg << 32 | op->len;
    qt_splice *sp = qt_slab_alloc(&w->splices_slab);
    if (sp != NULL) {
        sp->op = p;
        sp->from = from;
        sp->to = to;
        sp->left = length ? length : NO_BOUND;
        sp->from_at = stream(from) != NULL ? -1 : op->offset;
        sp->to_at = stream(to) != NULL ? -1 : (int64_t)op->addr;
        sp->room =
            stream(from) != NULL || sp->left <= QT_SPLICE_CHUNK ? QT_SPLICE_CHUNK : QT_SPLICE_FILE_CHUNK;
        qt_list_init(&sp->link);
        sp->pipes = w->driver->splices && (stream(from) != NULL || sp->from_at >= 0) &&
                    (stream(to) != NULL || sp->to_at >= 0);
    }
    if (sp == NULL || !line_up(sp)) {
        if (sp != NULL)
            qt_slab_free(&w->splices_slab, sp);
        qt_finish(p, -ENOMEM, 0);
        return;
    }
    p->state = sp;
    qt_list_append(&w->splices, &sp->link);
    from->reqs++;
    to->reqs++;
    if (stream(from) != NULL)
        stream(from)->recv_fd = p;
    if (sp->turn)
        qt_splice_advance(sp);
}
