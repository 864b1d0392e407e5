/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"
#include "core/drain_signals.h"
#include "core/object.h"
#include "core/thread.h"

#include <errno.h>
#include <string.h>

quoit_status quoit_runtime_create(const quoit_runtime_options *options, quoit_runtime **out) {
    qt_runtime *runtime;
    if (out == NULL)
        return QUOIT_E_ARGUMENT;
    *out = NULL;
    quoit_status status = qt_runtime_create(options, &runtime);
    if (status == 0)
        *out = (quoit_runtime *)runtime->shell;
    return status;
}

quoit_status quoit_runtime_destroy(quoit_runtime *pointer) {
    if (!qt_shell_is_runtime(pointer))
        return QUOIT_E_ARGUMENT;
    return qt_runtime_end((qt_shell *)pointer);
}

quoit_status quoit_runtime_driver(quoit_runtime *pointer) {
    qt_runtime *runtime;
    quoit_status status = qt_enter_runtime(pointer, &runtime);
    if (status != 0)
        return status;
    status = (quoit_status)runtime->rung;
    qt_leave(pointer);
    return status;
}

quoit_status quoit_runtime_driver_reason(quoit_runtime *pointer, char *text, uint32_t capacity) {
    qt_runtime *runtime;
    if (text == NULL)
        return QUOIT_E_ARGUMENT;
    quoit_status status = qt_enter_runtime(pointer, &runtime);
    if (status != 0)
        return status;
    size_t length = strlen(runtime->reason);
    status = length < capacity ? (quoit_status)length : -ENOSPC;
    if (status >= 0)
        memcpy(text, runtime->reason, length + 1);
    qt_leave(pointer);
    return status;
}

quoit_status quoit_worker_create(quoit_runtime *pointer, const quoit_worker_options *options,
                                 quoit_worker **out) {
    qt_runtime *runtime;
    qt_worker *w;
    if (out == NULL)
        return QUOIT_E_ARGUMENT;
    *out = NULL;
    quoit_status status = qt_enter_runtime(pointer, &runtime);
    if (status != 0)
        return status;
    status = qt_worker_create(runtime, options, &w);
    if (status == 0)
        *out = (quoit_worker *)w->shell;
    qt_leave(pointer);
    return status;
}

quoit_status quoit_worker_destroy(quoit_worker *pointer) {
    if (!qt_shell_is_worker(pointer))
        return QUOIT_E_ARGUMENT;
    return qt_worker_end((qt_shell *)pointer, false);
}

quoit_batch *quoit_worker_batch(quoit_worker *pointer) {
    qt_worker *w;
    if (qt_enter_worker(pointer, &w) != 0)
        return NULL;
    quoit_batch *batch = w->batch;
    qt_leave(pointer);
    return batch;
}

quoit_handle quoit_worker_handle(quoit_worker *pointer) {
    qt_worker *w;
    if (qt_enter_worker(pointer, &w) != 0)
        return 0;
    quoit_handle handle = w->handle;
    qt_leave(pointer);
    return handle;
}

quoit_status quoit_worker_fd(quoit_worker *pointer) {
    qt_worker *w;
    quoit_status status = qt_enter_worker(pointer, &w);
    if (status != 0)
        return status;
    pthread_mutex_lock(&w->life_lock); /* several may ask before there is an owner */
    uintptr_t owner = atomic_load(&w->owner);
    status = owner != 0 && owner != qt_self() ? QUOIT_E_THREAD : w->driver->ops->host_fd(w->driver);
    pthread_mutex_unlock(&w->life_lock);
    qt_leave(pointer);
    return status;
}

static quoit_status turn(quoit_worker *pointer, uint32_t nops, int64_t timeout_ns, bool may_block) {
    qt_worker *w;
    quoit_status status = qt_own_worker(pointer, false, true, &w);
    if (status != 0)
        return status;
    if (w->drained)
        return QUOIT_E_CLOSED;
    if (timeout_ns < -1)
        return QUOIT_E_ARGUMENT;
    if (nops > w->batch->ops_max)
        return QUOIT_E_TOO_MANY;
    QT_COUNT(w, crossings, 1);
    w->in_turn = true;
    status = qt_turn(w, nops, timeout_ns, may_block);
    w->in_turn = false;
    return status;
}

