/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A worker's jobs on the runtime's blocking pool. They come back through the mailbox. */
#ifndef QT_BLOCKING_H
#define QT_BLOCKING_H

#include "worker.h"

typedef struct qt_work qt_work;

struct qt_work {
    qt_job job;
    qt_letter letter;
    qt_worker *worker;
    qt_link link;               /* in worker->works */
    void (*run)(qt_work *work); /* on a pool thread */
    void (*done)(qt_work *work,
                 bool ran); /* on the worker's thread; frees what the work owns, not the work */
    bool waiting;           /* not yet with the pool: its queue was full */
    bool ran;
    void *subject;
    int64_t result;
    uint64_t bits;
};

/* bounded: -EAGAIN when the pool's queue is full; else it waits for room. 0: done will be called. */
int qt_work_submit(qt_worker *w, qt_work *work, bool bounded);
/* True if it will not run: done(work, false) is called by the next mailbox pass. */
bool qt_work_cancel(qt_worker *w, qt_work *work);
/* The worker ends: nothing of it may be left with the pool. */
void qt_works_abandon(qt_worker *w, bool forked);

#endif
