/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "thread.h"

#include "../sys/clock.h"
#include "../sys/task.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long a destroyed worker may take to let its objects go in order. */
#define DRAIN_NS 2000000000

uintptr_t qt_self(void) {
    static atomic_uintptr_t last;
    static _Thread_local uintptr_t self;
    if (self == 0)
        self = atomic_fetch_add(&last, 1) + 1;
    return self;
}

static void *thread_main(void *argument) {
    qt_worker *w = argument;
    char name[16];
    /* Until its start is complete it is no owner. */
    pthread_mutex_lock(&w->life_lock);
    pthread_mutex_unlock(&w->life_lock);
    snprintf(name, sizeof name, "quoit-%u", w->id & 0xFFu);
    pthread_setname_np(pthread_self(), name);
    atomic_store(&w->owner_tid, gettid());
    w->in_turn = true;
    atomic_store(&w->owner, qt_self());
    w->run_result = qt_run(w, w->on_batch, w->on_batch_ctx);
    w->in_turn = false;
    return NULL;
}

static int create_thread(qt_worker *w) {
    sigset_t all;
    sigset_t before;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (w->options.cpu != 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(w->options.cpu - 1, &set);
        int error = pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
        if (error) {
            pthread_attr_destroy(&attributes);
            return -error;
        }
    }
    /* Signals are the program's: none is handled on a thread of ours. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&w->thread, &attributes, thread_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

quoit_status qt_thread_start(qt_worker *w, quoit_batch_fn on_batch, void *ctx) {
    uintptr_t nobody = 0;
    if (w->options.cpu > CPU_SETSIZE)
        return QUOIT_E_ARGUMENT;
    pthread_mutex_lock(&w->life_lock);
    int error = QUOIT_E_BUSY;
    /* Claimed for the thread to be, so that nobody turns it meanwhile. */
    if (!w->ended && atomic_compare_exchange_strong(&w->owner, &nobody, QT_OWNER_TO_BE)) {
        w->on_batch = on_batch;
        w->on_batch_ctx = ctx;
        error = create_thread(w);
        if (error)
            atomic_store(&w->owner, 0);
        else
            atomic_store(&w->threaded, QT_THREAD_RUNS);
    }
    pthread_mutex_unlock(&w->life_lock);
    return error;
}

quoit_status qt_thread_join(qt_worker *w) {
    int runs = QT_THREAD_RUNS;
    if (atomic_load(&w->owner) == qt_self() && w->in_turn)
        return QUOIT_E_REENTER;
    if (!atomic_compare_exchange_strong(&w->threaded, &runs, QT_THREAD_JOINING))
        return runs == QT_THREAD_NONE ? QUOIT_E_ARGUMENT : QUOIT_E_BUSY;
    pthread_join(w->thread, NULL);
    atomic_store(&w->owner_tid, QT_OWNER_ENDED); /* the kernel may know the task for a moment longer */
    atomic_store(&w->threaded, QT_THREAD_NONE);
    return w->run_result;
}

/* The owner's own end: objects close in order, while there is time. */
static void drain(qt_worker *w) {
    int64_t until = qt_now_ns() + DRAIN_NS;
    atomic_store(&w->stop, true);
    w->in_turn = true;
    while (!w->drained && qt_now_ns() < until)
        if (qt_turn(w, 0, DRAIN_NS / 20, true) < 0)
            break;
    w->in_turn = false;
}

static bool owner_ended(qt_worker *w) {
    int tid = atomic_load(&w->owner_tid);
    if (tid == 0 || tid == QT_OWNER_ENDED)
        return tid != 0;
    return qt_task_ended(tid);
}

static quoit_status may_end(qt_worker *w, bool forked) {
    uintptr_t owner = atomic_load(&w->owner);
    if (forked || owner == 0)
        return 0;
    if (atomic_load(&w->threaded) != QT_THREAD_NONE)
        return owner == qt_self() ? QUOIT_E_REENTER : QUOIT_E_BUSY;
    if (owner == qt_self())
        return w->in_turn ? QUOIT_E_REENTER : 0;
    /* Another thread's: allowed once that has ended, which a joined or exited thread shows by not existing. */
    return w->in_turn || !owner_ended(w) ? QUOIT_E_THREAD : 0;
}

