/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/log.h: what the library has to say in words. Logs are pulled; nothing calls back. */
#ifndef QUOIT_LOG_H
#define QUOIT_LOG_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QUOIT_LOG_ERROR 1
#define QUOIT_LOG_WARNING 2
#define QUOIT_LOG_INFO 3
#define QUOIT_LOG_DEBUG 4

/*
 * Takes the oldest line out of the runtime's log into text, NUL-terminated, cut to capacity; its level goes to *level if that is
 * not null. Returns its length, 0 if there is none. The log holds the newest 256 lines. With QUOIT_RUNTIME_LOG_STDERR (or
 * QUOIT_LOG=stderr in the environment) lines go to standard error as well. Any thread. Errors: QUOIT_E_ARGUMENT, _CLOSED, _FORKED. Since 0.1.
 */
QUOIT_API quoit_status quoit_log_read(quoit_runtime *runtime, char *text, uint32_t capacity, uint32_t *level);

#ifdef __cplusplus
}
#endif

#endif
