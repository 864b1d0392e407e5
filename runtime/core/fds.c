/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Descriptors over Unix streams: sent with bytes of the stream, received with bytes of it. */
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What lies before the payload in a block: pid, uid, gid, and the descriptors. */
#define WORDS (3 + QUOIT_FDS_MAX)
#define HEAD ((WORDS * 4 + 15u) & ~15u)
#define ROOM_MAX 65536u

#ifndef SCM_PIDFD /* a descriptor of the sender, where an adopted socket was set to get it (SO_PASSPIDFD): nobody asked here */
#define SCM_PIDFD 4
#endif

typedef struct qt_recv_fds {
    struct msghdr message;
    struct iovec slice;
    qt_buffer *buffer;
    union {
        struct cmsghdr align;
        uint8_t bytes[QT_MARK_SIZE + QT_CREDENTIALS_SIZE + CMSG_SPACE(QUOIT_FDS_MAX * sizeof(int))];
    } control;
} qt_recv_fds;

/* Only these carry descriptors; the others would drop them without a word. */
static quoit_status check_unix(qt_worker *w, const qt_object *object) {
    int domain = 0;
    socklen_t size = sizeof domain;
    QT_COUNT(w, system_calls, 1);
    if (getsockopt(object->fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0)
        return -errno;
    return domain == AF_UNIX ? 0 : -EOPNOTSUPP;
}

void qt_op_send_fd(qt_worker *w, const quoit_op *op, qt_object *object) {
    if (op->len == 0) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_LEN);
        return;
    }
    quoit_status status = check_unix(w, object);
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_TARGET);
        return;
    }
    QT_COUNT(w, system_calls, 1);
    bool number = op->offset >= 0 && op->offset <= INT32_MAX;
    int fd = number ? fcntl((int)op->offset, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0)
        qt_refuse(w, op, number ? -errno : -EBADF, QUOIT_FIELD_OFFSET);
    else if (object->kind == QUOIT_HANDLE_DATAGRAM)
        qt_sendmsg_with(w, op, object, fd);
    else
        qt_send_with(w, op, object, fd);
}

/* receiving */

static void prepare(qt_recv_fds *state) {
    memset(&state->control, 0, sizeof state->control);
    state->message = (struct msghdr){.msg_iov = &state->slice,
                                     .msg_iovlen = 1,
                                     .msg_control = &state->control,
                                     .msg_controllen = sizeof state->control};
}

uint32_t qt_fds_take(struct msghdr *message, int32_t *fds, uint32_t most) {
    uint32_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL && c->cmsg_len >= sizeof *c;
         c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != SCM_PIDFD))
            continue;
        bool rights = c->cmsg_type == SCM_RIGHTS;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, (const uint8_t *)c + at, sizeof fd);
            if (rights && count < most)
                fds[count] = fd;
            else
                close(fd);
            count += rights;
        }
    }
    return count;
}

bool qt_credentials_read(struct msghdr *message, int32_t words[3]) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        struct ucred sender;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
            c->cmsg_len < CMSG_LEN(sizeof sender))
            continue;
        memcpy(&sender, CMSG_DATA(c), sizeof sender);
        words[0] = (int32_t)sender.pid;
        words[1] = (int32_t)sender.uid;
        words[2] = (int32_t)sender.gid;
        return true;
    }
    return false;
}

