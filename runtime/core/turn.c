/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The tick: mailbox, ops, loans end, one enter, harvest, mailbox, clock, timers, events. A turn that has nothing to tell goes round again
 * until its time is over: what came back meanwhile (buffers, room to send) is put to use in the same turn.
 */
#include "../sys/clock.h"
#include "clocks.h"
#include "object.h"

#include <errno.h>
#include <unistd.h>

#define GREASE_EVERY 7
/* Rounds of a turn whose time is over, while each finds work for the next: what a peer sends after a close has no end. */
#define LATE_ROUNDS 16

void qt_wake(qt_worker *w) {
    /* Only a sleeper needs the kernel. The mailbox was written before this is read: both are sequentially consistent. */
    if (atomic_exchange(&w->sleeping, 0))
        w->driver->ops->wake(w->driver);
}

static void read_clock(qt_worker *w) {
    w->batch->now_ns = (uint64_t)qt_now_ns();
}

static bool room(const qt_worker *w) {
    return w->batch->nevents < w->batch->events_max;
}

static bool all_told(const qt_worker *w) {
    return w->draining && w->handles.live == 0 && w->pendings.live == 0 && w->queue.count == 0;
}

/* The mailbox is shut with it: a post that came too late is told so, one that was taken has its event. */
static bool drained(qt_worker *w) {
    return all_told(w) && w->batch->nevents == 0 && qt_mailbox_shut(&w->mailbox);
}

static bool starved_can_go_on(const qt_worker *w) {
    return !qt_list_empty(&w->buffers.starved) && w->buffers.in_driver > 0;
}

static bool work_waits(const qt_worker *w) {
    return w->submitted > 0 || !qt_list_empty(&w->dirty) || !qt_list_empty(&w->channels_ready) ||
           starved_can_go_on(w);
}

/* How long the enter may wait: not at all when there is something to tell or do. */
static int64_t wait_ns(qt_worker *w, int64_t until_ns) {
    if (w->batch->nevents > 0 || w->queue.count > 0 || (w->draining && drained(w)))
        return 0;
    /* Those that were armed may all be idle: the next in line must have their turn before the worker sleeps. */
    if (starved_can_go_on(w) || !qt_list_empty(&w->channels_ready))
        return 0;
    int64_t next = qt_clocks_next_ns(w);
    if (next < 0 && until_ns < 0)
        return -1;
    if (next < 0 || (until_ns >= 0 && until_ns < next))
        next = until_ns;
    int64_t now = qt_now_ns();
    return next > now ? next - now : 0;
}

/* To be read after `sleeping` is raised: who writes later than this sees that, and wakes. */
static bool others_ask(qt_worker *w) {
    return !qt_mailbox_empty(&w->mailbox) || atomic_load(&w->stop) != w->draining ||
           atomic_load(&w->nudged) || qt_drain_asked(w);
}

static bool take_nudge(qt_worker *w) {
    return atomic_load(&w->nudged) && atomic_exchange(&w->nudged, false);
}

static int enter(qt_worker *w, int64_t until_ns) {
    int64_t wait = until_ns == 0 ? 0 : wait_ns(w, until_ns);
    int error;
    w->submitted = 0;
    if (wait == 0)
        return w->driver->ops->enter(w->driver, 0);
    atomic_store(&w->sleeping, 1);
    if (others_ask(w))
        wait = 0;
    int64_t from = qt_now_ns();
    error = w->driver->ops->enter(w->driver, wait);
    /* A hosted worker sleeps outside: its flag stays up until the next turn. */
    if (!w->driver->hosted)
        atomic_store(&w->sleeping, 0);
    if (wait != 0) {
        QT_COUNT(w, parks, 1);
        QT_COUNT(w, park_ns, qt_now_ns() - from);
    }
    return error;
}

/* What others asked: posts first, then quoit_stop, which came after them. */
static void open_mailbox(qt_worker *w) {
    qt_mailbox_open(&w->mailbox, w);
    if (atomic_load(&w->stop) && !w->draining) {
        qt_drain_end(w, -ECANCELED); /* a stop cuts its grace short */
        qt_stop_begin(w);
    }
}

/*
 * More is told when all that was told before has its place in the batch. A program whose ops end at once and which answers each with
 * another would never let it: a batch of such events after the last time, there were `since` events then, it waits in the queue.
 */
static uint32_t most_more(const qt_worker *w, uint64_t since) {
    const quoit_batch *batch = w->batch;
    if (room(w) && w->queue.count == 0)
        return batch->events_max - batch->nevents;
    return w->stats.events - w->queue.count >= since + batch->events_max ? batch->events_max : 0;
}

/* Messages of channels stay there until then. */
static void tell_channels(qt_worker *w, uint32_t share) {
    uint32_t most = qt_list_empty(&w->channels_ready) ? 0 : most_more(w, w->channels_told);
    if (most == 0)
        return;
    qt_channels_deliver(w, (most + share - 1) / share);
    w->channels_told = w->stats.events;
}

static void harvest(qt_worker *w) {
    /* Half the batch for channels, half for the kernel's completions; a single event each has in its turn. */
    if (w->batch->tick % 2)
        tell_channels(w, 2);
    uint32_t most = most_more(w, w->harvested);
    if (most > 0) {
        w->driver->ops->harvest(w->driver, most);
        w->harvested = w->stats.events;
    }
    open_mailbox(w);
    read_clock(w);
    qt_clocks_expire(w);
    qt_drain_advance(w);
    tell_channels(w, 1);
}

