/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "limits.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CAP_IPC_LOCK_BIT 14

static FILE *open_file(const char *root, const char *path) {
    char full[1024];
    /* A path that does not fit is none of those we look for. */
    if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full)
        return NULL;
    return fopen(full, "re");
}

int64_t qt_read_number(const char *root, const char *path) {
    FILE *file = open_file(root, path);
    long long number = QT_NO_NUMBER;
    if (file == NULL)
        return QT_NO_NUMBER;
    if (fscanf(file, "%lld", &number) != 1)
        number = QT_NO_NUMBER;
    fclose(file);
    return number;
}

int64_t qt_read_keyed(const char *root, const char *path, const char *key, int base) {
    FILE *file = open_file(root, path);
    char line[512];
    int64_t number = QT_NO_NUMBER;
    if (file == NULL)
        return QT_NO_NUMBER;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            number = (int64_t)strtoull(line + strlen(key), NULL, base);
            break;
        }
    }
    fclose(file);
    return number;
}

/* The path of this process in a hierarchy of /proc/self/cgroup: "0::PATH" in v2, "N:cpu,cpuacct:PATH" in v1. */
static bool cgroup_path(const char *root, bool v2, char *out, size_t size) {
    FILE *file = open_file(root, "/proc/self/cgroup");
    char line[512];
    bool found = false;
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *controllers++ = 0;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        bool cpu = false;
        char *rest = controllers;
        for (char *name = strtok_r(controllers, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
            cpu |= strcmp(name, "cpu") == 0;
        found = v2 ? strcmp(line, "0") == 0 : cpu;
        if (found)
            snprintf(out, size, "%s", strcmp(path, "/") == 0 ? "" : path);
    }
    fclose(file);
    return found;
}

static int64_t quota_v2(const char *root, const char *path) {
    char name[600];
    long long quota;
    long long period;
    snprintf(name, sizeof name, "/sys/fs/cgroup%s/cpu.max", path);
    FILE *file = open_file(root, name);
    if (file == NULL)
        return QT_NO_NUMBER;
    int n = fscanf(file, "%lld %lld", &quota, &period); /* "max 100000" has no number first: no quota */
    fclose(file);
    return n == 2 && period > 0 ? quota * 1000 / period : QT_NO_NUMBER;
}

static int64_t quota_v1(const char *root, const char *path) {
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    char name[600];
    for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        snprintf(name, sizeof name, "%s%s/cpu.cfs_quota_us", mounts[i], path);
        int64_t quota = qt_read_number(root, name);
        snprintf(name, sizeof name, "%s%s/cpu.cfs_period_us", mounts[i], path);
        int64_t period = qt_read_number(root, name);
        if (quota > 0 && period > 0)
            return quota * 1000 / period;
    }
    return QT_NO_NUMBER;
}

/* A parent's quota binds too: the least on the way up counts. */
static int64_t least_on_the_way(const char *root, char *path, int64_t (*quota)(const char *, const char *)) {
    int64_t least = QT_NO_NUMBER;
    for (;;) {
        int64_t here = quota(root, path);
        if (here >= 0 && (least < 0 || here < least))
            least = here;
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return least;
        *slash = 0;
    }
}

int64_t qt_cgroup_cpu_milli(const char *root) {
    char path[512];
    int64_t quota = QT_NO_NUMBER;
    if (cgroup_path(root, true, path, sizeof path))
        quota = least_on_the_way(root, path, quota_v2);
    if (quota < 0 && cgroup_path(root, false, path, sizeof path))
        quota = least_on_the_way(root, path, quota_v1);
    return quota;
}

int qt_affinity_cpus(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int64_t qt_limit(int resource) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return QT_NO_NUMBER;
    return limit.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)limit.rlim_cur;
}

bool qt_has_ipc_lock(void) {
    int64_t effective = qt_read_keyed("", "/proc/self/status", "CapEff:", 16);
    return effective != QT_NO_NUMBER && (effective >> CAP_IPC_LOCK_BIT) & 1;
}
