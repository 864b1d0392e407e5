/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "probe.h"

#include "../driver/driver.h"
#include "../sys/cpus.h"
#include "../sys/ring_trial.h"

#include <errno.h>
#include <inttypes.h>
#include <quoit/runtime.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Fewer descriptors than this leave little for connections. */
#define NOFILE_SMALL 1024

typedef struct findings {
    quoit_probe_entry *entries;
    uint32_t capacity;
    uint32_t count;
    quoit_status driver; /* what a runtime gets */
    qt_limits limits;
    qt_trial trials[QT_RING_RUNGS];
    const qt_trial *best; /* the trial that got furthest */
} findings;

__attribute__((format(printf, 7, 8))) static void add(findings *f, const char *name, uint32_t state,
                                                      int32_t status, uint64_t number, const char *fix,
                                                      const char *reason, ...) {
    uint32_t at = f->count++;
    if (at >= f->capacity)
        return;
    quoit_probe_entry *entry = &f->entries[at];
    memset(entry, 0, sizeof *entry);
    entry->state = state;
    entry->status = status;
    entry->number = number;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->fix, sizeof entry->fix, "%s", fix);
    va_list arguments;
    va_start(arguments, reason);
    vsnprintf(entry->reason, sizeof entry->reason, reason, arguments);
    va_end(arguments);
}

/* The kernel and its switches */

static void tell_kernel(findings *f) {
    const char *fix = "Set it to 0: sysctl -w kernel.io_uring_disabled=0.";
    add(f, "kernel", QUOIT_PROBE_FACT, 0, 0, "", "Linux %s.", f->limits.release);
    switch (f->limits.uring_disabled) {
    case -1:
        add(f, "io_uring_disabled", QUOIT_PROBE_FACT, 0, 0, "",
            "This kernel has no such switch (it came with 6.6).");
        break;
    case 0:
        add(f, "io_uring_disabled", QUOIT_PROBE_FACT, 0, 0, "",
            "kernel.io_uring_disabled is 0: io_uring is open to all.");
        break;
    case 1:
        add(f, "io_uring_disabled", QUOIT_PROBE_FACT, 0, 1, fix,
            "kernel.io_uring_disabled is 1: only CAP_SYS_ADMIN and the group of kernel.io_uring_group get "
            "io_uring.");
        break;
    default:
        add(f, "io_uring_disabled", QUOIT_PROBE_REFUSED, -EPERM, (uint64_t)f->limits.uring_disabled, fix,
            "kernel.io_uring_disabled is %d: nobody gets io_uring.", f->limits.uring_disabled);
        break;
    }
    static const char *const modes[] = {"No seccomp filter is in force.", "Seccomp is in strict mode.",
                                        "A seccomp filter is in force; it may refuse system calls."};
    int mode = f->limits.seccomp;
    add(f, "seccomp", QUOIT_PROBE_FACT, 0, mode > 0 ? (uint64_t)mode : 0, "", "%s",
        mode >= 0 && mode < 3 ? modes[mode]
                              : "The kernel does not tell whether a seccomp filter is in force.");
}

/* io_uring: rungs, and what the driver lives on */

static bool on_uring(const findings *f) {
    return f->driver >= QUOIT_DRIVER_URING_DEFER && f->driver <= QUOIT_DRIVER_URING_PLAIN;
}

static bool no_ring(const findings *f) {
    return f->trials[0].failed == QT_TRIAL_SETUP && f->trials[0].error != -EINVAL && f->trials[0].error < 0;
}

static void try_rungs(findings *f) {
    f->best = &f->trials[0];
    for (int rung = 0; rung < QT_RING_RUNGS; rung++) {
        if (no_ring(f)) {
            f->trials[rung] = f->trials[0]; /* what refuses every ring is not asked again */
            f->trials[rung].rung = (enum qt_ring_rung)rung;
            continue;
        }
        qt_ring_try((enum qt_ring_rung)rung, &f->trials[rung]);
        if (f->trials[rung].failed > f->best->failed)
            f->best = &f->trials[rung];
    }
    if (on_uring(f))
        f->best = &f->trials[f->driver - QUOIT_DRIVER_URING_DEFER];
}

static void tell_rungs(findings *f) {
    char reason[256];
    char fix[256];
    for (int rung = 0; rung < QT_RING_RUNGS; rung++) {
        const qt_trial *trial = &f->trials[rung];
        bool works = trial->failed == QT_TRIAL_STEPS;
        bool used = f->driver == QUOIT_DRIVER_URING_DEFER + rung;
        qt_trial_explain(trial, &f->limits, reason, sizeof reason, fix, sizeof fix);
        if (no_ring(f))
            snprintf(reason, sizeof reason, "No ring can be set up: see io_uring_setup.");
        else if (works)
            snprintf(reason, sizeof reason, "It works%s.",
                     used ? " and is used" : "; another driver is used");
        add(f, qt_ring_rung_names[rung],
            !works ? QUOIT_PROBE_REFUSED
            : used ? QUOIT_PROBE_USED
                   : QUOIT_PROBE_UNUSED,
            trial->error, 0, fix, "%s", reason);
    }
}

