/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The only state of the process: one shell per worker and runtime. A quoit_worker * or quoit_runtime * points at a shell, so a
 * pointer to something destroyed is still safe to look at, and a worker's number is unique in the process.
 */
#ifndef QT_REGISTRY_H
#define QT_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define QT_WORKERS_MAX 256 /* 0 is not used */
#define QT_RUNTIMES_MAX 64

typedef struct qt_shell {
    _Atomic(void *) body; /* null: free or destroyed */
    atomic_uint users;    /* threads that look at the body now */
    uint32_t generation;  /* of this use of the shell; under the registry's lock */
    bool taken;
    uint8_t number;
} qt_shell;

qt_shell *qt_shell_take_worker(void); /* null: all taken */
qt_shell *qt_shell_take_runtime(void);
void qt_shell_give_back(qt_shell *shell); /* body must be null */

/* Points into the array of that type? Else the pointer was never ours. */
bool qt_shell_is_worker(const void *pointer);
bool qt_shell_is_runtime(const void *pointer);

qt_shell *qt_shell_worker(uint32_t number);

/* Looks at the body from any thread: null if it is gone; else leave must follow. */
void *qt_shell_enter(qt_shell *shell);
void qt_shell_leave(qt_shell *shell);

/* Takes the body away and waits until nobody looks at it. */
void qt_shell_retire(qt_shell *shell);

#endif
