/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The io_uring driver's state, shared by its files. */
#ifndef QT_URING_H
#define QT_URING_H

#include "../sys/ring.h"
#include "driver.h"

#include <stdatomic.h>
#include <sys/types.h>

/* Requests wait here by qt_req.next and prev. */
typedef struct qt_uring_list {
    qt_req *head;
    qt_req *tail;
} qt_uring_list;

typedef struct qt_uring {
    qt_driver driver; /* first */
    qt_driver_options options;
    struct io_uring ring;
    bool have_ring;
    pid_t owner;        /* thread that enabled the ring */
    uint32_t in_flight; /* requests in the submission queue or the kernel */
    unsigned wait_flags;
    /* buffer ring: entries are published once, before the next enter */
    struct io_uring_buf_ring *buffers;
    size_t buffers_bytes;
    uint32_t buffers_added;
    /* what the submission queue had no room for, and what never got there */
    qt_uring_list backlog;
    qt_uring_list cancels;
    qt_uring_list ended;
    atomic_bool enabled;
    /* wakes of an enter that waits: the ring keeps a read on this eventfd */
    int wake_fd;
    bool wake_armed;
    atomic_bool waiting;
    uint64_t wakes_seen;
    uint64_t host_wakes; /* when this turn's harvest began */
    uint64_t wake_value;
    /* hosting: the eventfd that the ring signals (another one, since the read would signal itself), and what the host polls */
    atomic_int signal_fd;
    int host_fd;
    int polls_fd; /* set of the descriptors of polls in flight, or -1 */
    uint32_t polls;
    bool deadline_armed;
    int64_t deadline_ns;
    struct __kernel_timespec deadline;
} qt_uring;

/* user_data of our entries: generation 32 bits, slot 24, tag 8. */
enum { QT_TAG_NONE, QT_TAG_REQUEST, QT_TAG_CANCEL, QT_TAG_WAKE, QT_TAG_DEADLINE };

#define QT_URING_SLOTS (1u << 24)

/* qt_req.flags, the driver's: it has told its result, and no cancel finds it any more */
#define QT_URING_TOLD 0x80u

static inline uint64_t qt_uring_user_data(const qt_req *req, unsigned tag) {
    return (uint64_t)req->generation << 32 | (uint64_t)req->slot << 8 | tag;
}

static inline unsigned qt_uring_tag(const struct io_uring_cqe *cqe) {
    return (unsigned)(cqe->user_data & 0xFF);
}

/* The request that a completion names, or null when it is stale. */
static inline qt_req *qt_uring_request(const qt_uring *u, const struct io_uring_cqe *cqe) {
    return qt_req_find(u->options.requests, (uint32_t)(cqe->user_data >> 8) & (QT_URING_SLOTS - 1),
                       (uint32_t)(cqe->user_data >> 32));
}

/* Takes the oldest completion out of the ring. */
static inline bool qt_uring_next(qt_uring *u, struct io_uring_cqe *out) {
    struct io_uring_cq *cq = &u->ring.cq;
    unsigned head = *cq->khead;
    if (head == io_uring_smp_load_acquire(cq->ktail))
        return false;
    *out = cq->cqes[head & cq->ring_mask];
    io_uring_smp_store_release(cq->khead, head + 1);
    return true;
}

static inline bool qt_uring_ready(const qt_uring *u) {
    return *u->ring.cq.khead != io_uring_smp_load_acquire(u->ring.cq.ktail);
}

static inline unsigned qt_uring_flags(const qt_uring *u) {
    return IO_URING_READ_ONCE(*u->ring.sq.kflags);
}

/* The ring says that completions wait in the kernel for an enter. */
static inline bool qt_uring_kernel_has_more(const qt_uring *u) {
    return qt_uring_flags(u) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

static inline void qt_uring_append(qt_uring_list *list, qt_req *req) {
    req->next = NULL;
    req->prev = list->tail;
    *(list->tail ? &list->tail->next : &list->head) = req;
    list->tail = req;
}

static inline void qt_uring_remove(qt_uring_list *list, qt_req *req) {
    *(req->prev ? &req->prev->next : &list->head) = req->next;
    *(req->next ? &req->next->prev : &list->tail) = req->prev;
}

extern const qt_driver_ops qt_uring_ops;

/* uring_submit.c */
void qt_uring_submit(qt_driver *d, qt_req *req);
void qt_uring_cancel(qt_driver *d, qt_req *req);
void qt_uring_cancel_later(qt_uring *u, qt_req *req);
void qt_uring_submit_waiting(qt_uring *u); /* what waits for room, as far as there is some */
struct io_uring_sqe *
qt_uring_sqe(qt_uring *u); /* null when the queue is full and the kernel takes nothing now */

/* uring_prepare.c */
void qt_uring_prepare(struct io_uring_sqe *sqe, const qt_req *req);

/* uring_enter.c */
unsigned qt_uring_publish(qt_uring *u); /* entries that the kernel has not taken */
int qt_uring_call(qt_uring *u, unsigned submit, unsigned flags, const struct io_uring_getevents_arg *wait);
int qt_uring_enter(qt_driver *d, int64_t timeout_ns);

/* uring_setup.c */
int qt_uring_enable(qt_driver *d);
void qt_uring_order_rings(void);

/* uring_destroy.c */
void qt_uring_destroy(qt_driver *d, bool forked);

/* uring_harvest.c */
uint32_t qt_uring_harvest(qt_driver *d, uint32_t budget);
bool qt_uring_pending(qt_driver *d);

/* uring_host.c */
int qt_uring_host_fd(qt_driver *d);
void qt_uring_host_begin(qt_driver *d);
void qt_uring_host_end(qt_driver *d, bool left, int64_t deadline_ns);
void qt_uring_wake(qt_driver *d);
void qt_uring_poll_begin(qt_uring *u, const qt_req *req); /* only where polls_fd is */
void qt_uring_poll_end(qt_uring *u, const qt_req *req);

#endif
