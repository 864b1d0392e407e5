/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ledger.h"

#include "pattern.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *memory, size_t size) {
    void *grown = realloc(memory, size);
    if (grown == NULL)
        abort();
    return grown;
}

uint32_t flow_send(struct flow *flow, uint32_t len, bool quiet, const void *bytes, uint64_t *content) {
    if (flow->count == flow->room) {
        flow->room = flow->room ? flow->room * 2 : 16;
        flow->segments = grow(flow->segments, flow->room * sizeof *flow->segments);
    }
    struct segment *segment = &flow->segments[flow->count++];
    *segment = (struct segment){.content = flow->content, .len = len, .quiet = quiet};
    if (bytes != NULL)
        segment->bytes = memcpy(grow(NULL, len ? len : 1), bytes, len);
    *content = flow->content;
    flow->content += len;
    return flow->first + flow->count - 1;
}

/* How many of the bytes that arrived are those of the segment from the place where it was left. */
static size_t compare(const struct flow *flow, const struct segment *segment, size_t len) {
    if (segment->bytes == NULL)
        return pattern_check(flow->waiting, flow->seed, segment->content + flow->at, len);
    return memcmp(flow->waiting, segment->bytes + flow->at, len) == 0 ? len : 0;
}

static void drop_first(struct flow *flow) {
    free(flow->segments[0].bytes);
    flow->first++;
    flow->count--;
    flow->at = 0;
    memmove(flow->segments, flow->segments + 1, flow->count * sizeof *flow->segments);
}

static void take(struct flow *flow, size_t len) {
    flow->at += (uint32_t)len;
    flow->waiting_len -= len;
    memmove(flow->waiting, flow->waiting + len, flow->waiting_len);
}

/* Compares what has arrived with the segments whose length is known. */
static void settle(struct flow *flow) {
    while (flow->count > 0 && flow->segments[0].ended) {
        const struct segment *segment = &flow->segments[0];
        size_t len = segment->done - flow->at;
        if (len > flow->waiting_len)
            len = flow->waiting_len;
        if (len > 0) {
            size_t right = compare(flow, segment, len);
            flow->arrived += right;
            flow->wrong += len - right;
            take(flow, len);
        }
        if (flow->at < segment->done)
            return;
        drop_first(flow);
    }
}

static struct segment *segment_of(struct flow *flow, uint32_t number) {
    uint32_t index = number - flow->first;
    return index < flow->count ? &flow->segments[index] : NULL;
}

void flow_sent(struct flow *flow, uint32_t number, uint32_t done) {
    struct segment *segment = segment_of(flow, number);
    if (segment == NULL || segment->ended || done > segment->len) {
        flow->doubled += done; /* told twice, or more than there was */
        return;
    }
    segment->ended = true;
    segment->done = done;
    flow->told += done;
    settle(flow);
}

bool flow_sent_before(struct flow *flow, uint32_t number) {
    for (uint32_t i = flow->first; i != number; i++) {
        struct segment *segment = segment_of(flow, i);
        if (segment == NULL || segment->ended)
            continue;
        if (!segment->quiet)
            return false;
        segment->ended = true;
        segment->done = segment->len;
        flow->told += segment->len;
    }
    return true;
}

bool flow_settle(struct flow *flow) {
    bool all = flow_sent_before(flow, flow->first + flow->count);
    settle(flow);
    return all;
}

void flow_arrived(struct flow *flow, const void *data, size_t len) {
    if (flow->waiting_len + len > flow->waiting_room) {
        flow->waiting_room = (flow->waiting_len + len) * 2;
        flow->waiting = grow(flow->waiting, flow->waiting_room);
    }
    memcpy(flow->waiting + flow->waiting_len, data, len);
    flow->waiting_len += len;
    settle(flow);
}

uint64_t flow_outstanding(const struct flow *flow) {
    uint64_t open = flow->told - flow->arrived - flow->waiting_len;
    for (uint32_t i = 0; i < flow->count; i++)
        if (!flow->segments[i].ended)
            open += flow->segments[i].len;
    return open;
}

void flow_close(struct flow *flow, struct ledger *ledger) {
    uint64_t missing = flow->told - flow->arrived - flow->wrong;
    ledger->sent += flow->told;
    ledger->arrived += flow->arrived;
    ledger->wrong += flow->wrong;
    ledger->doubled += flow->doubled + flow->waiting_len; /* more than was told as sent */
    if (flow->complete)
        ledger->lost += missing;
    else
        ledger->owed += missing;
    for (uint32_t i = 0; i < flow->count; i++)
        free(flow->segments[i].bytes);
    free(flow->segments);
    free(flow->waiting);
    memset(flow, 0, sizeof *flow);
}
