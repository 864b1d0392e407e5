/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "index.h"

#include <stdlib.h>
#include <string.h>

/* Keys are often pointers or counters: multiplied by 2^64 over the golden ratio their high bits differ. */
static uint32_t bucket_of(const qt_index *index, uint64_t key) {
    return (uint32_t)(key * 0x9E3779B97F4A7C15ull >> 32) & index->mask;
}

void qt_index_init(qt_index *index) {
    memset(index, 0, sizeof *index);
    for (uint32_t i = 0; i < QT_INDEX_FIRST; i++)
        qt_list_init(&index->first[i]);
    index->buckets = index->first;
    index->mask = QT_INDEX_FIRST - 1;
}

void qt_index_destroy(qt_index *index) {
    if (index->buckets != index->first)
        free(index->buckets);
}

static void grow(qt_index *index) {
    uint32_t count = index->mask + 1;
    qt_link *old = index->buckets, *buckets = malloc(2 * count * sizeof *buckets);
    if (buckets == NULL)
        return;
    for (uint32_t i = 0; i < count; i++) {
        qt_list_init(&buckets[i]);
        qt_list_init(&buckets[count + i]);
    }
    index->buckets = buckets;
    index->mask = 2 * count - 1;
    for (uint32_t i = 0; i < count; i++)
        while (!qt_list_empty(&old[i])) {
            qt_index_node *node = qt_container(old[i].next, qt_index_node, link);
            qt_list_remove(&node->link);
            qt_list_append(&buckets[bucket_of(index, node->key)], &node->link);
        }
    if (old != index->first)
        free(old);
}

void qt_index_add(qt_index *index, qt_index_node *node, uint64_t key) {
    if (index->count > index->mask && index->mask < UINT32_MAX / 2)
        grow(index);
    node->key = key;
    qt_list_append(&index->buckets[bucket_of(index, key)], &node->link);
    index->count++;
}

void qt_index_remove(qt_index *index, qt_index_node *node) {
    if (node->link.next == NULL)
        return;
    qt_list_remove(&node->link);
    node->link.next = NULL;
    index->count--;
}

qt_index_node *qt_index_next(const qt_index *index, uint64_t key, const qt_index_node *after) {
    const qt_link *bucket = &index->buckets[bucket_of(index, key)];
    for (const qt_link *at = after ? after->link.next : bucket->next; at != bucket; at = at->next) {
        qt_index_node *node = qt_container(at, qt_index_node, link);
        if (node->key == key)
            return node;
    }
    return NULL;
}
