/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Choosing a runtime's driver: the best that works when it is tried, with the reason in words. */
#include "driver.h"

#include "../sys/ring_trial.h"

#include <errno.h>
#include <quoit/runtime.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

typedef struct text {
    char *at;
    size_t room;
} text;

__attribute__((format(printf, 2, 3))) static void append(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->at, t->room, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length < t->room ? (size_t)length : t->room - 1;
    t->at += used;
    t->room -= used;
}

static void append_why(text *t, const qt_trial *trial) {
    qt_limits limits;
    char reason[256];
    char fix[256];
    qt_limits_read("/proc", &limits);
    qt_trial_explain(trial, &limits, reason, sizeof reason, fix, sizeof fix);
    append(t, "%s%s%s", reason, fix[0] ? " " : "", fix);
}

static bool is_shortage(int error) {
    return error == -EMFILE || error == -ENFILE;
}

/* What stops one rung at the set-up for a reason that has nothing to do with rungs stops them all. */
static bool is_hopeless(const qt_trial *trial) {
    return trial->failed == QT_TRIAL_SETUP && trial->error != -EINVAL;
}

static int rung_driver(enum qt_ring_rung rung) {
    return QUOIT_DRIVER_URING_DEFER + (int)rung;
}

static int choose_forced(enum qt_ring_rung rung, text *t) {
    qt_trial trial;
    qt_ring_try(rung, &trial);
    if (trial.failed == QT_TRIAL_STEPS) {
        append(t, "%s was asked for and works.", qt_ring_rung_names[rung]);
        return rung_driver(rung);
    }
    append(t, "%s was asked for and cannot be had: ", qt_ring_rung_names[rung]);
    append_why(t, &trial);
    return is_shortage(trial.error) ? trial.error : QUOIT_E_DRIVER;
}

/* The best rung that works, -EMFILE, -ENFILE or QUOIT_E_DRIVER; `best` keeps how the first one fared. */
static int choose_rung(text *t, qt_trial *best) {
    qt_trial trial;
    for (int rung = QT_RING_DEFER; rung < QT_RING_RUNGS; rung++) {
        qt_ring_try((enum qt_ring_rung)rung, &trial);
        if (rung == QT_RING_DEFER)
            *best = trial;
        if (trial.failed == QT_TRIAL_STEPS) {
            append(t, "%s works", qt_ring_rung_names[rung]);
            if (rung == QT_RING_DEFER) {
                append(t, " and is the best there is.");
            } else {
                append(t, "; a better rung does not: ");
                append_why(t, best);
            }
            return rung_driver((enum qt_ring_rung)rung);
        }
        if (is_shortage(trial.error) || is_hopeless(&trial)) {
            *best = trial;
            break;
        }
    }
    return is_shortage(best->error) ? best->error : QUOIT_E_DRIVER;
}

static int choose_epoll(text *t, const char *if_it_works) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) {
        int error = -errno;
        append(t, "epoll cannot be had: epoll_create1 gave %s.", qt_errno_name(error));
        return is_shortage(error) ? error : QUOIT_E_DRIVER;
    }
    close(fd);
    append(t, "%s", if_it_works);
    return QUOIT_DRIVER_EPOLL;
}

int qt_driver_choose(uint32_t wanted, char *reason, size_t reason_size) {
    text t = {reason, reason_size};
    qt_trial best;
    if (wanted == QUOIT_DRIVER_EPOLL)
        return choose_epoll(&t, "epoll was asked for.");
    if (wanted >= QUOIT_DRIVER_URING_DEFER)
        return choose_forced((enum qt_ring_rung)(wanted - QUOIT_DRIVER_URING_DEFER), &t);
    int rung = choose_rung(&t, &best);
    if (rung >= 0)
        return rung;
    append(&t, "io_uring cannot be had: ");
    append_why(&t, &best);
    if (is_shortage(rung) || wanted == QUOIT_DRIVER_URING)
        return rung;
    append(&t, " ");
    return choose_epoll(&t, "So epoll is used.");
}
