/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The io_uring driver: one io_uring_enter per tick carries what was submitted and waits for what completes. Submitting
 * writes an entry, harvesting reads completions; neither makes a system call while the queues have room.
 */
#include "uring.h"

#include <assert.h>

static void add_buffer(qt_driver *d, uint32_t bid) {
    qt_uring *u = (qt_uring *)d;
    assert(bid <= UINT16_MAX);
    io_uring_buf_ring_add(u->buffers, u->options.buffer_base + (uint64_t)bid * u->options.buffer_size,
                          u->options.buffer_size, (unsigned short)bid,
                          io_uring_buf_ring_mask(u->options.buffer_entries), (int)u->buffers_added++);
}

/* Nothing is known of a descriptor that no request names. */
static void forget(qt_driver *d, int fd) {
    (void)d;
    (void)fd;
}

const qt_driver_ops qt_uring_ops = {
    .name = "io_uring",
    .enable = qt_uring_enable,
    .destroy = qt_uring_destroy,
    .submit = qt_uring_submit,
    .cancel = qt_uring_cancel,
    .enter = qt_uring_enter,
    .harvest = qt_uring_harvest,
    .pending = qt_uring_pending,
    .buffer_add = add_buffer,
    .forget = forget,
    .wake = qt_uring_wake,
    .host_fd = qt_uring_host_fd,
    .host_begin = qt_uring_host_begin,
    .host_end = qt_uring_host_end,
};
