/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sending datagrams. Each op is a message of its own. Of a UDP socket many are with the kernel at a time, since one that waits need not
 * hold the others; of a Unix one one, since its order is promised. Those that succeed end in the order they were given.
 * No message waits inside the ring: Linux 6.18 tries one that found no room again with its payload used up, and an empty one leaves.
 */
#include "../base/options.h"
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define FLYING_MAX 64u
/* Nothing tells when the peer of a Unix socket that is not connected has room: it is asked again after this time. */
#define RETRY_NS 2000000

static void sent(qt_req *req, const qt_completion *c);

static uint32_t window(const qt_datagram *d) {
    return d->family == AF_UNIX ? 1 : FLYING_MAX;
}

static qt_datagram *socket_of(const qt_outgoing *o) {
    return (qt_datagram *)o->op->object;
}

static void release_payload(qt_datagram *d, qt_outgoing *o) {
    while (o->pieces != NULL) {
        qt_piece *next = o->pieces->next;
        qt_piece_release(&d->stream, o->pieces);
        o->pieces = next;
    }
}

static void free_outgoing(qt_worker *w, qt_outgoing *o) {
    if (o->has_fd)
        close(o->fd);
    if (o->slices != o->few && o->slices != NULL)
        qt_block_free(&w->blocks, o->slices, o->piece_count * sizeof *o->slices);
    qt_list_remove(&o->link);
    qt_slab_free(&w->outgoings, o);
}

static void unblock(qt_datagram *d, qt_outgoing *o) {
    if (!o->blocked)
        return;
    o->blocked = false;
    if (--d->blocked > 0)
        return;
    qt_timer_disarm(&d->stream.object.worker->wheel, &d->retry);
    if (d->room_req != NULL)
        qt_cancel_request(d->stream.object.worker, d->room_req);
}

static void finish(qt_outgoing *o, int64_t result) {
    qt_pending *p = o->op;
    qt_datagram *d = socket_of(o);
    unblock(d, o);
    release_payload(d, o);
    if (!o->sent)
        QT_COUNT(p->worker, send_bytes_queued, -(int64_t)p->total);
    if (result < 0)
        d->stream.unsent += p->total - p->done;
    p->state = NULL;
    free_outgoing(p->worker, o);
    qt_finish(p, result, result < 0 ? p->done : 0);
}

/* Where the datagram leaves from, as control data. */
static void set_info(const qt_datagram *d, qt_outgoing *o, const quoit_addr *source) {
    struct cmsghdr *item = (struct cmsghdr *)(void *)o->control;
    if (d->family == AF_INET6) {
        struct in6_pktinfo info = {.ipi6_ifindex = source->scope};
        memcpy(&info.ipi6_addr, source->bytes, 16);
        *item = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO};
        memcpy(CMSG_DATA(item), &info, sizeof info);
        o->info_len = CMSG_SPACE(sizeof info);
    } else {
        struct in_pktinfo info = {.ipi_ifindex = (int)source->scope};
        memcpy(&info.ipi_spec_dst, source->bytes, 4);
        *item = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof info), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO};
        memcpy(CMSG_DATA(item), &info, sizeof info);
        o->info_len = CMSG_SPACE(sizeof info);
    }
}

static quoit_status read_info(qt_worker *w, const quoit_op *op, const qt_datagram *d, qt_outgoing *o) {
    quoit_packet_info info;
    const void *memory;
    uint32_t struct_size = sizeof struct_size;
    if (op->offset == 0)
        return 0;
    quoit_status status = qt_op_memory(w, op, (uint64_t)op->offset, struct_size, &memory);
    if (status == 0) {
        memcpy(&struct_size, memory, sizeof struct_size);
        status = qt_op_memory(w, op, (uint64_t)op->offset, struct_size, &memory);
    }
    if (status == 0)
        status = qt_options_read(&info, sizeof info, QT_PACKET_INFO_V1, memory);
    if (status != 0)
        return status;
    if (info.flags != 0)
        return QUOIT_E_FLAGS;
    if (info.reserved != 0)
        return QUOIT_E_FIELD;
    uint16_t family = d->family == AF_INET6 ? QUOIT_FAMILY_V6 : QUOIT_FAMILY_V4;
    const quoit_addr *source = &info.source;
    bool none = source->family == 0 && source->len == 0;
    bool fits = source->family == family && source->len == (family == QUOIT_FAMILY_V6 ? 16u : 4u);
    if (d->family == AF_UNIX || !(none || fits) || source->port != 0)
        return QUOIT_E_FIELD;
    set_info(d, o, source);
    return 0;
}

