/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Intrusive doubly linked list with a head node. An unlinked node points at itself. */
#ifndef QT_LIST_H
#define QT_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct qt_link {
    struct qt_link *next;
    struct qt_link *prev;
} qt_link;

#define qt_container(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void qt_list_init(qt_link *link) {
    link->next = link;
    link->prev = link;
}

static inline bool qt_list_empty(const qt_link *head) {
    return head->next == head;
}

static inline void qt_list_append(qt_link *head, qt_link *link) {
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void qt_list_remove(qt_link *link) {
    link->prev->next = link->next;
    link->next->prev = link->prev;
    qt_list_init(link);
}

/* Moves all of `from` to the end of `to`. */
static inline void qt_list_splice(qt_link *to, qt_link *from) {
    if (qt_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    qt_list_init(from);
}

#endif
