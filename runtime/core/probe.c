/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "probe.h"

#include "../driver/choose.h"
#include "../driver/driver.h"
#include "../sys/limits.h"
#include "runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Bytes charged for a default ring of 256 and 4096 entries: submission entries, completion entries, headers and index, in pages. */
#define RING_BYTES (256 * 64 + 4096 * 16 + 256 * 4 + 4096)

typedef struct qt_findings {
    quoit_probe_entry *entries;
    uint32_t capacity;
    uint32_t count;
    bool uring_works;
} qt_findings;

__attribute__((format(printf, 7, 8))) static void add(qt_findings *f, const char *name, uint32_t state, int32_t status,
                                                      uint64_t number, const char *fix, const char *reason, ...) {
    uint32_t at = f->count++;
    va_list args;
    if (at >= f->capacity)
        return;
    quoit_probe_entry *entry = &f->entries[at];
    memset(entry, 0, sizeof *entry);
    entry->state = state;
    entry->status = status;
    entry->number = number;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->fix, sizeof entry->fix, "%s", fix);
    va_start(args, reason);
    vsnprintf(entry->reason, sizeof entry->reason, reason, args);
    va_end(args);
}

static void probe_kernel(qt_findings *f) {
    struct utsname name;
    uname(&name);
    add(f, "kernel", QUOIT_PROBE_FACT, 0, 0, "", "Linux %s on %s.", name.release, name.machine);
    int64_t disabled = qt_read_number("", "/proc/sys/kernel/io_uring_disabled");
    if (disabled == QT_NO_NUMBER)
        add(f, "io_uring_disabled", QUOIT_PROBE_FACT, 0, 0, "", "The kernel has no such switch (it came with 6.6).");
    else
        add(f, "io_uring_disabled", disabled ? QUOIT_PROBE_REFUSED : QUOIT_PROBE_FACT, 0, (uint64_t)disabled,
            disabled ? "As root: sysctl kernel.io_uring_disabled=0 (1 lets only CAP_SYS_ADMIN and io_uring_group in)." : "",
            "kernel.io_uring_disabled is %d: %s.", (int)disabled,
            disabled == 0   ? "every process may use io_uring"
            : disabled == 1 ? "only privileged processes may use io_uring"
                            : "no process may use io_uring");
    int64_t seccomp = qt_read_keyed("", "/proc/self/status", "Seccomp:", 10);
    add(f, "seccomp", QUOIT_PROBE_FACT, 0, seccomp > 0 ? (uint64_t)seccomp : 0, "",
        seccomp == 2 ? "A seccomp filter is in force; it may refuse system calls." : "No seccomp filter is in force.");
}

static const char *fix_for(int error) {
    switch (-error) {
    case EPERM:
    case EACCES:
        return "Allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile (Docker: --security-opt "
               "seccomp=FILE), and look at kernel.io_uring_disabled.";
    case ENOSYS:
        return "Use Linux 6.1 or newer, or let the sandbox pass io_uring's system calls through.";
    case ENOMEM:
        return "Raise RLIMIT_MEMLOCK (ulimit -l, systemd LimitMEMLOCK=), grant CAP_IPC_LOCK, or lower ring_entries.";
    case EINVAL:
        return "Use a newer kernel: uring-defer needs Linux 6.1, uring-coop and uring-plain with these features 6.0.";
    case EMFILE:
        return "Raise RLIMIT_NOFILE (ulimit -n).";
    default:
        return "See io_uring_setup(2).";
    }
}

static void probe_rungs(qt_findings *f) {
    static const uint32_t rungs[] = {QUOIT_DRIVER_URING_DEFER, QUOIT_DRIVER_URING_COOP, QUOIT_DRIVER_URING_PLAIN};
    for (size_t i = 0; i < sizeof rungs / sizeof rungs[0]; i++) {
        int error = qt_rung_try(rungs[i]);
        const char *name = qt_rung_name(rungs[i]);
        if (error != 0) {
            const char *text = strerrorname_np(-error);
            add(f, name, QUOIT_PROBE_REFUSED, error, 0, fix_for(error), "A ring with a buffer ring and a multishot receive failed: %s.",
                text ? text : "unknown error");
            continue;
        }
        add(f, name, f->uring_works ? QUOIT_PROBE_UNUSED : QUOIT_PROBE_USED, 0, 0, "",
            "A ring was set up, a buffer ring registered, and a multishot receive brought its bytes%s.",
            f->uring_works ? "; a better rung is there" : "");
        f->uring_works = true;
    }
}

