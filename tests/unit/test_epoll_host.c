/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The epoll driver in a foreign loop that is edge-triggered and takes one completion a turn; and its wake. */
#include "epoll_rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/un.h>

#define PAIRS 300

struct host {
    struct rig rig;
    int outer;
    int fd;
};

static void host_open(struct host *host, unsigned buffers) {
    rig_open(&host->rig, buffers);
    host->fd = host->rig.d->ops->host_fd(host->rig.d);
    assert_true(host->fd >= 0);
    assert_int_equal(host->rig.d->ops->host_fd(host->rig.d), host->fd);
    assert_true(host->rig.d->hosted);
    host->outer = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    assert_int_equal(epoll_ctl(host->outer, EPOLL_CTL_ADD, host->fd, &event), 0);
}

static void host_close(struct host *host) {
    close(host->outer);
    rig_close(&host->rig);
}

/* An edge within the time. */
static bool host_edge(struct host *host, int timeout_ms) {
    struct epoll_event event;
    int n = epoll_wait(host->outer, &event, 1, timeout_ms);
    assert_true(n >= 0 || errno == EINTR);
    return n == 1;
}

static void host_turn(struct host *host, uint32_t budget, int64_t deadline_ns) {
    qt_driver *d = host->rig.d;
    assert_int_equal(d->ops->enter(d, 0), 0);
    d->ops->host_begin(d);
    d->ops->harvest(d, budget);
    d->ops->host_end(d, false, deadline_ns);
}

/* One turn with a budget of one for each edge, and never an edge too few. */
static void host_until(struct host *host, unsigned count) {
    while (host->rig.count < count) {
        assert_true(host_edge(host, 10000));
        host_turn(host, 1, -1);
    }
}

/* The loop falls silent: edges that are left over tell of nothing, and end. */
static void host_falls_silent(struct host *host) {
    unsigned edges = 0;
    while (host_edge(host, 20)) {
        host_turn(host, 1, -1);
        assert_true(++edges <= 4);
    }
}

struct writer {
    int *fds;
    unsigned count;
    unsigned rounds;
    unsigned messages;
};

static void *write_all(void *argument) {
    struct writer *writer = argument;
    for (unsigned round = 0; round < writer->rounds; round++) {
        for (unsigned i = 0; i < writer->count; i++) {
            if (send(writer->fds[i], "0123456789", 10, MSG_NOSIGNAL) == 10)
                writer->messages++;
            if ((round + i) % 7 == 0)
                sched_yield();
        }
    }
    return NULL;
}

static void no_edge_is_lost(void **state) {
    (void)state;
    enum { STREAMS = 20, ROUNDS = 50 };
    struct host host;
    int ours[STREAMS];
    int theirs[STREAMS];
    host_open(&host, RIG_BUFFERS);
    for (int i = 0; i < STREAMS; i++) {
        int fds[2];
        rig_pair(fds);
        ours[i] = fds[0];
        theirs[i] = fds[1];
        rig_recv(&host.rig, fds[0], QT_REQ_MULTISHOT);
    }
    host_turn(&host, 1, -1);
    struct writer writer = {theirs, STREAMS, ROUNDS, 0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_all, &writer), 0);
    uint64_t bytes = 0;
    while (bytes < STREAMS * ROUNDS * 10) {
        host_until(&host, host.rig.count + 1);
        for (; host.rig.read < host.rig.count; host.rig.read++)
            bytes += (uint64_t)host.rig.told[host.rig.read].res;
    }
    pthread_join(thread, NULL);
    assert_int_equal(writer.messages, STREAMS * ROUNDS);
    host_falls_silent(&host);
    for (int i = 0; i < STREAMS; i++) {
        close(ours[i]);
        close(theirs[i]);
    }
    host_close(&host);
}

