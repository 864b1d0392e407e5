/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "drain_signals.h"

#include "thread.h"

#include <errno.h>
#include <poll.h>
#include <quoit/quoit.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

typedef struct qt_drain_signals {
    qt_runtime *runtime;
    uint64_t grace_ns;
    pthread_t thread;
    int signal_fd;
    int end_fd;
} qt_drain_signals;

static const struct {
    uint32_t bit;
    int number;
} signals_known[] = {
    {QUOIT_SIGNAL_TERM, SIGTERM},
    {QUOIT_SIGNAL_INT, SIGINT},
    {QUOIT_SIGNAL_HUP, SIGHUP},
    {QUOIT_SIGNAL_QUIT, SIGQUIT},
};

static void drain_all(const qt_drain_signals *d, uint64_t grace_ns) {
    for (uint32_t number = 1;; number++) {
        qt_worker *w = qt_next_worker(d->runtime, &number);
        if (w == NULL)
            return;
        qt_drain_ask(w, grace_ns);
        qt_shell_leave(w->shell);
    }
}

/* The second signal is impatience: no grace is left. */
static void *watch(void *argument) {
    qt_drain_signals *d = argument;
    struct pollfd items[] = {{.fd = d->signal_fd, .events = POLLIN}, {.fd = d->end_fd, .events = POLLIN}};
    uint64_t grace_ns = d->grace_ns;
    pthread_setname_np(pthread_self(), "quoit-signals");
    for (;;) {
        struct signalfd_siginfo info;
        if (poll(items, 2, -1) < 0)
            continue;
        if (items[1].revents)
            return NULL;
        if (read(d->signal_fd, &info, sizeof info) != sizeof info)
            continue;
        qt_log_line(d->runtime, QUOIT_LOG_INFO, "Signal %u: the workers drain.", info.ssi_signo);
        drain_all(d, grace_ns);
        grace_ns = 0;
    }
}

static void free_signals(qt_drain_signals *d) {
    if (d->signal_fd >= 0)
        close(d->signal_fd);
    if (d->end_fd >= 0)
        close(d->end_fd);
    free(d);
}

static int start(qt_drain_signals *d) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&d->thread, NULL, watch, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static quoit_status read_mask(uint32_t signals, sigset_t *out) {
    sigemptyset(out);
    for (size_t i = 0; i < sizeof signals_known / sizeof signals_known[0]; i++) {
        if (signals & signals_known[i].bit)
            sigaddset(out, signals_known[i].number);
        signals &= ~signals_known[i].bit;
    }
    return signals != 0 || sigisemptyset(out) ? QUOIT_E_ARGUMENT : 0;
}

quoit_status qt_drain_on_signals(qt_runtime *runtime, uint32_t signals, uint64_t grace_ns) {
    sigset_t mask;
    quoit_status status = read_mask(signals, &mask);
    if (status != 0)
        return status;
    qt_drain_signals *d = malloc(sizeof *d);
    if (d == NULL)
        return -ENOMEM;
    *d = (qt_drain_signals){.runtime = runtime,
                            .grace_ns = grace_ns,
                            .signal_fd = signalfd(-1, &mask, SFD_CLOEXEC),
                            .end_fd = eventfd(0, EFD_CLOEXEC)};
    qt_drain_signals *none = NULL;
    if (d->signal_fd < 0 || d->end_fd < 0)
        status = -errno;
    else if (!__atomic_compare_exchange_n(&runtime->drain_signals, &none, d, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE))
        status = QUOIT_E_BUSY;
    if (status == 0 && (status = start(d)) != 0)
        __atomic_store_n(&runtime->drain_signals, NULL, __ATOMIC_RELEASE);
    if (status != 0)
        free_signals(d);
    else
        pthread_sigmask(SIG_BLOCK, &mask, NULL);
    return status;
}

void qt_drain_signals_end(qt_runtime *runtime, bool forked) {
    uint64_t one = 1;
    qt_drain_signals *d = runtime->drain_signals;
    if (d == NULL)
        return;
    if (!forked) { /* a child has no such thread */
        ssize_t written = write(d->end_fd, &one, sizeof one);
        (void)written;
        pthread_join(d->thread, NULL);
    }
    free_signals(d);
}
