/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Receiving on a stream or datagram socket. The program's op lives until its end; the kernel's request under it comes and goes: it ends
 * when no buffer is free, when the stream is paused, on overflow, and is armed again from here alone. What is a datagram's own is in recvmsg.c.
 */
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void recv_done(qt_req *req, const qt_completion *c);

static bool single(const qt_stream *s) {
    return !(s->recv->flags & QUOIT_OPF_MULTI);
}

/* The datagram socket that this is, or null. */
static qt_datagram *datagram(qt_stream *s) {
    return s->object.kind == QUOIT_HANDLE_DATAGRAM ? (qt_datagram *)s : NULL;
}

static void end_recv(qt_stream *s, int64_t result, uint32_t flags) {
    qt_pending *p = s->recv;
    s->recv = NULL;
    if (!qt_list_empty(&s->starved_link))
        qt_list_remove(&s->starved_link);
    uint64_t total = datagram(s) != NULL ? 0 : p->total;
    quoit_event *event = qt_finish(p, result, total);
    if (event != NULL)
        event->flags |= flags;
}

static int fill(qt_stream *s, qt_req *req) {
    qt_worker *w = s->object.worker;
    if (datagram(s) != NULL)
        return qt_recvmsg_fill(datagram(s), req);
    bool capped = s->recv_cap != 0 && s->recv_cap < w->buffers.size;
    req->len = capped ? s->recv_cap : 0;
    req->flags = capped || single(s) ? 0 : QT_REQ_MULTISHOT;
    return 0;
}

static void arm(qt_stream *s) {
    qt_worker *w = s->object.worker;
    if (s->recv == NULL || s->recv_req != NULL || s->paused || s->object.closing || s->recv->verdict ||
        !qt_list_empty(&s->starved_link))
        return;
    qt_req *req = qt_request(w, QT_REQ_RECV, s->object.fd, s, recv_done);
    if (req == NULL || fill(s, req) != 0) {
        if (req != NULL)
            qt_req_free(&w->requests, req);
        end_recv(s, -ENOMEM, 0);
        return;
    }
    s->recv_req = req;
    s->object.reqs++;
    qt_submit(w, req);
    QT_COUNT(w, recv_rearms, 1);
}

/* Tells one buffer's bytes; on a single-shot op this is its last event. */
static void tell(qt_stream *s, qt_buffer *buffer, bool nonempty) {
    qt_worker *w = s->object.worker;
    qt_pending *p = s->recv;
    uint32_t start = buffer->packet ? buffer->payload : 0;
    uint32_t len = buffer->length - start;
    p->total += len;
    uint32_t flags = QUOIT_EVF_LENT | (nonempty ? QUOIT_EVF_NONEMPTY : 0);
    uint64_t handle = qt_buffer_handle(w, buffer);
    if (s->recv_keep) {
        if (qt_buffer_count_kept(w, buffer)) {
            flags = (flags & ~(uint32_t)QUOIT_EVF_LENT) | QUOIT_EVF_KEPT;
            buffer->keeps = 1;
            s->kept_bytes += qt_buffer_size(w, buffer);
            if (s->kept_bytes >= w->options.kept_stream_max)
                qt_recv_pause_for(s, QT_PAUSED_KEPT);
        } else {
            flags = (flags & ~(uint32_t)QUOIT_EVF_LENT) | QUOIT_EVF_COPIED;
            handle = 0;
        }
    }
    if (!(flags & QUOIT_EVF_KEPT))
        qt_buffer_lend(w, buffer);
    quoit_event *event = qt_pending_event(p, len);
    event->flags |= flags;
    event->offset = buffer->offset + start;
    event->len = len;
    event->buffer = handle;
    event->value = p->total;
    if (buffer->packet) {
        event->result = buffer->whole;
        event->flags |= buffer->whole > len ? QUOIT_EVF_TRUNC : 0;
        event->flags |= buffer->credentials ? QUOIT_EVF_CREDENTIALS : 0;
        event->aux = buffer->segment;
        event->value = buffer->offset + buffer->packet - 1;
    }
    QT_COUNT(w, bytes_received, len);
    if (single(s)) {
        event->flags &= ~(uint32_t)QUOIT_EVF_MORE;
        s->recv = NULL;
        qt_pending_drop(p);
    }
    if (flags & QUOIT_EVF_KEPT)
        qt_buffers_refill(w);
}

static void hold(qt_stream *s, qt_buffer *buffer) {
    qt_worker *w = s->object.worker;
    if (s->held_count == s->held_capacity) {
        uint32_t capacity = s->held_capacity ? s->held_capacity * 2 : 16;
        uint32_t *held = realloc(s->held, capacity * sizeof *held);
        if (held == NULL)
            abort(); /* bytes that were received must not be lost */
        s->held = held;
        s->held_capacity = capacity;
    }
    buffer->pins++;
    s->held[s->held_count++] = qt_buffer_index(w, buffer);
    qt_buffers_refill(w);
}

static void got_bytes(qt_stream *s, qt_buffer *buffer, bool nonempty) {
    if (s->object.closing || s->recv == NULL)
        qt_buffer_settle(s->object.worker, buffer);
    else if (s->paused & QT_PAUSED_USER)
        hold(s, buffer);
    else
        tell(s, buffer, nonempty);
}

