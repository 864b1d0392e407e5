/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The send arena: one scratch region per batch, pinned while a send in flight points into it. */
#include "object.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define NONE UINT32_MAX
/* Before the first region, so that none holds offset 0: in every op that means that there is nothing. */
#define HEAD 4096u

int qt_scratch_init(qt_worker *w) {
    qt_scratch *s = &w->scratch;
    s->region_size = w->options.scratch_len;
    s->arena_size = w->options.send_arena;
    for (; s->arena_size >= s->region_size; s->arena_size /= 2) {
        void *base = mmap(NULL, s->arena_size + HEAD, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED) {
            s->base = base;
            s->mapped = s->arena_size + HEAD;
            break;
        }
    }
    if (s->base == NULL)
        return -ENOMEM;
    s->region_count = (uint32_t)(s->arena_size / s->region_size);
    s->pins = calloc(s->region_count, sizeof *s->pins);
    s->current = NONE;
    return s->pins ? 0 : -ENOMEM;
}

void qt_scratch_destroy(qt_worker *w) {
    free(w->scratch.pins);
    if (w->scratch.base != NULL)
        munmap(w->scratch.base, w->scratch.mapped);
}

/* The lowest free region is taken, so that few pages are ever touched. */
void qt_scratch_next(qt_worker *w) {
    qt_scratch *s = &w->scratch;
    if (s->current != NONE && s->pins[s->current] == 0)
        return;
    s->current = NONE;
    for (uint32_t region = 0; region < s->region_count; region++) {
        if (s->pins[region] == 0) {
            s->current = region;
            break;
        }
    }
    w->batch->scratch_off = s->current == NONE ? 0 : HEAD + (uint64_t)s->current * s->region_size;
    w->batch->scratch_len = s->current == NONE ? 0 : s->region_size;
}
