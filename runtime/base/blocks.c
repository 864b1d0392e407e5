/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "blocks.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST_SHIFT 8u
/* Bytes that may wait in one class's free list, so that memory goes back after a burst. */
#define FREE_BYTES_MAX (1u << 20)

static uint32_t class_of(size_t size) {
    if (size <= (1u << SMALLEST_SHIFT))
        return 0;
    return (uint32_t)(64 - __builtin_clzll((unsigned long long)size - 1)) - SMALLEST_SHIFT;
}

void *qt_block_alloc(qt_blocks *blocks, size_t size) {
    uint32_t class = class_of(size);
    if (class >= QT_BLOCK_CLASSES)
        return malloc(size);
    void *block = blocks->free_heads[class];
    if (block == NULL)
        return malloc((size_t)1 << (class + SMALLEST_SHIFT));
    memcpy(&blocks->free_heads[class], block, sizeof(void *));
    blocks->free_counts[class]--;
    return block;
}

void qt_block_free(qt_blocks *blocks, void *block, size_t size) {
    uint32_t class = class_of(size);
    if (class >= QT_BLOCK_CLASSES ||
        ((size_t)blocks->free_counts[class] << (class + SMALLEST_SHIFT)) >= FREE_BYTES_MAX) {
        free(block);
        return;
    }
    memcpy(block, &blocks->free_heads[class], sizeof(void *));
    blocks->free_heads[class] = block;
    blocks->free_counts[class]++;
}

void qt_blocks_destroy(qt_blocks *blocks) {
    for (uint32_t class = 0; class < QT_BLOCK_CLASSES; class ++) {
        while (blocks->free_heads[class] != NULL) {
            void *block = blocks->free_heads[class];
            memcpy(&blocks->free_heads[class], block, sizeof(void *));
            free(block);
        }
        blocks->free_counts[class] = 0;
    }
}
