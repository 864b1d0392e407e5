/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads of the library that run workers, and the orderly end of workers and runtimes. */
#ifndef QT_THREAD_H
#define QT_THREAD_H

#include "worker.h"

/* A number of the calling thread's own. Not pthread_self, which a later thread may have too. */
uintptr_t qt_self(void);

quoit_status qt_thread_start(qt_worker *w, quoit_batch_fn on_batch, void *ctx);
quoit_status qt_thread_join(qt_worker *w);

/* with_runtime: the runtime ends too, so the worker's thread is stopped and joined. */
quoit_status qt_worker_end(qt_shell *shell, bool with_runtime);
quoit_status qt_runtime_end(qt_shell *shell);

/* The first worker of the runtime, from `number` on, with its shell entered; null when there is none. */
qt_worker *qt_next_worker(const qt_runtime *runtime, uint32_t *number);

#endif