static void add_grease(qt_worker *w) {
    if (!(w->options.flags & QUOIT_WORKER_GREASE) || !room(w) || w->batch->tick % GREASE_EVERY != 0)
        return;
    w->grease = w->grease * 6364136223846793005u + 1442695040888963407u;
    quoit_event *event = qt_event(w, QUOIT_KIND_GREASE + (uint32_t)(w->grease >> 56), 0, UINT64_MAX,
                                  (int64_t)(w->grease >> 33));
    event->value = w->grease;
}

static void deliver(qt_worker *w, bool interrupted) {
    quoit_batch *batch = w->batch;
    /* After the last events one turn more says that it has drained. */
    bool left = w->queue.count > 0 || work_waits(w) || !qt_list_empty(&w->leaving) ||
                (all_told(w) && w->batch->nevents > 0);
    if (w->driver->hosted) {
        atomic_store(&w->sleeping, 1);
        left |= others_ask(w);
        w->driver->ops->host_end(w->driver, left, qt_clocks_next_ns(w));
    }
    left |= w->queue.count > 0 || (!room(w) && w->driver->ops->pending(w->driver));
    w->drained = drained(w);
    add_grease(w);
    batch->flags = (interrupted ? QUOIT_BATCH_INTERRUPTED : 0) | (left ? QUOIT_BATCH_LEFT : 0) |
                   (w->drained ? QUOIT_BATCH_DRAINED : 0);
    int64_t next = qt_clocks_next_ns(w);
    batch->next_ns = next < 0 ? -1 : next > qt_now(w) ? next - qt_now(w) : 0;
    qt_loans_begin(w);
    qt_scratch_next(w);
    w->filling = false;
}

static void count_tick(qt_worker *w, int64_t from, uint64_t parked_before) {
    uint64_t own = (uint64_t)(qt_now_ns() - from) - (w->stats.park_ns - parked_before);
    uint32_t bucket = own < 1024 ? 0 : (uint32_t)(64 - __builtin_clzll(own)) - 10;
    QT_COUNT(w, tick_ns_hist[bucket < 16 ? bucket : 15], 1);
    QT_COUNT(w, ticks, 1);
    __atomic_store_n(&w->stats.cq_overflows, w->driver->cq_overflows, __ATOMIC_RELAXED);
    __atomic_store_n(&w->driver_calls, w->driver->system_calls, __ATOMIC_RELAXED);
}

static int enable(qt_worker *w) {
    if (w->enabled)
        return 0;
    int error = w->driver->ops->enable(w->driver);
    if (error == 0) {
        w->enabled = true;
        read_clock(w); /* times of the first ops count from now, not from the worker's making */
        qt_buffers_refill(w);
    }
    return error;
}

void qt_submit_ops(qt_worker *w, uint32_t nops) {
    for (uint32_t i = 0; i < nops; i++)
        qt_execute(w, &w->ops[i]);
}

static int round_trip(qt_worker *w, int64_t until_ns) {
    qt_starved_rearm(w);
    qt_send_flush(w);
    int error = enter(w, until_ns);
    if (w->driver->hosted)
        w->driver->ops->host_begin(w->driver);
    harvest(w);
    return error;
}

quoit_status qt_turn(qt_worker *w, uint32_t nops, int64_t timeout_ns, bool may_block) {
    quoit_batch *batch = w->batch;
    quoit_status status = enable(w);
    if (status != 0)
        return status;
    atomic_store(&w->sleeping, 0);
    int64_t from = qt_now_ns();
    uint64_t parked = w->stats.park_ns;
    int64_t until = !may_block || timeout_ns == 0   ? 0
                    : timeout_ns < 0                ? -1
                    : timeout_ns > INT64_MAX - from ? INT64_MAX
                                                    : from + timeout_ns;
    bool interrupted = false;
    unsigned late_rounds = 0;
    batch->nevents = 0;
    batch->nops = 0;
    batch->tick++;
    w->filling = true;
    w->seen = w->stats.events - w->queue.count;
    qt_list_splice(&w->dirty, &w->leaving);
    qt_events_move(w);
    open_mailbox(w);
    qt_submit_ops(w, nops);
    qt_loans_end(w);
    for (;;) {
        interrupted = round_trip(w, until) == -EINTR;
        qt_events_move(w);
        bool nudged = take_nudge(w);
        if (batch->nevents > 0 || interrupted || nudged || drained(w))
            break;
        bool late = until == 0 || (until > 0 && qt_now(w) >= until);
        if (late && (!work_waits(w) || ++late_rounds == LATE_ROUNDS))
            break;
    }
    deliver(w, interrupted);
    count_tick(w, from, parked);
    return (quoit_status)batch->nevents;
}

quoit_status qt_run(qt_worker *w, quoit_batch_fn on_batch, void *ctx) {
    quoit_batch *batch = w->batch;
    uint32_t nops = batch->nops;
    for (;;) {
        if (nops > batch->ops_max)
            return QUOIT_E_TOO_MANY;
        quoit_status status = qt_turn(w, nops, -1, true);
        if (status < 0)
            return status;
        nops = 0;
        if (status > 0) {
            QT_COUNT(w, crossings, 1);
            status = on_batch(ctx, (quoit_worker *)w->shell, batch);
            nops = batch->nops;
            if (status == 0)
                continue;
            /* What the last callback asked is taken; a later turn carries it to the kernel. */
            if (nops <= batch->ops_max)
                qt_submit_ops(w, nops);
            batch->nops = 0;
            return status == QUOIT_RUN_STOP ? 0 : status < 0 ? status : QUOIT_E_ARGUMENT;
        }
        if (w->drained)
            return 0;
    }
}