static void tell_step(findings *f, enum qt_trial_step step, const char *name, const char *what) {
    char reason[256];
    char fix[256];
    int result = f->best->results[step];
    if (result == QT_TRIAL_NOT_TRIED) {
        add(f, name, QUOIT_PROBE_UNUSED, 0, 0, "", "It was not tried, since an earlier step was refused.");
    } else if (result == 0) {
        add(f, name, on_uring(f) ? QUOIT_PROBE_USED : QUOIT_PROBE_UNUSED, 0, 0, "", "%s", what);
    } else {
        qt_trial_explain_step(step, result, f->best->features, &f->limits, reason, sizeof reason, fix,
                              sizeof fix);
        add(f, name, QUOIT_PROBE_REFUSED, result, 0, fix, "%s", reason);
    }
}

static void tell_feature(findings *f, uint32_t bit, const char *name, const char *what, const char *without,
                         const char *fix) {
    if (f->best->features == 0)
        add(f, name, QUOIT_PROBE_UNUSED, 0, 0, "", "It was not tried, since no ring could be set up.");
    else if (f->best->features & bit)
        add(f, name, on_uring(f) ? QUOIT_PROBE_USED : QUOIT_PROBE_UNUSED, 0, 0, "", "%s", what);
    else
        add(f, name, QUOIT_PROBE_REFUSED, -EOPNOTSUPP, 0, fix, "%s", without);
}

/* The ring of a worker with default options, by the driver itself. */
static void tell_worker_ring(findings *f) {
    static uint8_t nothing;
    qt_req_table requests = {0};
    qt_driver *driver;
    uint64_t bytes = qt_ring_bytes(QT_RING_ENTRIES, QT_RING_CQ_ENTRIES, QT_RING_BUFFERS);
    qt_driver_options options = {.rung = QUOIT_DRIVER_URING_DEFER + (uint32_t)f->best->rung,
                                 .ring_entries = QT_RING_ENTRIES,
                                 .cq_entries = QT_RING_CQ_ENTRIES,
                                 .buffer_entries = QT_RING_BUFFERS,
                                 .buffer_size = 1,
                                 .buffer_base = &nothing,
                                 .patient = true,
                                 .requests = &requests};
    if (f->best->failed != QT_TRIAL_STEPS) {
        add(f, "worker_ring", QUOIT_PROBE_UNUSED, 0, bytes, "", "It was not tried, since no rung works.");
        return;
    }
    int error = qt_uring_create(&options, &driver);
    if (error) {
        char reason[256];
        char fix[256];
        qt_trial_explain_step(QT_TRIAL_SETUP, error, 0, &f->limits, reason, sizeof reason, fix, sizeof fix);
        add(f, "worker_ring", QUOIT_PROBE_REFUSED, error, bytes, fix, "%s", reason);
        return;
    }
    bool whole = driver->ring_entries >= QT_RING_ENTRIES && driver->cq_entries >= QT_RING_CQ_ENTRIES;
    add(f, "worker_ring",
        !whole        ? QUOIT_PROBE_REFUSED
        : on_uring(f) ? QUOIT_PROBE_USED
                      : QUOIT_PROBE_UNUSED,
        whole ? 0 : -ENOMEM, bytes,
        whole ? ""
              : "Raise the memlock limit (ulimit -l), grant CAP_IPC_LOCK, or ask for smaller rings in the "
                "options.",
        "A worker's ring gets %u of %u submission and %u of %u completion entries; whole it takes %" PRIu64
        " bytes.",
        driver->ring_entries, QT_RING_ENTRIES, driver->cq_entries, QT_RING_CQ_ENTRIES, bytes);
    driver->ops->destroy(driver, false);
}

static void tell_uring(findings *f) {
    const char *newer = "Use Linux 6.0 or newer.";
    tell_step(f, QT_TRIAL_SETUP, "io_uring_setup", "A ring was set up and mapped.");
    tell_rungs(f);
    tell_feature(f, IORING_FEAT_EXT_ARG, "ext_arg", "A wait takes its timeout along.",
                 "Waits take no timeout.", newer);
    tell_feature(f, IORING_FEAT_NODROP, "nodrop", "Completions are kept when their queue is full.",
                 "Completions get lost when their queue is full.", newer);
    tell_feature(f, IORING_FEAT_CQE_SKIP, "cqe_skip", "Cancels need no completion of their own.",
                 "Each cancel makes a completion.", newer);
    tell_step(f, QT_TRIAL_NOP, "nop", "A no-op was submitted and completed.");
    tell_step(f, QT_TRIAL_BUFFERS, "buffer_ring", "A ring of receive buffers was registered.");
    tell_step(f, QT_TRIAL_RECV, "multishot_recv",
              "One receive brought bytes into a buffer of the ring and went on.");
    tell_step(f, QT_TRIAL_ACCEPT, "multishot_accept", "One accept took a connection and went on.");
    tell_step(f, QT_TRIAL_EVENTFD, "registered_eventfd", "A foreign event loop can wait for a worker.");
    tell_feature(f, IORING_FEAT_NO_IOWAIT, "no_iowait", "Waiting workers count as idle CPU time.",
                 "Waiting workers are shown as waiting for disks (iowait); nothing is slower for it.",
                 "Use Linux 6.15 or newer.");
    tell_worker_ring(f);
}

