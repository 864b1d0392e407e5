/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From an opaque pointer to what it names: the checks that every call makes first. */
#ifndef QUOIT_CALLS_H
#define QUOIT_CALLS_H

#include "core/worker.h"

/* Any thread: 0 and the runtime, which stays until qt_leave; or a status. */
quoit_status qt_enter_runtime(quoit_runtime *pointer, qt_runtime **out);

/* Any thread: the same for a worker. */
quoit_status qt_enter_worker(quoit_worker *pointer, qt_worker **out);

void qt_leave(void *pointer);

/* Owner thread, outside of turns unless `inside`: 0 and the worker, which only this thread can destroy; or a status. A worker that
 * nobody owns yet gets this thread when `claim`. */
quoit_status qt_own_worker(quoit_worker *pointer, bool inside, bool claim, qt_worker **out);

#endif
