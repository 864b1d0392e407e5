/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The handle table: a dense slot and a generation for each live object. */
#include "worker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define NONE UINT32_MAX
#define SLOT_BITS 24
#define FIELD_MASK 0xFFFFFFu

uint64_t qt_handle_make(uint32_t kind, uint32_t worker, uint32_t generation, uint32_t slot) {
    return (uint64_t)kind << 56 | (uint64_t)worker << 48 | (uint64_t)generation << SLOT_BITS | slot;
}

static void queue_free(qt_handles *h, uint32_t slot) {
    h->slots[slot].next_free = NONE;
    if (h->free_head == NONE)
        h->free_head = slot;
    else
        h->slots[h->free_tail].next_free = slot;
    h->free_tail = slot;
}

static int grow(qt_handles *h) {
    assert((h->slots == NULL) == (h->capacity == 0));
    uint32_t capacity = h->capacity ? h->capacity * 2 : 64;
    if (capacity > FIELD_MASK)
        return QUOIT_E_LIMIT;
    qt_slot *slots = realloc(h->slots, capacity * sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    if (h->slots == NULL)
        h->free_head = NONE;
    h->slots = slots;
    for (uint32_t slot = h->capacity; slot < capacity; slot++) {
        slots[slot] = (qt_slot){.object = NULL, .generation = 1};
        queue_free(h, slot);
    }
    h->capacity = capacity;
    return 0;
}

int qt_handle_new(qt_worker *w, qt_object *object, uint32_t kind, int fd) {
    qt_handles *h = &w->handles;
    if (h->live >= h->max)
        return QUOIT_E_LIMIT;
    if (h->slots == NULL || h->free_head == NONE) {
        int error = grow(h);
        if (error)
            return error;
    }
    uint32_t slot = h->free_head;
    h->free_head = h->slots[slot].next_free;
    h->slots[slot].object = object;
    h->live++;
    __atomic_store_n(&w->stats.objects_live, h->live, __ATOMIC_RELAXED);
    object->handle = qt_handle_make(kind, w->id, h->slots[slot].generation, slot);
    object->worker = w;
    object->kind = (uint8_t)kind;
    object->fd = fd;
    qt_list_init(&object->pendings);
    return 0;
}

void qt_handle_free(qt_worker *w, qt_object *object) {
    qt_handles *h = &w->handles;
    uint32_t slot = (uint32_t)(object->handle & FIELD_MASK);
    assert(h->slots[slot].object == object);
    h->slots[slot].object = NULL;
    h->live--;
    __atomic_store_n(&w->stats.objects_live, h->live, __ATOMIC_RELAXED);
    /* A slot whose generations are used up is retired: an old handle must never name a new object. */
    if (++h->slots[slot].generation <= FIELD_MASK)
        queue_free(h, slot);
}

quoit_status qt_handle_find(qt_worker *w, uint64_t handle, uint32_t kinds, qt_object **out) {
    uint32_t kind = (uint32_t)(handle >> 56);
    uint32_t slot = (uint32_t)(handle & FIELD_MASK);
    uint32_t generation = (uint32_t)(handle >> SLOT_BITS) & FIELD_MASK;
    if (kind == 0 || kind > QT_HANDLE_LAST || generation == 0)
        return QUOIT_E_HANDLE;
    if (((handle >> 48) & 0xFF) != w->id)
        return QUOIT_E_WORKER;
    if (!(kinds & QT_KIND(kind)))
        return QUOIT_E_KIND;
    if (slot >= w->handles.capacity)
        return QUOIT_E_STALE;
    qt_object *object = w->handles.slots[slot].object;
    if (object == NULL || object->handle != handle)
        return QUOIT_E_STALE;
    *out = object;
    return 0;
}
