/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The epoll driver: completions made of readiness. What is submitted is tried in enter; what would block waits for its
 * descriptor. Descriptors known to be ready are "hot" and served in turn by harvest, one receive or accept at a time, so that none
 * starves another even when a turn takes one event.
 */
#include "epoll_table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define READY 0x80u /* qt_req.flags: its completion waits in the ready list */
#define EVENTS_PER_WAIT 256

static void list_append(qt_req_list *list, qt_req *req) {
    req->next = NULL;
    req->prev = list->tail;
    if (list->tail != NULL)
        list->tail->next = req;
    else
        list->head = req;
    list->tail = req;
}

static void list_remove(qt_req_list *list, qt_req *req) {
    *(req->prev ? &req->prev->next : &list->head) = req->next;
    *(req->next ? &req->next->prev : &list->tail) = req->prev;
}

/* The request's one last completion, told by the next harvest. */
static void complete(qt_epoll *e, qt_req *req, int32_t res) {
    req->flags |= READY;
    req->state = QT_REQ_QUEUED;
    req->scratch = res;
    list_append(&e->ready, req);
}

static void tell(qt_req *req, int32_t res) {
    qt_completion c = {.res = res};
    req->state = QT_REQ_IDLE;
    req->flags &= (uint8_t)~READY;
    req->done(req, &c);
}

static int32_t result_of(qt_epoll *e, ssize_t result) {
    e->driver.system_calls++;
    return result < 0 ? -errno : (int32_t)result;
}

static bool would_block(int32_t res) {
    return res == -EAGAIN || res == -EWOULDBLOCK;
}

static void set_nonblocking(qt_epoll *e, int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    e->driver.system_calls += 2;
}

static int32_t try_send(qt_epoll *e, const qt_req *req) {
    int flags = (int)req->op_flags | MSG_DONTWAIT | MSG_NOSIGNAL;
    if (req->code == QT_REQ_SENDMSG)
        return result_of(e, sendmsg(req->fd, (const struct msghdr *)(uintptr_t)req->addr, flags));
    return result_of(e, send(req->fd, (const void *)(uintptr_t)req->addr, req->len, flags));
}

