/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The io_uring driver: one io_uring_enter per tick carries what was submitted and waits for what completes. */
#include "uring.h"

#include "../sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <quoit/runtime.h>
#include <stdlib.h>

static int uring_enable(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    d->system_calls++;
    int error = qt_uring_register(u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    if (error < 0)
        return error;
    qt_uring_arm_wake(u);
    atomic_store(&u->enabled, true);
    return 0;
}

static bool cq_ready(const qt_uring *u) {
    return *u->ring.cq.khead != __atomic_load_n(u->ring.cq.ktail, __ATOMIC_ACQUIRE);
}

/* The result of a wait that also submitted is the number submitted: a signal that cut it short does not show in it. */
static bool cut_short(const qt_uring *u, int64_t until_ns) {
    return !cq_ready(u) && !qt_uring_kernel_has_more(u) && (until_ns < 0 || qt_now_ns() < until_ns);
}

static int uring_enter(qt_driver *d, int64_t timeout_ns) {
    qt_uring *u = (qt_uring *)d;
    if (!u->wake_armed)
        qt_uring_arm_wake(u);
    qt_uring_submit_deferred(u);
    unsigned waiting = qt_uring_publish(u);
    bool overflown = __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_CQ_OVERFLOW;
    bool more = qt_uring_kernel_has_more(u);
    bool wait = timeout_ns != 0 && !cq_ready(u) && u->deferred_count == 0 && !overflown;
    if (overflown)
        d->cq_overflows++;
    if (waiting == 0 && !wait && !more)
        return 0;
    /* Deferred task work runs only in a call that asks for events. */
    unsigned flags = u->enter_flags;
    if (wait || more || d->rung == QUOIT_DRIVER_URING_DEFER)
        flags |= IORING_ENTER_GETEVENTS;
    struct __kernel_timespec limit = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    int64_t until = timeout_ns < 0 || !wait ? -1 : qt_now_ns() + timeout_ns;
    d->system_calls++;
    int result = qt_uring_enter(u->ring.ring_fd, waiting, wait ? 1 : 0, flags, wait && timeout_ns > 0 ? &limit : NULL);
    if (result == -EINTR)
        return -EINTR;
    return wait && result > 0 && cut_short(u, until) ? -EINTR : 0;
}

static void request_completed(qt_uring *u, const struct io_uring_cqe *cqe) {
    uint32_t slot = (uint32_t)(cqe->user_data >> 8) & 0xFFFFFF;
    qt_req *req = qt_req_find(u->options.requests, slot, (uint32_t)(cqe->user_data >> 32));
    assert(req != NULL && req->state == QT_REQ_IN_FLIGHT);
    qt_completion c = {.res = cqe->res};
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        c.flags |= QT_CQ_BUFFER;
        c.bid = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    }
    if (cqe->flags & IORING_CQE_F_SOCK_NONEMPTY)
        c.flags |= QT_CQ_NONEMPTY;
    if (cqe->flags & IORING_CQE_F_MORE) {
        c.flags |= QT_CQ_MORE;
    } else {
        req->state = QT_REQ_IDLE;
        u->in_flight--;
    }
    req->done(req, &c);
}

static uint32_t uring_harvest(qt_driver *d, uint32_t budget) {
    qt_uring *u = (qt_uring *)d;
    uint32_t count = 0;
    while (count < budget && cq_ready(u)) {
        unsigned head = *u->ring.cq.khead;
        struct io_uring_cqe cqe = u->ring.cq.cqes[head & u->ring.cq.ring_mask];
        __atomic_store_n(u->ring.cq.khead, head + 1, __ATOMIC_RELEASE);
        switch (cqe.user_data & 0xFF) {
        case QT_TAG_REQUEST:
            count++;
            request_completed(u, &cqe);
            break;
        case QT_TAG_WAKE:
            qt_uring_arm_wake(u);
            break;
        case QT_TAG_TIMEOUT:
            u->timeout_armed = false;
            break;
        default:
            break;
        }
    }
    return count;
}

static bool uring_pending(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    return cq_ready(u) || qt_uring_kernel_has_more(u);
}

static void uring_buffer_add(qt_driver *d, uint32_t bid) {
    qt_uring *u = (qt_uring *)d;
    uint32_t mask = u->options.buffer_entries - 1;
    struct io_uring_buf *entry = &u->buffers->bufs[u->buffers_tail & mask];
    entry->addr = (uint64_t)(uintptr_t)(u->options.buffer_base + (uint64_t)bid * u->options.buffer_size);
    entry->len = u->options.buffer_size;
    entry->bid = (uint16_t)bid;
    u->buffers_tail++;
    u->buffers_added = true;
}

static void uring_destroy(qt_driver *d, bool forked) {
    qt_uring_teardown((qt_uring *)d, forked);
}

static const qt_driver_ops ops = {
    .name = "io_uring",
    .enable = uring_enable,
    .destroy = uring_destroy,
    .submit = qt_uring_submit,
    .cancel = qt_uring_cancel,
    .enter = uring_enter,
    .harvest = uring_harvest,
    .pending = uring_pending,
    .buffer_add = uring_buffer_add,
    .wake = qt_uring_wake,
    .host_fd = qt_uring_host_fd,
    .host_begin = qt_uring_host_begin,
    .host_end = qt_uring_host_end,
};

int qt_uring_create(const qt_driver_options *options, qt_driver **out) {
    qt_uring *u = calloc(1, sizeof *u);
    if (u == NULL)
        return -ENOMEM;
    u->driver.ops = &ops;
    u->driver.rung = options->rung;
    u->options = *options;
    u->wake_fd = -1;
    u->host_fd = -1;
    int error = qt_uring_setup(u);
    if (error != 0) {
        qt_uring_teardown(u, false);
        return error;
    }
    *out = &u->driver;
    return 0;
}
