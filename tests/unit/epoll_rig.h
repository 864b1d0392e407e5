/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A driver without core: completions are written down, file requests wait in a list until the test runs them. */
#ifndef TEST_EPOLL_RIG_H
#define TEST_EPOLL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/driver.h"
#include "sys/clock.h"

#include <errno.h>
#include <quoit/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RIG_BUFFERS 64u
#define RIG_BUFFER_SIZE 64u
#define RIG_TOLD_MAX 65536u
#define RIG_PATIENCE_NS 20000000000 /* a test that waits longer has failed */

struct told {
    qt_req *req;
    int32_t res;
    uint32_t flags;
    uint32_t bid;
};

struct rig {
    qt_driver *d;
    qt_req_table requests;
    uint8_t *memory;
    struct told *told;
    unsigned count; /* completions told */
    unsigned read;  /* of which the test has seen */
    qt_req *jobs[16];
    unsigned job_count;
    unsigned job_cancels; /* times that cancel_blocking was called */
    int refuse_jobs;      /* -errno for run_blocking to answer */
    bool keep;            /* the test gives buffers back itself */
};

static inline void rig_done(qt_req *req, const qt_completion *completion) {
    struct rig *rig = req->owner;
    bool more = completion->flags & QT_CQ_MORE;
    assert_true(rig->count < RIG_TOLD_MAX);
    assert_int_equal(req->state == QT_REQ_IDLE, !more);
    rig->told[rig->count++] = (struct told){req, completion->res, completion->flags, completion->bid};
    if (completion->flags & QT_CQ_BUFFER && !rig->keep)
        rig->d->ops->buffer_add(rig->d, completion->bid);
}

static inline int rig_run_blocking(void *ctx, qt_req *req) {
    struct rig *rig = ctx;
    if (rig->refuse_jobs)
        return rig->refuse_jobs;
    assert_true(rig->job_count < 16);
    rig->jobs[rig->job_count++] = req;
    return 0;
}

/* What a pool does with a job that has not begun: core then tells it as cancelled. */
static inline bool rig_cancel_blocking(void *ctx, qt_req *req) {
    struct rig *rig = ctx;
    rig->job_cancels++;
    for (unsigned i = 0; i < rig->job_count; i++) {
        if (rig->jobs[i] != req)
            continue;
        rig->jobs[i] = rig->jobs[--rig->job_count];
        req->state = QT_REQ_IDLE;
        req->done(req, &(qt_completion){.res = -ECANCELED});
        return true;
    }
    return false;
}

static inline void rig_run_jobs(struct rig *rig) {
    for (unsigned i = 0; i < rig->job_count; i++) {
        qt_completion completion = {.res = qt_req_execute(rig->jobs[i])};
        rig->jobs[i]->state = QT_REQ_IDLE;
        rig->jobs[i]->done(rig->jobs[i], &completion);
    }
    rig->job_count = 0;
}

static inline void rig_open(struct rig *rig, unsigned buffers) {
    memset(rig, 0, sizeof *rig);
    rig->memory = malloc((size_t)RIG_BUFFERS * RIG_BUFFER_SIZE);
    rig->told = malloc(RIG_TOLD_MAX * sizeof *rig->told);
    assert_true(rig->memory != NULL && rig->told != NULL);
    qt_driver_options options = {
        .rung = QUOIT_DRIVER_EPOLL,
        .buffer_entries = RIG_BUFFERS,
        .buffer_size = RIG_BUFFER_SIZE,
        .buffer_base = rig->memory,
        .host = {.ctx = rig, .run_blocking = rig_run_blocking, .cancel_blocking = rig_cancel_blocking},
        .requests = &rig->requests};
    assert_int_equal(qt_epoll_create(&options, &rig->d), 0);
    assert_int_equal(rig->d->ops->enable(rig->d), 0);
    for (uint32_t bid = 0; bid < buffers; bid++)
        rig->d->ops->buffer_add(rig->d, bid);
}

