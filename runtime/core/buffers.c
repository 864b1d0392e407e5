/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Receive buffers. Those of the pool go from the driver to an event (lent), may be kept by the program or pinned by a
 * queued send, and come back when nobody holds them. While one is out for longer than its batch, another takes its place in the
 * driver, so that slow holders starve nobody; what is out is bounded by kept_max.
 */
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NONE UINT32_MAX
#define LARGE_SHIFT 12u
#define GENERATION_MASK 0xFFFFFFu
#define SMALLEST_ARENA (16u << 20)

/* Reserves addresses; smaller where RLIMIT_AS or a sanitizer leaves less room. */
static uint8_t *reserve(uint64_t *size) {
    for (; *size >= SMALLEST_ARENA; *size /= 2) {
        void *base =
            mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED)
            return base;
    }
    return NULL;
}

int qt_buffers_init(qt_worker *w) {
    qt_buffers *b = &w->buffers;
    b->size = w->options.recv_buffer_size;
    b->target = w->options.recv_buffers;
    b->arena_size = w->options.recv_arena;
    b->base = reserve(&b->arena_size);
    if (b->base == NULL)
        return -ENOMEM;
    uint64_t room = b->arena_size / 2 / b->size;
    b->created_max = room < QT_POOL_BUFFERS_MAX ? (uint32_t)room : QT_POOL_BUFFERS_MAX;
    if (b->created_max < 2 * b->target)
        return -EINVAL;
    b->large_start = ((uint64_t)b->created_max * b->size + 4095u) & ~(uint64_t)4095u;
    b->large_next = b->large_start;
    uint64_t spare = (uint64_t)(b->created_max - b->target) * b->size;
    b->kept_max = w->options.kept_max < spare ? w->options.kept_max : spare;
    b->stash_head = NONE;
    for (int i = 0; i < QT_LARGE_CLASSES; i++)
        b->large_free[i] = NONE;
    qt_list_init(&b->starved);
    b->pool = calloc(b->created_max, sizeof *b->pool);
    b->lent = calloc(w->options.events_max, sizeof *b->lent);
    return b->pool && b->lent ? 0 : -ENOMEM;
}

void qt_buffers_destroy(qt_worker *w) {
    qt_buffers *b = &w->buffers;
    free(b->pool);
    free(b->large);
    free(b->lent);
    if (b->base != NULL)
        munmap(b->base, b->arena_size);
}

static void publish(qt_worker *w) {
    qt_buffers *b = &w->buffers;
    __atomic_store_n(&w->stats.buffers_total, b->created, __ATOMIC_RELAXED);
    __atomic_store_n(&w->stats.buffers_free, b->in_driver + b->stash_count, __ATOMIC_RELAXED);
}

static void give_to_driver(qt_worker *w, uint32_t bid) {
    w->buffers.pool[bid].where = QT_BUFFER_DRIVER;
    w->buffers.in_driver++;
    w->driver->ops->buffer_add(w->driver, bid);
}

void qt_buffers_refill(qt_worker *w) {
    qt_buffers *b = &w->buffers;
    while (b->in_driver + b->lent_pool < b->target) {
        uint32_t bid = b->stash_head;
        if (bid != NONE) {
            b->stash_head = b->pool[bid].next_free;
            b->stash_count--;
        } else if (b->created < b->created_max) {
            bid = b->created++;
            b->pool[bid].generation = 1;
            b->pool[bid].offset = (uint64_t)bid * b->size;
        } else {
            break;
        }
        give_to_driver(w, bid);
    }
    publish(w);
}

qt_buffer *qt_buffer_at(qt_worker *w, uint32_t index) {
    qt_buffers *b = &w->buffers;
    if (index < b->created)
        return &b->pool[index];
    uint32_t large = index - QT_POOL_BUFFERS_MAX;
    return index >= QT_POOL_BUFFERS_MAX && large < b->large_count ? &b->large[large] : NULL;
}

static bool is_large(qt_worker *w, const qt_buffer *buffer) {
    return buffer->offset >= w->buffers.large_start;
}

uint32_t qt_buffer_index(qt_worker *w, const qt_buffer *buffer) {
    qt_buffers *b = &w->buffers;
    return is_large(w, buffer) ? (uint32_t)(buffer - b->large) + QT_POOL_BUFFERS_MAX
                               : (uint32_t)(buffer - b->pool);
}

uint64_t qt_buffer_handle(qt_worker *w, const qt_buffer *buffer) {
    return qt_handle_make(QUOIT_HANDLE_BUFFER, w->id, buffer->generation, qt_buffer_index(w, buffer));
}

