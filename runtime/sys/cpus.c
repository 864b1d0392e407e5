/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "cpus.h"

#include "path.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define CPUS_MOST 65536

uint32_t qt_cpus_affinity(void) {
    for (size_t n = 1024; n <= CPUS_MOST; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (set == NULL)
            return 1;
        int got = sched_getaffinity(0, CPU_ALLOC_SIZE(n), set);
        bool too_small = got != 0 && errno == EINVAL;
        int count = got == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(n), set) : 1;
        CPU_FREE(set);
        if (!too_small)
            return count > 0 ? (uint32_t)count : 1;
    }
    return 1;
}

/* The first line of a file, without its newline. */
static bool read_line(const char *path, char *line, int size) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool got = fgets(line, size, file) != NULL;
    fclose(file);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

static int64_t milli(long long quota, long long period) {
    return quota > 0 && period > 0 ? quota * 1000 / period : -1;
}

static int64_t quota_v2(const char *folder) {
    qt_path path;
    char line[64];
    long long quota;
    long long period;
    if (!read_line(qt_path_make(&path, "%s/cpu.max", folder), line, sizeof line) ||
        sscanf(line, "%lld %lld", &quota, &period) != 2)
        return -1; /* also "max 100000" */
    return milli(quota, period);
}

static int64_t quota_v1(const char *folder) {
    qt_path path;
    char quota[32];
    char period[32];
    if (!read_line(qt_path_make(&path, "%s/cpu.cfs_quota_us", folder), quota, sizeof quota) ||
        !read_line(qt_path_make(&path, "%s/cpu.cfs_period_us", folder), period, sizeof period))
        return -1;
    return milli(strtoll(quota, NULL, 10), strtoll(period, NULL, 10));
}

/*
 * The tightest quota of a group and its parents. Parts of the path that are not there are passed over: a container
 * without a cgroup namespace sees its own group as the root of the mount.
 */
static int64_t tightest(const char *mount, char *group, int64_t (*quota)(const char *)) {
    qt_path folder;
    int64_t least = -1;
    for (;;) {
        int64_t here = quota(qt_path_make(&folder, "%s%s", mount, group));
        if (here >= 0 && (least < 0 || here < least))
            least = here;
        char *cut = strrchr(group, '/');
        if (cut == NULL)
            return least;
        *cut = '\0';
    }
}

static int64_t quota_v1_mounted(const char *root, const char *name, const char *group) {
    qt_path mount;
    qt_path copy;
    qt_path_make(&mount, "%s/sys/fs/cgroup/%s", root, name);
    qt_path_make(&copy, "%s", group);
    return tightest(mount.text, copy.text, quota_v1);
}

static bool names_cpu(const char *controllers) {
    for (const char *at = controllers; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0'))
            return true;
    return false;
}

/* One line of /proc/self/cgroup, "N:controllers:/group". */
static int64_t line_quota(const char *root, char *line) {
    qt_path mount;
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL)
        return -1;
    *group++ = '\0';
    controllers++;
    group[strcspn(group, "\n")] = '\0';
    if (strcmp(group, "/") == 0)
        group[0] = '\0';
    if (controllers[0] == '\0')
        return tightest(qt_path_make(&mount, "%s/sys/fs/cgroup", root), group, quota_v2);
    if (!names_cpu(controllers))
        return -1;
    /* Mounted as "cpu,cpuacct", and mostly with a link "cpu" beside it. */
    int64_t quota = quota_v1_mounted(root, "cpu", group);
    return quota >= 0 ? quota : quota_v1_mounted(root, controllers, group);
}

int64_t qt_cpus_quota_milli(const char *root) {
    qt_path path;
    char line[PATH_MAX];
    int64_t least = -1;
    FILE *file = fopen(qt_path_make(&path, "%s/proc/self/cgroup", root), "re");
    if (file == NULL)
        return -1;
    while (fgets(line, sizeof line, file) != NULL) {
        int64_t here = line_quota(root, line);
        if (here >= 0 && (least < 0 || here < least))
            least = here;
    }
    fclose(file);
    return least;
}

uint32_t qt_cpus_usable(const char *root) {
    uint32_t cpus = qt_cpus_affinity();
    int64_t quota = qt_cpus_quota_milli(root);
    if (quota < 0)
        return cpus;
    uint64_t whole = ((uint64_t)quota + 999) / 1000;
    return whole == 0 ? 1 : whole < cpus ? (uint32_t)whole : cpus;
}
