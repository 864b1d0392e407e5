/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"
#include "core/thread.h"

#include <unistd.h>

quoit_status qt_enter_runtime(quoit_runtime *pointer, qt_runtime **out) {
    if (!qt_shell_is_runtime(pointer))
        return QUOIT_E_ARGUMENT;
    qt_runtime *runtime = qt_shell_enter((qt_shell *)pointer);
    if (runtime == NULL)
        return QUOIT_E_CLOSED;
    if (qt_runtime_forked(runtime)) {
        qt_leave(pointer);
        return QUOIT_E_FORKED;
    }
    *out = runtime;
    return 0;
}

quoit_status qt_enter_worker(quoit_worker *pointer, qt_worker **out) {
    if (!qt_shell_is_worker(pointer))
        return QUOIT_E_ARGUMENT;
    qt_worker *w = qt_shell_enter((qt_shell *)pointer);
    if (w == NULL)
        return QUOIT_E_CLOSED;
    if (qt_runtime_forked(w->runtime)) {
        qt_leave(pointer);
        return QUOIT_E_FORKED;
    }
    *out = w;
    return 0;
}

void qt_leave(void *pointer) {
    qt_shell_leave((qt_shell *)pointer);
}

/* No user count here: a worker with an owner is destroyed by its owner alone. The owner is set once, before others may look. */
quoit_status qt_own_worker(quoit_worker *pointer, bool inside, bool claim, qt_worker **out) {
    if (!qt_shell_is_worker(pointer))
        return QUOIT_E_ARGUMENT;
    qt_worker *w = atomic_load_explicit(&((qt_shell *)pointer)->body, memory_order_acquire);
    if (w == NULL)
        return QUOIT_E_CLOSED;
    if (qt_runtime_forked(w->runtime))
        return QUOIT_E_FORKED;
    uintptr_t self = qt_self();
    uintptr_t owner = atomic_load_explicit(&w->owner, memory_order_acquire);
    if (owner == 0 && claim && atomic_compare_exchange_strong(&w->owner, &owner, self)) {
        atomic_store(&w->owner_tid, gettid());
        owner = self;
    }
    if (owner != self)
        return QUOIT_E_THREAD;
    if (!inside && w->in_turn)
        return QUOIT_E_REENTER;
    *out = w;
    return 0;
}
