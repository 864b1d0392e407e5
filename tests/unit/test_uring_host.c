/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waking the io_uring driver, and waiting for it from a foreign loop: no wake, edge or deadline is lost. */
#include "uring_rig.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define SECOND_NS 1000000000

struct partner {
    struct rig *rig;
    int fd;
    unsigned rounds;
    atomic_uint turn; /* rounds that the owner has finished */
};

static bool readable(int epoll, int timeout_ms) {
    struct epoll_event event;
    int n = epoll_wait(epoll, &event, 1, timeout_ms);
    assert_true(n >= 0 || errno == EINTR);
    return n > 0;
}

/* Under COOP_TASKRUN the kernel's work interrupts a wait of the host; it goes on waiting. */
static bool readable_within(int epoll, int64_t time_ns) {
    int64_t end = qt_now_ns() + time_ns;
    do
        if (readable(epoll, (int)((end - qt_now_ns()) / 1000000 + 1)))
            return true;
    while (qt_now_ns() < end);
    return false;
}

static int watch(struct rig *rig, uint32_t events) {
    int fd = rig->d->ops->host_fd(rig->d);
    assert_true(fd >= 0);
    assert_true(rig->d->hosted);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(rig->d->ops->host_fd(rig->d), fd);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = events};
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    return epoll;
}

/* What core does in a non-blocking turn. */
static void turn(struct rig *rig, uint32_t budget, int64_t deadline_ns) {
    rig->d->ops->enter(rig->d, 0);
    rig->d->ops->host_begin(rig->d);
    rig->d->ops->harvest(rig->d, budget);
    rig->d->ops->host_end(rig->d, false, deadline_ns);
}

/* Turns as often as the descriptor asks for it, until it is quiet. */
static void settle(struct rig *rig, int epoll) {
    for (int rounds = 0; readable(epoll, 0); rounds++) {
        assert_true(rounds < 10);
        turn(rig, 100, -1);
    }
}

static void *wake_each_round(void *argument) {
    struct partner *partner = argument;
    for (unsigned i = 0; i < partner->rounds; i++) {
        partner->rig->d->ops->wake(partner->rig->d);
        while (atomic_load(&partner->turn) <= i)
            sched_yield();
    }
    return NULL;
}

