/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tally.h"

#include "pattern.h"

#include <stdlib.h>
#include <string.h>

struct head {
    uint32_t number, len;
    uint64_t hash;
};

static struct head head_of(const struct tally *tally, uint32_t number, uint32_t len) {
    uint64_t state = tally->seed ^ ((uint64_t)number << 32) ^ len;
    return (struct head){number, len, pattern_random(&state)};
}

static void add(struct tally *tally, uint32_t number, uint32_t len) {
    if (tally->count == tally->room) {
        tally->room = tally->room ? tally->room * 2 : 16;
        tally->open = realloc(tally->open, tally->room * sizeof *tally->open);
        if (tally->open == NULL)
            abort();
    }
    tally->open[tally->count++] = (struct entry){.number = number, .len = len};
}

uint32_t tally_send(struct tally *tally, uint32_t len) {
    add(tally, tally->next, len);
    return tally->next++;
}

void tally_forward(struct tally *tally, uint32_t number, uint32_t len) {
    add(tally, number, len);
}

void tally_fill(const struct tally *tally, uint32_t number, uint32_t len, uint8_t *bytes) {
    struct head head = head_of(tally, number, len);
    if (len == 0)
        return;
    memcpy(bytes, &head, sizeof head);
    pattern_fill(bytes + TALLY_HEAD, tally->seed, (uint64_t)number << 20, len - TALLY_HEAD);
}

static struct entry *find(const struct tally *tally, uint32_t number) {
    for (uint32_t i = 0; i < tally->count; i++)
        if (tally->open[i].number == number)
            return &tally->open[i];
    return NULL;
}

static void drop(struct tally *tally, struct entry *entry) {
    size_t behind = (size_t)(tally->open + tally->count - (entry + 1));
    memmove(entry, entry + 1, behind * sizeof *entry);
    tally->count--;
}

void tally_told(struct tally *tally, uint32_t number, bool left) {
    struct entry *entry = find(tally, number);
    if (entry == NULL || entry->told) {
        tally->ledger.doubled++; /* told twice */
        return;
    }
    entry->told = true;
    tally->ledger.sent += left;
    if (!left && entry->arrived)
        tally->ledger.doubled++; /* who sends it again sends it twice */
    if (!left || entry->arrived)
        drop(tally, entry);
}

static struct entry *find_empty(const struct tally *tally) {
    for (uint32_t i = 0; i < tally->count; i++)
        if (tally->open[i].len == 0 && !tally->open[i].arrived)
            return &tally->open[i];
    return NULL;
}

/* Whether the bytes are those of the datagram, from its beginning. */
static bool is_right(const struct tally *tally, const uint8_t *bytes, uint32_t len, const struct head *head) {
    return pattern_check(bytes + TALLY_HEAD, tally->seed, (uint64_t)head->number << 20, len - TALLY_HEAD) ==
           len - TALLY_HEAD;
}

bool tally_arrived(struct tally *tally, const uint8_t *bytes, uint32_t len, uint64_t whole, int64_t *number) {
    struct head head = {0};
    *number = -1;
    if (len != 0) {
        if (len < TALLY_HEAD)
            return false;
        memcpy(&head, bytes, sizeof head);
        if (head.hash != head_of(tally, head.number, head.len).hash)
            return false;
        *number = head.number;
    }
    struct entry *entry = len == 0 ? find_empty(tally) : find(tally, head.number);
    if (head.len != whole || (len != 0 && !is_right(tally, bytes, len, &head)))
        tally->ledger.wrong++;
    else if (entry == NULL || entry->arrived)
        tally->ledger.doubled++; /* or told as one that does not leave */
    else
        tally->ledger.arrived++;
    if (entry == NULL)
        return true;
    entry->arrived = true;
    if (entry->told)
        drop(tally, entry);
    return true;
}

bool tally_has_arrived(const struct tally *tally, uint32_t number, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const struct entry *entry = find(tally, number + i);
        if (entry != NULL && !entry->arrived)
            return false;
    }
    return true;
}

uint64_t tally_cost_of(uint32_t len, uint32_t count) {
    return (uint64_t)count * (2 * len + 2048);
}

uint64_t tally_cost(const struct tally *tally) {
    uint64_t cost = 0;
    for (uint32_t i = 0; i < tally->count; i++)
        if (!tally->open[i].arrived)
            cost += tally_cost_of(tally->open[i].len, 1);
    return cost;
}

void tally_close(struct tally *tally, struct ledger *sum, bool complete) {
    for (uint32_t i = 0; i < tally->count; i++) {
        const struct entry *entry = &tally->open[i];
        sum->lost += entry->told && complete;
        sum->owed += entry->told && !complete;
        sum->doubled += !entry->told; /* it arrived, and nobody said that it had left */
    }
    sum->sent += tally->ledger.sent;
    sum->arrived += tally->ledger.arrived;
    sum->doubled += tally->ledger.doubled;
    sum->wrong += tally->ledger.wrong;
    free(tally->open);
    memset(tally, 0, sizeof *tally);
}