uint32_t qt_buffer_size(qt_worker *w, const qt_buffer *buffer) {
    return is_large(w, buffer) ? 1u << (LARGE_SHIFT + buffer->class) : w->buffers.size;
}

/* A pool buffer came out of the driver with bytes in it. */
qt_buffer *qt_buffer_received(qt_worker *w, uint32_t bid, uint32_t length, uint64_t owner) {
    qt_buffers *b = &w->buffers;
    assert(bid < b->created && b->pool[bid].where == QT_BUFFER_DRIVER);
    b->in_driver--;
    qt_buffer *buffer = &b->pool[bid];
    buffer->where = QT_BUFFER_HELD;
    buffer->length = length;
    buffer->owner = owner;
    buffer->packet = 0;
    return buffer;
}

static uint32_t new_large(qt_buffers *b, uint32_t class) {
    uint64_t size = (uint64_t)1 << (LARGE_SHIFT + class);
    if (b->large_next + size > b->arena_size)
        return NONE;
    if (b->large_count == b->large_capacity) {
        uint32_t capacity = b->large_capacity ? b->large_capacity * 2 : 64;
        qt_buffer *large = realloc(b->large, capacity * sizeof *large);
        if (large == NULL)
            return NONE;
        b->large = large;
        b->large_capacity = capacity;
    }
    b->large[b->large_count] =
        (qt_buffer){.generation = 1, .class = (uint8_t) class, .offset = b->large_next, .next_free = NONE};
    b->large_next += size;
    return b->large_count++;
}

qt_buffer *qt_buffer_take_large(qt_worker *w, uint32_t length, uint64_t owner) {
    qt_buffers *b = &w->buffers;
    uint32_t class = 0;
    while ((1u << (LARGE_SHIFT + class)) < length)
        class ++;
    assert(class < QT_LARGE_CLASSES);
    uint32_t at = b->large_free[class];
    if (at != NONE)
        b->large_free[class] = b->large[at].next_free;
    else if ((at = new_large(b, class)) == NONE)
        return NULL;
    qt_buffer *buffer = &b->large[at];
    buffer->where = QT_BUFFER_HELD;
    buffer->owner = owner;
    buffer->packet = 0;
    buffer->pins = 1; /* the read in flight */
    return buffer;
}

bool qt_buffer_count_kept(qt_worker *w, qt_buffer *buffer) {
    qt_buffers *b = &w->buffers;
    if (buffer->counted)
        return true;
    uint32_t size = qt_buffer_size(w, buffer);
    if (b->kept_bytes + size > b->kept_max)
        return false;
    b->kept_bytes += size;
    buffer->counted = 1;
    __atomic_store_n(&w->stats.buffers_kept, b->kept_bytes, __ATOMIC_RELAXED);
    return true;
}

static void give_back(qt_worker *w, qt_buffer *buffer) {
    qt_buffers *b = &w->buffers;
    uint32_t index = qt_buffer_index(w, buffer);
    if (buffer->counted) {
        b->kept_bytes -= qt_buffer_size(w, buffer);
        buffer->counted = 0;
        __atomic_store_n(&w->stats.buffers_kept, b->kept_bytes, __ATOMIC_RELAXED);
    }
    buffer->owner = 0;
    buffer->where = QT_BUFFER_STASH;
    buffer->generation = buffer->generation == GENERATION_MASK ? 1 : buffer->generation + 1;
    if (index >= QT_POOL_BUFFERS_MAX) {
        buffer->next_free = b->large_free[buffer->class];
        b->large_free[buffer->class] = index - QT_POOL_BUFFERS_MAX;
        return;
    }
    if (b->in_driver + b->lent_pool < b->target) {
        give_to_driver(w, index);
    } else {
        buffer->next_free = b->stash_head;
        b->stash_head = index;
        b->stash_count++;
    }
    publish(w);
}

void qt_buffer_settle(qt_worker *w, qt_buffer *buffer) {
    if (!buffer->lent && buffer->keeps == 0 && buffer->pins == 0)
        give_back(w, buffer);
}

void qt_buffer_lend(qt_worker *w, qt_buffer *buffer) {
    buffer->lent = 1;
    if (!is_large(w, buffer))
        w->buffers.lent_pool++;
}

