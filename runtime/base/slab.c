/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "slab.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Each chunk begins with a pointer to the next; items follow, 16-byte aligned. */
#define CHUNK_HEAD 16u

void qt_slab_init(qt_slab *slab, size_t item_size, uint32_t items_per_chunk) {
    memset(slab, 0, sizeof *slab);
    slab->item_size = (uint32_t)((item_size + 15u) & ~(size_t)15u);
    slab->items_per_chunk = items_per_chunk;
}

static int add_chunk(qt_slab *slab) {
    char *chunk = malloc(CHUNK_HEAD + (size_t)slab->item_size * slab->items_per_chunk);
    if (chunk == NULL)
        return -1;
    memcpy(chunk, &slab->chunks, sizeof(void *));
    slab->chunks = chunk;
    for (uint32_t i = slab->items_per_chunk; i-- > 0;) {
        char *item = chunk + CHUNK_HEAD + (size_t)i * slab->item_size;
        memcpy(item, &slab->free_head, sizeof(void *));
        slab->free_head = item;
    }
    return 0;
}

void *qt_slab_alloc(qt_slab *slab) {
    if (slab->free_head == NULL && add_chunk(slab) != 0)
        return NULL;
    void *item = slab->free_head;
    assert(item != NULL);
    memcpy(&slab->free_head, item, sizeof(void *));
    memset(item, 0, slab->item_size);
    slab->live++;
    return item;
}

void qt_slab_free(qt_slab *slab, void *item) {
    assert(slab->live > 0);
    memcpy(item, &slab->free_head, sizeof(void *));
    slab->free_head = item;
    slab->live--;
}

void qt_slab_destroy(qt_slab *slab) {
    void *chunk = slab->chunks;
    while (chunk != NULL) {
        void *next;
        memcpy(&next, chunk, sizeof next);
        free(chunk);
        chunk = next;
    }
    memset(slab, 0, sizeof *slab);
}
