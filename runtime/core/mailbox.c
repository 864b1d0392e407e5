/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mailbox.h"

#include <stddef.h>

#define CLOSED ((qt_letter *)(uintptr_t)1)

void qt_mailbox_init(qt_mailbox *box, uint64_t ops_max, uint64_t bytes_max) {
    atomic_init(&box->head, NULL);
    atomic_init(&box->ops, 0);
    atomic_init(&box->bytes, 0);
    box->ops_max = ops_max;
    box->bytes_max = bytes_max;
}

bool qt_mailbox_reserve(qt_mailbox *box, uint32_t ops, uint64_t bytes) {
    bool fits = atomic_fetch_add(&box->ops, ops) + ops <= box->ops_max;
    fits &= atomic_fetch_add(&box->bytes, bytes) + bytes <= box->bytes_max;
    if (!fits)
        qt_mailbox_unreserve(box, ops, bytes);
    return fits;
}

void qt_mailbox_unreserve(qt_mailbox *box, uint32_t ops, uint64_t bytes) {
    atomic_fetch_sub(&box->ops, ops);
    atomic_fetch_sub(&box->bytes, bytes);
}

bool qt_mailbox_put(qt_mailbox *box, qt_letter *letter) {
    qt_letter *head = atomic_load_explicit(&box->head, memory_order_relaxed);
    do {
        if (head == CLOSED)
            return false;
        letter->next = head;
    } while (!atomic_compare_exchange_weak(&box->head, &head, letter));
    return true;
}

bool qt_mailbox_empty(qt_mailbox *box) {
    qt_letter *head = atomic_load(&box->head);
    return head == NULL || head == CLOSED;
}

static qt_letter *oldest_first(qt_letter *letter) {
    qt_letter *turned = NULL;
    while (letter != NULL) {
        qt_letter *next = letter->next;
        letter->next = turned;
        turned = letter;
        letter = next;
    }
    return turned;
}

void qt_mailbox_open(qt_mailbox *box, void *worker) {
    if (qt_mailbox_empty(box))
        return;
    qt_letter *letter = oldest_first(atomic_exchange(&box->head, NULL));
    while (letter != NULL) {
        qt_letter *next = letter->next;
        qt_mailbox_unreserve(box, letter->ops, letter->bytes);
        letter->open(worker, letter);
        letter = next;
    }
}

bool qt_mailbox_shut(qt_mailbox *box) {
    qt_letter *head = NULL;
    return atomic_compare_exchange_strong(&box->head, &head, CLOSED) || head == CLOSED;
}

void qt_mailbox_close(qt_mailbox *box, void *worker) {
    qt_letter *letter = atomic_exchange(&box->head, CLOSED);
    if (letter == CLOSED)
        return;
    letter = oldest_first(letter);
    while (letter != NULL) {
        qt_letter *next = letter->next;
        letter->discard(worker, letter);
        letter = next;
    }
}
