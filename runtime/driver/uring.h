/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The io_uring driver's state, shared by its files. */
#ifndef QT_URING_H
#define QT_URING_H

#include "../sys/uring_abi.h"
#include "driver.h"

#include <stdatomic.h>

/* What waits for room in the submission queue: a request, or a cancel of one. */
typedef struct qt_deferred {
    qt_req *req;
    uint64_t cancel;
} qt_deferred;

typedef struct qt_uring {
    qt_driver driver; /* first */
    qt_driver_options options;
    struct io_uring ring;
    unsigned enter_flags;
    bool have_ring;
    atomic_bool enabled;
    uint64_t in_flight; /* requests in the kernel */
    /* buffer ring */
    struct io_uring_buf_ring *buffers;
    size_t buffers_size;
    uint16_t buffers_tail;
    bool buffers_added;
    /* waiting for room */
    qt_deferred *deferred;
    uint32_t deferred_count;
    uint32_t deferred_capacity;
    /* wakes and hosting */
    int wake_fd;
    uint64_t wake_value;
    bool wake_armed;
    int host_fd;
    bool timeout_armed;
    int64_t timeout_ns;
    struct __kernel_timespec timeout;
} qt_uring;

/* user_data of our entries: generation 32 bits, slot 24, tag 8. */
enum { QT_TAG_REQUEST, QT_TAG_WAKE, QT_TAG_IGNORE, QT_TAG_TIMEOUT };

/* uring_setup.c */
int qt_uring_setup(qt_uring *u);
void qt_uring_teardown(qt_uring *u, bool forked);

/* uring_submit.c */
void qt_uring_prepare(qt_uring *u, struct io_uring_sqe *sqe, const qt_req *req);
struct io_uring_sqe *qt_uring_sqe(qt_uring *u); /* null when the queue is full and the kernel takes nothing now */
void qt_uring_submit(qt_driver *d, qt_req *req);
void qt_uring_cancel(qt_driver *d, qt_req *req);
void qt_uring_submit_deferred(qt_uring *u);
void qt_uring_arm_wake(qt_uring *u);
unsigned qt_uring_publish(qt_uring *u); /* entries that the kernel has not taken */

/* uring_host.c */
int qt_uring_host_fd(qt_driver *d);
void qt_uring_host_begin(qt_driver *d);
void qt_uring_host_end(qt_driver *d, bool left, int64_t deadline_ns);
void qt_uring_wake(qt_driver *d);

/* The ring's own flags: completions wait in the kernel until an enter. */
static inline bool qt_uring_kernel_has_more(const qt_uring *u) {
    return __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

static inline uint64_t qt_uring_user_data(const qt_req *req) {
    return (uint64_t)req->generation << 32 | (uint64_t)req->slot << 8 | QT_TAG_REQUEST;
}

#endif