/* More is ready than one wait shows: what the wait cut off has had its edge already. */
static void an_edge_for_what_was_cut_off(void **state) {
    (void)state;
    struct host host;
    static int fds[PAIRS][2];
    host_open(&host, RIG_BUFFERS);
    for (int i = 0; i < PAIRS; i++) {
        rig_pair(fds[i]);
        rig_recv(&host.rig, fds[i][0], QT_REQ_MULTISHOT);
    }
    host_turn(&host, 1, -1);
    for (int i = 0; i < PAIRS; i++)
        rig_write(fds[i][1], "x", 1);
    while (host.rig.count < PAIRS) {
        assert_true(host_edge(&host, 10000));
        host_turn(&host, 1000, -1);
    }
    host_falls_silent(&host);
    for (int i = 0; i < PAIRS; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
    host_close(&host);
}

/* A Unix socket ends a receive where descriptors were passed, though more bytes follow. */
static void an_edge_after_a_short_read(void **state) {
    (void)state;
    struct host host;
    int fds[2];
    char part[] = "abc";
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {
        .head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    host_open(&host, 4);
    rig_pair(fds);
    memcpy(CMSG_DATA(&control.head), &fds[1], sizeof(int));
    struct iovec iov = {part, 3};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    qt_req *req = rig_recv(&host.rig, fds[0], QT_REQ_MULTISHOT);
    host_turn(&host, 10, -1);
    assert_int_equal(sendmsg(fds[1], &message, 0), 3);
    rig_write(fds[1], "def", 3);
    int bytes = 0;
    while (bytes < 6) {
        assert_true(host_edge(&host, 10000));
        host_turn(&host, 10, -1);
        for (; host.rig.read < host.rig.count; host.rig.read++)
            bytes += host.rig.told[host.rig.read].res;
    }
    rig_cancel(&host.rig, req);
    rig_ends(&host.rig, req, -ECANCELED);
    close(fds[0]);
    close(fds[1]);
    host_close(&host);
}

static void what_is_left_makes_an_edge(void **state) {
    (void)state;
    struct host host;
    host_open(&host, 0);
    qt_driver *d = host.rig.d;
    for (int i = 0; i < 3; i++)
        rig_submit(&host.rig, rig_req(&host.rig, QT_REQ_NOP, -1));
    d->ops->host_end(d, false, -1); /* submitted, not entered */
    host_until(&host, 3);
    host_falls_silent(&host);
    d->ops->host_end(d, true, -1); /* core has something left */
    assert_true(host_edge(&host, 10000));
    host_turn(&host, 1, -1);
    assert_false(host_edge(&host, 20));
    host_close(&host);
}

/* The look into the set takes nothing out of it. */
static void pending_peeks(void **state) {
    (void)state;
    struct host host;
    int fds[2];
    host_open(&host, 1);
    rig_pair(fds);
    qt_req *req = rig_recv(&host.rig, fds[0], 0);
    host_turn(&host, 1, -1);
    assert_false(host.rig.d->ops->pending(host.rig.d));
    rig_write(fds[1], "x", 1);
    for (int i = 0; i < 3; i++)
        assert_true(host.rig.d->ops->pending(host.rig.d));
    assert_true(host_edge(&host, 10000));
    host_turn(&host, 1, -1);
    assert_int_equal(rig_next(&host.rig, req).res, 1);
    close(fds[0]);
    close(fds[1]);
    host_close(&host);
}

static void deadline_makes_an_edge(void **state) {
    (void)state;
    struct host host;
    host_open(&host, 0);
    for (int i = 0; i < 2; i++) { /* the second time it is past already */
        int64_t deadline = qt_now_ns() + 20000000;
        host_turn(&host, 1, deadline);
        for (int again = 0; again < 2; again++) {
            assert_true(host_edge(&host, 10000));
            assert_true(qt_now_ns() >= deadline);
            host_turn(&host, 1, deadline); /* not met: core asks for the same once more */
        }
        assert_true(host_edge(&host, 10000));
        host_turn(&host, 1, -1);
        assert_false(host_edge(&host, 20));
    }
    host_turn(&host, 1, qt_now_ns() + 20000000);
    host_turn(&host, 1, -1); /* taken back */
    assert_false(host_edge(&host, 40));
    uint64_t before = host.rig.d->system_calls;
    int64_t far = qt_now_ns() + RIG_PATIENCE_NS;
    for (int i = 0; i < 10; i++)
        host_turn(&host, 1, far);
    assert_int_equal(host.rig.d->system_calls - before,
                     21); /* a wait and a look each; the timer is set once */
    host_close(&host);
}

/* A connect that nothing tells when to try again makes its own edges. */
static void stalled_connect_makes_edges(void **state) {
    (void)state;
    struct host host;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = sizeof addr;
    host_open(&host, 0);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(sa_family_t)), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    assert_int_equal(listen(listener, 0), 0);
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        rig_submit(&host.rig, rig_memory(&host.rig, QT_REQ_CONNECT, fds[i], &addr, len));
    }
    host_turn(&host, 2, -1);
    assert_int_equal(host.rig.count, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(host_edge(&host, 10000));
        host_turn(&host, 2, qt_now_ns() + RIG_PATIENCE_NS);
    }
    int peer = accept(listener, NULL, NULL);
    host_until(&host, 2);
    assert_int_equal(host.rig.told[1].res, 0);
    host_falls_silent(&host);
    for (int *fd = (int[]){peer, listener, fds[0], fds[1], -1}; *fd >= 0; fd++)
        close(*fd);
    host_close(&host);
}

