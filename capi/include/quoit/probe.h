/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/probe.h: what this machine lets quoit use, and why not where it does not. */
#ifndef QUOIT_PROBE_H
#define QUOIT_PROBE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * 576 bytes, frozen for SONAME 1. One thing that was tried. Texts are NUL-terminated sentences.
 *   state   QUOIT_PROBE_*
 *   status  0, or the -errno with which the kernel refused
 *   name    e.g. "uring-defer", "memlock"
 *   reason  what was found;  fix: how to change it, "" where there is nothing to fix
 */
typedef struct quoit_probe_entry {
    uint32_t state;
    int32_t status;
    uint64_t number;
    char name[48];
    char reason[256];
    char fix[256];
} quoit_probe_entry;

#define QUOIT_PROBE_USED 1
#define QUOIT_PROBE_REFUSED 2
#define QUOIT_PROBE_UNUSED 3
#define QUOIT_PROBE_FACT 4

/*
 * Tries each feature for real (a ring set up, a no-op, a buffer ring, a receive) and fills up to `capacity` entries. Returns how many there are,
 * which may exceed capacity; entries may be null when capacity is 0. Takes a few ms; leaves nothing behind. Any thread. Since 0.1.
 */
QUOIT_API quoit_status quoit_probe(quoit_probe_entry *entries, uint32_t capacity);

/* The driver (QUOIT_DRIVER_*) that a runtime created now with the default options would get, or the error it would get. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_probe_driver(void);

#ifdef __cplusplus
}
#endif

#endif
