/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define FIRST offsetof(quoit_stats, ticks)

void qt_stats_snapshot(qt_worker *w, quoit_stats *out) {
    *out = (quoit_stats){.struct_size = sizeof *out, .driver = w->stats.driver};
    for (size_t at = FIRST; at < sizeof *out; at += sizeof(uint64_t)) {
        uint64_t value = __atomic_load_n((uint64_t *)(void *)((char *)&w->stats + at), __ATOMIC_RELAXED);
        *(uint64_t *)(void *)((char *)out + at) = value;
    }
    out->system_calls += __atomic_load_n(&w->driver_calls, __ATOMIC_RELAXED);
    out->wakes = __atomic_load_n(&w->driver->wakes, __ATOMIC_RELAXED);
    out->posts_refused = __atomic_load_n(&w->posts_refused, __ATOMIC_RELAXED);
}

#define COUNTER(field, help)                                                                                 \
    { #field, help, offsetof(quoit_stats, field), true }
#define GAUGE(field, help)                                                                                   \
    { #field, help, offsetof(quoit_stats, field), false }

static const struct {
    const char *name;
    const char *help;
    size_t offset;
    bool counter;
} metrics[] = {
    COUNTER(ticks, "Turns of the loop."),
    COUNTER(system_calls, "System calls made by the worker's thread inside the library."),
    COUNTER(crossings, "Calls between the program and the library on the hot path."),
    COUNTER(ops, "Operations taken."),
    COUNTER(events, "Events told."),
    COUNTER(bytes_received, "Bytes received from streams."),
    COUNTER(bytes_sent, "Bytes sent to streams."),
    COUNTER(accepts, "Connections accepted."),
    COUNTER(connects, "Connections made."),
    COUNTER(park_ns, "Nanoseconds spent waiting."),
    COUNTER(parks, "Waits."),
    COUNTER(sends, "Sends given to the kernel."),
    COUNTER(sends_partial, "Sends of which the kernel took only a part."),
    COUNTER(sends_gathered, "Sends that carried several pieces."),
    COUNTER(recv_nobufs, "Receives that found no buffer."),
    COUNTER(recv_rearms, "Receives given to the kernel."),
    COUNTER(recv_paused, "Times a stream's receive was paused."),
    COUNTER(cq_overflows, "Completion queue overflows."),
    COUNTER(accept_stalls, "Times accepting waited for a descriptor."),
    COUNTER(handed_over, "Accepted connections given to another worker."),
    COUNTER(posts_in, "Posted operations executed."),
    COUNTER(posts_refused, "Posts that found the mailbox full."),
    COUNTER(wakes, "Wakes by other threads."),
    COUNTER(offloads, "Calls given to the blocking pool."),
    COUNTER(timers_fired, "Timers that expired."),
    GAUGE(objects_live, "Objects that have a handle."),
    GAUGE(ops_live, "Operations without their last event."),
    GAUGE(buffers_total, "Receive buffers that exist."),
    GAUGE(buffers_free, "Receive buffers that wait for data."),
    GAUGE(buffers_kept, "Bytes of received data kept or pinned."),
    GAUGE(send_bytes_queued, "Bytes that streams owe."),
    COUNTER(leaked, "Resources given up because the kernel did not confirm."),
    COUNTER(zerocopy_sends, "Sends given to the kernel to be made without a copy."),
    COUNTER(zerocopy_copied, "Those that the kernel copied after all."),
    COUNTER(zerocopy_refused, "Those that it refused, and that left as plain sends."),
};

typedef struct qt_writer {
    char *text;
    uint32_t capacity;
    uint32_t used;
    bool full;
} qt_writer;

__attribute__((format(printf, 2, 3))) static void put(qt_writer *out, const char *format, ...) {
    va_list args;
    if (out->full)
        return;
    va_start(args, format);
    int length = vsnprintf(out->text + out->used, out->capacity - out->used, format, args);
    va_end(args);
    out->full = length < 0 || (uint32_t)length >= out->capacity - out->used;
    out->used += out->full ? 0 : (uint32_t)length;
}

static void put_histogram(qt_writer *out, uint32_t worker, const quoit_stats *stats) {
    uint64_t count = 0;
    put(out, "# TYPE quoit_tick_seconds histogram\n# HELP quoit_tick_seconds Own time of a turn, without "
             "waiting.\n");
    for (uint32_t i = 0; i < 16; i++) {
        count += stats->tick_ns_hist[i];
        if (i == 15)
            put(out, "quoit_tick_seconds_bucket{worker=\"%u\",le=\"+Inf\"} %" PRIu64 "\n", worker, count);
        else
            put(out, "quoit_tick_seconds_bucket{worker=\"%u\",le=\"%.9g\"} %" PRIu64 "\n", worker,
                (double)((uint64_t)1 << (i + 10)) / 1e9, count);
    }
    put(out, "quoit_tick_seconds_count{worker=\"%u\"} %" PRIu64 "\n", worker, count);
}

quoit_status qt_stats_text(uint64_t handle, const quoit_stats *stats, char *text, uint32_t capacity) {
    uint32_t worker = (uint32_t)(handle >> 48) & 0xFF;
    qt_writer out = {.text = text, .capacity = capacity};
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        uint64_t value = *(const uint64_t *)(const void *)((const char *)stats + metrics[i].offset);
        put(&out, "# TYPE quoit_%s %s\n# HELP quoit_%s %s\nquoit_%s%s{worker=\"%u\"} %" PRIu64 "\n",
            metrics[i].name, metrics[i].counter ? "counter" : "gauge", metrics[i].name, metrics[i].help,
            metrics[i].name, metrics[i].counter ? "_total" : "", worker, value);
    }
    put_histogram(&out, worker, stats);
    put(&out, "# EOF\n");
    return out.full ? -ENOSPC : (quoit_status)out.used;
}
