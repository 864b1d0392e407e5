/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ledger.h: what was sent on one direction of a connection, what its sender was told, and what arrived, to the byte.
 *
 * Every byte is a function of the direction's seed and of its place in what was given to send (pattern.h). A send that is
 * cut short leaves out the rest of its own bytes, so the account goes by segments, one for each send; bytes that arrive
 * are compared as soon as it is known how much of their segment left.
 */
#ifndef TORTURE_LEDGER_H
#define TORTURE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment {
    uint64_t content; /* place of its first byte in the pattern */
    uint8_t *bytes;   /* or what was sent instead of the pattern */
    uint32_t len;
    uint32_t done; /* of those, told as sent */
    bool ended;
    bool quiet;
};

struct flow {
    uint64_t seed;
    uint64_t content; /* place of the next byte that is given to send */
    struct segment *segments;
    uint32_t count, room;
    uint32_t first;   /* number of segments[0] */
    uint32_t at;      /* bytes of the first segment that were compared */
    uint8_t *waiting; /* arrived, not compared yet */
    size_t waiting_len, waiting_room;
    uint64_t told;    /* bytes told as sent */
    uint64_t arrived; /* compared and right */
    uint64_t wrong, doubled;
    bool complete; /* the receiver has seen an end before which nothing may be missing */
    bool deaf;     /* the receiver left: what is on its way arrives nowhere */
};

struct ledger {
    uint64_t sent, arrived, lost, doubled, wrong;
    uint64_t owed; /* told as sent on connections that were torn down, and never arrived */
};

/* Another send of len bytes. Its number; the bytes are the pattern from *content on, unless given. */
uint32_t flow_send(struct flow *flow, uint32_t len, bool quiet, const void *bytes, uint64_t *content);
/* The send has ended, and this many of its bytes have left. */
void flow_sent(struct flow *flow, uint32_t number, uint32_t done);
/* A send was told whole: quiet ones before it were so too. False if one before it is still open. */
bool flow_sent_before(struct flow *flow, uint32_t number);
/* All sends have ended: those that were quiet to the end went well. False if one that is not quiet is open. */
bool flow_settle(struct flow *flow);
void flow_arrived(struct flow *flow, const void *data, size_t len);
/* Bytes that were given to send and have not arrived. */
uint64_t flow_outstanding(const struct flow *flow);
/* Both ends are gone: enters the direction into the ledger and frees it. */
void flow_close(struct flow *flow, struct ledger *ledger);

#endif