/* The block's head. The event's flags and number of descriptors. */
static uint32_t read_head(qt_stream *s, qt_recv_fds *state, uint32_t *count) {
    qt_worker *w = s->object.worker;
    int32_t words[WORDS] = {0, -1, -1}; /* nobody's, never root's */
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    bool sender = qt_credentials_read(&state->message, words);
    QT_COUNT(w, system_calls, !sender);
    if (!sender && getsockopt(s->object.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        words[0] = (int32_t)peer.pid;
        words[1] = (int32_t)peer.uid;
        words[2] = (int32_t)peer.gid;
    }
    uint32_t came = qt_fds_take(&state->message, words + 3, QUOIT_FDS_MAX);
    bool dropped = came > QUOIT_FDS_MAX || state->message.msg_flags & MSG_CTRUNC;
    *count = came < QUOIT_FDS_MAX ? came : QUOIT_FDS_MAX;
    memcpy(w->buffers.base + state->buffer->offset, words, sizeof words);
    return QUOIT_EVF_LENT | (dropped ? QUOIT_EVF_TRUNC : 0) | (sender ? QUOIT_EVF_CREDENTIALS : 0);
}

/* Whether it brought something: an empty message is no end. */
static bool has_brought(const qt_stream *s, const qt_recv_fds *state, int32_t res) {
    const qt_datagram *d = (const qt_datagram *)s;
    bool messages = s->object.kind == QUOIT_HANDLE_DATAGRAM;
    return res > 0 || (res == 0 && messages && !qt_seqpacket_is_end(d, 0, state->message.msg_controllen));
}

/* The last event of one that brought something. */
static void tell(qt_pending *p, qt_recv_fds *state, int32_t res) {
    qt_worker *w = p->worker;
    qt_buffer *buffer = state->buffer;
    uint32_t count;
    uint32_t flags = read_head((qt_stream *)p->object, state, &count);
    uint32_t len = (uint32_t)res < state->slice.iov_len ? (uint32_t)res : (uint32_t)state->slice.iov_len;
    buffer->length = HEAD + len;
    qt_buffer_lend(w, buffer);
    QT_COUNT(w, bytes_received, len);
    quoit_event *event = qt_finish(p, res, 0);
    event->flags |= flags | (len < (uint32_t)res ? QUOIT_EVF_TRUNC : 0);
    event->offset = buffer->offset + HEAD;
    event->len = len;
    event->buffer = qt_buffer_handle(w, buffer);
    event->aux = count;
    event->value = buffer->offset;
}

static void recv_fd_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    qt_worker *w = p->worker;
    qt_stream *s = (qt_stream *)p->object;
    qt_recv_fds *state = p->state;
    int32_t res = c->res;
    bool brought = has_brought(s, state, res);
    if (!brought && s->object.kind == QUOIT_HANDLE_DATAGRAM)
        res = qt_seqpacket_result((qt_datagram *)s, res);
    bool cut = res == -ECANCELED || res == -EINTR || res == -EAGAIN;
    if (cut && !p->verdict) {
        prepare(state);
        qt_submit(w, req);
        return;
    }
    s->eof |= !brought && res == 0;
    s->recv_fd = NULL;
    s->object.reqs--;
    p->req = NULL;
    p->state = NULL;
    qt_req_free(&w->requests, req);
    if (brought)
        tell(p, state, res);
    else
        qt_finish(p, cut ? p->verdict : res, 0)->flags |= res == 0 ? QUOIT_EVF_EOF : 0;
    state->buffer->pins--;
    qt_buffer_settle(w, state->buffer);
    qt_block_free(&w->blocks, state, sizeof *state);
    if (s->object.closing)
        qt_close_advance(&s->object);
    else if (s->move != NULL)
        qt_send_mark(s);
}

static int start(qt_stream *s, qt_pending *p, uint32_t room) {
    qt_worker *w = s->object.worker;
    qt_recv_fds *state = qt_block_alloc(&w->blocks, sizeof *state);
    if (state == NULL)
        return -ENOMEM;
    state->buffer = qt_buffer_take_large(w, HEAD + room, s->object.handle);
    qt_req *req = state->buffer ? qt_request(w, QT_REQ_RECV_FD, s->object.fd, p, recv_fd_done) : NULL;
    if (req == NULL) {
        int error = state->buffer ? -ENOMEM : -ENOBUFS;
        if (state->buffer != NULL) {
            state->buffer->pins--;
            qt_buffer_settle(w, state->buffer);
        }
        qt_block_free(&w->blocks, state, sizeof *state);
        return error;
    }
    state->slice = (struct iovec){w->buffers.base + state->buffer->offset + HEAD, room};
    prepare(state);
    req->addr = (uint64_t)(uintptr_t)&state->message;
    req->op_flags = s->object.kind == QUOIT_HANDLE_DATAGRAM ? MSG_TRUNC : 0; /* its whole length is told */
    p->state = state;
    p->req = req;
    s->recv_fd = p;
    s->object.reqs++;
    qt_submit(w, req);
    return 0;
}

void qt_op_recv_fd(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_stream *s = (qt_stream *)object;
    if (op->len > ROOM_MAX) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_LEN);
        return;
    }
    /* What a pause held back came before. */
    bool busy = s->recv != NULL || s->recv_fd != NULL || s->held_count > 0 || s->held_end;
    quoit_status status = busy ? QUOIT_E_BUSY : check_unix(w, object);
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_TARGET);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, object);
    int error = p ? start(s, p, op->len ? op->len : 4096 - HEAD) : 0;
    if (error)
        qt_finish(p, error, 0);
}

/* The worker ends: what the kernel has put into the message is nobody's. */
void qt_recv_fd_discard(qt_pending *p) {
    qt_recv_fds *state = p->state;
    if (state == NULL)
        return;
    qt_fds_take(&state->message, NULL, 0);
    qt_block_free(&p->worker->blocks, state, sizeof *state);
}
