/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The one system call of a tick: it hands over entries and buffers, runs what the kernel has deferred, and waits. */
#include "uring.h"

#include "../sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <quoit/runtime.h>

unsigned qt_uring_publish(qt_uring *u) {
    struct io_uring_sq *sq = &u->ring.sq;
    if (u->buffers_added > 0) {
        io_uring_buf_ring_advance(u->buffers, (int)u->buffers_added);
        u->buffers_added = 0;
    }
    if (sq->sqe_head != sq->sqe_tail) {
        sq->sqe_head = sq->sqe_tail;
        io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
    }
    return sq->sqe_tail - io_uring_smp_load_acquire(sq->khead);
}

int qt_uring_call(qt_uring *u, unsigned submit, unsigned flags, const struct io_uring_getevents_arg *wait) {
    u->driver.system_calls++;
    if (qt_uring_flags(u) & IORING_SQ_CQ_OVERFLOW)
        u->driver.cq_overflows++;
    if (wait == NULL)
        return qt_ring_enter(u->ring.ring_fd, submit, 0, flags, NULL, 0);
    return qt_ring_enter(u->ring.ring_fd, submit, 1, flags | u->wait_flags, wait, sizeof *wait);
}

/* Short of memory, or of room for completions: what was not taken stays in the queue; room is made for the next try. */
static int not_now(qt_uring *u) {
    if (qt_uring_flags(u) & IORING_SQ_CQ_OVERFLOW)
        qt_uring_call(u, 0, IORING_ENTER_GETEVENTS, NULL);
    return 0;
}

static int failed(qt_uring *u, int error) {
    switch (-error) {
    case EINTR:
        return -EINTR;
    case ETIME:
        return 0;
    case EAGAIN:
    case EBUSY:
        return not_now(u);
    case EBADR:
        u->driver.cq_overflows++; /* the kernel had no memory to keep completions in */
        return 0;
    default:
        assert(!"io_uring_enter was used wrongly");
        return error;
    }
}

/* The result of a call that also submitted is how many; that a signal cut its wait short shows only in what is missing. */
static bool was_cut_short(const qt_uring *u, int64_t until_ns) {
    return !qt_uring_ready(u) && !qt_uring_kernel_has_more(u) && (until_ns < 0 || qt_now_ns() < until_ns);
}

static int submit_only(qt_uring *u, unsigned submit) {
    /* Deferred work runs only in a call that asks for events. */
    bool deferred = u->driver.rung == QUOIT_DRIVER_URING_DEFER;
    bool look = qt_uring_kernel_has_more(u);
    if (submit == 0 && !look)
        return 0;
    int result = qt_uring_call(u, submit, deferred || look ? IORING_ENTER_GETEVENTS : 0, NULL);
    return result < 0 ? failed(u, result) : 0;
}

/* Waits, unless a wake came since the last enter: its sender saw that nobody waited. */
static int submit_and_wait(qt_uring *u, unsigned submit, int64_t timeout_ns) {
    struct __kernel_timespec limit = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    struct io_uring_getevents_arg wait = {.ts = timeout_ns < 0 ? 0 : (uint64_t)(uintptr_t)&limit};
    int64_t until_ns = submit > 0 && timeout_ns > 0 ? qt_now_ns() + timeout_ns : -1;
    atomic_store(&u->waiting, true);
    bool woken = __atomic_load_n(&u->driver.wakes, __ATOMIC_SEQ_CST) != u->wakes_seen;
    int result = woken ? submit_only(u, submit)
                       : qt_uring_call(u, submit, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &wait);
    atomic_store(&u->waiting, false);
    u->wakes_seen = __atomic_load_n(&u->driver.wakes, __ATOMIC_ACQUIRE);
    if (woken)
        return result;
    if (result < 0)
        return failed(u, result);
    /* A call that did not take all did not wait either. */
    bool waited = (unsigned)result == submit;
    return waited && submit > 0 && was_cut_short(u, until_ns) ? -EINTR : 0;
}

int qt_uring_enter(qt_driver *d, int64_t timeout_ns) {
    qt_uring *u = (qt_uring *)d;
    qt_uring_submit_waiting(u);
    unsigned submit = qt_uring_publish(u);
    bool stuck = !u->wake_armed || u->cancels.head != NULL || u->backlog.head != NULL;
    if (timeout_ns == 0 || stuck || u->ended.head != NULL || qt_uring_ready(u))
        return submit_only(u, submit);
    return submit_and_wait(u, submit, timeout_ns);
}
