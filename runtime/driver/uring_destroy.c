/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The driver's end. Memory that requests point at may be freed only when the kernel has let go of it: everything is cancelled and
 * waited for. What does not confirm in time is leaked on purpose.
 */
#include "uring.h"

#include "../sys/clock.h"
#include "../sys/task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LETTING_GO_NS 1000000000
#define ROUND_NS 50000000

/* Requests that never got to the kernel. Closing is owed all the same. */
static void drop_waiting(qt_uring *u) {
    for (qt_req *req = u->backlog.head; req != NULL; req = req->next)
        if (req->code == QT_REQ_CLOSE)
            close(req->fd);
    u->backlog = u->cancels = u->ended = (qt_uring_list){0};
}

/* Entries that the kernel never took. */
static void close_unsubmitted(const qt_uring *u) {
    const struct io_uring_sq *sq = &u->ring.sq;
    for (unsigned at = io_uring_smp_load_acquire(sq->khead); at != sq->sqe_tail; at++) {
        const struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];
        if (sqe->opcode == IORING_OP_CLOSE)
            close(sqe->fd);
    }
}

static void let_go(qt_uring *u, const struct io_uring_cqe *cqe) {
    qt_req *req = qt_uring_request(u, cqe);
    assert(req != NULL && u->in_flight > 0);
    /* A descriptor that nobody will hear of. */
    if (cqe->res >= 0 && (req->code == QT_REQ_ACCEPT || req->code == QT_REQ_OPENAT))
        close(cqe->res);
    if (!(cqe->flags & IORING_CQE_F_MORE))
        u->in_flight--;
}

static void drain(qt_uring *u) {
    struct io_uring_cqe cqe;
    while (qt_uring_next(u, &cqe)) {
        switch (qt_uring_tag(&cqe)) {
        case QT_TAG_REQUEST:
            let_go(u, &cqe);
            break;
        case QT_TAG_WAKE:
            u->wake_armed = false;
            break;
        case QT_TAG_DEADLINE:
            u->deadline_armed = false;
            break;
        }
    }
}

static bool kernel_holds(const qt_uring *u) {
    return u->in_flight > 0 || u->wake_armed || u->deadline_armed;
}

/* One round: cancel all there is, and take what completes. False when the ring takes no call from here. */
static bool cancel_all(qt_uring *u) {
    struct __kernel_timespec limit = {.tv_nsec = ROUND_NS};
    struct io_uring_getevents_arg wait = {.ts = (uint64_t)(uintptr_t)&limit};
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    if (sqe != NULL) {
        io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
        sqe->user_data = QT_TAG_NONE;
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    }
    int result = qt_uring_call(u, qt_uring_publish(u), IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &wait);
    drain(u);
    return result != -EEXIST && result != -EPERM && result != -ENOSYS;
}

/*
 * True when nothing in the kernel points into this process any more. When the thread that ran the ring has ended, the kernel performs none of its
 * requests any further: they need that thread.
 */
static bool settle(qt_uring *u) {
    if (u->owner != gettid() && qt_task_ended(u->owner))
        return true;
    int64_t until = qt_now_ns() + LETTING_GO_NS;
    drain(u);
    while (kernel_holds(u) && qt_now_ns() < until)
        if (!cancel_all(u))
            return false;
    return !kernel_holds(u);
}

static void close_fds(qt_uring *u) {
    int signal_fd = atomic_load(&u->signal_fd);
    int fds[] = {u->wake_fd, signal_fd, u->polls_fd, u->host_fd == signal_fd ? -1 : u->host_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

void qt_uring_destroy(qt_driver *d, bool forked) {
    qt_uring *u = (qt_uring *)d;
    drop_waiting(u);
    if (forked) {
        /* The child has no mapping of ring and buffer ring (MADV_DONTFORK); their addresses may be another's by now. */
        close(u->ring.ring_fd);
        close_fds(u);
        free(u);
        return;
    }
    bool enabled = atomic_load(&u->enabled);
    bool settled = !enabled || settle(u);
    if (enabled)
        close_unsubmitted(u);
    qt_uring_order_rings();
    if (u->have_ring)
        io_uring_queue_exit(&u->ring);
    close_fds(u);
    if (!settled) {
        if (u->options.host.leaked != NULL)
            u->options.host.leaked(u->options.host.ctx);
        return;
    }
    if (u->buffers != NULL)
        munmap(u->buffers, u->buffers_bytes);
    free(u);
}
