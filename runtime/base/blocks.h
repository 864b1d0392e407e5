/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Blocks of memory for copied payloads: powers of two from 256 bytes to 64 KiB with a bounded free list each; larger
 * ones come from malloc. After warm-up an ordinary send allocates nothing. One thread.
 */
#ifndef QT_BLOCKS_H
#define QT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#define QT_BLOCK_CLASSES 9

typedef struct qt_blocks {
    void *free_heads[QT_BLOCK_CLASSES];
    uint32_t free_counts[QT_BLOCK_CLASSES];
} qt_blocks;

void *qt_block_alloc(qt_blocks *blocks, size_t size);            /* null when memory is out */
void qt_block_free(qt_blocks *blocks, void *block, size_t size); /* size as it was asked for */
void qt_blocks_destroy(qt_blocks *blocks);

#endif
