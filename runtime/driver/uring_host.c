/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waking the worker, and the descriptor by which a foreign loop waits for it. */
#include "uring.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void write_one(int fd) {
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* full: it is readable already */
}

/*
 * Any thread. A host is woken by hand: a signal of the ring that is caused by a write to an eventfd (the wake's) comes late, by
 * way of RCU, and only once in a ring's life. The wake's own write comes first, so that a turn in progress sees it in the ring.
 */
void qt_uring_wake(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    __atomic_fetch_add(&d->wakes, 1, __ATOMIC_RELAXED);
    write_one(u->wake_fd);
    if (u->host_fd >= 0)
        write_one(u->host_fd);
}

/*
 * The ring's own descriptor cannot be polled under DEFER_TASKRUN, so a host polls an eventfd that the ring signals. It is
 * another one than the wake's: a read by the ring on its own registered eventfd would signal itself.
 */
int qt_uring_host_fd(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    if (u->host_fd < 0) {
        int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (fd < 0)
            return -errno;
        d->system_calls += 2;
        int error = qt_uring_register(u->ring.ring_fd, IORING_REGISTER_EVENTFD, &fd, 1);
        if (error < 0) {
            close(fd);
            return error;
        }
        u->host_fd = fd;
        /* What is already there was signalled to nobody. */
        write_one(fd);
    }
    d->hosted = true;
    return u->host_fd;
}

void qt_uring_host_begin(qt_driver *d) {
    io_uring_cq_eventfd_toggle(&((qt_uring *)d)->ring, false);
}

/* A timeout kept in the ring makes the descriptor readable at the deadline; one that is too early only costs a turn. */
static void arm_deadline(qt_uring *u, int64_t deadline_ns) {
    if (deadline_ns < 0 || (u->timeout_armed && u->timeout_ns <= deadline_ns))
        return;
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    if (sqe == NULL)
        return;
    u->timeout = (struct __kernel_timespec){deadline_ns / 1000000000, deadline_ns % 1000000000};
    if (u->timeout_armed) {
        io_uring_prep_timeout_update(sqe, &u->timeout, QT_TAG_TIMEOUT, IORING_TIMEOUT_ABS);
        sqe->user_data = QT_TAG_IGNORE;
    } else {
        io_uring_prep_timeout(sqe, &u->timeout, 0, IORING_TIMEOUT_ABS);
        sqe->user_data = QT_TAG_TIMEOUT;
    }
    u->timeout_armed = true;
    u->timeout_ns = deadline_ns;
}

void qt_uring_host_end(qt_driver *d, bool left, int64_t deadline_ns) {
    qt_uring *u = (qt_uring *)d;
    uint64_t count;
    arm_deadline(u, deadline_ns);
    /* Entries of ours (the wake's read, the deadline) must be with the kernel before the host sleeps. */
    unsigned waiting = qt_uring_publish(u);
    if (waiting > 0) {
        d->system_calls++;
        qt_uring_enter(u->ring.ring_fd, waiting, 0, 0, NULL);
    }
    d->system_calls++;
    ssize_t cleared = read(u->host_fd, &count, sizeof count);
    (void)cleared; /* it may not have been signalled */
    io_uring_cq_eventfd_toggle(&u->ring, true);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    /* What completed while the descriptor was silent would never signal it. */
    if (left || u->deferred_count > 0 || !u->wake_armed || io_uring_cq_ready(&u->ring) > 0 || qt_uring_kernel_has_more(u)) {
        d->system_calls++;
        write_one(u->host_fd);
    }
}
