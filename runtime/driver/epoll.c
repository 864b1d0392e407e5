/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The epoll driver: completions made of readiness. What is submitted is tried in enter; what would block waits for its
 * descriptor. Descriptors known to be ready are "hot" and served in turn by harvest, one receive or accept at a time, so that none
 * starves another even when a turn takes one event; after its share a descriptor waits for the next tick, so that one stream
 * does not empty the buffer pool.
 */
#include "epoll.h"

#include "../sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS_PER_WAIT 256
#define SERVED_PER_TICK 16 /* receives or accepts of one descriptor */
#define ROOM_PER_REPEAT 16 /* of that, one in a row for each so many completions that may be told */
#define SECOND 1000000000

static void epoll_submit(qt_driver *d, qt_req *req) {
    qt_epoll *e = (qt_epoll *)d;
    assert(req->state == QT_REQ_IDLE);
    req->state = QT_REQ_QUEUED;
    req->cancelled = 0;
    qt_req_append(&e->fresh, req);
}

static void epoll_cancel(qt_driver *d, qt_req *req) {
    qt_epoll *e = (qt_epoll *)d;
    if (req->cancelled || req->state == QT_REQ_IDLE)
        return;
    __atomic_store_n(&req->cancelled, 1, __ATOMIC_RELAXED); /* the pool looks while it waits */
    if (req->state == QT_REQ_IN_POOL) {
        e->options.host.cancel_blocking(e->options.host.ctx, req);
    } else if (req->state == QT_REQ_IN_FLIGHT) {
        qt_epoll_detach(e, req);
        qt_epoll_complete(e, req, -ECANCELED);
        qt_epoll_next_out(e, req->fd);
    } else if (req->flags & QT_EPOLL_STALLED) {
        req->flags &= (uint8_t)~QT_EPOLL_STALLED;
        qt_req_remove(&e->stalled, req);
        qt_epoll_complete(e, req, -ECANCELED);
    } else if (!(req->flags & QT_EPOLL_READY) && req->code != QT_REQ_CLOSE && req->code != QT_REQ_SHUTDOWN) {
        qt_req_remove(&e->fresh, req);
        qt_epoll_complete(e, req, -ECANCELED);
    }
}

