/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* io_uring's constants that liburing 2.3 does not have yet (include/uapi/linux/io_uring.h), and the two calls we make ourselves. */
#ifndef QT_URING_ABI_H
#define QT_URING_ABI_H

#include <liburing.h>
#include <stdint.h>

/* Since Linux 6.15. */
#ifndef IORING_ENTER_NO_IOWAIT
#define IORING_ENTER_NO_IOWAIT (1U << 7)
#endif
#ifndef IORING_FEAT_NO_IOWAIT
#define IORING_FEAT_NO_IOWAIT (1U << 17)
#endif

/* io_uring_enter(2) with IORING_ENTER_EXT_ARG; timeout null waits for ever. Result or -errno. */
int qt_uring_enter(int fd, unsigned to_submit, unsigned min_complete, unsigned flags, const struct __kernel_timespec *timeout);

/* io_uring_register(2). Result or -errno. */
int qt_uring_register(int fd, unsigned opcode, const void *argument, unsigned count);

#endif
