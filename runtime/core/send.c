/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sending on a stream: one send in flight; what queued up meanwhile leaves in one gathered send. */
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Owed bytes above which a stream whose send is blocked stops receiving, and below which it goes on. */
#define PAUSE_ABOVE (64u << 10)
#define RESUME_BELOW (16u << 10)

static void send_done(qt_req *req, const qt_completion *c);

void qt_send_mark(qt_stream *s) {
    if (qt_list_empty(&s->dirty_link))
        qt_list_append(&s->object.worker->dirty, &s->dirty_link);
}

static void publish_queued(qt_worker *w, int64_t change) {
    QT_COUNT(w, send_bytes_queued, change);
}

void qt_op_send(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_send_with(w, op, object, -1);
}

void qt_send_with(qt_worker *w, const quoit_op *op, qt_object *object, int fd) {
    qt_stream *s = (qt_stream *)object;
    qt_pending *p = qt_pending_new(w, op, object);
    uint32_t field = 0;
    int error = p ? qt_pieces_append(s, p, op, &field) : -ENOMEM;
    if (error && p != NULL) {
        quoit_event *event = qt_finish(p, error, 0);
        event->aux = field;
    }
    if (error) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (fd >= 0) { /* its op has one piece */
        s->send_tail->has_fd = true;
        s->send_tail->fd = fd;
    }
    publish_queued(w, (int64_t)p->total);
    qt_send_mark(s);
}

uint32_t qt_shutdown_how(uint32_t how) {
    return how == QUOIT_SHUTDOWN_RECV ? SHUT_RD : how == QUOIT_SHUTDOWN_SEND ? SHUT_WR : SHUT_RDWR;
}

void qt_op_shutdown(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_stream *s = (qt_stream *)object;
    if (op->arg < QUOIT_SHUTDOWN_RECV || op->arg > QUOIT_SHUTDOWN_BOTH) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_ARG);
        return;
    }
    if (object->kind == QUOIT_HANDLE_DATAGRAM) {
        if (((const qt_datagram *)object)->sequenced)
            qt_sendmsg_shutdown(w, op, object);
        else
            qt_refuse(w, op, QUOIT_E_KIND, QUOIT_FIELD_TARGET);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, object);
    if (p == NULL)
        return;
    qt_piece *piece = qt_slab_alloc(&w->pieces);
    if (piece == NULL) {
        qt_finish(p, -ENOMEM, 0);
        return;
    }
    piece->op = p;
    piece->kind = QT_PIECE_SHUTDOWN;
    piece->last = true;
    if (s->send_tail)
        s->send_tail->next = piece;
    else
        s->send_head = piece;
    s->send_tail = piece;
    qt_send_mark(s);
}

/* Takes the head off the queue; with its op's last piece comes the op's end. */
static void pop(qt_stream *s, int64_t result) {
    qt_piece *piece = s->send_head;
    s->send_head = piece->next;
    if (s->send_head == NULL)
        s->send_tail = NULL;
    qt_piece_retire(s, piece, piece->last, result);
}

/* Ends the op at the head of the queue and drops what is left of it. */
static void end_head(qt_stream *s, int64_t result) {
    bool last;
    uint64_t dropped = 0;
    if (s->send_head->kind == QT_PIECE_SPLICE) {
        qt_splice_refuse(s->send_head->op, (int32_t)result);
        return;
    }
    do {
        last = s->send_head->last;
        dropped += s->send_head->len;
        s->queued -= s->send_head->len;
        s->unsent += s->send_head->len;
        pop(s, result);
    } while (!last);
    publish_queued(s->object.worker, -(int64_t)dropped);
}

/* Ends whatever at the head needs no kernel: empty pieces, and ops that were asked to end. */
static void settle_head(qt_stream *s) {
    while (s->send_head != NULL && s->send_req == NULL) {
        qt_piece *piece = s->send_head;
        qt_pending *p = piece->op;
        if (piece->kind == QT_PIECE_SPLICE) {
            break;
        } else if (p->verdict) {
            end_head(s, p->verdict);
        } else if (piece->kind != QT_PIECE_SHUTDOWN && piece->len == 0) {
            pop(s, (int64_t)p->total);
        } else {
            break;
        }
    }
}

static uint32_t message_flags(const qt_piece *piece) {
    return piece->op->arg & QUOIT_SEND_CORK ? MSG_MORE : 0;
}

/* What leaves in a request of its own. */
static bool is_alone(const qt_piece *piece) {
    return piece->kind >= QT_PIECE_SHUTDOWN || piece->has_fd;
}

static bool goes_along(const qt_stream *s, const qt_piece *piece, bool zerocopy) {
    return !is_alone(piece) && qt_zerocopy_fits(s, piece) == zerocopy;
}

