/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "limits.h"

#include "path.h"
#include "ring.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The number after `key` at the start of a line of a /proc file. */
static bool read_field(const char *path, const char *key, int base, uint64_t *out) {
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        char *end;
        *out = strtoull(line + strlen(key), &end, base);
        found = end != line + strlen(key);
    }
    fclose(file);
    return found;
}

static uint64_t soft_limit(int resource, uint64_t *hard) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
        return 0;
    if (hard != NULL)
        *hard = limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

static bool has_ipc_lock(const char *status_path) {
    uint64_t effective;
    return read_field(status_path, "CapEff:", 16, &effective) && (effective >> CAP_IPC_LOCK & 1);
}

void qt_limits_read(const char *proc_root, qt_limits *out) {
    qt_path path;
    uint64_t number;
    struct utsname name;
    memset(out, 0, sizeof *out);
    out->memlock = soft_limit(RLIMIT_MEMLOCK, NULL);
    out->nofile = soft_limit(RLIMIT_NOFILE, &out->nofile_hard);
    qt_path_make(&path, "%s/self/status", proc_root);
    out->ipc_lock = has_ipc_lock(path.text);
    out->seccomp = read_field(path.text, "Seccomp:", 10, &number) ? (int)number : -1;
    qt_path_make(&path, "%s/sys/kernel/io_uring_disabled", proc_root);
    out->uring_disabled = read_field(path.text, "", 10, &number) ? (int)number : -1;
    if (uname(&name) == 0)
        snprintf(out->release, sizeof out->release, "%s", name.release);
}

bool qt_memlock_allows(uint64_t bytes) {
    return bytes <= soft_limit(RLIMIT_MEMLOCK, NULL) || has_ipc_lock("/proc/self/status");
}

/* What one descriptor's ring is charged; 0 if it is no ring. */
static uint64_t ring_charge(const char *process, const char *fd) {
    qt_path path;
    char link[64];
    uint64_t sq_mask;
    uint64_t cq_mask;
    ssize_t length = readlink(qt_path_make(&path, "%s/fd/%s", process, fd), link, sizeof link - 1);
    if (length < 0)
        return 0;
    link[length] = '\0';
    if (strstr(link, "[io_uring]") == NULL)
        return 0;
    qt_path_make(&path, "%s/fdinfo/%s", process, fd);
    if (!read_field(path.text, "SqMask:", 16, &sq_mask) || !read_field(path.text, "CqMask:", 16, &cq_mask))
        return 0;
    return qt_ring_bytes((uint32_t)sq_mask + 1, (uint32_t)cq_mask + 1, 0);
}

static uint64_t process_charge(const char *process) {
    qt_path path;
    struct stat owner;
    uint64_t bytes = 0;
    if (stat(process, &owner) != 0 || owner.st_uid != getuid() ||
        has_ipc_lock(qt_path_make(&path, "%s/status", process)))
        return 0;
    DIR *fds = opendir(qt_path_make(&path, "%s/fd", process));
    if (fds == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(fds)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]))
            bytes += ring_charge(process, entry->d_name);
    closedir(fds);
    return bytes;
}

uint64_t qt_memlock_used(const char *proc_root) {
    qt_path path;
    uint64_t bytes = 0;
    DIR *processes = opendir(proc_root);
    if (processes == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]))
            bytes += process_charge(qt_path_make(&path, "%s/%s", proc_root, entry->d_name));
    closedir(processes);
    return bytes;
}