/* The buffer that this offset lies in. Blocks are made one behind the other. */
static uint32_t index_at(const qt_buffers *b, uint64_t offset) {
    if (offset < b->large_start)
        return (uint32_t)(offset / b->size);
    uint32_t low = 0;
    for (uint32_t high = b->large_count; high - low > 1;) {
        uint32_t middle = low + (high - low) / 2;
        if (b->large[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low + QT_POOL_BUFFERS_MAX;
}

void qt_loans_begin(qt_worker *w) {
    qt_buffers *b = &w->buffers;
    assert(b->lent_count == 0);
    for (uint32_t i = 0; i < w->batch->nevents; i++) {
        const quoit_event *event = &w->events[i];
        if (!(event->flags & (QUOIT_EVF_LENT | QUOIT_EVF_COPIED)))
            continue;
        b->lent[b->lent_count++] =
            event->buffer ? (uint32_t)(event->buffer & GENERATION_MASK) : index_at(b, event->offset);
    }
}

void qt_loans_end(qt_worker *w) {
    qt_buffers *b = &w->buffers;
    for (uint32_t i = 0; i < b->lent_count; i++) {
        qt_buffer *buffer = qt_buffer_at(w, b->lent[i]);
        assert(buffer->lent);
        buffer->lent = 0;
        if (!is_large(w, buffer))
            b->lent_pool--;
        qt_buffer_settle(w, buffer);
    }
    b->lent_count = 0;
    qt_buffers_refill(w);
}

/* Live for the program: lent in this batch, or kept. */
quoit_status qt_buffer_find(qt_worker *w, uint64_t handle, qt_buffer **out) {
    uint32_t kind = (uint32_t)(handle >> 56);
    if (kind == 0 || kind > QT_HANDLE_LAST || ((handle >> 24) & GENERATION_MASK) == 0)
        return QUOIT_E_HANDLE;
    if (((handle >> 48) & 0xFF) != w->id)
        return QUOIT_E_WORKER;
    if (kind != QUOIT_HANDLE_BUFFER)
        return QUOIT_E_KIND;
    qt_buffer *buffer = qt_buffer_at(w, (uint32_t)(handle & GENERATION_MASK));
    if (buffer == NULL || buffer->generation != ((handle >> 24) & GENERATION_MASK) ||
        (!buffer->lent && buffer->keeps == 0))
        return QUOIT_E_STALE;
    *out = buffer;
    return 0;
}

quoit_status qt_buffer_check(qt_worker *w, uint64_t handle, uint64_t offset, uint64_t len, qt_buffer **out) {
    quoit_status status = qt_buffer_find(w, handle, out);
    if (status != 0)
        return status;
    uint64_t start = (*out)->offset;
    if (offset < start || offset - start > (*out)->length || len > (*out)->length - (offset - start))
        return QUOIT_E_RANGE;
    return 0;
}

/* The stream or datagram socket whose bytes these are, while it lives. */
static qt_stream *owner_stream(qt_worker *w, const qt_buffer *buffer) {
    qt_object *object;
    uint32_t kinds = QT_KIND(QUOIT_HANDLE_STREAM) | QT_KIND(QUOIT_HANDLE_DATAGRAM);
    if (qt_handle_find(w, buffer->owner, kinds, &object) != 0)
        return NULL;
    return (qt_stream *)object;
}

void qt_op_keep(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    qt_buffer *buffer;
    quoit_status status = qt_buffer_find(w, op->target, &buffer);
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_TARGET);
        return;
    }
    if (buffer->keeps == UINT16_MAX || !qt_buffer_count_kept(w, buffer)) {
        qt_refuse(w, op, -ENOBUFS, QUOIT_FIELD_TARGET);
        return;
    }
    if (buffer->keeps++ == 0) {
        qt_stream *s = owner_stream(w, buffer);
        if (s != NULL) {
            s->kept_bytes += qt_buffer_size(w, buffer);
            if (s->kept_bytes >= w->options.kept_stream_max)
                qt_recv_pause_for(s, QT_PAUSED_KEPT);
        }
    }
    if (op->flags & QUOIT_OPF_QUIET)
        return;
    qt_event(w, op->opcode, op->target, op->user_data, 0)->buffer = op->target;
}

void qt_buffer_unkeep(qt_worker *w, qt_buffer *buffer) {
    assert(buffer->keeps > 0);
    if (--buffer->keeps == 0) {
        qt_stream *s = owner_stream(w, buffer);
        if (s != NULL) {
            s->kept_bytes -= qt_buffer_size(w, buffer);
            if (s->kept_bytes < w->options.kept_stream_max)
                qt_recv_resume_for(s, QT_PAUSED_KEPT);
        }
    }
    qt_buffer_settle(w, buffer);
}

void qt_op_release(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    qt_buffer *buffer;
    quoit_status status = qt_buffer_find(w, op->target, &buffer);
    if (status == 0 && buffer->keeps == 0)
        status = QUOIT_E_STALE; /* lent, not kept */
    if (status != 0)
        qt_refuse(w, op, status, QUOIT_FIELD_TARGET);
    else
        qt_buffer_unkeep(w, buffer);
}