static int32_t connect_result(qt_epoll *e, int fd) {
    int error = 0;
    socklen_t len = sizeof error;
    int32_t res = result_of(e, getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    return res < 0 ? res : -error;
}

/* A descriptor that is new to us, whatever its number meant before. */
static void first_seen(qt_epoll *e, int fd) {
    qt_fd *entry = qt_fd_at(&e->table, fd);
    if (entry != NULL)
        entry->watched = 0;
}

/* Waits for the descriptor; a failure to register is the request's result. */
static void wait_for(qt_epoll *e, qt_req *req, bool out) {
    qt_fd *entry = qt_fd_at(&e->table, req->fd);
    if (entry == NULL) {
        complete(e, req, req->fd < 0 ? -EBADF : -ENOMEM);
        return;
    }
    qt_req **place = out ? &entry->out : &entry->in;
    assert(*place == NULL);
    *place = req;
    req->state = QT_REQ_IN_FLIGHT;
    int error = qt_fd_watch(e, entry);
    if (error == 0)
        return;
    *place = NULL;
    /* Regular files cannot be watched: they are always ready, as poll(2) says. */
    if (error == -EPERM && req->code == QT_REQ_POLL)
        error = (int)(req->op_flags & (POLLIN | POLLOUT));
    complete(e, req, error);
}

static void start(qt_epoll *e, qt_req *req) {
    int32_t res = 0;
    switch (req->code) {
    case QT_REQ_NOP:
        break;
    case QT_REQ_SEND:
    case QT_REQ_SENDMSG:
        res = try_send(e, req);
        if (would_block(res)) {
            wait_for(e, req, true);
            return;
        }
        break;
    case QT_REQ_CONNECT:
        first_seen(e, req->fd);
        set_nonblocking(e, req->fd);
        res = result_of(e, connect(req->fd, (const struct sockaddr *)(uintptr_t)req->addr, req->len));
        if (res == -EINPROGRESS) {
            wait_for(e, req, true);
            return;
        }
        break;
    case QT_REQ_SHUTDOWN:
        res = result_of(e, shutdown(req->fd, (int)req->op_flags));
        break;
    case QT_REQ_CLOSE:
        qt_fd_forget(e, req->fd);
        res = result_of(e, close(req->fd));
        break;
    case QT_REQ_ACCEPT:
        set_nonblocking(e, req->fd);
        wait_for(e, req, false);
        return;
    case QT_REQ_POLL:
        first_seen(e, req->fd);
        wait_for(e, req, false);
        return;
    case QT_REQ_RECV:
    case QT_REQ_DISCARD:
        wait_for(e, req, false);
        return;
    default: /* files */
        req->state = QT_REQ_IN_POOL;
        res = e->options.host.run_blocking(e->options.host.ctx, req);
        if (res == 0)
            return;
        break;
    }
    complete(e, req, res);
}

static void epoll_submit(qt_driver *d, qt_req *req) {
    qt_epoll *e = (qt_epoll *)d;
    assert(req->state == QT_REQ_IDLE);
    req->state = QT_REQ_QUEUED;
    req->cancelled = 0;
    list_append(&e->fresh, req);
}

/* Takes a waiting request off its descriptor. */
static void detach(qt_epoll *e, qt_req *req) {
    qt_fd *entry = qt_fd_at(&e->table, req->fd);
    if (entry->in == req)
        entry->in = NULL;
    else if (entry->out == req)
        entry->out = NULL;
    if (req->code == QT_REQ_POLL)
        qt_fd_unwatch(e, entry); /* a duplicate: its file stays open elsewhere, so close alone would leave it watched */
    else if (entry->out == NULL && entry->watched & EPOLLOUT)
        qt_fd_watch(e, entry);
}

static void epoll_cancel(qt_driver *d, qt_req *req) {
    qt_epoll *e = (qt_epoll *)d;
    if (req->cancelled || req->state == QT_REQ_IDLE)
        return;
    req->cancelled = 1;
    if (req->state == QT_REQ_IN_POOL) {
        e->options.host.cancel_blocking(e->options.host.ctx, req);
    } else if (req->state == QT_REQ_IN_FLIGHT) {
        detach(e, req);
        complete(e, req, -ECANCELED);
    } else if (!(req->flags & READY) && req->code != QT_REQ_CLOSE && req->code != QT_REQ_SHUTDOWN) {
        list_remove(&e->fresh, req);
        complete(e, req, -ECANCELED);
    }
}

static void start_fresh(qt_epoll *e) {
    qt_req_list fresh = e->fresh;
    e->fresh = (qt_req_list){0};
    while (fresh.head != NULL) {
        qt_req *req = fresh.head;
        list_remove(&fresh, req);
        start(e, req);
    }
}

static int wait_events(qt_epoll *e, struct epoll_event *events, int64_t timeout_ns) {
    struct timespec ts = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    e->driver.system_calls++;
    if (!e->no_pwait2) {
        long n = syscall(SYS_epoll_pwait2, e->fd, events, EVENTS_PER_WAIT, timeout_ns < 0 ? NULL : &ts, NULL, 0);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return (int)n;
        e->no_pwait2 = true;
    }
    int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + 999999) / 1000000;
    return epoll_wait(e->fd, events, EVENTS_PER_WAIT, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

static void drain_counter(qt_epoll *e, int fd) {
    uint64_t count;
    result_of(e, read(fd, &count, sizeof count));
}

static void retry_out(qt_epoll *e, qt_fd *entry) {
    qt_req *req = entry->out;
    int32_t res = req->code == QT_REQ_CONNECT ? connect_result(e, req->fd) : try_send(e, req);
    if (would_block(res))
        return;
    detach(e, req);
    complete(e, req, res);
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
        retry_out(e, entry);
    }
    if (entry->in != NULL && entry->in->code == QT_REQ_POLL) {
        qt_req *req = entry->in;
        wanted = true;
        detach(e, req);
        complete(e, req, (int32_t)(event->events & 0xFFFF));
    } else if (entry->in != NULL && event->events & ~(uint32_t)EPOLLOUT) {
        wanted = true;
        qt_hot_append(e, entry);
    }
    if (!wanted)
        qt_fd_quiet(e, entry, event->events);
}

static int epoll_enter(qt_driver *d, int64_t timeout_ns) {
    qt_epoll *e = (qt_epoll *)d;
    struct epoll_event events[EVENTS_PER_WAIT];
    start_fresh(e);
    if (e->ready.head != NULL || e->hot_head != NULL)
        timeout_ns = 0;
    int n = wait_events(e, events, timeout_ns);
    if (n < 0)
        return errno == EINTR ? -EINTR : 0;
    for (int i = 0; i < n; i++)
        ready_event(e, &events[i]);
    return 0;
}

/* One receive into a pool buffer. True if the descriptor may have more. */
static bool serve_recv(qt_epoll *e, qt_fd *entry) {
    qt_req *req = entry->in;
    bool multi = req->flags & QT_REQ_MULTISHOT;
    uint32_t room = req->len && req->len < e->options.buffer_size ? req->len : e->options.buffer_size;
    if (e->free_count == 0) {
        detach(e, req);
        tell(req, -ENOBUFS);
        return false;
    }
    uint32_t bid = e->free[e->free_count - 1];
    uint8_t *buffer = e->options.buffer_base + (uint64_t)bid * e->options.buffer_size;
    int32_t res = result_of(e, recv(req->fd, buffer, room, MSG_DONTWAIT));
    if (would_block(res) || res == -EINTR)
        return res == -EINTR;
    if (res <= 0 || !multi)
        detach(e, req);
    if (res <= 0) {
        tell(req, res);
        return false;
    }
    e->free_count--;
    bool full = (uint32_t)res == room;
    qt_completion c = {.res = res,
                       .bid = bid,
                       .flags = QT_CQ_BUFFER | (multi ? QT_CQ_MORE : 0) | (full ? QT_CQ_NONEMPTY : 0)};
    if (!multi)
        req->state = QT_REQ_IDLE;
    req->done(req, &c);
    return full;
}

static bool serve_accept(qt_epoll *e, qt_fd *entry) {
    qt_req *req = entry->in;
    bool multi = req->flags & QT_REQ_MULTISHOT;
    int32_t res = result_of(e, accept4(req->fd, NULL, NULL, SOCK_CLOEXEC));
    if (would_block(res))
        return false;
    if (res >= 0)
        first_seen(e, res);
    if (res < 0 || !multi) {
        detach(e, req);
        tell(req, res);
        return false;
    }
    qt_completion c = {.res = res, .flags = QT_CQ_MORE};
    req->done(req, &c);
    return true;
}

static bool serve_discard(qt_epoll *e, qt_fd *entry) {
    qt_req *req = entry->in;
    int32_t res = result_of(e, recv(req->fd, (void *)(uintptr_t)req->addr, req->len, MSG_DONTWAIT));
    if (would_block(res))
        return false;
    detach(e, req);
    tell(req, res);
    return false;
}

static bool serve(qt_epoll *e, qt_fd *entry) {
    switch (entry->in->code) {
    case QT_REQ_RECV:
        return serve_recv(e, entry);
    case QT_REQ_ACCEPT:
        return serve_accept(e, entry);
    default:
        return serve_discard(e, entry);
    }
}

static uint32_t epoll_harvest(qt_driver *d, uint32_t budget) {
    qt_epoll *e = (qt_epoll *)d;
    uint32_t count = 0;
    while (count < budget && e->ready.head != NULL) {
        qt_req *req = e->ready.head;
        list_remove(&e->ready, req);
        count++;
        tell(req, (int32_t)req->scratch);
    }
    while (count < budget && e->hot_head != NULL) {
        qt_fd *entry = e->hot_head;
        qt_hot_remove(e, entry);
        if (entry->in == NULL)
            continue; /* cancelled or closed since; level-triggered: it is reported again when it is wanted again */
        count++;
        if (serve(e, entry))
            qt_hot_append(e, entry);
    }
    return count;
}

static bool epoll_pending(qt_driver *d) {
    qt_epoll *e = (qt_epoll *)d;
    if (e->ready.head != NULL || e->hot_head != NULL || e->fresh.head != NULL)
        return true;
    if (!d->hosted)
        return false;
    struct pollfd peek = {.fd = e->fd, .events = POLLIN};
    return result_of(e, poll(&peek, 1, 0)) > 0;
}

static void epoll_buffer_add(qt_driver *d, uint32_t bid) {
    qt_epoll *e = (qt_epoll *)d;
    assert(e->free_count < e->options.buffer_entries);
    e->free[e->free_count++] = bid;
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
    return fd < 0 || epoll_ctl(e->fd, EPOLL_CTL_ADD, fd, &event) != 0 ? -errno : 0;
}

static int epoll_host_fd(qt_driver *d) {
    qt_epoll *e = (qt_epoll *)d;
    if (e->timer_fd < 0) {
        e->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        int error = watch_counter(e, e->timer_fd);
        if (error)
            return error;
    }
    d->hosted = true;
    return e->fd;
}

static void epoll_host_begin(qt_driver *d) {
    (void)d; /* level-triggered: nothing to silence */
}

static void epoll_host_end(qt_driver *d, bool left, int64_t deadline_ns) {
    qt_epoll *e = (qt_epoll *)d;
    if (deadline_ns != e->timer_deadline) {
        int64_t at = deadline_ns < 0 ? 0 : deadline_ns > 0 ? deadline_ns : 1;
        struct itimerspec spec = {.it_value = {at / 1000000000, at % 1000000000}};
        result_of(e, timerfd_settime(e->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL));
        e->timer_deadline = deadline_ns;
    }
    if (left || e->ready.head != NULL || e->hot_head != NULL || e->fresh.head != NULL) {
        uint64_t one = 1;
        result_of(e, write(e->wake_fd, &one, sizeof one));
    }
}

static int epoll_enable(qt_driver *d) {
    (void)d;
    return 0;
}

static void epoll_destroy(qt_driver *d, bool forked) {
    qt_epoll *e = (qt_epoll *)d;
    (void)forked; /* the same: the interest list is shared with the parent, but close only drops our reference */
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
    if (!error && e->free == NULL)
        error = -ENOMEM;
    if (error) {
        epoll_destroy(&e->driver, false);
        return error;
    }
    *out = &e->driver;
    return 0;
}