/* An answer to where received bytes came from. They may have come without an address. */
static quoit_status read_sender(qt_worker *w, const quoit_op *op, qt_outgoing *o) {
    qt_buffer *buffer;
    quoit_addr from;
    socklen_t len = 0;
    quoit_status status = qt_buffer_check(w, op->arg2, op->addr, op->len, &buffer);
    if (status != 0 || buffer->packet == 0)
        return 0; /* the payload's refusal tells it better */
    memcpy(&from, w->buffers.base + buffer->offset + buffer->packet - 1, sizeof from);
    if (from.len == 0)
        return 0;
    status = qt_addr_to_sockaddr(&from, &o->name, &len);
    o->header.msg_namelen = len;
    return status;
}

static quoit_status read_name(qt_worker *w, const quoit_op *op, const qt_datagram *d, qt_outgoing *o) {
    socklen_t len = 0;
    if (op->flags & QUOIT_OPF_ARENA_RECV && !(op->flags & QUOIT_OPF_IOV))
        return d->connected ? 0 : read_sender(w, op, o);
    if (op->arg2 == 0)
        return 0;
    if (d->sequenced)
        return QUOIT_E_FIELD; /* there is but one peer */
    quoit_status status = qt_op_addr(w, op, op->arg2, sizeof(quoit_addr), &o->name, &len);
    o->header.msg_namelen = len;
    return status;
}

/* The descriptor that leaves with it. */
static void set_rights(qt_outgoing *o, int fd) {
    struct cmsghdr *item = (struct cmsghdr *)(void *)o->control;
    *item =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(item), &fd, sizeof fd);
    o->info_len = CMSG_SPACE(sizeof fd);
}

/* What stands in the op besides its payload. 0, or a status and *field. */
static quoit_status read_op(qt_worker *w, const quoit_op *op, const qt_datagram *d, qt_outgoing *o,
                            uint32_t *field) {
    *field = QUOIT_FIELD_ARG;
    if (op->arg > UINT16_MAX || (op->arg != 0 && d->family == AF_UNIX))
        return QUOIT_E_FIELD;
    o->segment = op->arg;
    o->split = d->no_segments;
    *field = QUOIT_FIELD_ARG2;
    quoit_status status = read_name(w, op, d, o);
    if (status != 0)
        return status;
    o->header.msg_name = o->header.msg_namelen ? &o->name : NULL;
    *field = QUOIT_FIELD_OFFSET;
    return read_info(w, op, d, o);
}

static int read_payload(qt_datagram *d, const quoit_op *op, qt_outgoing *o, uint32_t *field) {
    qt_worker *w = d->stream.object.worker;
    qt_chain chain;
    *field = 0;
    bool starts_now = qt_list_empty(&d->waiting) && d->flying_count < window(d);
    int error = qt_pieces_make(&d->stream, o->op, op, starts_now, field, &chain);
    if (error)
        return error;
    o->pieces = chain.head;
    for (const qt_piece *piece = chain.head; piece != NULL; piece = piece->next)
        o->piece_count++;
    o->slices = o->few;
    if (o->piece_count > sizeof o->few / sizeof o->few[0])
        o->slices = qt_block_alloc(&w->blocks, o->piece_count * sizeof *o->slices);
    o->op->total = chain.bytes;
    return o->slices != NULL ? 0 : -ENOMEM;
}

void qt_op_sendmsg(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_sendmsg_with(w, op, object, -1);
}

void qt_sendmsg_with(qt_worker *w, const quoit_op *op, qt_object *object, int fd) {
    qt_datagram *d = (qt_datagram *)object;
    uint32_t field = 0;
    qt_pending *p = qt_pending_new(w, op, object);
    qt_outgoing *o = p ? qt_slab_alloc(&w->outgoings) : NULL;
    int error = o ? 0 : -ENOMEM;
    if (o == NULL && fd >= 0)
        close(fd);
    if (p == NULL)
        return;
    if (o != NULL) {
        o->op = p;
        o->has_fd = fd >= 0;
        o->fd = fd;
        qt_list_init(&o->link);
        if (o->has_fd)
            set_rights(o, fd);
        else
            error = read_op(w, op, d, o, &field);
        if (error == 0)
            error = read_payload(d, op, o, &field);
    }
    if (error) {
        if (o != NULL) {
            release_payload(d, o);
            free_outgoing(w, o);
        }
        qt_finish(p, error, 0)->aux = field;
        return;
    }
    p->state = o;
    QT_COUNT(w, send_bytes_queued, p->total);
    qt_list_append(&d->waiting, &o->link);
    qt_send_mark(&d->stream);
}

