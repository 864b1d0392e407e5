/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests and cancels on their way into the submission queue. What finds no room there, because the kernel takes nothing at
 * the moment, waits in order for the next enter: a submit cannot fail.
 */
#include "uring.h"

#include <assert.h>

struct io_uring_sqe *qt_uring_sqe(qt_uring *u) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (sqe != NULL || !atomic_load_explicit(&u->enabled, memory_order_relaxed))
        return sqe;
    qt_uring_call(u, qt_uring_publish(u), 0, NULL);
    return io_uring_get_sqe(&u->ring);
}

static void start(qt_uring *u, struct io_uring_sqe *sqe, qt_req *req) {
    qt_uring_prepare(sqe, req);
    sqe->user_data = qt_uring_user_data(req, QT_TAG_REQUEST);
    req->state = QT_REQ_IN_FLIGHT;
    req->scratch = 0;
    u->in_flight++;
    if (req->code == QT_REQ_POLL && u->polls_fd >= 0)
        qt_uring_poll_begin(u, req);
}

static void ask_to_end(struct io_uring_sqe *sqe, const qt_req *req) {
    io_uring_prep_cancel64(sqe, qt_uring_user_data(req, QT_TAG_REQUEST), 0);
    sqe->user_data = qt_uring_user_data(req, QT_TAG_CANCEL);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

void qt_uring_submit(qt_driver *d, qt_req *req) {
    qt_uring *u = (qt_uring *)d;
    assert(req->state == QT_REQ_IDLE && req->slot < QT_URING_SLOTS);
    req->cancelled = 0;
    /* Nobody overtakes those who wait already. */
    struct io_uring_sqe *sqe = u->backlog.head == NULL ? qt_uring_sqe(u) : NULL;
    if (sqe != NULL) {
        start(u, sqe, req);
        return;
    }
    req->state = QT_REQ_QUEUED;
    qt_uring_append(&u->backlog, req);
}

void qt_uring_cancel_later(qt_uring *u, qt_req *req) {
    assert(req->state == QT_REQ_IN_FLIGHT && !req->scratch);
    req->scratch = 1;
    qt_uring_append(&u->cancels, req);
}

void qt_uring_cancel(qt_driver *d, qt_req *req) {
    qt_uring *u = (qt_uring *)d;
    /* Closing and shutting down take no time that a cancel could save, and must happen. */
    if (req->state == QT_REQ_IDLE || req->cancelled || req->code == QT_REQ_CLOSE ||
        req->code == QT_REQ_SHUTDOWN)
        return;
    req->cancelled = 1;
    if (req->state == QT_REQ_QUEUED) {
        qt_uring_remove(&u->backlog, req);
        qt_uring_append(&u->ended, req);
        return;
    }
    struct io_uring_sqe *sqe = u->cancels.head == NULL ? qt_uring_sqe(u) : NULL;
    if (sqe != NULL)
        ask_to_end(sqe, req);
    else
        qt_uring_cancel_later(u, req);
}

static void arm_wake(qt_uring *u, struct io_uring_sqe *sqe) {
    io_uring_prep_read(sqe, u->wake_fd, &u->wake_value, sizeof u->wake_value, 0);
    sqe->user_data = QT_TAG_WAKE;
    u->wake_armed = true;
}

void qt_uring_submit_waiting(qt_uring *u) {
    struct io_uring_sqe *sqe;
    if (!u->wake_armed && (sqe = qt_uring_sqe(u)) != NULL)
        arm_wake(u, sqe);
    while (u->cancels.head != NULL && (sqe = qt_uring_sqe(u)) != NULL) {
        qt_req *req = u->cancels.head;
        qt_uring_remove(&u->cancels, req);
        req->scratch = 0;
        ask_to_end(sqe, req);
    }
    while (u->backlog.head != NULL && (sqe = qt_uring_sqe(u)) != NULL) {
        qt_req *req = u->backlog.head;
        qt_uring_remove(&u->backlog, req);
        start(u, sqe, req);
    }
}