static void wait_for_buffer(qt_stream *s) {
    qt_worker *w = s->object.worker;
    QT_COUNT(w, recv_nobufs, 1);
    w->buffers.found_none = true;
    if (qt_list_empty(&s->starved_link))
        qt_list_append(&w->buffers.starved, &s->starved_link);
}

/* The kernel's request has ended with `res`: what becomes of the op. */
static void request_over(qt_stream *s, int32_t res) {
    if (s->object.closing) {
        if (s->recv != NULL)
            end_recv(s, s->recv->verdict ? s->recv->verdict : -ECANCELED, 0);
        qt_close_advance(&s->object);
        return;
    }
    if (datagram(s) != NULL)
        res = qt_seqpacket_result(datagram(s), res);
    if (res == 0)
        s->eof = true;
    if (s->recv == NULL)
        return;
    bool user_pause = s->paused & QT_PAUSED_USER;
    bool again = res == -ENOBUFS || res == -ECANCELED || res == -EINTR || res == -EAGAIN;
    if (!again) {
        if (user_pause && !s->recv->verdict) {
            s->held_end = true;
            s->held_error = res;
        } else {
            end_recv(s, res, res == 0 ? QUOIT_EVF_EOF : 0);
        }
    } else if (s->recv->verdict) {
        end_recv(s, s->recv->verdict, 0);
    } else if (res == -ENOBUFS) {
        wait_for_buffer(s);
    } else {
        arm(s);
    }
}

static void recv_done(qt_req *req, const qt_completion *c) {
    qt_stream *s = req->owner;
    qt_worker *w = s->object.worker;
    qt_datagram *d = datagram(s);
    bool end = c->packet != NULL && qt_seqpacket_is_end(d, c->packet->whole, c->packet->control_len);
    const qt_packet *packet = end ? NULL : c->packet;
    int32_t res = end ? 0 : c->res;
    bool over = !(c->flags & QT_CQ_MORE);
    if (over) {
        s->recv_req = NULL;
        s->object.reqs--;
        qt_req_free(&w->requests, req);
    }
    qt_buffer *buffer = NULL;
    if (c->flags & QT_CQ_BUFFER)
        buffer = qt_buffer_received(w, c->bid, res > 0 ? (uint32_t)res : 0, s->object.handle);
    else if (d != NULL)
        buffer = qt_recvmsg_block(d, packet != NULL);
    bool brought = buffer != NULL && (d != NULL ? packet != NULL : res > 0);
    if (brought && d != NULL)
        qt_recvmsg_read(d, buffer, packet);
    if (brought)
        got_bytes(s, buffer, c->flags & QT_CQ_NONEMPTY);
    else if (buffer != NULL)
        qt_buffer_settle(w, buffer);
    /* A result of nothing is the end of a stream; an empty datagram that there was no memory for is lost, as datagrams may be. */
    if (over)
        request_over(s, brought || packet != NULL ? -EAGAIN : res);
    else if (d == NULL &&
             !(c->flags & QT_CQ_NONEMPTY)) /* one of messages is tried until there is none, or the end */
        qt_silence_begin(s);
    if (over && s->move != NULL)
        qt_send_mark(s);
}

static void forget_held(qt_stream *s, uint32_t count) {
    if (count == 0)
        return;
    s->held_count -= count;
    memmove(s->held, s->held + count, s->held_count * sizeof *s->held);
}

uint32_t qt_recv_take_held(qt_stream *s, uint8_t *to, uint32_t room) {
    qt_worker *w = s->object.worker;
    qt_buffer *buffer = qt_buffer_at(w, s->held[0]);
    uint32_t left = buffer->length - s->held_skip;
    uint32_t n = left < room ? left : room;
    memcpy(to, w->buffers.base + buffer->offset + s->held_skip, n);
    s->held_skip += n;
    if (n < left)
        return n;
    s->held_skip = 0;
    buffer->pins--;
    qt_buffer_settle(w, buffer);
    forget_held(s, 1);
    return n;
}

/* What this op takes at a time of a buffer that waited, if not all of it: the op that its bytes came for may have taken more. Else 0. */
static uint32_t part_of(qt_stream *s, const qt_buffer *buffer) {
    uint32_t left = buffer->length - s->held_skip;
    bool capped = datagram(s) == NULL && s->recv_cap != 0 && s->recv_cap < left;
    return capped ? s->recv_cap : s->held_skip > 0 ? left : 0;
}

/* A part, in a block of its own: a buffer is told once. */
static void tell_part(qt_stream *s, uint32_t length) {
    qt_worker *w = s->object.worker;
    qt_buffer *part = qt_buffer_take_large(w, length, s->object.handle);
    if (part == NULL) {
        end_recv(s, -ENOMEM, 0);
        return;
    }
    part->length = qt_recv_take_held(s, w->buffers.base + part->offset, length);
    part->pins--;
    tell(s, part, true);
}