static void start_all(qt_epoll *e, qt_req_list *list) {
    qt_req_list taken = *list;
    *list = (qt_req_list){0};
    while (taken.head != NULL) {
        qt_req *req = taken.head;
        qt_req_remove(&taken, req);
        req->flags &= (uint8_t)~QT_EPOLL_STALLED;
        qt_epoll_start(e, req);
    }
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* What was submitted is tried; returns how long the wait may be. */
static int64_t start_queued(qt_epoll *e, int64_t timeout_ns) {
    if (e->stalled.head != NULL && qt_now_ns() >= e->retry_ns)
        start_all(e, &e->stalled);
    start_all(e, &e->fresh);
    if (e->ready.head != NULL || e->hot_head != NULL || e->more)
        return 0;
    if (e->stalled.head == NULL)
        return timeout_ns;
    int64_t left = e->retry_ns - qt_now_ns();
    return earlier(timeout_ns, left > 0 ? left : 0);
}

/* In nanoseconds where the kernel has that call, else rounded up to milliseconds. The number of events or -errno. */
static int32_t wait_events(qt_epoll *e, struct epoll_event *events, int64_t timeout_ns) {
    const int64_t ts[2] = {timeout_ns / SECOND,
                           timeout_ns % SECOND}; /* the kernel's timespec, 64 bits everywhere */
    if (!e->no_pwait2) {
        const int64_t *limit = timeout_ns < 0 ? NULL : ts;
        long n = syscall(SYS_epoll_pwait2, e->fd, events, EVENTS_PER_WAIT, limit, NULL, (size_t)0);
        int32_t res = qt_epoll_result(e, n);
        if (res != -ENOSYS && res != -EPERM)
            return res;
        e->no_pwait2 = true;
    }
    int64_t ms = timeout_ns < 0 ? -1 : timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    int limit = ms > INT32_MAX ? INT32_MAX : (int)ms;
    return qt_epoll_result(e, epoll_pwait(e->fd, events, EVENTS_PER_WAIT, limit, NULL));
}

static void drain_counter(qt_epoll *e, int fd) {
    uint64_t count;
    qt_epoll_result(e, read(fd, &count, sizeof count));
    if (fd == e->timer_fd)
        e->timer_deadline = -1;
}

static void ready_event(qt_epoll *e, const struct epoll_event *event) {
    int fd = event->data.fd;
    if (fd == e->wake_fd || fd == e->timer_fd) {
        drain_counter(e, fd);
        return;
    }
    qt_fd *entry = qt_fd_at(&e->table, fd);
    bool wanted = false;
    if (entry->out != NULL && event->events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
        wanted = true;
        qt_epoll_retry_out(e, entry);
    }
    if (entry->in != NULL && entry->in->code == QT_REQ_POLL) {
        qt_req *req = entry->in;
        wanted = true;
        qt_epoll_detach(e, req);
        qt_epoll_complete(e, req, (int32_t)(event->events & 0xFFFF));
    } else if (entry->in != NULL && event->events & ~(uint32_t)EPOLLOUT) {
        wanted = true;
        qt_hot_append(e, entry);
    }
    if (!wanted)
        qt_fd_quiet(e, entry);
}

static int epoll_enter(qt_driver *d, int64_t timeout_ns) {
    qt_epoll *e = (qt_epoll *)d;
    struct epoll_event events[EVENTS_PER_WAIT];
    e->tick++;
    timeout_ns = start_queued(e, timeout_ns);
    int32_t n = wait_events(e, events, timeout_ns);
    if (n < 0)
        return n == -EINTR ? -EINTR : 0;
    e->more = n == EVENTS_PER_WAIT;
    for (int32_t i = 0; i < n; i++)
        ready_event(e, &events[i]);
    return 0;
}

/*
 * Serves the next hot descriptor. With room for many completions it is served several times in a row, so that what a stream
 * brings is answered in one send; with room for few, once. Returns how many completions that told.
 */
static uint32_t serve_next(qt_epoll *e, uint32_t room) {
    qt_fd *entry = e->hot_head;
    uint32_t told = 0;
    qt_hot_remove(e, entry);
    if (entry->tick != e->tick) {
        entry->tick = e->tick;
        entry->served = 0;
    }
    /* Nobody armed (cancelled since): level-triggered, it is reported again when it is wanted again. */
    for (uint32_t turns = 1 + room / ROOM_PER_REPEAT; turns > 0 && entry->in != NULL; turns--) {
        unsigned served = qt_epoll_serve(e, entry);
        told += served & QT_SERVED_TOLD ? 1 : 0;
        if (!(served & QT_SERVED_AGAIN))
            return told;
        if (++entry->served >= SERVED_PER_TICK) {
            e->more = true;
            return told;
        }
    }
    if (entry->in != NULL)
        qt_hot_append(e, entry);
    return told;
}

static void tell_next(qt_epoll *e) {
    qt_req *req = e->ready.head;
    qt_req_remove(&e->ready, req);
    qt_epoll_tell(req, (int32_t)req->scratch);
}

/* What is complete and what is hot take turns, so that neither starves the other under a small budget. */
static uint32_t epoll_harvest(qt_driver *d, uint32_t budget) {
    qt_epoll *e = (qt_epoll *)d;
    uint32_t told = 0;
    while (told < budget && (e->ready.head != NULL || e->hot_head != NULL)) {
        bool ready = e->ready.head != NULL && (e->ready_first || e->hot_head == NULL);
        e->ready_first = !ready;
        if (ready) {
            tell_next(e);
            told++;
        } else {
            told += serve_next(e, budget - told - 1);
        }
    }
    return told;
}

static bool known(const qt_epoll *e) {
    return e->ready.head != NULL || e->hot_head != NULL || e->fresh.head != NULL || e->more;
}

/* A look at the set with poll(2) moves nothing in it; epoll_wait would, and an edge-triggered host would miss the rest. */
static bool epoll_pending(qt_driver *d) {
    qt_epoll *e = (qt_epoll *)d;
    if (known(e))
        return true;
    if (!d->hosted)
        return false;
    struct pollfd peek = {.fd = e->fd, .events = POLLIN};
    return qt_epoll_result(e, poll(&peek, 1, 0)) > 0;
}

static void epoll_buffer_add(qt_driver *d, uint32_t bid) {
    qt_epoll *e = (qt_epoll *)d;
    assert(e->free_count < e->options.buffer_entries);
    e->free[e->free_count++] = bid;
}

static void epoll_forget(qt_driver *d, int fd) {
    qt_epoll *e = (qt_epoll *)d;
    qt_fd *entry = qt_fd_at(&e->table, fd);
    if (entry != NULL)
        qt_fd_unwatch(e, entry);
    qt_fd_renew(e, fd, -EBADF);
}

static void epoll_wake(qt_driver *d) {
    qt_epoll *e = (qt_epoll *)d;
    uint64_t one = 1;
    __atomic_fetch_add(&d->wakes, 1, __ATOMIC_RELAXED);
    ssize_t written = write(e->wake_fd, &one, sizeof one);
    (void)written; /* full: it is readable already */
}

static int watch_counter(qt_epoll *e, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(e->fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int epoll_host_fd(qt_driver *d) {
    qt_epoll *e = (qt_epoll *)d;
    if (e->timer_fd < 0) {
        int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (fd < 0)
            return -errno;
        int error = watch_counter(e, fd);
        if (error) {
            close(fd);
            return error;
        }
        e->timer_fd = fd;
    }
    /* A host that asks (as Go does) takes a descriptor for pollable only when it is non-blocking. */
    if (fcntl(e->fd, F_SETFL, O_NONBLOCK) != 0)
        return -errno;
    d->hosted = true;
    return e->fd;
}

static void epoll_host_begin(qt_driver *d) {
    (void)d; /* nothing to silence: what enter took out of the set makes it readable no more */
}

static void set_timer(qt_epoll *e, int64_t deadline_ns) {
    if (deadline_ns == e->timer_deadline)
        return;
    /* Zero would disarm it, and one that is past is due at once. */
    int64_t at = deadline_ns < 0 ? 0 : deadline_ns > 0 ? deadline_ns : 1;
    struct itimerspec spec = {.it_value = {at / SECOND, at % SECOND}};
    qt_epoll_result(e, timerfd_settime(e->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL));
    e->timer_deadline = deadline_ns;
}

/* An edge-triggered host sees only what becomes readable: the write is that edge, for all that is left from before. */
static void epoll_host_end(qt_driver *d, bool left, int64_t deadline_ns) {
    qt_epoll *e = (qt_epoll *)d;
    set_timer(e, e->stalled.head != NULL ? earlier(deadline_ns, e->retry_ns) : deadline_ns);
    if (left || epoll_pending(d)) {
        uint64_t one = 1;
        qt_epoll_result(e, write(e->wake_fd, &one, sizeof one));
    }
}

static int epoll_enable(qt_driver *d) {
    (void)d;
    return 0;
}

static void epoll_destroy(qt_driver *d, bool forked) {
    qt_epoll *e = (qt_epoll *)d;
    /* In a child the same: the set is shared with the parent, but close drops only our reference to it. */
    (void)forked;
    for (const qt_req *req = e->fresh.head; req != NULL; req = req->next)
        if (req->code == QT_REQ_CLOSE)
            close(req->fd);
    if (e->fd >= 0)
        close(e->fd);
    if (e->wake_fd >= 0)
        close(e->wake_fd);
    if (e->timer_fd >= 0)
        close(e->timer_fd);
    qt_fd_table_destroy(&e->table);
    free(e->free);
    free(e);
}

static const qt_driver_ops ops = {
    .name = "epoll",
    .enable = epoll_enable,
    .destroy = epoll_destroy,
    .submit = epoll_submit,
    .cancel = epoll_cancel,
    .enter = epoll_enter,
    .harvest = epoll_harvest,
    .pending = epoll_pending,
    .buffer_add = epoll_buffer_add,
    .forget = epoll_forget,
    .wake = epoll_wake,
    .host_fd = epoll_host_fd,
    .host_begin = epoll_host_begin,
    .host_end = epoll_host_end,
};

int qt_epoll_create(const qt_driver_options *options, qt_driver **out) {
    qt_epoll *e = calloc(1, sizeof *e);
    if (e == NULL)
        return -ENOMEM;
    e->driver.ops = &ops;
    e->driver.rung = options->rung;
    e->options = *options;
    e->timer_fd = -1;
    e->timer_deadline = -1;
    e->free = calloc(options->buffer_entries, sizeof *e->free);
    e->fd = epoll_create1(EPOLL_CLOEXEC);
    e->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int error = e->fd < 0 || e->wake_fd < 0 ? -errno : watch_counter(e, e->wake_fd);
    if (e->free == NULL)
        error = -ENOMEM;
    if (error) {
        epoll_destroy(&e->driver, false);
        return error;
    }
    *out = &e->driver;
    return 0;
}
