/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "wheel.h"

#include <assert.h>
#include <string.h>

#define TICK_NS 1000000
#define SLOT_BITS 6
#define SLOT_MASK 63
#define SPAN_BITS (SLOT_BITS * QT_WHEEL_LEVELS)

/* The first tick at which a deadline has passed. */
static int64_t tick_after(int64_t ns) {
    return ns <= 0 ? 0 : (ns - 1) / TICK_NS + 1;
}

void qt_wheel_init(qt_wheel *wheel, int64_t now_ns) {
    memset(wheel, 0, sizeof *wheel);
    for (int level = 0; level < QT_WHEEL_LEVELS; level++)
        for (int slot = 0; slot < QT_WHEEL_SLOTS; slot++)
            qt_list_init(&wheel->slots[level][slot]);
    wheel->tick = now_ns / TICK_NS;
}

void qt_timer_init(qt_timer *timer, qt_timer_fn expired) {
    memset(timer, 0, sizeof *timer);
    qt_list_init(&timer->link);
    timer->expired = expired;
}

/*
 * A timer sits on the level of the highest bit in which its tick differs from the wheel's, so the slot is always ahead of
 * the wheel's place on that level. Ticks beyond the span wait in the last slot and are placed anew when it comes.
 */
static void place(qt_wheel *wheel, qt_timer *timer) {
    int64_t tick = tick_after(timer->deadline_ns);
    if (tick <= wheel->tick)
        tick = wheel->tick + 1;
    uint64_t differs = (uint64_t)tick ^ (uint64_t)wheel->tick;
    if (differs >> SPAN_BITS) {
        tick = (int64_t)(((uint64_t)wheel->tick | (((uint64_t)1 << SPAN_BITS) - 1)));
        differs = (uint64_t)tick ^ (uint64_t)wheel->tick;
        if (differs == 0) {
            tick = wheel->tick + 1;
            differs = 1;
        }
    }
    int level = (63 - __builtin_clzll(differs)) / SLOT_BITS;
    if (level >= QT_WHEEL_LEVELS) /* the tick after the span's end */
        level = 0;
    int slot = (int)((uint64_t)tick >> (level * SLOT_BITS)) & SLOT_MASK;
    timer->level = (uint8_t)level;
    timer->slot = (uint8_t)slot;
    qt_list_append(&wheel->slots[level][slot], &timer->link);
    wheel->occupied[level] |= (uint64_t)1 << slot;
}

static void unlink_timer(qt_wheel *wheel, qt_timer *timer) {
    qt_list_remove(&timer->link);
    if (qt_list_empty(&wheel->slots[timer->level][timer->slot]))
        wheel->occupied[timer->level] &= ~((uint64_t)1 << timer->slot);
}

void qt_timer_arm(qt_wheel *wheel, qt_timer *timer, int64_t deadline_ns) {
    qt_timer_disarm(wheel, timer);
    timer->deadline_ns = deadline_ns;
    timer->order = ++wheel->order;
    timer->armed = true;
    wheel->armed++;
    place(wheel, timer);
}

void qt_timer_disarm(qt_wheel *wheel, qt_timer *timer) {
    if (!timer->armed)
        return;
    unlink_timer(wheel, timer);
    timer->armed = false;
    wheel->armed--;
}

static bool before(const qt_timer *a, const qt_timer *b) {
    return a->deadline_ns < b->deadline_ns || (a->deadline_ns == b->deadline_ns && a->order < b->order);
}

/* Merge sort of a singly walked list: due timers come in few runs, mostly in order. */
static qt_timer *merge(qt_timer *a, qt_timer *b) {
    qt_link head = {0};
    qt_link *last = &head;
    while (a != NULL && b != NULL) {
        qt_timer **least = before(b, a) ? &b : &a;
        last->next = &(*least)->link;
        last = last->next;
        *least = last->next ? qt_container(last->next, qt_timer, link) : NULL;
    }
    qt_timer *rest = a ? a : b;
    last->next = rest ? &rest->link : NULL;
    return qt_container(head.next, qt_timer, link);
}

static void sort_due(qt_link *due) {
    qt_timer *runs[64] = {0};
    qt_link *at = due->next;
    while (at != due) {
        qt_link *next = at->next;
        qt_timer *run = qt_container(at, qt_timer, link);
        run->link.next = NULL;
        int i = 0;
        for (; runs[i] != NULL; i++) {
            run = merge(runs[i], run);
            runs[i] = NULL;
        }
        runs[i] = run;
        at = next;
    }
    qt_timer *all = NULL;
    for (int i = 0; i < 64; i++)
        if (runs[i] != NULL)
            all = all ? merge(runs[i], all) : runs[i];
    qt_list_init(due);
    for (qt_link *node = all ? &all->link : NULL; node != NULL;) {
        qt_link *next = node->next;
        qt_list_append(due, node);
        node = next;
    }
}

