/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Why io_uring is refused, in sentences that name what to change. */
#include "ring_trial.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const step_names[QT_TRIAL_STEPS] = {
    "io_uring_setup",      "enabling a ring",    "a no-op on a ring",      "registering a buffer ring",
    "a multishot receive", "a multishot accept", "registering an eventfd",
};

/* The kernels that brought what a step or rung needs. */
static const char *const step_kernels[QT_TRIAL_STEPS] = {"5.19", "5.10", "5.11", "5.19",
                                                         "6.0",  "5.19", "5.8"};

const char *qt_errno_name(int error) {
    static _Thread_local char unnamed[32];
    static const struct {
        int number;
        const char *name;
    } names[] = {{EPERM, "EPERM"},   {ENOSYS, "ENOSYS"},         {EINVAL, "EINVAL"}, {ENOMEM, "ENOMEM"},
                 {EMFILE, "EMFILE"}, {ENFILE, "ENFILE"},         {ETIME, "ETIME"},   {EACCES, "EACCES"},
                 {EPROTO, "EPROTO"}, {EOPNOTSUPP, "EOPNOTSUPP"}, {EAGAIN, "EAGAIN"}, {EBADFD, "EBADFD"},
                 {EFAULT, "EFAULT"}, {ENOBUFS, "ENOBUFS"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == -error)
            return names[i].name;
    snprintf(unnamed, sizeof unnamed, "error %d", -error);
    return unnamed;
}

typedef struct texts {
    char *reason;
    size_t reason_size;
    char *fix;
    size_t fix_size;
} texts;

__attribute__((format(printf, 3, 4))) static void say(const texts *t, const char *fix, const char *format,
                                                      ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->reason, t->reason_size, format, arguments);
    va_end(arguments);
    snprintf(t->fix, t->fix_size, "%s", fix);
}

static void say_refused(const texts *t, const char *what, const char *name, const qt_limits *limits) {
    const char *profile = "Run it under a seccomp profile that allows io_uring_setup, io_uring_enter and "
                          "io_uring_register (docker: --security-opt seccomp=FILE).";
    if (limits->uring_disabled == 2)
        say(t, "Set it to 0: sysctl -w kernel.io_uring_disabled=0.",
            "%s gave %s: kernel.io_uring_disabled is 2, which forbids io_uring to everybody.", what, name);
    else if (limits->uring_disabled == 1)
        say(t, "Set it to 0, or put the process into the group that kernel.io_uring_group names.",
            "%s gave %s: kernel.io_uring_disabled is 1, which forbids io_uring to unprivileged processes.",
            what, name);
    else if (limits->seccomp > 0)
        say(t, profile, "%s gave %s: a seccomp filter forbids it, as container profiles do.", what, name);
    else
        say(t, "Ask whoever set up the security policy (seccomp, SELinux, AppArmor) to allow io_uring.",
            "%s gave %s: a security policy forbids io_uring.", what, name);
}

static void say_memory(const texts *t, const char *what, const qt_limits *limits) {
    uint64_t least = qt_ring_bytes(QT_RING_ENTRIES_LEAST, QT_RING_CQ_ENTRIES_LEAST, QT_RING_BUFFERS);
    uint64_t whole = qt_ring_bytes(QT_RING_ENTRIES, QT_RING_CQ_ENTRIES, QT_RING_BUFFERS);
    char fix[160];
    if (limits->ipc_lock || limits->memlock == UINT64_MAX) {
        say(t, "Give the process more memory.", "%s gave ENOMEM: the kernel has no memory for a ring.", what);
        return;
    }
    snprintf(fix, sizeof fix,
             "Raise the memlock limit (ulimit -l) to %" PRIu64 " KiB per worker, or grant CAP_IPC_LOCK.",
             (whole + 1023) / 1024);
    say(t, fix,
        "%s gave ENOMEM: the memlock limit is %" PRIu64
        " bytes for all processes of this user, whose rings take %" PRIu64 "; a worker's ring needs %" PRIu64
        ", at the very least %" PRIu64 ".",
        what, limits->memlock, qt_memlock_used("/proc"), whole, least);
}

static void say_old(const texts *t, const char *what, const char *name, const char *kernel,
                    const qt_limits *limits) {
    char fix[96];
    snprintf(fix, sizeof fix, "Use Linux %s or newer.", kernel);
    say(t, fix, "%s gave %s: this kernel (%s) does not do it, or not rightly.", what, name, limits->release);
}

static void say_missing(const texts *t, uint32_t features) {
    static const struct {
        uint32_t bit;
        const char *name;
    } needed[] = {{IORING_FEAT_EXT_ARG, "waits with a timeout"},
                  {IORING_FEAT_NODROP, "completions that are never dropped"},
                  {IORING_FEAT_CQE_SKIP, "operations without a completion"},
                  {IORING_FEAT_FAST_POLL, "sockets without threads"}};
    const char *missing = "a feature";
    for (size_t i = sizeof needed / sizeof needed[0]; i-- > 0;)
        if (!(features & needed[i].bit))
            missing = needed[i].name;
    say(t, "Use Linux 6.0 or newer.", "The kernel's io_uring lacks what the driver needs: %s.", missing);
}

void qt_trial_explain_step(enum qt_trial_step step, int error, uint32_t features, const qt_limits *limits,
                           char *reason, size_t reason_size, char *fix, size_t fix_size) {
    const texts t = {reason, reason_size, fix, fix_size};
    const char *what = step_names[step];
    const char *name = qt_errno_name(error);
    switch (-error) {
    case EPERM:
    case EACCES:
        say_refused(&t, what, name, limits);
        break;
    case ENOSYS:
        if (limits->seccomp > 0)
            say_refused(&t, what, name, limits);
        else
            say(&t, "Use Linux 6.0 or newer, built with CONFIG_IO_URING.",
                "%s gave ENOSYS: this kernel (%s) has no io_uring.", what, limits->release);
        break;
    case ENOMEM:
        say_memory(&t, what, limits);
        break;
    case EMFILE:
    case ENFILE:
        say(&t, "Raise the limit of open files (ulimit -n), or close some.",
            "%s gave %s: no file descriptor is left (the limit is %" PRIu64 ").", what, name, limits->nofile);
        break;
    default:
        if (step == QT_TRIAL_SETUP && error == -EOPNOTSUPP)
            say_missing(&t, features);
        else
            say_old(&t, what, name, step_kernels[step], limits);
    }
}

void qt_trial_explain(const qt_trial *trial, const qt_limits *limits, char *reason, size_t reason_size,
                      char *fix, size_t fix_size) {
    const texts t = {reason, reason_size, fix, fix_size};
    if (trial->failed == QT_TRIAL_STEPS)
        say(&t, "", "%s works.", qt_ring_rung_names[trial->rung]);
    else if (trial->failed == QT_TRIAL_SETUP && trial->error == -EINVAL && trial->rung == QT_RING_DEFER)
        say_old(&t, step_names[QT_TRIAL_SETUP], "EINVAL", "6.1", limits);
    else
        qt_trial_explain_step((enum qt_trial_step)trial->failed, trial->error, trial->features, limits,
                              reason, reason_size, fix, fix_size);
}