static void probe_epoll(qt_findings *f) {
    int error = qt_rung_try(QUOIT_DRIVER_EPOLL);
    if (error == 0)
        add(f, "epoll", f->uring_works ? QUOIT_PROBE_UNUSED : QUOIT_PROBE_USED, 0, 0, "", "It works%s.",
            f->uring_works ? "; io_uring is used instead" : " and is used");
    else
        add(f, "epoll", QUOIT_PROBE_REFUSED, error, 0, "Raise RLIMIT_NOFILE, or let the sandbox allow epoll and eventfd.",
            "It failed: %s.", strerrorname_np(-error) ? strerrorname_np(-error) : "unknown error");
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    struct timespec none = {0, 0};
    int result = fd < 0 || syscall(SYS_epoll_pwait2, fd, &event, 1, &none, NULL, 0) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    add(f, "epoll_pwait2", result ? QUOIT_PROBE_REFUSED : QUOIT_PROBE_USED, result, 0, result ? "Linux 5.11 has it." : "",
        result ? "Waits of the epoll driver are rounded up to milliseconds." : "Waits of the epoll driver are exact to the nanosecond.");
}

static void probe_limits(qt_findings *f) {
    int64_t memlock = qt_limit(RLIMIT_MEMLOCK);
    int64_t used = qt_read_keyed("", "/proc/self/status", "VmLck:", 10);
    bool exempt = qt_has_ipc_lock();
    bool enough = exempt || memlock >= RING_BYTES;
    add(f, "memlock", enough ? QUOIT_PROBE_FACT : QUOIT_PROBE_REFUSED, 0, (uint64_t)(memlock < 0 ? 0 : memlock),
        enough ? "" : "Raise RLIMIT_MEMLOCK (ulimit -l), grant CAP_IPC_LOCK, or set smaller ring_entries and cq_entries.",
        "%s%lld KiB is the limit, %lld KiB of it is locked by this process; a default ring needs %d KiB, charged per user.",
        exempt ? "CAP_IPC_LOCK lifts the limit: " : "", (long long)(memlock / 1024), (long long)(used < 0 ? 0 : used), RING_BYTES / 1024);
    int64_t files = qt_limit(RLIMIT_NOFILE);
    add(f, "nofile", files < 1024 ? QUOIT_PROBE_REFUSED : QUOIT_PROBE_FACT, 0, (uint64_t)files,
        files < 1024 ? "Raise RLIMIT_NOFILE (ulimit -n) above the number of connections." : "",
        "%lld file descriptors may be open at one time.", (long long)files);
}

static void probe_cpus(qt_findings *f) {
    int cpus = qt_affinity_cpus();
    int64_t milli = qt_cgroup_cpu_milli("");
    add(f, "cpus", QUOIT_PROBE_FACT, 0, (uint64_t)cpus, "", "%d CPU%s may be used by affinity.", cpus, cpus == 1 ? "" : "s");
    if (milli < 0)
        add(f, "cgroup_cpu", QUOIT_PROBE_FACT, 0, 0, "", "No cgroup limits CPU time.");
    else
        add(f, "cgroup_cpu", QUOIT_PROBE_FACT, 0, (uint64_t)milli,
            milli < cpus * 1000 ? "Start no more workers than the quota is worth." : "", "The cgroup's quota is worth %lld.%03lld CPUs.",
            (long long)(milli / 1000), (long long)(milli % 1000));
}

quoit_status qt_probe(quoit_probe_entry *entries, uint32_t capacity) {
    qt_findings f = {.entries = entries, .capacity = capacity};
    probe_kernel(&f);
    probe_rungs(&f);
    probe_epoll(&f);
    probe_limits(&f);
    probe_cpus(&f);
    return (quoit_status)f.count;
}

quoit_status qt_probe_driver(void) {
    char reason[512];
    return qt_driver_choose(QUOIT_DRIVER_AUTO, reason, sizeof reason);
}