/* It waits for what was given before. */
void qt_sendmsg_shutdown(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_datagram *d = (qt_datagram *)object;
    qt_pending *p = qt_pending_new(w, op, object);
    if (p == NULL)
        return;
    qt_outgoing *o = qt_slab_alloc(&w->outgoings);
    if (o == NULL) {
        qt_finish(p, -ENOMEM, 0);
        return;
    }
    o->op = p;
    o->shutdown = (uint8_t)op->arg;
    o->slices = o->few;
    p->state = o;
    qt_list_init(&o->link);
    qt_list_append(&d->waiting, &o->link);
    qt_send_mark(&d->stream);
}

/* The message that comes next: all of the payload, or the next segment of it. */
static void compose(qt_outgoing *o) {
    uint64_t skip = o->op->done;
    uint64_t left = o->op->total - skip;
    bool one_segment = o->segment != 0 && left > o->segment;
    uint32_t n = 0;
    if (o->split && one_segment)
        left = o->segment;
    for (const qt_piece *piece = o->pieces; piece != NULL && left > 0; piece = piece->next) {
        if (skip >= piece->len) {
            skip -= piece->len;
            continue;
        }
        uint64_t len = piece->len - skip < left ? piece->len - skip : left;
        o->slices[n++] = (struct iovec){(void *)(uintptr_t)(piece->addr + skip), len};
        left -= len;
        skip = 0;
    }
    o->header.msg_iov = o->slices;
    o->header.msg_iovlen = n;
    o->header.msg_controllen = o->info_len;
    if (one_segment && !o->split) {
        uint16_t size = (uint16_t)o->segment;
        struct cmsghdr *item = (struct cmsghdr *)(void *)((uint8_t *)o->control + o->info_len);
        *item = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof size), .cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT};
        memcpy(CMSG_DATA(item), &size, sizeof size);
        o->header.msg_controllen += CMSG_SPACE(sizeof size);
    }
    o->header.msg_control = o->header.msg_controllen ? o->control : NULL;
}

static bool submit(qt_datagram *d, qt_outgoing *o) {
    qt_worker *w = d->stream.object.worker;
    o->req = qt_request(w, QT_REQ_SENDMSG, d->stream.object.fd, o, sent);
    if (o->req == NULL)
        return false;
    if (o->shutdown) {
        o->req->code = QT_REQ_SHUTDOWN;
        o->req->op_flags = qt_shutdown_how(o->shutdown);
    } else {
        compose(o);
        o->req->addr = (uint64_t)(uintptr_t)&o->header;
        o->req->op_flags = MSG_DONTWAIT;
        QT_COUNT(w, sends, 1);
    }
    d->stream.object.reqs++;
    qt_submit(w, o->req);
    return true;
}

/* Those at the head that have been sent. */
static void end_sent(qt_datagram *d) {
    while (!qt_list_empty(&d->flying)) {
        qt_outgoing *o = qt_container(d->flying.next, qt_outgoing, link);
        if (!o->sent)
            break;
        finish(o, (int64_t)o->op->total);
    }
}

void qt_sendmsg_flush(qt_datagram *d) {
    end_sent(d);
    while (!qt_list_empty(&d->waiting) && d->blocked == 0 && d->flying_count < window(d)) {
        qt_outgoing *o = qt_container(d->waiting.next, qt_outgoing, link);
        qt_list_remove(&o->link);
        qt_list_append(&d->flying, &o->link);
        if (submit(d, o))
            d->flying_count++;
        else
            finish(o, -ENOMEM);
    }
    if (d->stream.object.closing)
        qt_close_advance(&d->stream.object);
}

static void leave_flying(qt_datagram *d) {
    d->flying_count--;
    if (!qt_list_empty(&d->waiting))
        qt_send_mark(&d->stream);
}

static void try_blocked(qt_datagram *d) {
    for (qt_link *at = d->flying.next; at != &d->flying;) {
        qt_outgoing *o = qt_container(at, qt_outgoing, link);
        at = at->next;
        if (!o->blocked)
            continue;
        unblock(d, o);
        if (submit(d, o))
            continue;
        leave_flying(d);
        finish(o, -ENOMEM);
    }
    if (d->stream.object.closing)
        qt_close_advance(&d->stream.object);
}

static void room_told(qt_req *req, const qt_completion *c) {
    (void)c; /* whatever it says, a try tells more */
    qt_datagram *d = req->owner;
    d->room_req = NULL;
    d->stream.object.reqs--;
    qt_req_free(&d->stream.object.worker->requests, req);
    try_blocked(d);
}

void qt_sendmsg_retry(qt_timer *timer) {
    try_blocked(qt_container(timer, qt_datagram, retry));
}

