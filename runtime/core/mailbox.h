/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What other threads leave for a worker: posted ops, messages, finished jobs. Many senders, one reader, first in first out per sender. */
#ifndef QT_MAILBOX_H
#define QT_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct qt_letter qt_letter;

struct qt_letter {
    qt_letter *next;
    void (*open)(void *worker,
                 qt_letter *letter); /* on the worker's thread; frees the letter if it is to be freed */
    void (*discard)(void *worker, qt_letter *letter); /* the worker is gone */
    uint32_t ops;                                     /* counts against the bounds; 0 for jobs */
    uint64_t bytes;
};

typedef struct qt_mailbox {
    _Atomic(qt_letter *) head; /* newest first; QT_MAILBOX_CLOSED at the end of its life */
    atomic_uint_fast64_t ops;
    atomic_uint_fast64_t bytes;
    uint64_t ops_max;
    uint64_t bytes_max;
} qt_mailbox;

enum { QT_MAIL_TAKEN, QT_MAIL_FULL, QT_MAIL_CLOSED };

void qt_mailbox_init(qt_mailbox *box, uint64_t ops_max, uint64_t bytes_max);

/* Any thread. Reserve first, then put (which cannot fail but for a closed box). */
bool qt_mailbox_reserve(qt_mailbox *box, uint32_t ops, uint64_t bytes);
void qt_mailbox_unreserve(qt_mailbox *box, uint32_t ops, uint64_t bytes);
bool qt_mailbox_put(qt_mailbox *box, qt_letter *letter); /* false: closed */

bool qt_mailbox_empty(qt_mailbox *box);
void qt_mailbox_open(qt_mailbox *box, void *worker); /* reads all letters that are there now */
bool qt_mailbox_shut(qt_mailbox *box); /* if it is empty no letter comes any more; false: open it first */
void qt_mailbox_close(qt_mailbox *box, void *worker); /* discards what is left; later puts fail */

#endif
