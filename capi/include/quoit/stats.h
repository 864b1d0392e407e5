/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/stats.h: a worker's counters, always on. */
#ifndef QUOIT_STATS_H
#define QUOIT_STATS_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A snapshot. Grows at its end: set struct_size before the call; the library fills what both know. Counters count from the
 * worker's creation. system_calls: every system call that the worker's thread made inside the library. crossings: calls of
 * quoit_turn, _turn_nb, quoit_submit, and batch callbacks. tick_ns_hist[i]: turns whose own work (without the wait) took less
 * than 2^(i+10) ns; the last holds the rest. park_ns: time inside calls that were allowed to wait. buffers_total and buffers_free count pool
 * buffers, buffers_kept is bytes of buffers that are kept or pinned, send_bytes_queued what all streams owe. zerocopy_sends: sends to the
 * kernel for ZEROCOPY; those of them that it copied after all, and those that it refused and that left as plain sends.
 */
typedef struct quoit_stats {
    uint32_t struct_size;
    uint32_t driver;
    uint64_t ticks;
    uint64_t system_calls;
    uint64_t crossings;
    uint64_t ops;
    uint64_t events;
    uint64_t bytes_received;
    uint64_t bytes_sent;
    uint64_t accepts;
    uint64_t connects;
    uint64_t park_ns;
    uint64_t parks;
    uint64_t sends;
    uint64_t sends_partial;
    uint64_t sends_gathered;
    uint64_t recv_nobufs;
    uint64_t recv_rearms;
    uint64_t recv_paused;
    uint64_t cq_overflows;
    uint64_t accept_stalls;
    uint64_t handed_over;
    uint64_t posts_in;
    uint64_t posts_refused;
    uint64_t wakes;
    uint64_t offloads;
    uint64_t timers_fired;
    uint64_t objects_live;
    uint64_t ops_live;
    uint64_t buffers_total;
    uint64_t buffers_free;
    uint64_t buffers_kept;
    uint64_t send_bytes_queued;
    uint64_t leaked;
    uint64_t tick_ns_hist[16];
    uint64_t zerocopy_sends;
    uint64_t zerocopy_copied;
    uint64_t zerocopy_refused;
} quoit_stats;

/* Fills *out for the worker. Any thread; the numbers are each whole, not taken at one instant. Errors: QUOIT_E_STALE, _HANDLE, _KIND, _FORKED, _STRUCT_SIZE, _ARGUMENT. Since 0.1. */
QUOIT_API quoit_status quoit_stats_read(quoit_handle worker, quoit_stats *out);

/* The same as OpenMetrics text, NUL-terminated; returns its length, or -ENOSPC. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_stats_text(quoit_handle worker, char *text, uint32_t capacity);

#ifdef __cplusplus
}
#endif

#endif