/* Takes the timers of the slot that begins now: those due are collected, the others placed anew nearer to their time. */
static void cascade(qt_wheel *wheel, int level, qt_link *due) {
    int slot = (int)((uint64_t)wheel->tick >> (level * SLOT_BITS)) & SLOT_MASK;
    qt_link moved;
    qt_list_init(&moved);
    qt_list_splice(&moved, &wheel->slots[level][slot]);
    wheel->occupied[level] &= ~((uint64_t)1 << slot);
    while (!qt_list_empty(&moved)) {
        qt_timer *timer = qt_container(moved.next, qt_timer, link);
        qt_list_remove(&timer->link);
        if (tick_after(timer->deadline_ns) <= wheel->tick)
            qt_list_append(due, &timer->link);
        else
            place(wheel, timer);
    }
}

/* The tick at which the next occupied slot begins, at most `limit`. */
static int64_t next_tick(const qt_wheel *wheel, int64_t limit) {
    int64_t best = limit;
    for (int level = 0; level < QT_WHEEL_LEVELS; level++) {
        uint64_t bits = wheel->occupied[level];
        if (bits == 0)
            continue;
        int shift = level * SLOT_BITS;
        int here = (int)((uint64_t)wheel->tick >> shift) & SLOT_MASK;
        uint64_t base = ((uint64_t)wheel->tick >> shift) & ~(uint64_t)SLOT_MASK;
        uint64_t ahead = here == SLOT_MASK ? 0 : bits & (~(uint64_t)0 << (here + 1));
        uint64_t slot =
            ahead ? (uint64_t)__builtin_ctzll(ahead) : (uint64_t)__builtin_ctzll(bits) + QT_WHEEL_SLOTS;
        int64_t tick = (int64_t)((base + slot) << shift);
        if (tick < best)
            best = tick;
    }
    return best;
}

void qt_wheel_collect(qt_wheel *wheel, int64_t now_ns, qt_link *due) {
    int64_t now_tick = now_ns / TICK_NS;
    qt_list_init(due);
    while (wheel->tick < now_tick) {
        wheel->tick = wheel->armed ? next_tick(wheel, now_tick) : now_tick;
        for (int level = QT_WHEEL_LEVELS - 1; level >= 0; level--)
            if (((uint64_t)wheel->tick & (((uint64_t)1 << (level * SLOT_BITS)) - 1)) == 0)
                cascade(wheel, level, due);
    }
    sort_due(due);
}

/* While due, a timer still counts as armed, on a slot that may be empty: unlinking it is harmless. */
void qt_wheel_fire(qt_wheel *wheel, qt_timer *timer) {
    assert(timer->armed);
    qt_list_remove(&timer->link);
    timer->armed = false;
    wheel->armed--;
    timer->expired(timer);
}

uint32_t qt_wheel_expire(qt_wheel *wheel, int64_t now_ns) {
    qt_link due;
    uint32_t count = 0;
    qt_wheel_collect(wheel, now_ns, &due);
    for (; !qt_list_empty(&due); count++) {
        qt_timer *timer = qt_container(due.next, qt_timer, link);
        assert(timer->deadline_ns <= now_ns);
        qt_wheel_fire(wheel, timer);
    }
    return count;
}

void qt_wheel_rewind(qt_wheel *wheel, int64_t now_ns) {
    if (now_ns / TICK_NS >= wheel->tick)
        return;
    qt_link all;
    qt_list_init(&all);
    for (int level = 0; level < QT_WHEEL_LEVELS; level++) {
        for (int slot = 0; slot < QT_WHEEL_SLOTS; slot++)
            qt_list_splice(&all, &wheel->slots[level][slot]);
        wheel->occupied[level] = 0;
    }
    wheel->tick = now_ns / TICK_NS;
    while (!qt_list_empty(&all)) {
        qt_timer *timer = qt_container(all.next, qt_timer, link);
        qt_list_remove(&timer->link);
        place(wheel, timer);
    }
}

int64_t qt_wheel_next_ns(const qt_wheel *wheel) {
    if (wheel->armed == 0)
        return -1;
    return next_tick(wheel, INT64_MAX / TICK_NS) * TICK_NS;
}