static bool with_descriptor(qt_stream *s, qt_req *req) {
    qt_piece *piece = s->send_head;
    qt_send_slot *slot = qt_slab_alloc(&s->object.worker->send_slots);
    if (slot == NULL)
        return false;
    slot->slices[0] = (struct iovec){(void *)(uintptr_t)piece->addr, piece->len};
    slot->message = (struct msghdr){.msg_iov = slot->slices,
                                    .msg_iovlen = 1,
                                    .msg_control = &slot->control,
                                    .msg_controllen = sizeof slot->control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&slot->message);
    *c = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof piece->fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &piece->fd, sizeof piece->fd);
    s->send_slot = slot;
    req->code = QT_REQ_SENDMSG;
    req->addr = (uint64_t)(uintptr_t)&slot->message;
    return true;
}

static bool gather_many(qt_stream *s, qt_req *req, bool zerocopy) {
    qt_piece *head = s->send_head;
    qt_send_slot *slot = qt_slab_alloc(&s->object.worker->send_slots);
    if (slot == NULL)
        return false;
    uint32_t n = 0;
    s->send_flying = 0;
    for (qt_piece *piece = head; piece != NULL && n < QT_GATHER_MAX && goes_along(s, piece, zerocopy);
         piece = piece->next) {
        slot->slices[n++] = (struct iovec){(void *)(uintptr_t)piece->addr, piece->len};
        s->send_flying += piece->len;
        req->op_flags = message_flags(piece);
    }
    slot->message = (struct msghdr){.msg_iov = slot->slices, .msg_iovlen = n};
    s->send_slot = slot;
    req->code = QT_REQ_SENDMSG;
    req->addr = (uint64_t)(uintptr_t)&slot->message;
    QT_COUNT(s->object.worker, sends_gathered, 1);
    return true;
}

/* Fills the request with as much of the queue as one message takes. */
static bool gather(qt_stream *s, qt_req *req) {
    qt_piece *head = s->send_head;
    bool zerocopy = qt_zerocopy_fits(s, head);
    s->send_flying = head->len;
    req->op_flags = message_flags(head);
    if (head->has_fd)
        return with_descriptor(s, req);
    if (head->next == NULL || !goes_along(s, head->next, zerocopy)) {
        req->code = QT_REQ_SEND;
        req->addr = head->addr;
        req->len = head->len;
    } else if (!gather_many(s, req, zerocopy)) {
        return false;
    }
    if (zerocopy)
        qt_flight_begin(s, req, s->send_slot ? s->send_slot->message.msg_iovlen : 1);
    return true;
}

static void submit_head(qt_stream *s) {
    qt_worker *w = s->object.worker;
    qt_req *req = qt_request(w, QT_REQ_SEND, s->object.fd, s, send_done);
    bool made = req != NULL;
    if (made && s->send_head->kind == QT_PIECE_SHUTDOWN) {
        req->code = QT_REQ_SHUTDOWN;
        req->op_flags = qt_shutdown_how(s->send_head->op->arg);
        s->send_flying = 0;
    } else if (made) {
        made = gather(s, req);
    }
    if (!made) {
        if (req != NULL)
            qt_req_free(&w->requests, req);
        end_head(s, -ENOMEM);
        qt_send_mark(s);
        return;
    }
    s->send_req = req;
    s->object.reqs++;
    qt_submit(w, req);
    if (req->code != QT_REQ_SHUTDOWN)
        QT_COUNT(w, sends, 1);
}

/* Also when what a stream owed was cancelled instead of sent: no completion would tell then. */
static void resume_below(qt_stream *s) {
    if (s->queued <= RESUME_BELOW)
        qt_recv_resume_for(s, QT_PAUSED_SEND);
}

void qt_send_flush(qt_worker *w) {
    while (!qt_list_empty(&w->dirty)) {
        qt_stream *s = qt_container(w->dirty.next, qt_stream, dirty_link);
        qt_list_remove(&s->dirty_link);
        if (s->object.kind == QUOIT_HANDLE_DATAGRAM) {
            qt_sendmsg_flush((qt_datagram *)s);
            continue;
        }
        if (s->send_req != NULL || s->splicing) {
            /* The send of an earlier tick is still out: the peer is slow. Let TCP slow it in turn. */
            if (s->queued > PAUSE_ABOVE)
                qt_recv_pause_for(s, QT_PAUSED_SEND);
            continue;
        }
        settle_head(s);
        resume_below(s);
        if (s->send_head != NULL && s->send_head->kind == QT_PIECE_SPLICE)
            qt_splice_turn(s->send_head->op);
        else if (s->send_head != NULL)
            submit_head(s);
        else if (s->object.closing)
            qt_close_advance(&s->object);
        else if (s->move != NULL)
            qt_move_advance(s);
        /* A message takes only so many pieces: what more a tick brings must not pile up until nothing fits. */
        if (s->send_req != NULL && s->queued > s->send_flying + PAUSE_ABOVE)
            qt_recv_pause_for(s, QT_PAUSED_SEND);
    }
}

