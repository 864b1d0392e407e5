/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uring_abi.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int qt_uring_enter(int fd, unsigned to_submit, unsigned min_complete, unsigned flags, const struct __kernel_timespec *timeout) {
    struct io_uring_getevents_arg extra = {.sigmask_sz = _NSIG / 8, .ts = (uint64_t)(uintptr_t)timeout};
    long result = syscall(__NR_io_uring_enter, fd, to_submit, min_complete, flags | IORING_ENTER_EXT_ARG, &extra, sizeof extra);
    return result < 0 ? -errno : (int)result;
}

int qt_uring_register(int fd, unsigned opcode, const void *argument, unsigned count) {
    long result = syscall(__NR_io_uring_register, fd, opcode, argument, count);
    return result < 0 ? -errno : (int)result;
}
