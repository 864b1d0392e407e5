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

/* Until the ring is enabled nothing reads the wake descriptor: a host must see the wake itself. */
void qt_uring_wake(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    __atomic_fetch_add(&d->wakes, 1, __ATOMIC_SEQ_CST);
    write_one(u->wake_fd);
    if (!atomic_load(&u->enabled) && atomic_load(&u->host_fd) >= 0)
        write_one(atomic_load(&u->host_fd));
}

/* The ring's own descriptor cannot be polled under DEFER_TASKRUN, so a host polls an eventfd that the ring signals. */
int qt_uring_host_fd(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    int fd = atomic_load(&u->host_fd);
    if (fd >= 0)
        return fd;
    fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    d->system_calls += 2;
    int error = qt_ring_register(u->ring.ring_fd, IORING_REGISTER_EVENTFD, &fd, 1);
    if (error < 0) {
        close(fd);
        return error;
    }
    atomic_store(&u->host_fd, fd);
    d->hosted = true;
    /* What is already there was signalled to nobody: completions, and wakes that came before. */
    if (atomic_load(&u->enabled) || __atomic_load_n(&d->wakes, __ATOMIC_SEQ_CST) > 0)
        write_one(fd);
    return fd;
}

void qt_uring_host_begin(qt_driver *d) {
    io_uring_cq_eventfd_toggle(&((qt_uring *)d)->ring, false);
}

/*
 * A timeout kept in the ring makes the descriptor readable at the deadline. One that is too early only costs a turn, so it is
 * moved only to an earlier time. False if it could not be armed.
 */
static bool arm_deadline(qt_uring *u, int64_t deadline_ns) {
    if (deadline_ns < 0 || (u->deadline_armed && u->deadline_ns <= deadline_ns))
        return true;
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    if (sqe == NULL)
        return false;
    u->deadline = (struct __kernel_timespec){deadline_ns / 1000000000, deadline_ns % 1000000000};
    if (u->deadline_armed) {
        /* If it has just expired the update fails, and the expiry makes the host turn. */
        io_uring_prep_timeout_update(sqe, &u->deadline, QT_TAG_DEADLINE, IORING_TIMEOUT_ABS);
        sqe->user_data = QT_TAG_NONE;
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    } else {
        io_uring_prep_timeout(sqe, &u->deadline, 0, IORING_TIMEOUT_ABS);
        sqe->user_data = QT_TAG_DEADLINE;
    }
    u->deadline_armed = true;
    u->deadline_ns = deadline_ns;
    return true;
}

/* Whatever must be with the kernel before the host sleeps: the wake's read, the deadline, requests. False if not all is. */
static bool hand_over(qt_uring *u, int64_t deadline_ns) {
    bool armed = arm_deadline(u, deadline_ns);
    qt_uring_submit_waiting(u);
    unsigned submit = qt_uring_publish(u);
    bool all = submit == 0 || qt_uring_call(u, submit, 0, NULL) == (int)submit;
    return all && armed && u->wake_armed;
}

void qt_uring_host_end(qt_driver *d, bool left, int64_t deadline_ns) {
    qt_uring *u = (qt_uring *)d;
    int fd = atomic_load(&u->host_fd);
    /* With something left the host turns at once, and that turn's enter hands over. */
    bool again = left || !hand_over(u, deadline_ns) || qt_uring_pending(d);
    if (!again) {
        uint64_t count;
        d->system_calls++;
        ssize_t cleared = read(fd, &count, sizeof count);
        (void)cleared; /* nothing may have signalled it */
    }
    io_uring_cq_eventfd_toggle(&u->ring, true);
    atomic_thread_fence(memory_order_seq_cst);
    /* What completed while the descriptor was silent would never signal it. The write is an edge also when it is readable. */
    if (again || qt_uring_pending(d)) {
        d->system_calls++;
        write_one(fd);
    }
}