/* `sent` bytes have left: ends the ops they complete. */
static void consume(qt_stream *s, uint64_t sent) {
    s->queued -= sent;
    publish_queued(s->object.worker, -(int64_t)sent);
    while (sent > 0) {
        qt_piece *piece = s->send_head;
        qt_pending *p = piece->op;
        qt_piece_drop_fd(piece); /* it left with the first byte */
        if (sent < piece->len) {
            piece->addr += sent;
            piece->len -= (uint32_t)sent;
            p->done += sent;
            return;
        }
        sent -= piece->len;
        p->done += piece->len;
        pop(s, (int64_t)p->total);
    }
}

void qt_send_drop_all(qt_stream *s, int32_t status) {
    while (s->send_head != NULL && !s->splicing) {
        int32_t verdict = s->send_head->op->verdict;
        end_head(s, verdict ? verdict : status);
    }
}

static void shutdown_done(qt_stream *s, int32_t res) {
    const qt_pending *p = s->send_head->op;
    pop(s, p->verdict && res == -ECANCELED ? p->verdict : res);
}

static void payload_done(qt_stream *s, int32_t res) {
    qt_worker *w = s->object.worker;
    if (res >= 0) {
        if ((uint64_t)res < s->send_flying)
            QT_COUNT(w, sends_partial, 1);
        QT_COUNT(w, bytes_sent, res);
        consume(s, (uint64_t)res);
        if (s->object.closing == QT_CLOSING)
            qt_close_progress(s);
    } else if (s->object.closing == QT_ABORTING) {
        /* the queue ends below */
    } else if (res == -ETOOMANYREFS && s->send_head->has_fd) {
        end_head(s, res); /* too many of this user's are under way; the stream itself is well */
    } else if (res != -ECANCELED && res != -EAGAIN && res != -EINTR) {
        /* The stream is broken for sending: nothing that is queued can leave. */
        qt_send_drop_all(s, res);
    }
}

/* Takes an op's pieces, which are in a row, out of the middle of the queue, when none of them is in flight. */
static void unlink_op(qt_stream *s, const qt_pending *p) {
    qt_piece **at = &s->send_head;
    qt_piece *before = NULL;
    uint64_t dropped = 0;
    while (*at != NULL && (*at)->op != p) {
        before = *at;
        at = &before->next;
    }
    for (bool last = *at == NULL; !last;) {
        qt_piece *piece = *at;
        last = piece->last;
        dropped += piece->len;
        *at = piece->next;
        if (piece == s->send_tail)
            s->send_tail = before;
        s->queued -= piece->len;
        s->unsent += piece->len;
        qt_piece_retire(s, piece, last, p->verdict);
    }
    publish_queued(s->object.worker, -(int64_t)dropped);
}

/* The message that held them is back: ops that were asked to end meanwhile do so, wherever in the queue they are. */
static void end_asked(qt_stream *s) {
    const qt_piece *piece = s->send_head;
    while (piece != NULL) {
        const qt_pending *p = piece->op;
        while (piece != NULL && piece->op == p)
            piece = piece->next;
        if (p->verdict)
            unlink_op(s, p);
    }
}

void qt_send_answered(qt_stream *s, int32_t res, bool asked) {
    if (s->send_slot != NULL) {
        qt_slab_free(&s->object.worker->send_slots, s->send_slot);
        s->send_slot = NULL;
    }
    if (s->send_head->kind == QT_PIECE_SHUTDOWN)
        shutdown_done(s, res);
    else
        payload_done(s, res);
    if (s->object.closing == QT_ABORTING)
        qt_send_drop_all(s, -ECANCELED);
    else if (asked)
        end_asked(s);
    settle_head(s);
    if (s->send_head != NULL || s->move != NULL)
        qt_send_mark(s);
    resume_below(s);
    if (s->object.closing && s->send_head == NULL)
        qt_close_advance(&s->object);
}

static void send_done(qt_req *req, const qt_completion *c) {
    qt_stream *s = req->owner;
    bool asked = req->cancelled;
    s->send_req = NULL;
    s->object.reqs--;
    qt_req_free(&s->object.worker->requests, req);
    qt_send_answered(s, c->res, asked);
}

static bool is_flying(const qt_stream *s, const qt_pending *p) {
    if (s->send_req == NULL)
        return false;
    if (s->send_slot == NULL)
        return s->send_head->op == p;
    uint64_t n = s->send_slot->message.msg_iovlen;
    for (const qt_piece *piece = s->send_head; piece != NULL && n > 0; piece = piece->next, n--)
        if (piece->op == p)
            return true;
    return false;
}

void qt_send_end(qt_pending *p) {
    qt_stream *s = (qt_stream *)p->object;
    if (is_flying(s, p)) {
        qt_cancel_request(p->worker, s->send_req);
    } else { /* one that is not in the queue any more has left, and waits for the kernel */
        unlink_op(s, p);
        resume_below(s);
        if (s->move != NULL)
            qt_send_mark(s);
    }
}
