/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From a request to its submission queue entry. */
#include "uring.h"

#include <assert.h>
#include <sys/socket.h>

static void prepare_accept(struct io_uring_sqe *sqe, const qt_req *req) {
    /* Multishot accepts would share one address; nobody asks for it here. */
    if (req->flags & QT_REQ_MULTISHOT)
        io_uring_prep_multishot_accept(sqe, req->fd, NULL, NULL, SOCK_CLOEXEC);
    else
        io_uring_prep_accept(sqe, req->fd, NULL, NULL, SOCK_CLOEXEC);
}

static void prepare_recv(struct io_uring_sqe *sqe, const qt_req *req) {
    bool multi = req->flags & QT_REQ_MULTISHOT;
    assert(!multi || req->len == 0);
    io_uring_prep_recv(sqe, req->fd, NULL, req->len, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    if (multi)
        sqe->ioprio |= IORING_RECV_MULTISHOT;
}

static void prepare_recvmsg(struct io_uring_sqe *sqe, const qt_req *req) {
    io_uring_prep_recvmsg(sqe, req->fd, (struct msghdr *)(uintptr_t)req->addr, MSG_TRUNC | MSG_CMSG_CLOEXEC);
    if (!(req->flags & (QT_REQ_POOL | QT_REQ_MULTISHOT)))
        return;
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    if (req->flags & QT_REQ_MULTISHOT)
        sqe->ioprio |= IORING_RECV_MULTISHOT;
}

static void prepare_send(struct io_uring_sqe *sqe, const qt_req *req, bool message) {
    int flags = (int)req->op_flags | MSG_NOSIGNAL;
    void *memory = (void *)(uintptr_t)req->addr;
    if (message)
        io_uring_prep_sendmsg(sqe, req->fd, memory, (unsigned)flags);
    else
        io_uring_prep_send(sqe, req->fd, memory, req->len, flags);
    if (req->flags & QT_REQ_ZEROCOPY) {
        sqe->opcode = message ? IORING_OP_SENDMSG_ZC : IORING_OP_SEND_ZC;
        sqe->ioprio |= IORING_SEND_ZC_REPORT_USAGE;
    }
}

void qt_uring_prepare(struct io_uring_sqe *sqe, const qt_req *req) {
    void *memory = (void *)(uintptr_t)req->addr;
    uint64_t offset = (uint64_t)req->offset;
    int op_flags = (int)req->op_flags;
    switch (req->code) {
    case QT_REQ_ACCEPT:
        prepare_accept(sqe, req);
        break;
    case QT_REQ_CONNECT:
        io_uring_prep_connect(sqe, req->fd, memory, (socklen_t)req->len);
        break;
    case QT_REQ_RECV:
        prepare_recv(sqe, req);
        break;
    case QT_REQ_RECVMSG:
        prepare_recvmsg(sqe, req);
        break;
    case QT_REQ_RECV_FD:
        io_uring_prep_recvmsg(sqe, req->fd, memory, req->op_flags | MSG_CMSG_CLOEXEC);
        break;
    case QT_REQ_DISCARD:
        io_uring_prep_recv(sqe, req->fd, memory, req->len, 0);
        break;
    case QT_REQ_SEND:
        prepare_send(sqe, req, false);
        break;
    case QT_REQ_SENDMSG:
        prepare_send(sqe, req, true);
        break;
    case QT_REQ_SHUTDOWN:
        io_uring_prep_shutdown(sqe, req->fd, op_flags);
        break;
    case QT_REQ_CLOSE:
        io_uring_prep_close(sqe, req->fd);
        break;
    case QT_REQ_POLL:
        io_uring_prep_poll_add(sqe, req->fd, req->op_flags);
        break;
    case QT_REQ_OPENAT:
        io_uring_prep_openat(sqe, req->fd, memory, op_flags, (mode_t)req->len);
        break;
    case QT_REQ_READ:
        io_uring_prep_read(sqe, req->fd, memory, req->len, offset);
        break;
    case QT_REQ_WRITE:
        io_uring_prep_write(sqe, req->fd, memory, req->len, offset);
        sqe->rw_flags = op_flags;
        break;
    case QT_REQ_WRITEV:
        io_uring_prep_writev2(sqe, req->fd, memory, req->len, offset, op_flags);
        break;
    case QT_REQ_SPLICE:
        io_uring_prep_splice(sqe, req->fd, req->offset, op_flags, (int64_t)req->addr, req->len, 0);
        break;
    case QT_REQ_FSYNC:
        io_uring_prep_fsync(sqe, req->fd, req->op_flags & 1 ? IORING_FSYNC_DATASYNC : 0);
        break;
    default:
        assert(req->code == QT_REQ_NOP);
        io_uring_prep_nop(sqe);
        break;
    }
}
