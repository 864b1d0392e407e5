/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Setting a ring up, by a ladder of sizes. */
#include "uring.h"

#include "../sys/clock.h"
#include "../sys/ring_trial.h"

#include <errno.h>
#include <quoit/runtime.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static enum qt_ring_rung ring_rung(uint32_t rung) {
    return rung == QUOIT_DRIVER_URING_DEFER  ? QT_RING_DEFER
           : rung == QUOIT_DRIVER_URING_COOP ? QT_RING_COOP
                                             : QT_RING_PLAIN;
}

/*
 * The kernel gives a new ring the addresses of one that is gone, maybe another thread's. Nothing is wrong with that, but no
 * instruction of ours would order the two for those who look for races.
 */
void qt_uring_order_rings(void) {
    static atomic_uint rings;
    atomic_fetch_add(&rings, 1);
}

static int set_up(qt_uring *u, uint32_t entries, uint32_t cq_entries) {
    int error = qt_ring_open(&u->ring, ring_rung(u->options.rung), entries, cq_entries);
    if (error)
        return error;
    qt_uring_order_rings();
    error = qt_ring_register_buffers(&u->ring, u->buffers, u->options.buffer_entries, 0);
    if (error) {
        io_uring_queue_exit(&u->ring);
        return error;
    }
    u->have_ring = true;
    return 0;
}

static uint32_t smaller(uint32_t entries, uint32_t least) {
    return entries / 2 > least ? entries / 2 : entries < least ? entries : least;
}

/*
 * The memory of rings that are gone, also of a process that ended, is charged to the user for a while. So the largest size that the limit can
 * grant is tried for a part of a second, then each smaller one once, and the smallest for the rest of the second.
 */
static int descend(qt_uring *u) {
    uint32_t entries = u->options.ring_entries;
    uint32_t cq_entries = u->options.cq_entries;
    int64_t from = qt_now_ns();
    for (;;) {
        bool least = entries <= QT_RING_ENTRIES_LEAST && cq_entries <= QT_RING_CQ_ENTRIES_LEAST;
        bool patient = u->options.patient &&
                       qt_memlock_allows(qt_ring_bytes(entries, cq_entries, u->options.buffer_entries));
        int64_t until = !patient ? from : from + (least ? QT_RING_RETRY_NS : QT_RING_RETRY_NS / 3);
        int error = set_up(u, entries, cq_entries);
        while (error == -ENOMEM && qt_now_ns() < until) {
            qt_ring_nap();
            error = set_up(u, entries, cq_entries);
        }
        if (error != -ENOMEM || least)
            return error;
        entries = smaller(entries, QT_RING_ENTRIES_LEAST);
        cq_entries = smaller(cq_entries, QT_RING_CQ_ENTRIES_LEAST);
    }
}

static int init(qt_uring *u) {
    u->buffers = qt_ring_buffers_map(u->options.buffer_entries, &u->buffers_bytes);
    if (u->buffers == NULL)
        return -ENOMEM;
    /* Not O_NONBLOCK: the ring's read on it must wait, not fail. */
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (u->wake_fd < 0)
        return -errno;
    int error = descend(u);
    if (error)
        return error;
    u->driver.ring_entries = u->ring.sq.ring_entries;
    u->driver.cq_entries = u->ring.cq.ring_entries;
    u->wait_flags = u->ring.features & IORING_FEAT_NO_IOWAIT ? IORING_ENTER_NO_IOWAIT : 0;
    return 0;
}

int qt_uring_create(const qt_driver_options *options, qt_driver **out) {
    qt_uring *u = calloc(1, sizeof *u);
    if (u == NULL)
        return -ENOMEM;
    u->driver.ops = &qt_uring_ops;
    u->driver.rung = options->rung;
    u->driver.forgets_ends = true;
    u->driver.zerocopy = true;
    u->driver.splices = true;
    u->options = *options;
    u->wake_fd = -1;
    atomic_init(&u->signal_fd, -1);
    u->host_fd = -1;
    u->polls_fd = -1;
    int error = init(u);
    if (error) {
        qt_uring_destroy(&u->driver, false);
        return error;
    }
    *out = &u->driver;
    return 0;
}

int qt_uring_enable(qt_driver *d) {
    qt_uring *u = (qt_uring *)d;
    d->system_calls++;
    int error = qt_ring_register(u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    if (error < 0)
        return error;
    u->owner = gettid();
    atomic_store(&u->enabled, true);
    return 0;
}