quoit_status quoit_turn(quoit_worker *worker, uint32_t nops, int64_t timeout_ns) {
    return turn(worker, nops, timeout_ns, true);
}

quoit_status quoit_turn_nb(quoit_worker *worker, uint32_t nops) {
    return turn(worker, nops, 0, false);
}

quoit_status quoit_submit(quoit_worker *pointer, uint32_t nops) {
    qt_worker *w;
    quoit_status status = qt_own_worker(pointer, true, true, &w);
    if (status != 0)
        return status;
    if (w->drained)
        return QUOIT_E_CLOSED;
    if (nops > w->batch->ops_max)
        return QUOIT_E_TOO_MANY;
    QT_COUNT(w, crossings, 1);
    qt_submit_ops(w, nops);
    return (quoit_status)nops;
}

quoit_status quoit_run(quoit_worker *pointer, quoit_batch_fn on_batch, void *ctx) {
    qt_worker *w;
    if (on_batch == NULL)
        return QUOIT_E_ARGUMENT;
    quoit_status status = qt_own_worker(pointer, false, true, &w);
    if (status != 0)
        return status;
    if (w->drained)
        return QUOIT_E_CLOSED;
    w->in_turn = true;
    status = qt_run(w, on_batch, ctx);
    w->in_turn = false;
    return status;
}

quoit_status quoit_worker_start(quoit_worker *pointer, quoit_batch_fn on_batch, void *ctx) {
    qt_worker *w;
    if (on_batch == NULL)
        return QUOIT_E_ARGUMENT;
    quoit_status status = qt_enter_worker(pointer, &w);
    if (status != 0)
        return status;
    status = qt_thread_start(w, on_batch, ctx);
    qt_leave(pointer);
    return status;
}

quoit_status quoit_worker_join(quoit_worker *pointer) {
    qt_worker *w;
    quoit_status status = qt_enter_worker(pointer, &w);
    if (status != 0)
        return status;
    status = qt_thread_join(w);
    qt_leave(pointer);
    return status;
}

quoit_status quoit_stop(quoit_handle handle) {
    qt_shell *shell;
    qt_worker *w;
    quoit_status status = qt_worker_of_handle(handle, &shell, &w);
    if (status != 0)
        return status;
    status = qt_runtime_forked(w->runtime) ? QUOIT_E_FORKED : 0;
    if (status == 0) {
        atomic_store(&w->stop, true);
        qt_wake(w);
    }
    qt_shell_leave(shell);
    return status;
}

quoit_status quoit_drain(quoit_handle handle, uint64_t grace_ns) {
    qt_shell *shell;
    qt_worker *w;
    quoit_status status = qt_worker_of_handle(handle, &shell, &w);
    if (status != 0)
        return status;
    status = qt_runtime_forked(w->runtime) ? QUOIT_E_FORKED : 0;
    if (status == 0)
        qt_drain_ask(w, grace_ns);
    qt_shell_leave(shell);
    return status;
}

quoit_status quoit_drain_on_signals(quoit_runtime *pointer, uint32_t signals, uint64_t grace_ns) {
    qt_runtime *runtime;
    quoit_status status = qt_enter_runtime(pointer, &runtime);
    if (status != 0)
        return status;
    status = qt_drain_on_signals(runtime, signals, grace_ns);
    qt_leave(pointer);
    return status;
}

quoit_status quoit_post(quoit_handle handle, const quoit_op *ops, uint32_t n) {
    qt_shell *shell;
    qt_worker *w;
    if (ops == NULL && n > 0)
        return QUOIT_E_ARGUMENT;
    quoit_status status = qt_worker_of_handle(handle, &shell, &w);
    if (status != 0)
        return status;
    if (qt_runtime_forked(w->runtime))
        status = QUOIT_E_FORKED;
    else
        status = n > 0 ? qt_post(w, ops, n > INT32_MAX ? INT32_MAX : n) : qt_nudge(w);
    qt_shell_leave(shell);
    return status;
}