static void wake_from_another_thread(void **state) {
    struct rig rig;
    pthread_t thread;
    ring_open(&rig, state, 0);
    struct partner partner = {.rig = &rig, .rounds = 500};
    assert_int_equal(pthread_create(&thread, NULL, wake_each_round, &partner), 0);
    for (unsigned i = 0; i < partner.rounds; i++) {
        int64_t from = qt_now_ns();
        assert_int_equal(rig.d->ops->enter(rig.d, 10 * (int64_t)SECOND_NS), 0);
        assert_true(qt_now_ns() - from < 5 * (int64_t)SECOND_NS);
        assert_int_equal(rig.d->ops->harvest(rig.d, 10), 0);
        atomic_fetch_add(&partner.turn, 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(rig.d->wakes, 500);
    rig_sleeps(&rig);
    rig_close(&rig);
}

static void wake_before_enable(void **state) {
    struct rig rig;
    assert_int_equal(ring_create(&rig, (uint32_t)(uintptr_t)*state, (struct ring_size){16, 32}), 0);
    rig.d->ops->wake(rig.d);
    assert_int_equal(rig.d->ops->enable(rig.d), 0);
    int64_t from = qt_now_ns();
    assert_int_equal(rig.d->ops->enter(rig.d, 10 * (int64_t)SECOND_NS), 0);
    assert_true(qt_now_ns() - from < 5 * (int64_t)SECOND_NS);
    rig_sleeps(&rig);
    rig_close(&rig);
}

/* The descriptor is there before the first turn, quiet until something happens, and a wake makes it readable. */
static void hosted_before_enable(void **state) {
    for (int wake_first = 0; wake_first < 2; wake_first++) {
        struct rig rig;
        assert_int_equal(ring_create(&rig, (uint32_t)(uintptr_t)*state, (struct ring_size){16, 32}), 0);
        if (wake_first)
            rig.d->ops->wake(rig.d);
        int epoll = watch(&rig, EPOLLIN);
        assert_int_equal(readable(epoll, 0), wake_first);
        rig.d->ops->wake(rig.d);
        assert_true(readable(epoll, 0));
        assert_int_equal(rig.d->ops->enable(rig.d), 0);
        settle(&rig, epoll);
        rig.d->ops->wake(rig.d);
        assert_true(readable_within(epoll, 5 * (int64_t)SECOND_NS));
        close(epoll);
        rig_close(&rig);
    }
}

static void hosted_later(void **state) {
    struct rig rig;
    int fds[2];
    ring_open(&rig, state, 2);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 0);
    rig_write(fds[1], "x", 1);
    int epoll = watch(&rig, EPOLLIN);
    assert_true(readable_within(epoll, 5 * (int64_t)SECOND_NS)); /* what was there before is not missed */
    int64_t end = qt_now_ns() + RIG_PATIENCE_NS;
    while (rig.count == 0) {
        assert_true(qt_now_ns() < end && readable_within(epoll, 5 * (int64_t)SECOND_NS));
        turn(&rig, 10, -1);
    }
    settle(&rig, epoll);
    assert_int_equal(rig_next(&rig, req).res, 1);
    close(epoll);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void *write_each_round(void *argument) {
    struct partner *partner = argument;
    for (unsigned i = 0; i < partner->rounds; i++) {
        unsigned burst = i % 7 ? 1 : 40;
        for (unsigned n = 0; n < burst; n++)
            rig_write(partner->fd, "e", 1);
        while (atomic_load(&partner->turn) <= i)
            sched_yield();
    }
    shutdown(partner->fd, SHUT_WR);
    return NULL;
}

/*
 * An edge-triggered host that turns once per edge, one completion at a time: a lost edge would make it sleep for ever with bytes
 * waiting. The writer goes on only when all of its bytes came.
 */
static void no_edge_is_lost(void **state) {
    struct rig rig;
    int fds[2];
    pthread_t thread;
    unsigned bytes = 0;
    unsigned expected = 0;
    ring_open(&rig, state, 8);
    rig_pair(fds);
    struct partner partner = {.rig = &rig, .fd = fds[1], .rounds = 1500};
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    int epoll = watch(&rig, EPOLLIN | EPOLLET);
    assert_int_equal(pthread_create(&thread, NULL, write_each_round, &partner), 0);
    for (bool end = false; !end;) {
        assert_true(readable_within(epoll, 10 * (int64_t)SECOND_NS));
        turn(&rig, 1, -1);
        for (; rig.read < rig.count; rig.read++) {
            struct told told = rig.told[rig.read];
            bytes += told.res > 0 ? (unsigned)told.res : 0;
            end = told.res == 0;
            if (!(told.flags & QT_CQ_MORE) && !end) {
                rig_submit(&rig, req); /* submitted between turns: the next one must come by itself */
                turn(&rig, 1, -1);
            }
        }
        while (expected + (atomic_load(&partner.turn) % 7 ? 1 : 40) <= bytes &&
               atomic_load(&partner.turn) < partner.rounds) {
            expected += atomic_load(&partner.turn) % 7 ? 1 : 40;
            atomic_fetch_add(&partner.turn, 1);
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(bytes, expected);
    settle(&rig, epoll);
    close(epoll);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void *wake_host(void *argument) {
    struct partner *partner = argument;
    for (unsigned i = 0; i < partner->rounds; i++) {
        partner->rig->d->ops->wake(partner->rig->d);
        while (atomic_load(&partner->turn) <= i)
            sched_yield();
    }
    return NULL;
}

static void no_wake_is_lost(void **state) {
    struct rig rig;
    pthread_t thread;
    ring_open(&rig, state, 0);
    int epoll = watch(&rig, EPOLLIN | EPOLLET);
    settle(&rig, epoll);
    struct partner partner = {.rig = &rig, .rounds = 1000};
    assert_int_equal(pthread_create(&thread, NULL, wake_host, &partner), 0);
    for (unsigned i = 0; i < partner.rounds; i++) {
        uint64_t wakes = i + 1;
        while (__atomic_load_n(&rig.d->wakes, __ATOMIC_RELAXED) < wakes)
            sched_yield();
        assert_true(readable_within(epoll, 10 * (int64_t)SECOND_NS));
        turn(&rig, 1, -1);
        settle(&rig, epoll);
        atomic_fetch_add(&partner.turn, 1);
    }
    pthread_join(thread, NULL);
    close(epoll);
    rig_close(&rig);
}

static void *signal_each_round(void *argument) {
    struct partner *partner = argument;
    for (unsigned i = 0; i < partner->rounds; i++) {
        uint64_t one = 1;
        assert_int_equal(write(partner->fd, &one, sizeof one), sizeof one);
        while (atomic_load(&partner->turn) <= i)
            sched_yield();
    }
    return NULL;
}

/* Polls of another eventfd: what a write to it wakes may not signal an eventfd itself, so that the ring's signal gets lost. */
static void poll_of_an_eventfd(void **state, bool hosted_first) {
    struct rig rig;
    pthread_t thread;
    int fd = eventfd(0, EFD_CLOEXEC);
    ring_open(&rig, state, 0);
    int epoll = hosted_first ? watch(&rig, EPOLLIN | EPOLLET) : -1;
    struct partner partner = {.rig = &rig, .fd = fd, .rounds = 50};
    for (unsigned i = 0; i < partner.rounds; i++) {
        qt_req *req = rig_req(&rig, QT_REQ_POLL, dup(fd));
        req->op_flags = POLLIN;
        rig_submit(&rig, req);
        if (epoll < 0) {
            rig_tick(&rig, 0, 1);
            epoll = watch(&rig, EPOLLIN | EPOLLET);
        }
        turn(&rig, 10, -1);
        settle(&rig, epoll);
        if (i == 0)
            assert_int_equal(pthread_create(&thread, NULL, signal_each_round, &partner), 0);
        int64_t end = qt_now_ns() + RIG_PATIENCE_NS;
        while (rig.count == rig.read) {
            assert_true(qt_now_ns() < end && readable_within(epoll, 5 * (int64_t)SECOND_NS));
            turn(&rig, 1, -1);
        }
        int copy = req->fd;
        rig_ends(&rig, req, POLLIN);
        close(copy);
        uint64_t count;
        assert_int_equal(read(fd, &count, sizeof count), sizeof count);
        atomic_fetch_add(&partner.turn, 1);
    }
    pthread_join(thread, NULL);
    settle(&rig, epoll);
    close(epoll);
    close(fd);
    rig_close(&rig);
}

static void poll_of_an_eventfd_hosted(void **state) {
    poll_of_an_eventfd(state, true);
}

static void poll_of_an_eventfd_hosted_later(void **state) {
    poll_of_an_eventfd(state, false);
}

/* Quiet when there is nothing, and no system call but the clearing. */
static void idle_host_is_quiet(void **state) {
    struct rig rig;
    ring_open(&rig, state, 0);
    int epoll = watch(&rig, EPOLLIN);
    settle(&rig, epoll);
    uint64_t before = rig.d->system_calls;
    turn(&rig, 10, -1);
    assert_int_equal(rig.d->system_calls, before + 1);
    assert_false(readable(epoll, 20));
    close(epoll);
    rig_close(&rig);
}

static void left_is_readable_at_once(void **state) {
    struct rig rig;
    ring_open(&rig, state, 0);
    int epoll = watch(&rig, EPOLLIN | EPOLLET);
    settle(&rig, epoll);
    for (int i = 0; i < 3; i++) {
        rig.d->ops->enter(rig.d, 0);
        rig.d->ops->host_begin(rig.d);
        rig.d->ops->harvest(rig.d, 10);
        rig.d->ops->host_end(rig.d, true, -1);
        assert_true(readable(epoll, 0)); /* an edge each time */
    }
    turn(&rig, 10, -1);
    assert_false(readable(epoll, 10));
    close(epoll);
    rig_close(&rig);
}

static void deadlines(void **state) {
    struct rig rig;
    ring_open(&rig, state, 0);
    int epoll = watch(&rig, EPOLLIN | EPOLLET);
    settle(&rig, epoll);
    int64_t from = qt_now_ns();
    turn(&rig, 10, from + 30 * (int64_t)SECOND_NS);
    assert_false(readable(epoll, 10));
    turn(&rig, 10, from + SECOND_NS / 20); /* an earlier one takes its place */
    assert_true(readable_within(epoll, 10 * (int64_t)SECOND_NS));
    assert_true(qt_now_ns() - from >= SECOND_NS / 20 && qt_now_ns() - from < 10 * (int64_t)SECOND_NS);
    settle(&rig, epoll);
    turn(&rig, 10, -1);
    assert_false(readable(epoll, 10));
    turn(&rig, 10, qt_now_ns() - 1); /* one that is past */
    assert_true(readable_within(epoll, 10 * (int64_t)SECOND_NS));
    settle(&rig, epoll);
    from = qt_now_ns();
    turn(&rig, 10, from + SECOND_NS / 20);
    turn(&rig, 10, from + 30 * (int64_t)SECOND_NS); /* a later one: the first may still fire */
    turn(&rig, 10, from + SECOND_NS / 10);
    assert_true(readable_within(epoll, 10 * (int64_t)SECOND_NS));
    close(epoll);
    rig_close(&rig);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(wake_from_another_thread),
        cmocka_unit_test(wake_before_enable),
        cmocka_unit_test(hosted_before_enable),
        cmocka_unit_test(hosted_later),
        cmocka_unit_test(no_edge_is_lost),
        cmocka_unit_test(no_wake_is_lost),
        cmocka_unit_test(idle_host_is_quiet),
        cmocka_unit_test(left_is_readable_at_once),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(poll_of_an_eventfd_hosted),
        cmocka_unit_test(poll_of_an_eventfd_hosted_later),
    };
    return ring_run("uring host", tests, sizeof tests / sizeof tests[0]);
}
