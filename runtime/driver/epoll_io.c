/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The requests of the epoll driver: the system calls that are tried, and what waits when they would block. */
#include "../sys/clock.h"
#include "epoll.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A Unix listener with a full backlog refuses a connect and tells nobody when there is room: ask again after this time. */
#define RETRY_NS 2000000

void qt_req_append(qt_req_list *list, qt_req *req) {
    req->next = NULL;
    req->prev = list->tail;
    *(list->tail ? &list->tail->next : &list->head) = req;
    list->tail = req;
}

void qt_req_remove(qt_req_list *list, qt_req *req) {
    *(req->prev ? &req->prev->next : &list->head) = req->next;
    *(req->next ? &req->next->prev : &list->tail) = req->prev;
}

int32_t qt_epoll_result(qt_epoll *e, long result) {
    e->driver.system_calls++;
    return result < 0 ? -errno : (int32_t)result;
}

void qt_epoll_complete(qt_epoll *e, qt_req *req, int32_t res) {
    assert(!(req->flags & QT_EPOLL_READY));
    req->flags |= QT_EPOLL_READY;
    req->state = QT_REQ_QUEUED;
    req->scratch = res;
    qt_req_append(&e->ready, req);
}

void qt_epoll_tell(qt_req *req, int32_t res) {
    qt_completion completion = {.res = res};
    req->state = QT_REQ_IDLE;
    req->flags &= (uint8_t)~QT_EPOLL_READY;
    req->done(req, &completion);
}

static bool would_block(int32_t res) {
    return res == -EAGAIN || res == -EWOULDBLOCK;
}

