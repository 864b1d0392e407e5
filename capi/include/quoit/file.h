/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/file.h: what open takes. A file has no cursor: every read and write names its position. */
#ifndef QUOIT_FILE_H
#define QUOIT_FILE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of open's arg; our own numbers, the same on every architecture. open(2) explains them. Every file is close-on-exec. */
#define QUOIT_OPEN_READ 0x1
#define QUOIT_OPEN_WRITE 0x2
#define QUOIT_OPEN_CREATE 0x4
#define QUOIT_OPEN_EXCLUSIVE 0x8
#define QUOIT_OPEN_TRUNCATE 0x10
#define QUOIT_OPEN_APPEND 0x20
/* Gives a directory handle, a target for later opens. */
#define QUOIT_OPEN_DIRECTORY 0x40
#define QUOIT_OPEN_NOFOLLOW 0x80
#define QUOIT_OPEN_SYNC 0x100
#define QUOIT_OPEN_DIRECT 0x200

/* Size in bytes of an open file, from fstat(2). Owner thread. Errors: as ops; -EISDIR, or -ESPIPE for what else has no size. Since 0.1. */
QUOIT_API int64_t quoit_file_size(quoit_worker *worker, quoit_handle file);

#ifdef __cplusplus
}
#endif

#endif
