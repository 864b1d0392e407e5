/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fixed-size items from chunks with stable addresses; freed items are reused last in, first out. One thread. */
#ifndef QT_SLAB_H
#define QT_SLAB_H

#include <stddef.h>
#include <stdint.h>

typedef struct qt_slab {
    void *free_head;
    void *chunks;
    uint32_t item_size;
    uint32_t items_per_chunk;
    uint64_t live;
} qt_slab;

void qt_slab_init(qt_slab *slab, size_t item_size, uint32_t items_per_chunk);
void *qt_slab_alloc(qt_slab *slab); /* zeroed; null when memory is out */
void qt_slab_free(qt_slab *slab, void *item);
void qt_slab_destroy(qt_slab *slab); /* all items at once */

#endif
