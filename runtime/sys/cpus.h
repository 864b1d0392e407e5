/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How many CPUs this process may use: its affinity (which the cpuset is part of), and its cgroup's quota. */
#ifndef QT_CPUS_H
#define QT_CPUS_H

#include <stdint.h>

/* CPUs in this thread's affinity mask, at least 1. */
uint32_t qt_cpus_affinity(void);

/*
 * The tightest CPU quota on the way from this process's cgroup to the root, in thousandths of a CPU; -1 none. `root` is "" or a folder
 * that holds proc/self/cgroup and sys/fs/cgroup. Reads cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us).
 */
int64_t qt_cpus_quota_milli(const char *root);

/* CPUs that work can really use: affinity and quota, rounded up, at least 1. */
uint32_t qt_cpus_usable(const char *root);

#endif