static void *wake_once(void *argument) {
    qt_driver *d = argument;
    d->ops->wake(d);
    return NULL;
}

static void wake_from_another_thread(void **state) {
    (void)state;
    struct rig rig;
    pthread_t thread;
    rig_open(&rig, 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pthread_create(&thread, NULL, wake_once, rig.d), 0);
        rig_tick(&rig, -1, 10); /* returns because of the wake alone */
        pthread_join(thread, NULL);
    }
    assert_int_equal(rig.count, 0);
    assert_int_equal(__atomic_load_n(&rig.d->wakes, __ATOMIC_RELAXED), 20);
    rig_sleeps(&rig);
    rig.d->ops->wake(rig.d);
    rig.d->ops->wake(rig.d);
    rig_tick(&rig, -1, 10); /* both at once */
    rig_sleeps(&rig);
    rig_close(&rig);
}

static void wake_makes_an_edge(void **state) {
    (void)state;
    struct host host;
    pthread_t thread;
    host_open(&host, 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pthread_create(&thread, NULL, wake_once, host.rig.d), 0);
        assert_true(host_edge(&host, 10000));
        host_turn(&host, 1, -1);
        pthread_join(thread, NULL);
        host_falls_silent(&host);
    }
    host_close(&host);
}

static void note_signal(int number) {
    (void)number;
}

static void signal_interrupts_the_wait(void **state) {
    (void)state;
    struct rig rig;
    struct sigaction action = {.sa_handler = note_signal};
    struct sigaction before;
    rig_open(&rig, 0);
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 20000}, {0, 20000}}, NULL);
    assert_int_equal(rig.d->ops->enter(rig.d, RIG_PATIENCE_NS), -EINTR);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    sigaction(SIGALRM, &before, NULL);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_edge_is_lost),
        cmocka_unit_test(an_edge_for_what_was_cut_off),
        cmocka_unit_test(an_edge_after_a_short_read),
        cmocka_unit_test(what_is_left_makes_an_edge),
        cmocka_unit_test(pending_peeks),
        cmocka_unit_test(deadline_makes_an_edge),
        cmocka_unit_test(stalled_connect_makes_edges),
        cmocka_unit_test(wake_from_another_thread),
        cmocka_unit_test(wake_makes_an_edge),
        cmocka_unit_test(signal_interrupts_the_wait),
    };
    return cmocka_run_group_tests_name("epoll driver: hosted", tests, NULL, NULL);
}
