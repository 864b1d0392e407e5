/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tally.h: which datagrams went one way, what their sender was told, and which arrived, whole.
 *
 * Each has a number and a hash of where it belongs in front, and its bytes are a function of the tally's seed and that number. An
 * empty one has neither: it stands for any empty one that has not arrived. UDP may swap them, so no order is asked for.
 */
#ifndef TORTURE_TALLY_H
#define TORTURE_TALLY_H

#include "ledger.h"

/* A datagram is empty or at least so long. */
#define TALLY_HEAD 16u

struct entry {
    uint32_t number, len;
    bool told; /* as sent */
    bool arrived;
};

struct tally {
    uint64_t seed;
    uint32_t next;
    struct entry *open; /* not told, or not arrived */
    uint32_t count, room;
    struct ledger ledger; /* of datagrams, not of bytes */
};

/* Another one that is given to send. Its number. */
uint32_t tally_send(struct tally *tally, uint32_t len);
/* One of another tally of the same seed that is sent again, number and all. */
void tally_forward(struct tally *tally, uint32_t number, uint32_t len);
void tally_fill(const struct tally *tally, uint32_t number, uint32_t len, uint8_t *bytes);
/* Its sending has ended: it has left, or has not and never will. */
void tally_told(struct tally *tally, uint32_t number, bool left);
/* len bytes arrived of one that was whole bytes long. The number, or -1 for an empty one. False if it is none of this tally's. */
bool tally_arrived(struct tally *tally, const uint8_t *bytes, uint32_t len, uint64_t whole, int64_t *number);
bool tally_has_arrived(const struct tally *tally, uint32_t number, uint32_t count);
/* At most so much kernel memory is taken by those on their way. */
uint64_t tally_cost(const struct tally *tally);
uint64_t tally_cost_of(uint32_t len, uint32_t count);
/* Both ends are gone. Those that were told as sent and have not arrived are lost, or owed if nobody waited for them. */
void tally_close(struct tally *tally, struct ledger *sum, bool complete);

#endif
