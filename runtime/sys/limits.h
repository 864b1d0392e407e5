/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the system allows this process. `root` is "" or a folder that stands for / in tests. */
#ifndef QT_LIMITS_H
#define QT_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QT_NO_NUMBER (-1)

/* The first number in a file, or QT_NO_NUMBER. */
int64_t qt_read_number(const char *root, const char *path);

/* The number after a key ("Seccomp:") in a file of lines, in base 10 or 16, or QT_NO_NUMBER. */
int64_t qt_read_keyed(const char *root, const char *path, const char *key, int base);

/* CPUs that the cgroup's quota is worth, in thousandths; QT_NO_NUMBER without a quota. Reads cgroup v2 (cpu.max), then v1. */
int64_t qt_cgroup_cpu_milli(const char *root);

/* CPUs in this thread's affinity mask. */
int qt_affinity_cpus(void);

/* Soft limit of a resource (getrlimit(2)); INT64_MAX when unlimited. */
int64_t qt_limit(int resource);

/* True if memory for rings is not charged: the process has CAP_IPC_LOCK. */
bool qt_has_ipc_lock(void);

#endif
