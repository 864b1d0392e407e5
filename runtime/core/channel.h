/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bounded channels. A channel belongs to its receiver's worker; senders on any worker reach it through that worker's hub, under the
 * hub's lock, which is held for a few assignments. The hub outlives its worker as long as a send waits in it.
 */
#ifndef QT_CHANNEL_H
#define QT_CHANNEL_H

#include "worker.h"

typedef struct qt_words {
    uint64_t word1;
    int64_t word2;
    uint32_t number;
} qt_words;

struct qt_hub {
    pthread_mutex_t lock;
    atomic_uint users; /* its worker, and each send that waits */
    qt_letter bell;    /* lies in the worker's mailbox while `rung` */
    /* under the lock */
    qt_index channels; /* by handle */
    qt_link ready;     /* channels that the worker has not been told of yet */
    bool rung;
};

typedef struct qt_channel {
    qt_object object; /* this part is the owner's alone */
    qt_pending *recv;
    qt_hub *hub;
    uint32_t arg; /* QUOIT_CHANNEL_* */
    uint32_t capacity;
    bool patient; /* its close names no time */
    /* under the hub's lock */
    qt_index_node by_handle;
    qt_link ready_link; /* in hub->ready or the worker's channels_ready, while `ready` */
    qt_link waiting;    /* qt_wait, oldest first; empty while there is room */
    uint64_t sender;    /* one-to-one: the worker that sends */
    uint32_t head;
    uint32_t count;
    bool wanted; /* a recv is armed: who brings a message rings */
    bool ready;
    bool shut; /* takes no more messages */
    qt_words words[];
} qt_channel;

/*
 * A send that found no room. It is in the channel's list while it `waits`; then its letter is on the way to the sender's
 * worker, which alone frees it. A worker takes its waits back before it ends: who finds one in a list finds its worker alive.
 */
typedef struct qt_wait {
    qt_letter letter;
    qt_link own_link; /* in the sender's worker->waits */
    qt_pending *op;
    qt_worker *from;
    qt_hub *hub;
    /* under the hub's lock until the letter is on the way */
    qt_link link;
    qt_words words;
    int32_t result;
    bool waits;
    bool last; /* of a oneshot: the channel is closed by it */
} qt_wait;

/* Workers to wake when the lock is let go, by number. */
typedef struct qt_wakes {
    uint64_t bits[QT_WORKERS_MAX / 64];
} qt_wakes;

/* hub.c */
qt_channel *qt_channel_new(qt_worker *w, uint32_t arg, uint32_t capacity, int *error);
/* 0 sent; QT_OFFER_WAITS; or an error. Without a wait, QT_OFFER_WAITS means that nothing was done. */
quoit_status qt_channel_offer(qt_worker *to, uint64_t channel, const qt_words *words, const qt_worker *from,
                              qt_wait *wait, bool *last);
bool qt_wait_withdraw(qt_wait *wait); /* false: its letter is on the way */
void qt_wait_free(qt_wait *wait);
void qt_channel_want(qt_channel *c, bool wanted);
/* Takes up to `most` messages out; *end: there will be none after them. */
uint32_t qt_channel_take(qt_channel *c, qt_words *out, uint32_t most, bool *end);
uint32_t qt_channel_shut(qt_channel *c); /* ends the senders that wait; how many messages are inside */

#define QT_OFFER_WAITS 1

#endif
