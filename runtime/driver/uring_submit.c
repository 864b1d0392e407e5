/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From requests to submission queue entries. */
#include "uring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

unsigned qt_uring_publish(qt_uring *u) {
    struct io_uring_sq *sq = &u->ring.sq;
    if (u->buffers_added) {
        __atomic_store_n(&u->buffers->tail, u->buffers_tail, __ATOMIC_RELEASE);
        u->buffers_added = false;
    }
    if (sq->sqe_head != sq->sqe_tail) {
        sq->sqe_head = sq->sqe_tail;
        __atomic_store_n(sq->ktail, sq->sqe_tail, __ATOMIC_RELEASE);
    }
    return sq->sqe_tail - __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE);
}

struct io_uring_sqe *qt_uring_sqe(qt_uring *u) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (sqe != NULL)
        return sqe;
    unsigned waiting = qt_uring_publish(u);
    u->driver.system_calls++;
    qt_uring_enter(u->ring.ring_fd, waiting, 0, 0, NULL);
    return io_uring_get_sqe(&u->ring);
}

static void prepare_recv(const qt_req *req, struct io_uring_sqe *sqe) {
    io_uring_prep_recv(sqe, req->fd, NULL, req->len, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    if (req->flags & QT_REQ_MULTISHOT)
        sqe->ioprio |= IORING_RECV_MULTISHOT;
}

void qt_uring_prepare(qt_uring *u, struct io_uring_sqe *sqe, const qt_req *req) {
    void *memory = (void *)(uintptr_t)req->addr;
    (void)u;
    switch (req->code) {
    case QT_REQ_ACCEPT:
        if (req->flags & QT_REQ_MULTISHOT)
            io_uring_prep_multishot_accept(sqe, req->fd, NULL, NULL, SOCK_CLOEXEC);
        else
            io_uring_prep_accept(sqe, req->fd, NULL, NULL, SOCK_CLOEXEC);
        break;
    case QT_REQ_CONNECT:
        io_uring_prep_connect(sqe, req->fd, memory, (socklen_t)req->len);
        break;
    case QT_REQ_RECV:
        prepare_recv(req, sqe);
        break;
    case QT_REQ_DISCARD:
        io_uring_prep_recv(sqe, req->fd, memory, req->len, 0);
        break;
    case QT_REQ_SEND:
        io_uring_prep_send(sqe, req->fd, memory, req->len, (int)req->op_flags | MSG_NOSIGNAL);
        break;
    case QT_REQ_SENDMSG:
        io_uring_prep_sendmsg(sqe, req->fd, memory, req->op_flags | MSG_NOSIGNAL);
        break;
    case QT_REQ_SHUTDOWN:
        io_uring_prep_shutdown(sqe, req->fd, (int)req->op_flags);
        break;
    case QT_REQ_CLOSE:
        io_uring_prep_close(sqe, req->fd);
        break;
    case QT_REQ_POLL:
        io_uring_prep_poll_add(sqe, req->fd, req->op_flags);
        break;
    case QT_REQ_OPENAT:
        io_uring_prep_openat(sqe, req->fd, memory, (int)req->op_flags, (mode_t)req->len);
        break;
    case QT_REQ_READ:
        io_uring_prep_read(sqe, req->fd, memory, req->len, (uint64_t)req->offset);
        break;
    case QT_REQ_WRITE:
        io_uring_prep_write(sqe, req->fd, memory, req->len, (uint64_t)req->offset);
        sqe->rw_flags = (int)req->op_flags;
        break;
    case QT_REQ_WRITEV:
        io_uring_prep_writev(sqe, req->fd, memory, req->len, (uint64_t)req->offset);
        sqe->rw_flags = (int)req->op_flags;
        break;
    case QT_REQ_FSYNC:
        io_uring_prep_fsync(sqe, req->fd, req->op_flags & 1 ? IORING_FSYNC_DATASYNC : 0);
        break;
    default:
        assert(req->code == QT_REQ_NOP);
        io_uring_prep_nop(sqe);
        break;
    }
    sqe->user_data = qt_uring_user_data(req);
}

/* The kernel takes nothing now (it is out of memory, or the completion queue has overflown): kept in order for the next enter. */
static void defer(qt_uring *u, qt_req *req, uint64_t cancel) {
    if (u->deferred_count == u->deferred_capacity) {
        uint32_t capacity = u->deferred_capacity ? u->deferred_capacity * 2 : 64;
        qt_deferred *deferred = realloc(u->deferred, capacity * sizeof *deferred);
        if (deferred == NULL)
            abort(); /* a request that was accepted must not be lost */
        u->deferred = deferred;
        u->deferred_capacity = capacity;
    }
    u->deferred[u->deferred_count++] = (qt_deferred){req, cancel};
}

static bool put_request(qt_uring *u, qt_req *req) {
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    if (sqe == NULL)
        return false;
    qt_uring_prepare(u, sqe, req);
    req->state = QT_REQ_IN_FLIGHT;
    return true;
}

static bool put_cancel(qt_uring *u, uint64_t user_data) {
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    if (sqe == NULL)
        return false;
    io_uring_prep_cancel64(sqe, user_data, 0);
    sqe->user_data = QT_TAG_IGNORE;
    if (u->ring.features & IORING_FEAT_CQE_SKIP)
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    return true;
}

void qt_uring_submit(qt_driver *d, qt_req *req) {
    qt_uring *u = (qt_uring *)d;
    assert(req->state == QT_REQ_IDLE);
    req->state = QT_REQ_QUEUED;
    req->cancelled = 0;
    u->in_flight++;
    if (u->deferred_count > 0 || !put_request(u, req))
        defer(u, req, 0);
}

void qt_uring_cancel(qt_driver *d, qt_req *req) {
    qt_uring *u = (qt_uring *)d;
    if (req->cancelled || req->state == QT_REQ_IDLE)
        return;
    req->cancelled = 1;
    uint64_t user_data = qt_uring_user_data(req);
    if (u->deferred_count > 0 || !put_cancel(u, user_data))
        defer(u, NULL, user_data);
}

void qt_uring_submit_deferred(qt_uring *u) {
    uint32_t done = 0;
    while (done < u->deferred_count) {
        qt_deferred *next = &u->deferred[done];
        if (next->req ? !put_request(u, next->req) : !put_cancel(u, next->cancel))
            break;
        done++;
    }
    for (uint32_t i = done; i < u->deferred_count; i++)
        u->deferred[i - done] = u->deferred[i];
    u->deferred_count -= done;
}

void qt_uring_arm_wake(qt_uring *u) {
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    u->wake_armed = sqe != NULL;
    if (sqe == NULL)
        return; /* the next enter tries again */
    io_uring_prep_read(sqe, u->wake_fd, &u->wake_value, sizeof u->wake_value, 0);
    sqe->user_data = QT_TAG_WAKE;
}