/* Bytes that waited come first, then the end if it waited too. */
static void tell_held(qt_stream *s) {
    uint32_t told = 0;
    while (told < s->held_count && s->recv != NULL && !(s->paused & QT_PAUSED_USER)) {
        qt_buffer *buffer = qt_buffer_at(s->object.worker, s->held[told]);
        uint32_t length = part_of(s, buffer);
        if (length > 0) {
            forget_held(s, told);
            told = 0;
            tell_part(s, length);
        } else {
            told++;
            buffer->pins--;
            tell(s, buffer, true);
        }
    }
    forget_held(s, told);
    if (s->held_count == 0 && s->held_end && s->recv != NULL) {
        s->held_end = false;
        end_recv(s, s->held_error, s->held_error == 0 ? QUOIT_EVF_EOF : 0);
    }
}

static void begin(qt_stream *s, qt_pending *p, uint32_t cap, bool keep) {
    s->recv = p;
    s->recv_cap = cap;
    s->recv_keep = keep;
    if (!(s->paused & QT_PAUSED_USER))
        tell_held(s);
    arm(s);
}

void qt_op_recv(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_stream *s = (qt_stream *)object;
    if (s->recv != NULL || s->recv_fd != NULL) {
        qt_refuse(w, op, QUOIT_E_BUSY, QUOIT_FIELD_TARGET);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, object);
    if (p == NULL)
        return;
    begin(s, p, op->len, op->flags & QUOIT_OPF_KEEP);
}

void qt_recv_auto(qt_stream *s, const qt_pending *accept) {
    qt_worker *w = s->object.worker;
    quoit_op op = {.opcode = datagram(s) != NULL ? QUOIT_OP_RECVMSG : QUOIT_OP_RECV,
                   .flags = QUOIT_OPF_MULTI | (accept->flags & QUOIT_OPF_KEEP),
                   .target = s->object.handle,
                   .user_data = accept->user_data};
    qt_pending *p = qt_pending_new(w, &op, &s->object);
    if (p != NULL)
        begin(s, p, 0, op.flags & QUOIT_OPF_KEEP);
}

/* Cancel, deadline or close. What the kernel has already taken is still told. */
void qt_recv_end(qt_pending *p) {
    qt_stream *s = (qt_stream *)p->object;
    if (s->recv_req != NULL)
        qt_cancel_request(p->worker, s->recv_req);
    else
        end_recv(s, p->verdict, 0);
}

void qt_recv_renew(qt_stream *s) {
    if (s->recv_req != NULL && !s->recv_req->cancelled)
        qt_cancel_request(s->object.worker, s->recv_req); /* its end arms the next */
}

void qt_recv_pause_for(qt_stream *s, uint8_t reason) {
    if (s->paused & reason)
        return;
    if (!s->paused) {
        QT_COUNT(s->object.worker, recv_paused, 1);
        if (s->recv_req != NULL && !s->recv_req->cancelled)
            qt_cancel_request(s->object.worker, s->recv_req);
        if (!qt_list_empty(&s->starved_link))
            qt_list_remove(&s->starved_link);
    }
    s->paused |= reason;
}

void qt_recv_resume_for(qt_stream *s, uint8_t reason) {
    if (!(s->paused & reason))
        return;
    s->paused &= (uint8_t)~reason;
    if (s->object.closing)
        return;
    if (reason == QT_PAUSED_USER)
        tell_held(s);
    arm(s);
}

void qt_op_recv_pause(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_recv_pause_for((qt_stream *)object, QT_PAUSED_USER);
    qt_succeed(w, op, 0);
}

void qt_op_recv_resume(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_succeed(w, op, 0);
    qt_recv_resume_for((qt_stream *)object, QT_PAUSED_USER);
}

void qt_recv_drop(qt_stream *s) {
    qt_worker *w = s->object.worker;
    for (uint32_t i = 0; i < s->held_count; i++) {
        qt_buffer *buffer = qt_buffer_at(w, s->held[i]);
        buffer->pins--;
        qt_buffer_settle(w, buffer);
    }
    free(s->held);
    s->held = NULL;
    s->held_count = s->held_capacity = s->held_skip = 0;
    qt_silence_end(s);
    if (!qt_list_empty(&s->starved_link))
        qt_list_remove(&s->starved_link);
}

/*
 * First in, first out, at most one stream per buffer that is there. A multishot receive may take many: each time some found
 * none, half as many are armed at once, and twice as many when all were served.
 */
void qt_starved_rearm(qt_worker *w) {
    qt_buffers *b = &w->buffers;
    if (qt_list_empty(&b->starved))
        return;
    b->rearm_at_once = b->found_none ? b->rearm_at_once / 2 : b->rearm_at_once * 2;
    b->found_none = false;
    if (b->rearm_at_once > b->target)
        b->rearm_at_once = b->target;
    if (b->rearm_at_once == 0)
        b->rearm_at_once = 1;
    uint32_t budget = b->rearm_at_once < b->in_driver ? b->rearm_at_once : b->in_driver;
    while (budget-- > 0 && !qt_list_empty(&b->starved)) {
        qt_stream *s = qt_container(b->starved.next, qt_stream, starved_link);
        qt_list_remove(&s->starved_link);
        arm(s);
    }
}
