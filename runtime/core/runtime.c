/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The runtime's making and end, and its log. */
#include "runtime.h"

#include "../base/options.h"
#include "../driver/driver.h"
#include "drain_signals.h"

#include <errno.h>
#include <quoit/quoit.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct {
    const char *name;
    uint32_t driver;
} driver_names[] = {
    {"auto", QUOIT_DRIVER_AUTO},
    {"uring", QUOIT_DRIVER_URING},
    {"uring-defer", QUOIT_DRIVER_URING_DEFER},
    {"uring-coop", QUOIT_DRIVER_URING_COOP},
    {"uring-plain", QUOIT_DRIVER_URING_PLAIN},
    {"epoll", QUOIT_DRIVER_EPOLL},
};

/* The environment decides only where the program did not. A name that nobody knows is an error, not a guess. */
static quoit_status wanted_driver(qt_runtime *runtime, uint32_t *wanted) {
    const char *name = getenv("QUOIT_DRIVER");
    if (*wanted != QUOIT_DRIVER_AUTO || name == NULL || name[0] == 0)
        return 0;
    for (size_t i = 0; i < sizeof driver_names / sizeof driver_names[0]; i++) {
        if (strcmp(name, driver_names[i].name) == 0) {
            *wanted = driver_names[i].driver;
            return 0;
        }
    }
    qt_log_line(
        runtime, QUOIT_LOG_ERROR,
        "QUOIT_DRIVER is \"%.40s\"; it takes auto, uring, uring-defer, uring-coop, uring-plain or epoll.",
        name);
    return QUOIT_E_DRIVER;
}

/* A page that reads zero in a forked child: madvise(2), MADV_WIPEONFORK. */
static const uint64_t *make_fork_page(void) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return NULL;
    }
    *page = 1;
    return page;
}

static quoit_status choose_driver(qt_runtime *runtime) {
    uint32_t wanted = runtime->options.driver;
    if (wanted > QUOIT_DRIVER_EPOLL)
        return QUOIT_E_ARGUMENT;
    quoit_status status = wanted_driver(runtime, &wanted);
    if (status != 0)
        return status;
    int rung = qt_driver_choose(wanted, runtime->reason, sizeof runtime->reason);
    qt_log_line(runtime, rung < 0 ? QUOIT_LOG_ERROR : QUOIT_LOG_INFO, "Driver: %s", runtime->reason);
    if (rung < 0)
        return rung;
    runtime->rung = (uint32_t)rung;
    runtime->driver_forced = wanted != QUOIT_DRIVER_AUTO;
    return 0;
}

static quoit_status init(qt_runtime *runtime) {
    quoit_runtime_options *o = &runtime->options;
    const char *log = getenv("QUOIT_LOG");
    pthread_mutex_init(&runtime->log.lock, NULL);
    qt_balance_init(&runtime->balance);
    runtime->log.to_stderr =
        o->flags & QUOIT_RUNTIME_LOG_STDERR || (log != NULL && strcmp(log, "stderr") == 0);
    runtime->fork_page = make_fork_page();
    if (runtime->fork_page == NULL)
        return -ENOMEM;
    quoit_status status = choose_driver(runtime);
    if (status != 0)
        return status;
    return qt_pool_create(o->pool_threads ? o->pool_threads : 4, o->pool_queue ? o->pool_queue : 1024,
                          &runtime->pool);
}

quoit_status qt_runtime_create(const quoit_runtime_options *given, qt_runtime **out) {
    quoit_runtime_options options = {0};
    if (given != NULL) {
        quoit_status status = qt_options_read(&options, sizeof options, QT_RUNTIME_OPTIONS_V1, given);
        if (status != 0)
            return status;
    }
    if (options.flags & ~(uint32_t)QUOIT_RUNTIME_LOG_STDERR)
        return QUOIT_E_FLAGS;
    if (options.reserved != 0 || options.reserved2 != 0 || options.pool_threads > 1024)
        return QUOIT_E_ARGUMENT;
    qt_runtime *runtime = calloc(1, sizeof *runtime);
    if (runtime == NULL)
        return -ENOMEM;
    runtime->options = options;
    quoit_status status = init(runtime);
    runtime->shell = status == 0 ? qt_shell_take_runtime() : NULL;
    if (status == 0 && runtime->shell == NULL)
        status = QUOIT_E_LIMIT;
    if (status != 0) {
        qt_runtime_free(runtime, false);
        return status;
    }
    atomic_store(&runtime->shell->body, runtime);
    *out = runtime;
    return 0;
}

void qt_runtime_free(qt_runtime *runtime, bool forked) {
    qt_drain_signals_end(runtime, forked);
    if (runtime->pool != NULL)
        qt_pool_destroy(runtime->pool, forked);
    if (runtime->fork_page != NULL)
        munmap((void *)(uintptr_t)runtime->fork_page, (size_t)sysconf(_SC_PAGESIZE));
    qt_balance_destroy(&runtime->balance);
    pthread_mutex_destroy(&runtime->log.lock);
    free(runtime);
}

void qt_log_line(qt_runtime *runtime, uint32_t level, const char *format, ...) {
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    qt_log *log = &runtime->log;
    va_list args;
    pthread_mutex_lock(&log->lock);
    uint32_t at = (log->first + log->count) % QT_LOG_LINES;
    if (log->count == QT_LOG_LINES)
        log->first = (log->first + 1) % QT_LOG_LINES;
    else
        log->count++;
    va_start(args, format);
    vsnprintf(log->lines[at], QT_LOG_LINE, format, args);
    va_end(args);
    log->levels[at] = (uint8_t)level;
    if (log->to_stderr)
        fprintf(stderr, "quoit: %s: %s\n", names[level], log->lines[at]);
    pthread_mutex_unlock(&log->lock);
}

quoit_status qt_log_take(qt_runtime *runtime, char *text, uint32_t capacity, uint32_t *level) {
    qt_log *log = &runtime->log;
    quoit_status length = 0;
    pthread_mutex_lock(&log->lock);
    text[0] = 0;
    if (log->count > 0) {
        size_t full = strlen(log->lines[log->first]);
        length = (quoit_status)(full < capacity ? full : capacity - 1);
        memcpy(text, log->lines[log->first], (size_t)length);
        text[length] = 0;
        if (level != NULL)
            *level = log->levels[log->first];
        log->first = (log->first + 1) % QT_LOG_LINES;
        log->count--;
    }
    pthread_mutex_unlock(&log->lock);
    return length;
}