/* epoll */

static void tell_epoll(findings *f) {
    bool used = f->driver == QUOIT_DRIVER_EPOLL;
    uint32_t state = used ? QUOIT_PROBE_USED : QUOIT_PROBE_UNUSED;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    int error = fd < 0 ? -errno : 0;
    if (error)
        add(f, "epoll", QUOIT_PROBE_REFUSED, error, 0,
            "Raise the limit of open files (ulimit -n), or allow epoll_create1.", "epoll_create1 gave %s.",
            qt_errno_name(error));
    else
        add(f, "epoll", state, 0, 0, "", "It works%s.",
            used ? " and is used" : "; io_uring is better and used");
    struct epoll_event event;
    struct timespec none = {0, 0};
    int result = error ? error : syscall(SYS_epoll_pwait2, fd, &event, 1, &none, NULL, 0) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    if (result)
        add(f, "epoll_pwait2", QUOIT_PROBE_REFUSED, result, 0, "Use Linux 5.11 or newer.",
            "It gave %s: waits of the epoll driver are rounded up to milliseconds.", qt_errno_name(result));
    else
        add(f, "epoll_pwait2", state, 0, 0, "", "Waits of the epoll driver are exact to the nanosecond.");
}

/* Limits */

static void tell_memlock(findings *f) {
    const qt_limits *l = &f->limits;
    uint64_t need = qt_ring_bytes(QT_RING_ENTRIES, QT_RING_CQ_ENTRIES, QT_RING_BUFFERS);
    uint64_t used = qt_memlock_used("/proc");
    if (l->ipc_lock || l->memlock == UINT64_MAX) {
        add(f, "memlock", QUOIT_PROBE_FACT, 0, l->memlock, "",
            "%s: rings are not limited; a worker's takes %" PRIu64 " bytes.",
            l->ipc_lock ? "CAP_IPC_LOCK is there" : "There is no limit", need);
        return;
    }
    uint64_t left = l->memlock > used ? l->memlock - used : 0;
    add(f, "memlock", left < need ? QUOIT_PROBE_REFUSED : QUOIT_PROBE_FACT, left < need ? -ENOMEM : 0,
        l->memlock,
        left < need ? "Raise the memlock limit (ulimit -l, LimitMEMLOCK=), grant CAP_IPC_LOCK, or ask for "
                      "smaller rings."
                    : "",
        "%" PRIu64 " bytes is the limit for this user, whose rings take %" PRIu64
        "; a worker's ring needs %" PRIu64 ", so %" PRIu64 " more fit (kernels before 6.14 charge nothing).",
        l->memlock, used, need, need > 0 ? left / need : 0);
}

static void tell_limits(findings *f) {
    const qt_limits *l = &f->limits;
    tell_memlock(f);
    bool few = l->nofile < NOFILE_SMALL;
    add(f, "nofile", QUOIT_PROBE_FACT, 0, l->nofile, few ? "Raise the limit of open files (ulimit -n)." : "",
        "%" PRIu64 " files may be open at a time%s; the hard limit is %" PRIu64 ".", l->nofile,
        few ? ", few for a service" : "", l->nofile_hard);
    uint32_t cpus = qt_cpus_affinity();
    int64_t quota = qt_cpus_quota_milli("");
    add(f, "cpus", QUOIT_PROBE_FACT, 0, cpus, "", "%u CPU%s may be used by affinity.", cpus,
        cpus == 1 ? "" : "s");
    if (quota < 0)
        add(f, "cgroup_cpu", QUOIT_PROBE_FACT, 0, 0, "", "No cgroup limits the CPU time.");
    else
        add(f, "cgroup_cpu", QUOIT_PROBE_FACT, 0, (uint64_t)quota,
            quota < 1000 * (int64_t)cpus ? "Start no more workers than that, or raise the group's quota."
                                         : "",
            "The cgroup's quota is %" PRId64 ".%03" PRId64 " CPUs: %u worker%s can run at a time.",
            quota / 1000, quota % 1000, qt_cpus_usable(""), qt_cpus_usable("") == 1 ? "" : "s");
}

quoit_status qt_probe(quoit_probe_entry *entries, uint32_t capacity, quoit_status driver) {
    findings f = {.entries = entries, .capacity = capacity, .driver = driver};
    qt_limits_read("/proc", &f.limits);
    try_rungs(&f);
    tell_kernel(&f);
    tell_uring(&f);
    tell_epoll(&f);
    tell_limits(&f);
    return (quoit_status)f.count;
}