static inline void rig_close(struct rig *rig) {
    rig->d->ops->destroy(rig->d, false);
    qt_req_table_destroy(&rig->requests);
    free(rig->memory);
    free(rig->told);
}

static inline qt_req *rig_req(struct rig *rig, uint8_t code, int fd) {
    qt_req *req = qt_req_alloc(&rig->requests);
    assert_non_null(req);
    req->done = rig_done;
    req->owner = rig;
    req->code = code;
    req->fd = fd;
    return req;
}

static inline void rig_submit(struct rig *rig, qt_req *req) {
    unsigned before = rig->count;
    rig->d->ops->submit(rig->d, req);
    assert_int_equal(rig->count, before); /* nothing completes inside submit */
}

static inline qt_req *rig_recv(struct rig *rig, int fd, uint8_t flags) {
    qt_req *req = rig_req(rig, QT_REQ_RECV, fd);
    req->flags = flags;
    rig_submit(rig, req);
    return req;
}

static inline qt_req *rig_memory(struct rig *rig, uint8_t code, int fd, const void *memory, uint32_t len) {
    qt_req *req = rig_req(rig, code, fd);
    req->addr = (uint64_t)(uintptr_t)memory;
    req->len = len;
    return req;
}

static inline void rig_tick(struct rig *rig, int64_t timeout_ns, uint32_t budget) {
    int error = rig->d->ops->enter(rig->d, timeout_ns);
    assert_true(error == 0 || error == -EINTR);
    unsigned before = rig->count;
    uint32_t told = rig->d->ops->harvest(rig->d, budget);
    assert_true(told <= budget);
    assert_int_equal(rig->count - before, told);
}

/* Goes round until `count` completions in all were told. */
static inline void rig_until(struct rig *rig, unsigned count) {
    int64_t end = qt_now_ns() + RIG_PATIENCE_NS;
    while (rig->count < count) {
        assert_true(qt_now_ns() < end);
        rig_tick(rig, 100000000, 1000);
    }
}

/* The next completion, waited for; it must be of that request. */
static inline struct told rig_next(struct rig *rig, const qt_req *req) {
    rig_until(rig, rig->read + 1);
    struct told told = rig->told[rig->read++];
    assert_ptr_equal(told.req, req);
    return told;
}

/* The request's one last completion, with this result. */
static inline void rig_ends(struct rig *rig, qt_req *req, int32_t res) {
    struct told told = rig_next(rig, req);
    assert_int_equal(told.res, res);
    assert_int_equal(told.flags, 0);
    qt_req_free(&rig->requests, req);
}

static inline void rig_cancel(struct rig *rig, qt_req *req) {
    rig->d->ops->cancel(rig->d, req);
}

/* Nothing is to be told: the driver sleeps for the whole time instead of spinning over what nobody wants. */
static inline void rig_sleeps(struct rig *rig) {
    const int64_t time = 30000000;
    int64_t from = qt_now_ns();
    unsigned rounds = 0;
    while (qt_now_ns() - from < time) {
        rig_tick(rig, time - (qt_now_ns() - from), 1000);
        assert_true(++rounds <= 4);
    }
    assert_int_equal(rig->count, rig->read);
}

/* The same, and without even one round to find out that nobody wants what is registered. */
static inline void rig_sleeps_at_once(struct rig *rig) {
    const int64_t time = 20000000;
    int64_t from = qt_now_ns();
    rig_tick(rig, time, 1000);
    assert_true(qt_now_ns() - from >= time);
    assert_int_equal(rig->count, rig->read);
}

static inline void rig_pair(int fds[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static inline void rig_write(int fd, const void *data, size_t len) {
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

static inline const uint8_t *rig_buffer(struct rig *rig, uint32_t bid) {
    return rig->memory + (size_t)bid * RIG_BUFFER_SIZE;
}

#endif
