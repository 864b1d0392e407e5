/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What Go cannot write itself: an address held in an integer turned into a pointer, and fcntl(2). */
#ifndef QUOIT_GO_BRIDGE_H
#define QUOIT_GO_BRIDGE_H

#include <errno.h>
#include <fcntl.h>
#include <quoit/quoit.h>
#include <stdlib.h>

static inline void *quoit_go_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* A duplicate that os.NewFile may own and close; or -errno. */
static inline int quoit_go_dup(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return copy < 0 ? -errno : copy;
}

#endif