static void set_nonblocking(qt_epoll *e, int fd) {
    int32_t flags = qt_epoll_result(e, fcntl(fd, F_GETFL));
    if (flags >= 0 && !(flags & O_NONBLOCK))
        qt_epoll_result(e, fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

static int32_t try_send(qt_epoll *e, const qt_req *req) {
    int flags = (int)req->op_flags | MSG_DONTWAIT | MSG_NOSIGNAL;
    if (req->code == QT_REQ_SENDMSG)
        return qt_epoll_result(e, sendmsg(req->fd, (const struct msghdr *)(uintptr_t)req->addr, flags));
    return qt_epoll_result(e, send(req->fd, (const void *)(uintptr_t)req->addr, req->len, flags));
}

static int32_t connect_result(qt_epoll *e, int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    int32_t res = qt_epoll_result(e, getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    return res < 0 ? res : -error;
}

/* Waits for the descriptor; a failure to register is the request's result. */
static void wait_for(qt_epoll *e, qt_req *req, bool out) {
    qt_fd *entry = qt_fd_at(&e->table, req->fd);
    if (entry == NULL) {
        qt_epoll_complete(e, req, req->fd < 0 ? -EBADF : -ENOMEM);
        return;
    }
    qt_req **place = out ? &entry->out : &entry->in;
    assert(*place == NULL);
    *place = req;
    req->state = QT_REQ_IN_FLIGHT;
    int32_t error = qt_fd_watch(e, entry);
    if (error == 0)
        return;
    *place = NULL;
    /* Files that cannot be watched are always ready, as poll(2) says; for anything else the wait would have no end. */
    if (error == -EPERM && req->code == QT_REQ_POLL)
        error = (int32_t)(req->op_flags & (POLLIN | POLLOUT)) ?: -EINVAL;
    qt_epoll_complete(e, req, error);
}

/* Nothing tells when these may be tried again: all wait for the same time. */
static void stall(qt_epoll *e, qt_req *req) {
    req->flags |= QT_EPOLL_STALLED;
    if (e->stalled.head == NULL) /* later ones do not put off those that wait */
        e->retry_ns = qt_now_ns() + RETRY_NS;
    qt_req_append(&e->stalled, req);
}

/* A Unix datagram socket that is not connected is always writable, whatever the peer named in the message has room for. */
static bool never_told(const qt_req *req) {
    const struct msghdr *header = (const struct msghdr *)(uintptr_t)req->addr;
    return req->code == QT_REQ_SENDMSG && header->msg_name != NULL &&
           ((const struct sockaddr *)header->msg_name)->sa_family == AF_UNIX;
}

static void start_send(qt_epoll *e, qt_req *req) {
    qt_fd *entry = qt_fd_at(&e->table, req->fd);
    if (entry != NULL && entry->out != NULL) {
        req->state = QT_REQ_IN_FLIGHT;
        qt_req_append(&entry->outs, req);
        return;
    }
    int32_t res = try_send(e, req);
    if (!would_block(res))
        qt_epoll_complete(e, req, res);
    else if (never_told(req))
        stall(e, req);
    else
        wait_for(e, req, true);
}

void qt_epoll_next_out(qt_epoll *e, int fd) {
    qt_fd *entry = qt_fd_at(&e->table, fd);
    while (entry != NULL && entry->out == NULL && entry->outs.head != NULL) {
        qt_req *req = entry->outs.head;
        qt_req_remove(&entry->outs, req);
        start_send(e, req);
    }
}

static void start_connect(qt_epoll *e, qt_req *req) {
    const struct sockaddr *addr = (const struct sockaddr *)(uintptr_t)req->addr;
    qt_fd_renew(e, req->fd, -EBADF);
    set_nonblocking(e, req->fd);
    int32_t res = qt_epoll_result(e, connect(req->fd, addr, req->len));
    if (res == -EINPROGRESS) {
        wait_for(e, req, true);
    } else if (res == -EAGAIN && addr->sa_family == AF_UNIX) {
        stall(e, req);
    } else {
        qt_epoll_complete(e, req, res);
    }
}

/* What waits on the descriptor ends first. It leaves the set by hand: close(2) does not take it out while a child process
 * has a copy, and then its number would be told for a file that is not ours any more. */
static int32_t close_fd(qt_epoll *e, int fd) {
    qt_fd *entry = qt_fd_at(&e->table, fd);
    if (entry != NULL)
        qt_fd_unwatch(e, entry);
    qt_fd_renew(e, fd, -ECANCELED);
    return qt_epoll_result(e, close(fd));
}

static void start_file(qt_epoll *e, qt_req *req) {
    req->state = QT_REQ_IN_POOL;
    int error = e->options.host.run_blocking(e->options.host.ctx, req);
    if (error)
        qt_epoll_complete(e, req, error);
}

void qt_epoll_start(qt_epoll *e, qt_req *req) {
    int32_t res;
    switch (req->code) {
    case QT_REQ_NOP:
        qt_epoll_complete(e, req, 0);
        break;
    case QT_REQ_SEND:
    case QT_REQ_SENDMSG:
        start_send(e, req);
        break;
    case QT_REQ_CONNECT:
        start_connect(e, req);
        break;
    case QT_REQ_SHUTDOWN:
        qt_epoll_complete(e, req, qt_epoll_result(e, shutdown(req->fd, (int)req->op_flags)));
        break;
    case QT_REQ_CLOSE:
        res = close_fd(e, req->fd);
        qt_epoll_complete(e, req, res);
        break;
    case QT_REQ_ACCEPT:
        set_nonblocking(e, req->fd);
        wait_for(e, req, false);
        break;
    case QT_REQ_POLL:
        qt_fd_renew(e, req->fd, -EBADF);
        wait_for(e, req, false);
        break;
    case QT_REQ_RECV:
    case QT_REQ_RECVMSG:
    case QT_REQ_RECV_FD:
    case QT_REQ_DISCARD:
        wait_for(e, req, false);
        break;
    default:
        start_file(e, req);
        break;
    }
}

void qt_epoll_detach(qt_epoll *e, qt_req *req) {
    qt_fd *entry = qt_fd_at(&e->table, req->fd);
    if (entry->out == req) {
        entry->out = NULL;
        qt_fd_drop_out(e, entry);
        return;
    }
    if (req->code == QT_REQ_SEND || req->code == QT_REQ_SENDMSG) {
        qt_req_remove(&entry->outs, req);
        return;
    }
    assert(entry->in == req);
    entry->in = NULL;
    if (req->code == QT_REQ_POLL)
        qt_fd_unwatch(
            e,
            entry); /* a duplicate: its file stays open elsewhere, so closing it would leave it in the set */
}

void qt_epoll_retry_out(qt_epoll *e, qt_fd *entry) {
    qt_req *req = entry->out;
    int32_t res = req->code == QT_REQ_CONNECT ? connect_result(e, req->fd) : try_send(e, req);
    if (would_block(res))
        return;
    qt_epoll_detach(e, req);
    qt_epoll_complete(e, req, res);
    qt_epoll_next_out(e, entry->fd);
}

/* One receive into a pool buffer. */
static unsigned serve_recv(qt_epoll *e, qt_req *req) {
    bool multi = req->flags & QT_REQ_MULTISHOT;
    uint32_t room = req->len && req->len < e->options.buffer_size ? req->len : e->options.buffer_size;
    if (e->free_count == 0) {
        qt_epoll_detach(e, req);
        qt_epoll_tell(req, -ENOBUFS);
        return QT_SERVED_TOLD;
    }
    uint32_t bid = e->free[e->free_count - 1];
    uint8_t *buffer = e->options.buffer_base + (uint64_t)bid * e->options.buffer_size;
    int32_t res = qt_epoll_result(e, recv(req->fd, buffer, room, MSG_DONTWAIT));
    if (would_block(res))
        return 0;
    if (res <= 0 || !multi)
        qt_epoll_detach(e, req);
    if (res <= 0) {
        qt_epoll_tell(req, res);
        return QT_SERVED_TOLD;
    }
    e->free_count--;
    bool full = (uint32_t)res == room;
    qt_completion completion = {.res = res, .flags = QT_CQ_BUFFER, .bid = bid};
    completion.flags |= (multi ? QT_CQ_MORE : 0) | (full ? QT_CQ_NONEMPTY : 0);
    if (!multi)
        req->state = QT_REQ_IDLE;
    req->done(req, &completion);
    return QT_SERVED_TOLD | (multi && full ? QT_SERVED_AGAIN : 0);
}

/* One datagram, laid out as the request wants it. */
static unsigned serve_recvmsg(qt_epoll *e, qt_req *req) {
    bool multi = req->flags & QT_REQ_MULTISHOT;
    bool pool = multi || req->flags & QT_REQ_POOL;
    const struct msghdr *asked = (const struct msghdr *)(uintptr_t)req->addr;
    struct msghdr header = *asked;
    struct iovec slice;
    uint32_t at = 0;
    if (pool && e->free_count == 0) {
        qt_epoll_detach(e, req);
        qt_epoll_tell(req, -ENOBUFS);
        return QT_SERVED_TOLD;
    }
    uint32_t bid = pool ? e->free[e->free_count - 1] : 0;
    uint8_t *buffer = e->options.buffer_base + (uint64_t)bid * e->options.buffer_size;
    if (pool) {
        slice = (struct iovec){buffer, multi ? 0 : asked->msg_iov[0].iov_len};
        header.msg_iov = &slice;
        header.msg_iovlen = 1;
    }
    if (multi) {
        at = QT_PACKET_HEAD + asked->msg_namelen + (uint32_t)asked->msg_controllen;
        header.msg_name = buffer + QT_PACKET_HEAD;
        header.msg_control = buffer + QT_PACKET_HEAD + asked->msg_namelen;
        slice = (struct iovec){buffer + at, e->options.buffer_size - at};
    }
    int32_t res = qt_epoll_result(e, recvmsg(req->fd, &header, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC));
    if (would_block(res))
        return 0;
    bool last = !multi || res <= 0; /* as the ring does: an empty message may be the end of a connection */
    if (last)
        qt_epoll_detach(e, req);
    if (res < 0) {
        qt_epoll_tell(req, res);
        return QT_SERVED_TOLD;
    }
    qt_packet packet;
    qt_packet_read(&packet, &header, (uint32_t)header.msg_iov[0].iov_len, (uint32_t)res);
    packet.at = at;
    qt_completion completion = {.res = res, .bid = bid, .packet = &packet};
    completion.flags = (pool ? QT_CQ_BUFFER : 0) | (last ? 0 : QT_CQ_MORE);
    e->free_count -= pool;
    if (last)
        req->state = QT_REQ_IDLE;
    req->done(req, &completion);
    return QT_SERVED_TOLD | (last ? 0 : QT_SERVED_AGAIN);
}

/* One connection. */
static unsigned serve_accept(qt_epoll *e, qt_req *req) {
    bool multi = req->flags & QT_REQ_MULTISHOT;
    int32_t res = qt_epoll_result(e, accept4(req->fd, NULL, NULL, SOCK_CLOEXEC));
    if (would_block(res))
        return 0;
    if (res >= 0)
        qt_fd_renew(e, res, -EBADF);
    if (res < 0 || !multi) {
        qt_epoll_detach(e, req);
        qt_epoll_tell(req, res);
        return QT_SERVED_TOLD;
    }
    qt_completion completion = {.res = res, .flags = QT_CQ_MORE};
    req->done(req, &completion);
    return QT_SERVED_TOLD | QT_SERVED_AGAIN;
}

/* Into memory of the request's own. */
static unsigned serve_memory(qt_epoll *e, qt_req *req) {
    void *memory = (void *)(uintptr_t)req->addr;
    bool fds = req->code == QT_REQ_RECV_FD;
    int flags = (int)req->op_flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
    int32_t res = qt_epoll_result(e, fds ? recvmsg(req->fd, memory, flags)
                                         : recv(req->fd, memory, req->len, MSG_DONTWAIT));
    if (would_block(res))
        return 0;
    qt_epoll_detach(e, req);
    qt_epoll_tell(req, res);
    return QT_SERVED_TOLD;
}

unsigned qt_epoll_serve(qt_epoll *e, qt_fd *entry) {
    switch (entry->in->code) {
    case QT_REQ_RECV:
        return serve_recv(e, entry->in);
    case QT_REQ_RECVMSG:
        return serve_recvmsg(e, entry->in);
    case QT_REQ_ACCEPT:
        return serve_accept(e, entry->in);
    default:
        return serve_memory(e, entry->in);
    }
}
