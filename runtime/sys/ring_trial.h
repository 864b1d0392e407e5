/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Trying a rung of io_uring for real: a small ring is set up and does once what the driver lives on. What a kernel version or a filter promises
 * is not believed: fixes and bans are spread unevenly over kernels and containers.
 */
#ifndef QT_RING_TRIAL_H
#define QT_RING_TRIAL_H

#include "limits.h"
#include "ring.h"

enum qt_trial_step {
    QT_TRIAL_SETUP, /* io_uring_setup and mapping; -EOPNOTSUPP: a feature of QT_RING_FEATURES is missing */
    QT_TRIAL_ENABLE,
    QT_TRIAL_NOP,     /* submitted and waited for with a timeout */
    QT_TRIAL_BUFFERS, /* a provided buffer ring */
    QT_TRIAL_RECV,    /* a multishot receive into it over a socket pair */
    QT_TRIAL_ACCEPT,  /* a multishot accept */
    QT_TRIAL_EVENTFD, /* a registered eventfd */
    QT_TRIAL_STEPS
};

#define QT_TRIAL_NOT_TRIED 1

typedef struct qt_trial {
    enum qt_ring_rung rung;
    uint32_t features;           /* IORING_FEAT_*, 0 when no ring could be had */
    int failed;                  /* the first step that failed, QT_TRIAL_STEPS if none */
    int error;                   /* its -errno, or 0 */
    int results[QT_TRIAL_STEPS]; /* 0, -errno or QT_TRIAL_NOT_TRIED */
} qt_trial;

/* Takes about a millisecond; waits up to a second when memory is short only because dead rings are still being taken down. */
void qt_ring_try(enum qt_ring_rung rung, qt_trial *out);

/* Says in a sentence why the trial failed, and in one how to change that ("" when nothing can be done). */
void qt_trial_explain(const qt_trial *trial, const qt_limits *limits, char *reason, size_t reason_size,
                      char *fix, size_t fix_size);

/* Why and how to change it, for one step and error. */
void qt_trial_explain_step(enum qt_trial_step step, int error, uint32_t features, const qt_limits *limits,
                           char *reason, size_t reason_size, char *fix, size_t fix_size);

/* "EPERM" for -EPERM, "error 1234" for what has no name here. The text may be overwritten by the thread's next call. */
const char *qt_errno_name(int error);

/* The ring that a worker gets with default options, and the smallest that the driver goes down to. */
#define QT_RING_ENTRIES 256u
#define QT_RING_CQ_ENTRIES 4096u
#define QT_RING_BUFFERS 256u
#define QT_RING_ENTRIES_LEAST 16u
#define QT_RING_CQ_ENTRIES_LEAST 32u

/* How long a set-up may be tried again for memory that dead rings still hold, and the nap between. */
#define QT_RING_RETRY_NS 1000000000
void qt_ring_nap(void);

#endif
