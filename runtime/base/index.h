/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds items by a 64-bit key that need not be unique. Intrusive, chained, grown by doubling; when memory is out it
 * stays as it is and its chains get longer. Items with one key are found in the order they were added. One thread.
 */
#ifndef QT_INDEX_H
#define QT_INDEX_H

#include "list.h"

#include <stdint.h>

typedef struct qt_index_node {
    qt_link link;
    uint64_t key;
} qt_index_node;

#define QT_INDEX_FIRST 16u

typedef struct qt_index {
    qt_link first[QT_INDEX_FIRST]; /* the buckets until there are more items */
    qt_link *buckets;
    uint32_t mask;
    uint32_t count;
} qt_index;

void qt_index_init(qt_index *index);
void qt_index_destroy(qt_index *index);
void qt_index_add(qt_index *index, qt_index_node *node, uint64_t key);
void qt_index_remove(qt_index *index, qt_index_node *node); /* no effect on a zeroed node */

/* The first node with the key behind `after` (null: from the start), or null. */
qt_index_node *qt_index_next(const qt_index *index, uint64_t key, const qt_index_node *after);

#endif
