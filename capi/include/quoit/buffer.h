/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/buffer.h: slices of memory given to vectored operations. Loans and keeping: quoit/op.h, KEEP and RELEASE. */
#ifndef QUOIT_BUFFER_H
#define QUOIT_BUFFER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * 16 bytes, frozen for SONAME 1. One slice of a vectored op. addr is a pointer, or an offset into the send arena
 * when the op has ARENA_SEND. The array itself is copied before the call returns. With ARENA_RECV on the op, each slice is
 * an offset in the receive arena and `flags` is the low 24 bits of its buffer handle; the op's arg2 is then 0 and the loan
 * of each is checked. Without ARENA_RECV flags must be 0.
 */
typedef struct quoit_iov {
    uint64_t addr;
    uint32_t len;
    uint32_t flags;
} quoit_iov;

/* Most slices in one op. */
#define QUOIT_IOV_MAX 1024

#ifdef __cplusplus
}
#endif

#endif
