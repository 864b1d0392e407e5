/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads as the kernel knows them. */
#ifndef QT_TASK_H
#define QT_TASK_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether this thread of the process has ended: it has no task any more, or one that will run no more of our code. */
bool qt_task_ended(pid_t tid);

#endif
