/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rings as this project sets them up, and the two system calls on them. liburing does the mapping; enter and register are ours, so
 * that they can be counted and their flags chosen.
 */
#ifndef QT_RING_H
#define QT_RING_H

#include <liburing.h>
#include <stdint.h>

#include "uring_abi.h"

/* From best to least. */
enum qt_ring_rung {
    QT_RING_DEFER, /* completions run inside enter alone */
    QT_RING_COOP,  /* completions run at the next system call, without an interrupt */
    QT_RING_PLAIN,
    QT_RING_RUNGS
};

/* Without these the driver cannot keep its promises: waits with a timeout, no lost completion, silent cancels, polled sockets. */
#define QT_RING_FEATURES                                                                                     \
    (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_CQE_SKIP | IORING_FEAT_FAST_POLL)

extern const char *const qt_ring_rung_names[QT_RING_RUNGS]; /* "uring-defer" ... */

/*
 * Sets up and maps a disabled ring that a fork does not inherit. 0 or -errno; -EOPNOTSUPP when the kernel lacks a feature
 * (`ring->features` then tells which it has).
 */
int qt_ring_open(struct io_uring *ring, enum qt_ring_rung rung, uint32_t entries, uint32_t cq_entries);

/* Registers `entries` slots at page-aligned `memory` as buffer ring `group`. 0 or -errno. */
int qt_ring_register_buffers(struct io_uring *ring, void *memory, uint32_t entries, uint16_t group);

/* Page-aligned zeroed memory for a buffer ring, not inherited by a fork; null when there is none. */
struct io_uring_buf_ring *qt_ring_buffers_map(uint32_t entries, size_t *bytes);

/* The system calls: a count or -errno. */
int qt_ring_enter(int fd, unsigned submit, unsigned min_complete, unsigned flags, const void *arg,
                  size_t arg_size);
int qt_ring_register(int fd, unsigned opcode, const void *arg, unsigned n);

/* Memory that a ring with a buffer ring takes, as RLIMIT_MEMLOCK is charged for it. */
uint64_t qt_ring_bytes(uint32_t entries, uint32_t cq_entries, uint32_t buffer_entries);

#endif
