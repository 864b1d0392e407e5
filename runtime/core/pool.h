/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The blocking pool: threads for what would hold a worker up. One per runtime; threads start when there is work for them. */
#ifndef QT_POOL_H
#define QT_POOL_H

#include <stdbool.h>
#include <stdint.h>

enum { QT_JOB_QUEUED = 1, QT_JOB_RUNNING, QT_JOB_FINISHED, QT_JOB_CANCELLED };

typedef struct qt_job qt_job;

struct qt_job {
    qt_job *next;
    void (*run)(qt_job *job);      /* on a pool thread */
    void (*finished)(qt_job *job); /* on a pool thread; the job may be gone when it returns */
    uint32_t state;
};

typedef struct qt_pool qt_pool;

int qt_pool_create(uint32_t threads_max, uint32_t queue_max, qt_pool **out); /* 0 or -errno */

/* Any thread. 0, or -EAGAIN when the queue is full. */
int qt_pool_submit(qt_pool *pool, qt_job *job);

/* Any thread. True if it had not begun: it will not run, and finished is not called. */
bool qt_pool_cancel(qt_pool *pool, qt_job *job);

/* Waits for what runs; what is queued gets finished without run, in state CANCELLED. forked: the threads stayed with the parent. */
void qt_pool_destroy(qt_pool *pool, bool forked);

#endif
