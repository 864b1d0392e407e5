/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "clocks.h"

#include "../sys/clock.h"
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define FIRST QUOIT_CLOCK_BOOT
#define COUNT 2
#define NEVER_S 9000000000 /* the kernel lets nobody set a clock that far, to 2255 */

typedef struct qt_clock_timers {
    qt_wheel wheel;
    int64_t now_ns; /* at this batch */
} qt_clock_timers;

struct qt_clocks {
    qt_clock_timers of[COUNT];
    int jump_fd; /* readable when the wall clock was set */
    qt_req *jump_req;
};

/* It only ends the sleep: what the clocks say now is read by the tick, as always. */
static void jumped(qt_req *req, const qt_completion *c) {
    qt_worker *w = req->owner;
    uint64_t count;
    ssize_t got = read(req->fd, &count, sizeof count); /* -ECANCELED is what it has to say */
    (void)got;
    QT_COUNT(w, system_calls, 1);
    if (c->res >= 0) {
        qt_submit(w, req);
        return;
    }
    qt_req_free(&w->requests, req);
    w->clocks->jump_req = NULL; /* the next timer tries again */
}

static void watch(qt_worker *w) {
    qt_req *req = qt_request(w, QT_REQ_POLL, w->clocks->jump_fd, w, jumped);
    if (req == NULL)
        return;
    req->op_flags = POLLIN;
    w->clocks->jump_req = req;
    qt_submit(w, req);
}

/* Never due, but cancelled by every jump. */
static int open_jump_fd(qt_worker *w) {
    const struct itimerspec never = {.it_value.tv_sec = NEVER_S};
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    QT_COUNT(w, system_calls, 2);
    if (fd < 0)
        return -errno;
    /* A jump between the two calls is told by an error; the timer is set all the same. */
    if (timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) != 0 &&
        errno != ECANCELED) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static int make(qt_worker *w) {
    qt_clocks *clocks = malloc(sizeof *clocks);
    if (clocks == NULL)
        return -ENOMEM;
    clocks->jump_fd = open_jump_fd(w);
    clocks->jump_req = NULL;
    if (clocks->jump_fd < 0) {
        int error = clocks->jump_fd;
        free(clocks);
        return error;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        clocks->of[i].now_ns = qt_clock_ns(FIRST + i);
        qt_wheel_init(&clocks->of[i].wheel, clocks->of[i].now_ns);
    }
    w->clocks = clocks;
    return 0;
}

static void read_one(qt_worker *w, uint32_t clock) {
    qt_clock_timers *timers = &w->clocks->of[clock - FIRST];
    timers->now_ns = qt_clock_ns(clock);
    qt_wheel_rewind(&timers->wheel, timers->now_ns);
}

int qt_clock_use(qt_worker *w, uint32_t clock) {
    int error = w->clocks == NULL ? make(w) : 0;
    if (error)
        return error;
    if (w->clocks->jump_req == NULL)
        watch(w);
    if (w->clocks->jump_req == NULL)
        return -ENOMEM;
    /* No tick reads a clock that has no timer. */
    if (w->clocks->of[clock - FIRST].wheel.armed == 0)
        read_one(w, clock);
    return 0;
}

qt_wheel *qt_clock_wheel(qt_worker *w, uint32_t clock) {
    return clock == QUOIT_CLOCK_MONOTONIC ? &w->wheel : &w->clocks->of[clock - FIRST].wheel;
}

int64_t qt_clock_now(const qt_worker *w, uint32_t clock) {
    return clock == QUOIT_CLOCK_MONOTONIC ? qt_now(w) : w->clocks->of[clock - FIRST].now_ns;
}

static bool in_use(const qt_worker *w, uint32_t clock) {
    return clock == QUOIT_CLOCK_MONOTONIC ||
           (w->clocks != NULL && w->clocks->of[clock - FIRST].wheel.armed > 0);
}

static qt_timer *first_of(const qt_link *due) {
    return qt_list_empty(due) ? NULL : qt_container(due->next, qt_timer, link);
}

/* The clock whose first due timer has waited longest. Each deadline lies at or before its clock's now. */
static uint32_t longest_due(const qt_worker *w, qt_link *due, uint32_t clocks) {
    uint32_t found = clocks;
    uint64_t longest = 0;
    for (uint32_t clock = 0; clock < clocks; clock++) {
        const qt_timer *timer = first_of(&due[clock]);
        uint64_t late = timer ? (uint64_t)qt_clock_now(w, clock) - (uint64_t)timer->deadline_ns : 0;
        if (timer != NULL && (found == clocks || late > longest)) {
            found = clock;
            longest = late;
        }
    }
    return found;
}

void qt_clocks_expire(qt_worker *w) {
    enum { ALL = FIRST + COUNT };
    qt_link due[ALL];
    if (!in_use(w, QUOIT_CLOCK_BOOT) && !in_use(w, QUOIT_CLOCK_WALL)) {
        qt_wheel_expire(&w->wheel, qt_now(w));
        return;
    }
    for (uint32_t clock = 0; clock < ALL; clock++) {
        qt_list_init(&due[clock]);
        if (!in_use(w, clock))
            continue;
        if (clock != QUOIT_CLOCK_MONOTONIC)
            read_one(w, clock);
        qt_wheel_collect(qt_clock_wheel(w, clock), qt_clock_now(w, clock), &due[clock]);
    }
    for (uint32_t clock; (clock = longest_due(w, due, ALL)) < ALL;) {
        qt_timer *timer = first_of(&due[clock]);
        assert(timer->deadline_ns <= qt_clock_now(w, clock));
        qt_wheel_fire(qt_clock_wheel(w, clock), timer);
    }
}

int64_t qt_clocks_next_ns(const qt_worker *w) {
    int64_t next = qt_wheel_next_ns(&w->wheel);
    for (uint32_t clock = FIRST; clock < FIRST + COUNT; clock++) {
        if (!in_use(w, clock))
            continue;
        /* Read in this order it may come too late by what passes between the two, and never too early, for another round. */
        int64_t left = qt_wheel_next_ns(&w->clocks->of[clock - FIRST].wheel) - qt_clock_ns(clock);
        int64_t at = qt_after(qt_now_ns(), left > 0 ? (uint64_t)left : 0);
        if (next < 0 || at < next)
            next = at;
    }
    return next;
}

void qt_clocks_destroy(qt_worker *w) {
    if (w->clocks == NULL)
        return;
    close(w->clocks->jump_fd);
    free(w->clocks);
    w->clocks = NULL;
}
