/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What Go cannot write itself: an address held in an integer turned into a pointer, fcntl(2), and the two hot calls with
 * the worker as a number (before Go 1.20 a pointer to an incomplete struct costs an allocation at each call).
 */
#ifndef QUOIT_GO_BRIDGE_H
#define QUOIT_GO_BRIDGE_H

#include <errno.h>
#include <fcntl.h>
#include <quoit/quoit.h>
#include <stdlib.h>

static inline void *quoit_go_pointer(uint64_t address) {
    return (void *)(uintptr_t)address;
}

/* A duplicate that os.NewFile may own and close; or -errno. */
static inline int quoit_go_dup(int fd) {
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return copy < 0 ? -errno : copy;
}

static inline quoit_status quoit_go_turn_nb(uintptr_t worker, uint32_t nops) {
    return quoit_turn_nb((quoit_worker *)worker, nops);
}

static inline quoit_status quoit_go_submit(uintptr_t worker, uint32_t nops) {
    return quoit_submit((quoit_worker *)worker, nops);
}

#endif
