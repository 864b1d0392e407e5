/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef QT_BALANCE_H
#define QT_BALANCE_H

#include "../base/list.h"

#include <pthread.h>
#include <quoit/net.h>
#include <stdbool.h>
#include <stdint.h>

/* The listeners of a runtime that share a port and hand connections over, by port. */
typedef struct qt_balance {
    pthread_mutex_t lock;
    qt_link groups;
} qt_balance;

/* What one worker's listener has in it; under the lock. */
typedef struct qt_balance_member {
    qt_link link;
    struct qt_balance_group *group;
    uint64_t worker;
    uint64_t listener;
    uint32_t live; /* connections accepted there and not closed, those on their way to it too */
} qt_balance_member;

struct qt_listener;

void qt_balance_init(qt_balance *b);
void qt_balance_destroy(qt_balance *b);

int qt_balance_join(struct qt_listener *l, const quoit_addr *bound); /* 0 or -ENOMEM */
void qt_balance_leave(struct qt_listener *l);

/* One connection more or less in this listener. */
void qt_balance_count(struct qt_listener *l, int change);

/* The listener of this worker that shares port and load with that one, or 0. */
uint64_t qt_balance_find(qt_balance *b, uint64_t listener, uint64_t worker);

/* Gives an accepted connection to the least loaded of the others, if this one has too many. True: it is gone. */
bool qt_balance_hand_over(struct qt_listener *l, int fd);

#endif
