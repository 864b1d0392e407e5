/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the system grants this process: memlock, descriptors, privileges, and the switches that turn io_uring off. */
#ifndef QT_LIMITS_H
#define QT_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct qt_limits {
    uint64_t memlock; /* soft limit, UINT64_MAX none */
    uint64_t nofile;  /* soft and hard limit */
    uint64_t nofile_hard;
    bool ipc_lock;      /* CAP_IPC_LOCK: memlock is not charged */
    int uring_disabled; /* kernel.io_uring_disabled: 0, 1, 2; -1 where the kernel has no such switch */
    int seccomp;        /* 0 none, 1 strict, 2 filter; -1 not told */
    char release[72];   /* of the kernel */
} qt_limits;

/* proc_root is "/proc", or a folder made to look like it. */
void qt_limits_read(const char *proc_root, qt_limits *out);

/* Whether `bytes` for a ring can be charged at all, once nothing else is. */
bool qt_memlock_allows(uint64_t bytes);

/* Bytes that the rings of this user take in all processes that let us look, as far as they are charged. */
uint64_t qt_memlock_used(const char *proc_root);

#endif