static void block(qt_datagram *d, qt_outgoing *o) {
    qt_worker *w = d->stream.object.worker;
    o->blocked = true;
    d->blocked++;
    if (d->room_req != NULL)
        return; /* its end tries this one too */
    bool told = d->family != AF_UNIX || o->header.msg_name == NULL;
    qt_req *req = told ? qt_request(w, QT_REQ_POLL, d->stream.object.fd, d, room_told) : NULL;
    if (req == NULL) {
        qt_timer_arm(&w->wheel, &d->retry, qt_now(w) + RETRY_NS);
        return;
    }
    req->op_flags = POLLOUT;
    d->room_req = req;
    d->stream.object.reqs++;
    qt_submit(w, req);
}

/* Kernel or device cannot split what they were given: each segment goes by itself then. */
static bool cannot_split(qt_datagram *d, qt_outgoing *o, int32_t res) {
    if (o->segment == 0 || o->split || (res != -EIO && res != -EINVAL && res != -EMSGSIZE))
        return false;
    d->no_segments |= res == -EIO;
    o->split = true;
    return true;
}

/* What became of the message; 0 when another must follow it. */
static int64_t outcome(qt_datagram *d, qt_outgoing *o, int32_t res) {
    qt_pending *p = o->op;
    if (res >= 0) {
        p->done += (uint64_t)res;
        QT_COUNT(p->worker, bytes_sent, res);
        if (d->stream.object.closing == QT_CLOSING)
            qt_close_progress(&d->stream);
        if (p->done >= p->total)
            return 1;
        res = -EAGAIN;
    }
    bool again = res == -EAGAIN || res == -EINTR || res == -ECANCELED || cannot_split(d, o, res);
    if (!again)
        return res;
    return p->verdict ? p->verdict : d->stream.object.closing == QT_ABORTING ? -ECANCELED : 0;
}

static void sent(qt_req *req, const qt_completion *c) {
    qt_outgoing *o = req->owner;
    qt_datagram *d = socket_of(o);
    qt_worker *w = d->stream.object.worker;
    o->req = NULL;
    d->stream.object.reqs--;
    qt_req_free(&w->requests, req);
    int64_t result = outcome(d, o, c->res);
    if (result == 0 && c->res == -EAGAIN) {
        block(d, o);
        return;
    }
    if (result == 0 && !submit(d, o))
        result = -ENOMEM;
    if (result == 0)
        return;
    leave_flying(d);
    if (result < 0) {
        finish(o, result);
    } else {
        release_payload(d, o);
        QT_COUNT(w, send_bytes_queued, -(int64_t)o->op->total);
        o->sent = true;
    }
    end_sent(d);
    if (d->stream.object.closing)
        qt_close_advance(&d->stream.object);
}

/* Cancel, deadline or stop. What has left has succeeded, whatever it waits for. */
void qt_sendmsg_end(qt_pending *p) {
    qt_outgoing *o = p->state;
    if (o->req != NULL)
        qt_cancel_request(p->worker, o->req);
    if (o->req != NULL || o->sent)
        return;
    qt_datagram *d = socket_of(o);
    if (o->blocked)
        leave_flying(d);
    finish(o, p->verdict);
    /* Those it held back end with the flush: who asks may be walking through the ops of this socket. */
    qt_send_mark(&d->stream);
}

void qt_sendmsg_abort(qt_datagram *d) {
    while (!qt_list_empty(&d->waiting)) {
        qt_outgoing *o = qt_container(d->waiting.next, qt_outgoing, link);
        finish(o, o->op->verdict ? o->op->verdict : -ECANCELED);
    }
    for (qt_link *at = d->flying.next; at != &d->flying;) {
        qt_outgoing *o = qt_container(at, qt_outgoing, link);
        at = at->next;
        if (o->req != NULL)
            qt_cancel_request(d->stream.object.worker, o->req);
        if (!o->blocked)
            continue;
        d->flying_count--;
        finish(o, o->op->verdict ? o->op->verdict : -ECANCELED);
    }
    end_sent(d);
}

/* The worker ends: the memory of what was not sent, that is not the worker's slabs' or arenas'. */
void qt_sendmsg_discard(qt_pending *p) {
    qt_outgoing *o = p->state;
    qt_worker *w = p->worker;
    for (const qt_piece *piece = o->pieces; piece != NULL; piece = piece->next)
        if (piece->kind == QT_PIECE_COPY)
            qt_block_free(&w->blocks, piece->block, piece->size);
    if (o->slices != o->few)
        qt_block_free(&w->blocks, o->slices, o->piece_count * sizeof *o->slices);
    if (o->has_fd)
        close(o->fd);
}
