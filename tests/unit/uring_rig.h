/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The rig of the driver tests on a ring, and test lists that run on each rung. */
#ifndef TEST_URING_RIG_H
#define TEST_URING_RIG_H

#include "epoll_rig.h"

#include <assert.h>
#include <stdio.h>

struct ring_size {
    uint32_t entries;
    uint32_t cq_entries;
};

static const uint32_t rungs[] = {QUOIT_DRIVER_URING_DEFER, QUOIT_DRIVER_URING_COOP, QUOIT_DRIVER_URING_PLAIN};
static const char *const rung_names[] = {"uring-defer", "uring-coop", "uring-plain"};

/* A driver that is not enabled. 0 or -errno. */
static inline int ring_create(struct rig *rig, uint32_t rung, struct ring_size size) {
    memset(rig, 0, sizeof *rig);
    rig->memory = calloc(RIG_BUFFERS, RIG_BUFFER_SIZE);
    rig->told = malloc(RIG_TOLD_MAX * sizeof *rig->told);
    assert_true(rig->memory != NULL && rig->told != NULL);
    qt_driver_options options = {.rung = rung,
                                 .ring_entries = size.entries,
                                 .cq_entries = size.cq_entries,
                                 .buffer_entries = RIG_BUFFERS,
                                 .buffer_size = RIG_BUFFER_SIZE,
                                 .buffer_base = rig->memory,
                                 .patient = true,
                                 .host = {.ctx = rig},
                                 .requests = &rig->requests};
    return qt_uring_create(&options, &rig->d);
}

/* On the rung of the test's initial state. */
static inline void ring_open_sized(struct rig *rig, void **state, unsigned buffers, struct ring_size size) {
    uint32_t rung = (uint32_t)(uintptr_t)*state;
    assert_int_equal(ring_create(rig, rung, size), 0);
    assert_int_equal(rig->d->rung, rung);
    assert_string_equal(rig->d->ops->name, "io_uring");
    assert_int_equal(rig->d->ops->enable(rig->d), 0);
    for (uint32_t bid = 0; bid < buffers; bid++)
        rig->d->ops->buffer_add(rig->d, bid);
}

static inline void ring_open(struct rig *rig, void **state, unsigned buffers) {
    ring_open_sized(rig, state, buffers, (struct ring_size){64, 256});
}

/* The completion of a request, whichever comes first; it must be its last. */
static inline int32_t ring_result(struct rig *rig, qt_req *req) {
    struct told told = rig_next(rig, req);
    assert_int_equal(told.flags & QT_CQ_MORE, 0);
    return told.res;
}

/* Runs each test on each rung. */
static inline int ring_run(const char *group, const struct CMUnitTest *tests, size_t count) {
    static char names[256][96];
    struct CMUnitTest all[256];
    size_t n = 0;
    for (size_t rung = 0; rung < 3; rung++) {
        for (size_t i = 0; i < count; i++, n++) {
            assert(n < 256);
            snprintf(names[n], sizeof names[n], "%s: %s", rung_names[rung], tests[i].name);
            all[n] =
                (struct CMUnitTest){names[n], tests[i].test_func, NULL, NULL, (void *)(uintptr_t)rungs[rung]};
        }
    }
    return _cmocka_run_group_tests(group, all, n, NULL, NULL);
}

#endif