/* Decides under the lock, so that of those who start, turn and destroy at one time only one goes on. */
static quoit_status claim_end(qt_worker *w, bool forked) {
    uintptr_t nobody = 0;
    if (forked)
        return 0; /* the lock may be held by a thread of the parent */
    pthread_mutex_lock(&w->life_lock);
    quoit_status status = w->ended ? QUOIT_E_CLOSED : may_end(w, false);
    if (status == 0 && !atomic_compare_exchange_strong(&w->owner, &nobody, QT_OWNER_TO_BE))
        status = may_end(w, false); /* it has an owner, perhaps since a moment ago */
    w->ended |= status == 0;
    pthread_mutex_unlock(&w->life_lock);
    return status;
}

static bool runs_elsewhere(qt_worker *w) {
    return atomic_load(&w->threaded) != QT_THREAD_NONE && atomic_load(&w->owner) != qt_self();
}

quoit_status qt_worker_end(qt_shell *shell, bool with_runtime) {
    qt_worker *w = qt_shell_enter(shell);
    if (w == NULL)
        return QUOIT_E_CLOSED;
    bool forked = qt_runtime_forked(w->runtime);
    if (with_runtime && !forked && runs_elsewhere(w)) {
        atomic_store(&w->stop, true);
        qt_wake(w);
        while (qt_thread_join(w) == QUOIT_E_BUSY)
            sched_yield(); /* another thread joins it just now */
    }
    quoit_status status = claim_end(w, forked);
    qt_shell_leave(shell);
    if (status != 0)
        return status;
    if (!forked && w->enabled && atomic_load(&w->owner) == qt_self())
        drain(w);
    if (forked)
        atomic_store(&shell->body, NULL); /* other threads' looks stayed with the parent */
    else
        qt_shell_retire(shell);
    atomic_fetch_sub(&w->runtime->workers, 1);
    qt_worker_free(w, forked);
    qt_shell_give_back(shell);
    return 0;
}

qt_worker *qt_next_worker(const qt_runtime *runtime, uint32_t *number) {
    for (; *number < QT_WORKERS_MAX; (*number)++) {
        qt_shell *shell = qt_shell_worker(*number);
        qt_worker *w = qt_shell_enter(shell);
        if (w != NULL && w->runtime == runtime)
            return w;
        if (w != NULL)
            qt_shell_leave(shell);
    }
    return NULL;
}

/* Whether every worker may end now, so that a refusal leaves all as it was. A thread of ours is stopped and joined. */
static quoit_status workers_may_end(const qt_runtime *runtime, bool forked) {
    quoit_status status = 0;
    for (uint32_t number = 1; status == 0; number++) {
        qt_worker *w = qt_next_worker(runtime, &number);
        if (w == NULL)
            break;
        status = runs_elsewhere(w) ? 0 : may_end(w, forked);
        qt_shell_leave(w->shell);
    }
    return status == 0 || status == QUOIT_E_REENTER ? status : QUOIT_E_BUSY;
}

/* The runtime is taken out of its shell first: nobody can make a worker of it, or end it, meanwhile. */
quoit_status qt_runtime_end(qt_shell *shell) {
    qt_runtime *runtime = atomic_exchange(&shell->body, NULL);
    if (runtime == NULL)
        return QUOIT_E_CLOSED;
    bool forked = qt_runtime_forked(runtime);
    if (!forked) /* users of a forked child stayed with the parent */
        qt_shell_retire(shell);
    quoit_status status = workers_may_end(runtime, forked);
    for (uint32_t number = 1; status == 0; number++) {
        qt_worker *w = qt_next_worker(runtime, &number);
        if (w == NULL)
            break;
        qt_shell_leave(w->shell);
        status = qt_worker_end(w->shell, true);
    }
    if (status != 0) {
        atomic_store(&shell->body, runtime);
        return status;
    }
    qt_runtime_free(runtime, forked);
    qt_shell_give_back(shell);
    return 0;
}
