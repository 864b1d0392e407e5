/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The runtime: its driver, its blocking pool, its log. */
#ifndef QT_RUNTIME_H
#define QT_RUNTIME_H

#include "balance.h"
#include "pool.h"
#include "registry.h"

#include <quoit/runtime.h>

#include <pthread.h>
#include <stdatomic.h>

#define QT_LOG_LINES 256
#define QT_LOG_LINE 256

typedef struct qt_log {
    pthread_mutex_t lock;
    uint32_t first;
    uint32_t count;
    bool to_stderr;
    uint8_t levels[QT_LOG_LINES];
    char lines[QT_LOG_LINES][QT_LOG_LINE];
} qt_log;

typedef struct qt_runtime {
    qt_shell *shell;
    quoit_runtime_options options;
    uint32_t rung;
    bool driver_forced;
    char reason[512];
    atomic_uint workers;
    qt_pool *pool;
    qt_balance balance;
    struct qt_drain_signals *drain_signals; /* atomic; null: no signal drains */
    const uint64_t *fork_page;              /* reads 1 in the process that made it, 0 in children */
    uint64_t fork_value;
    qt_log log;
} qt_runtime;

quoit_status qt_runtime_create(const quoit_runtime_options *options, qt_runtime **out);
void qt_runtime_free(qt_runtime *runtime, bool forked);

static inline bool qt_runtime_forked(const qt_runtime *runtime) {
    return __atomic_load_n(runtime->fork_page, __ATOMIC_RELAXED) == 0;
}

__attribute__((format(printf, 3, 4))) void qt_log_line(qt_runtime *runtime, uint32_t level,
                                                       const char *format, ...);
quoit_status qt_log_take(qt_runtime *runtime, char *text, uint32_t capacity, uint32_t *level);

#endif
