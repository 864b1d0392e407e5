/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "registry.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

static qt_shell workers[QT_WORKERS_MAX];
static qt_shell runtimes[QT_RUNTIMES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Round-robin from the last one taken: a number is reused as late as possible. */
static qt_shell *take(qt_shell *shells, uint32_t first, uint32_t count, uint32_t *last) {
    qt_shell *found = NULL;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 1; i <= count && found == NULL; i++) {
        uint32_t at = (*last + i) % count;
        if (at < first || shells[at].taken)
            continue;
        found = &shells[at];
        found->taken = true;
        found->number = (uint8_t)at;
        found->generation = (found->generation + 1) & 0xFFFFFFu;
        if (found->generation == 0)
            found->generation = 1;
        *last = at;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

qt_shell *qt_shell_take_worker(void) {
    static uint32_t last;
    return take(workers, 1, QT_WORKERS_MAX, &last);
}

qt_shell *qt_shell_take_runtime(void) {
    static uint32_t last;
    return take(runtimes, 0, QT_RUNTIMES_MAX, &last);
}

void qt_shell_give_back(qt_shell *shell) {
    pthread_mutex_lock(&lock);
    shell->taken = false;
    pthread_mutex_unlock(&lock);
}

static bool points_into(const void *pointer, const qt_shell *shells, uint32_t count) {
    uintptr_t at = (uintptr_t)pointer - (uintptr_t)shells;
    return at < sizeof(qt_shell) * count && at % sizeof(qt_shell) == 0;
}

bool qt_shell_is_worker(const void *pointer) {
    return points_into(pointer, workers, QT_WORKERS_MAX);
}

bool qt_shell_is_runtime(const void *pointer) {
    return points_into(pointer, runtimes, QT_RUNTIMES_MAX);
}

qt_shell *qt_shell_worker(uint32_t number) {
    return number < QT_WORKERS_MAX ? &workers[number] : NULL;
}

void *qt_shell_enter(qt_shell *shell) {
    atomic_fetch_add(&shell->users, 1);
    void *body = atomic_load(&shell->body);
    if (body == NULL)
        atomic_fetch_sub(&shell->users, 1);
    return body;
}

void qt_shell_leave(qt_shell *shell) {
    atomic_fetch_sub(&shell->users, 1);
}

void qt_shell_retire(qt_shell *shell) {
    atomic_store(&shell->body, NULL);
    /* Users hold it for the length of a post: a few microseconds. */
    while (atomic_load(&shell->users) != 0)
        sched_yield();
}
