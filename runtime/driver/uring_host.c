/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waking the worker, and the descriptor by which a foreign loop waits for it: an eventfd that the ring signals. (The ring's own cannot be polled
 * under DEFER_TASKRUN.)
 *
 * What a write to some eventfd wakes may not signal another at once. The kernel puts the ring's signal off then, by milliseconds, and
 * loses all later ones of that kind (seen on Linux 6.18 with DEFER_TASKRUN). So a wake writes the host's eventfd itself, and polls, whose
 * descriptors may be eventfds, are watched beside the ring.
 */
#include "uring.h"

#include "../sys/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <quoit/runtime.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void write_one(int fd) {
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* full: it is readable already */
}

/*
 * The owner raises `waiting` before it looks at `wakes`, so that one of the two is seen: an enter that would wait does not, or is ended
 * through the ring.
 */
void qt_uring_wake(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    __atomic_fetch_add(&d->wakes, 1, __ATOMIC_SEQ_CST);
    if (atomic_load(&u->waiting))
        write_one(u->wake_fd);
    else if (atomic_load(&u->signal_fd) >= 0)
        write_one(atomic_load(&u->signal_fd));
}

/* Polls beside the ring */

static int add(int epoll, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void qt_uring_poll_begin(qt_uring *u, const qt_req *req) {
    u->driver.system_calls++;
    if (add(u->polls_fd, req->fd, req->op_flags) == 0)
        u->polls++;
}

void qt_uring_poll_end(qt_uring *u, const qt_req *req) {
    u->driver.system_calls++;
    if (epoll_ctl(u->polls_fd, EPOLL_CTL_DEL, req->fd, NULL) == 0)
        u->polls--;
}

static bool poll_is_due(qt_uring *u) {
    if (u->polls == 0)
        return false;
    u->driver.system_calls++;
    return poll(&(struct pollfd){.fd = u->polls_fd, .events = POLLIN}, 1, 0) > 0;
}

static void begin_polls_in_flight(qt_uring *u) {
    const qt_req_table *table = u->options.requests;
    for (uint32_t slot = 0; slot < table->chunk_count * QT_REQ_CHUNK; slot++) {
        const qt_req *req = &table->chunks[slot / QT_REQ_CHUNK][slot % QT_REQ_CHUNK];
        if (req->state == QT_REQ_IN_FLIGHT && req->code == QT_REQ_POLL)
            qt_uring_poll_begin(u, req);
    }
}

/* A set of the eventfd and of the set of polled descriptors. */
static int join_polls(qt_uring *u, int signal_fd) {
    int both = epoll_create1(EPOLL_CLOEXEC);
    u->polls_fd = both < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
    int error = u->polls_fd < 0 ? -errno : add(both, signal_fd, EPOLLIN);
    if (!error)
        error = add(both, u->polls_fd, EPOLLIN);
    if (!error && fcntl(both, F_SETFL, O_NONBLOCK) != 0)
        error = -errno;
    if (!error) {
        begin_polls_in_flight(u);
        return both;
    }
    if (u->polls_fd >= 0)
        close(u->polls_fd);
    if (both >= 0)
        close(both);
    u->polls_fd = -1;
    return error;
}

int qt_uring_host_fd(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    if (u->host_fd >= 0)
        return u->host_fd;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    d->system_calls += 2;
    int error = qt_ring_register(u->ring.ring_fd, IORING_REGISTER_EVENTFD, &fd, 1);
    int host = error < 0 ? error : d->rung == QUOIT_DRIVER_URING_DEFER ? join_polls(u, fd) : fd;
    if (host < 0) {
        if (error == 0)
            qt_ring_register(u->ring.ring_fd, IORING_UNREGISTER_EVENTFD, NULL, 0);
        close(fd);
        return host;
    }
    u->host_fd = host;
    d->hosted = true;
    atomic_store(&u->signal_fd, fd);
    /* What is already there was signalled to nobody: completions, and wakes that came before. */
    if (atomic_load(&u->enabled) || __atomic_load_n(&d->wakes, __ATOMIC_SEQ_CST) > 0)
        write_one(fd);
    return host;
}

void qt_uring_host_begin(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    u->host_wakes = __atomic_load_n(&d->wakes, __ATOMIC_SEQ_CST);
    io_uring_cq_eventfd_toggle(&u->ring, false);
}

/*
 * A timeout kept in the ring makes the descriptor readable at the deadline. One that is too early only costs a turn, so it is
 * moved only to an earlier time. It is given as a span: absolute times are the machine's for the kernel (6.18), also
 * in a time namespace, whose clock_gettime(2) tells others. False if it could not be armed.
 */
static bool arm_deadline(qt_uring *u, int64_t deadline_ns) {
    if (deadline_ns < 0 || (u->deadline_armed && u->deadline_ns <= deadline_ns))
        return true;
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    if (sqe == NULL)
        return false;
    int64_t now = qt_now_ns();
    int64_t span = deadline_ns > now ? deadline_ns - now : 0;
    u->deadline = (struct __kernel_timespec){span / 1000000000, span % 1000000000};
    if (u->deadline_armed) {
        /* If it has just expired the update fails, and the expiry makes the host turn. */
        io_uring_prep_timeout_update(sqe, &u->deadline, QT_TAG_DEADLINE, 0);
        sqe->user_data = QT_TAG_NONE;
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    } else {
        io_uring_prep_timeout(sqe, &u->deadline, 0, 0);
        sqe->user_data = QT_TAG_DEADLINE;
    }
    u->deadline_armed = true;
    u->deadline_ns = deadline_ns;
    return true;
}

/* Whatever must be with the kernel before the host sleeps: the deadline, requests, buffers. False if not all is. */
static bool hand_over(qt_uring *u, int64_t deadline_ns) {
    bool armed = arm_deadline(u, deadline_ns);
    qt_uring_submit_waiting(u);
    unsigned submit = qt_uring_publish(u);
    return armed && (submit == 0 || qt_uring_call(u, submit, 0, NULL) == (int)submit);
}

void qt_uring_host_end(qt_driver *d, bool left, int64_t deadline_ns) {
    qt_uring *u = (qt_uring *)d;
    int fd = atomic_load(&u->signal_fd);
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
    /* What completed while the descriptor was silent would never signal it, and a wake that came after core looked into its mailbox
     * may have been cleared. The write is an edge also when it is readable. */
    bool woken = __atomic_load_n(&d->wakes, __ATOMIC_SEQ_CST) != u->host_wakes;
    if (again || woken || qt_uring_pending(d) || poll_is_due(u)) {
        d->system_calls++;
        write_one(fd);
    }
}
