/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The epoll driver under pressure: an empty pool, cancels, small budgets, full sockets, no descriptors. */
#include "epoll_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#define PAIRS 300

static void empty_pool_and_resume(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    char text[RIG_BUFFER_SIZE + 4];
    rig_open(&rig, 1);
    rig.keep = true;
    rig_pair(fds);
    memset(text, 'a', sizeof text);
    memcpy(text + RIG_BUFFER_SIZE, "rest", 4);
    rig_write(fds[1], text, sizeof text);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    struct told told = rig_next(&rig, req);
    assert_int_equal(told.res, RIG_BUFFER_SIZE);
    assert_int_equal(told.flags, QT_CQ_BUFFER | QT_CQ_MORE | QT_CQ_NONEMPTY);
    uint32_t bid = told.bid;
    rig_ends(&rig, req, -ENOBUFS);
    rig_sleeps(&rig); /* the bytes stay in the socket, and nobody spins over them */
    req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_ends(&rig, req, -ENOBUFS);
    rig.d->ops->buffer_add(rig.d, bid);
    req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    told = rig_next(&rig, req);
    assert_int_equal(told.res, 4);
    assert_memory_equal(rig_buffer(&rig, told.bid), "rest", 4);
    assert_int_equal(told.flags, QT_CQ_BUFFER | QT_CQ_MORE);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* The end of a stream needs no buffer that it would not give back. */
static void end_leaves_the_pool_alone(void **state) {
    (void)state;
    struct rig rig;
    rig_open(&rig, 1);
    for (int i = 0; i < 4; i++) {
        int fds[2];
        rig_pair(fds);
        close(fds[1]);
        rig_ends(&rig, rig_recv(&rig, fds[0], QT_REQ_MULTISHOT), 0);
        close(fds[0]);
    }
    rig_close(&rig);
}

static void cancel_in_each_phase(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT); /* queued */
    rig_cancel(&rig, req);
    rig_cancel(&rig, req);
    assert_int_equal(rig.count, 0);
    rig_ends(&rig, req, -ECANCELED);

    req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT); /* waiting */
    rig_tick(&rig, 0, 10);
    rig_cancel(&rig, req);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);

    req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT); /* readable, but not received */
    rig_write(fds[1], "kept", 4);
    rig_tick(&rig, 0, 0);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    rig_sleeps(&rig);
    req = rig_recv(&rig, fds[0], 0);
    assert_int_equal(rig_next(&rig, req).res, 4); /* no byte was lost */
    qt_req_free(&rig.requests, req);

    req = rig_memory(&rig, QT_REQ_SEND, fds[0], "done", 4); /* complete, but not told: it won */
    rig_submit(&rig, req);
    rig_tick(&rig, 0, 0);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, 4);

    req = rig_req(&rig, QT_REQ_CLOSE, fds[0]); /* a close is carried out */
    rig_submit(&rig, req);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    rig_sleeps(&rig);
    close(fds[1]);
    rig_close(&rig);
}

static void cancel_a_blocked_send(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    static char block[1 << 20];
    rig_open(&rig, 0);
    rig_pair(fds);
    qt_req *req;
    for (;;) {
        req = rig_memory(&rig, QT_REQ_SEND, fds[0], block, sizeof block);
        rig_submit(&rig, req);
        rig_tick(&rig, 0, 10);
        if (rig.count == rig.read)
            break;
        assert_true(rig_next(&rig, req).res > 0);
        qt_req_free(&rig.requests, req);
    }
    assert_int_equal(req->state, QT_REQ_IN_FLIGHT);
    rig_sleeps(&rig);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    assert_true(recv(fds[1], block, sizeof block, 0) > 0);
    rig_sleeps_at_once(&rig); /* writable now, which nobody waits for */
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* When a send goes on, its descriptor is watched for receiving alone. */
static void send_goes_on_beside_a_receive(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    static char block[1 << 20];
    rig_open(&rig, 1);
    rig_pair(fds);
    qt_req *in = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    while (send(fds[0], block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    qt_req *out = rig_memory(&rig, QT_REQ_SEND, fds[0], "more", 4);
    rig_submit(&rig, out);
    rig_sleeps(&rig);
    rig_write(fds[1], "x", 1);
    assert_int_equal(rig_next(&rig, in).res, 1);
    while (recv(fds[1], block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    rig_ends(&rig, out, 4);
    rig_sleeps_at_once(&rig);
    rig_write(fds[1], "y", 1);
    assert_int_equal(rig_next(&rig, in).res, 1);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* A send that took part of the bytes ends with their number; one that can take none waits until it can. */
static void short_sends(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    int small = 4096;
    static uint8_t block[256 << 10];
    static uint8_t got[256 << 10];
    rig_open(&rig, 0);
    rig_pair(fds);
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (uint8_t)(i * 31 >> 3);
    size_t sent = 0;
    size_t received = 0;
    unsigned partial = 0;
    unsigned blocked = 0;
    while (sent < sizeof block) {
        uint32_t rest = (uint32_t)(sizeof block - sent);
        qt_req *req = rig_memory(&rig, QT_REQ_SEND, fds[0], block + sent, rest);
        rig_submit(&rig, req);
        rig_tick(&rig, 0, 10);
        if (rig.count == rig.read) {
            blocked++;
            ssize_t n = recv(fds[1], got + received, sizeof got - received, MSG_DONTWAIT);
            assert_true(n > 0);
            received += (size_t)n;
        }
        struct told told = rig_next(&rig, req);
        assert_true(told.res > 0);
        partial += (uint32_t)told.res < rest;
        sent += (uint32_t)told.res;
        qt_req_free(&rig.requests, req);
    }
    shutdown(fds[0], SHUT_WR);
    while (received < sizeof got) {
        ssize_t n = recv(fds[1], got + received, sizeof got - received, 0);
        assert_true(n > 0);
        received += (size_t)n;
    }
    assert_memory_equal(block, got, sizeof block);
    assert_true(partial > 0 && blocked > 0);
    rig_sleeps_at_once(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* One completion a tick: each of many busy streams gets its turn. */
static void budget_of_one_is_fair(void **state) {
    (void)state;
    enum { STREAMS = 8, ROUNDS = 10 };
    struct rig rig;
    int fds[STREAMS][2];
    qt_req *reqs[STREAMS];
    char block[ROUNDS * RIG_BUFFER_SIZE];
    rig_open(&rig, RIG_BUFFERS);
    memset(block, 'x', sizeof block);
    for (int i = 0; i < STREAMS; i++) {
        rig_pair(fds[i]);
        rig_write(fds[i][1], block, sizeof block);
        reqs[i] = rig_recv(&rig, fds[i][0], QT_REQ_MULTISHOT);
    }
    for (unsigned tick = 0; tick < STREAMS * ROUNDS; tick++) {
        rig_tick(&rig, 0, 1);
        assert_int_equal(rig.count, tick + 1);
    }
    for (int i = 0; i < STREAMS; i++) {
        unsigned share = 0;
        for (unsigned at = 0; at < rig.count; at++)
            share += rig.told[at].req == reqs[i];
        assert_int_equal(share, ROUNDS);
        close(fds[i][0]);
        close(fds[i][1]);
    }
    rig_close(&rig);
}

/* A program that always has a completion waiting still receives, and the other way round. */
static void completions_and_receives_take_turns(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    static char block[20 * RIG_BUFFER_SIZE];
    rig_open(&rig, 2);
    rig_pair(fds);
    rig_write(fds[1], block, sizeof block);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    unsigned receives = 0;
    for (int tick = 0; tick < 20; tick++) {
        for (int i = 0; i < 2; i++)
            rig_submit(&rig, rig_req(&rig, QT_REQ_NOP, -1));
        rig_tick(&rig, 0, 1);
        assert_int_equal(rig.count, tick + 1);
        receives += rig.told[tick].req == req;
    }
    assert_in_range(receives, 9, 11);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* A stream with much to read does not empty the pool in one tick. */
static void share_of_a_tick(void **state) {
    (void)state;
    struct rig rig;
    int busy[2];
    int quiet[2];
    static char block[100 * RIG_BUFFER_SIZE];
    rig_open(&rig, RIG_BUFFERS);
    rig.keep = true;
    rig_pair(busy);
    rig_pair(quiet);
    rig_write(busy[1], block, sizeof block);
    qt_req *req = rig_recv(&rig, busy[0], QT_REQ_MULTISHOT);
    qt_req *other = rig_recv(&rig, quiet[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 1000);
    unsigned first = rig.count;
    assert_in_range(first, 1, RIG_BUFFERS / 2);
    assert_true(rig.d->ops->pending(rig.d));
    rig_write(quiet[1], "x", 1);
    rig_tick(&rig, -1, 1000); /* does not wait: it is known that there is more */
    assert_int_equal(rig.count, 2 * first + 1);
    unsigned others = 0;
    for (unsigned i = 0; i < rig.count; i++) {
        others += rig.told[i].req == other;
        rig.d->ops->buffer_add(rig.d, rig.told[i].bid);
    }
    assert_int_equal(others, 1);
    rig.keep = false;
    rig_until(&rig, 101);
    for (unsigned i = 0; i < rig.count; i++)
        assert_true(rig.told[i].flags & QT_CQ_MORE);
    rig.read = rig.count;
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    rig_sleeps(&rig);
    close(busy[0]);
    close(busy[1]);
    close(quiet[0]);
    close(quiet[1]);
    rig_close(&rig);
}

/* What was said to be pending is looked for without waiting, also when the share happened to be all there was. */
static void share_was_all(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    static char block[16 * RIG_BUFFER_SIZE];
    rig_open(&rig, RIG_BUFFERS);
    rig_pair(fds);
    rig_write(fds[1], block, sizeof block);
    rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 1000);
    assert_int_equal(rig.count, 16);
    assert_true(rig.d->ops->pending(rig.d));
    rig_tick(&rig, -1, 1000);
    assert_int_equal(rig.count, 16);
    assert_false(rig.d->ops->pending(rig.d));
    rig_write(fds[1], block, RIG_BUFFER_SIZE);
    rig_tick(&rig, -1, 1); /* the budget ends before the end of the bytes is seen */
    assert_int_equal(rig.count, 17);
    assert_true(rig.d->ops->pending(rig.d));
    rig_tick(&rig, -1, 1000);
    assert_int_equal(rig.count, 17);
    assert_false(rig.d->ops->pending(rig.d));
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* More ready descriptors than one wait shows. */
static void many_descriptors(void **state) {
    (void)state;
    struct rig rig;
    static int fds[PAIRS][2];
    rig_open(&rig, RIG_BUFFERS);
    for (int i = 0; i < PAIRS; i++) {
        rig_pair(fds[i]);
        rig_recv(&rig, fds[i][0], QT_REQ_MULTISHOT);
    }
    rig_tick(&rig, 0, 1000);
    for (unsigned round = 1; round <= 3; round++) {
        for (int i = 0; i < PAIRS; i++)
            rig_write(fds[i][1], "x", 1);
        rig_tick(&rig, -1, 1000);
        assert_in_range(rig.count, (round - 1) * PAIRS + 1, round * PAIRS - 1);
        assert_true(rig.d->ops->pending(rig.d));
        rig_until(&rig, round * PAIRS);
    }
    rig.read = rig.count;
    rig_sleeps(&rig);
    for (int i = 0; i < PAIRS; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
    rig_close(&rig);
}

/* In the steady state a message costs its receive and its part of a wait: nothing is registered again. */
static void steady_state_calls(void **state) {
    (void)state;
    struct rig rig;
    int fds[2];
    rig_open(&rig, 4);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 10);
    uint64_t before = rig.d->system_calls;
    for (unsigned i = 0; i < 100; i++) {
        rig_write(fds[1], "x", 1);
        rig_tick(&rig, -1, 10);
        assert_int_equal(rig.count, i + 1);
    }
    assert_int_equal(rig.d->system_calls - before, 200);
    rig.read = rig.count;
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

static void no_descriptor_for_accept(void **state) {
    (void)state;
    struct rig rig;
    struct rlimit before;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    rig_open(&rig, 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&addr, sizeof addr), 0);
    qt_req *req = rig_req(&rig, QT_REQ_ACCEPT, listener);
    req->flags = QT_REQ_MULTISHOT;
    rig_submit(&rig, req);
    int lowest = dup(client);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &before);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)lowest, before.rlim_max});
    struct told told = rig_next(&rig, req);
    rig_sleeps(&rig); /* the connection waits, and nobody spins over it */
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(told.res, -EMFILE);
    assert_int_equal(told.flags, 0);
    rig_submit(&rig, req);
    told = rig_next(&rig, req);
    assert_true(told.res >= 0);
    close(told.res);
    close(client);
    close(listener);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_pool_and_resume),
        cmocka_unit_test(end_leaves_the_pool_alone),
        cmocka_unit_test(cancel_in_each_phase),
        cmocka_unit_test(cancel_a_blocked_send),
        cmocka_unit_test(send_goes_on_beside_a_receive),
        cmocka_unit_test(short_sends),
        cmocka_unit_test(budget_of_one_is_fair),
        cmocka_unit_test(completions_and_receives_take_turns),
        cmocka_unit_test(share_of_a_tick),
        cmocka_unit_test(share_was_all),
        cmocka_unit_test(many_descriptors),
        cmocka_unit_test(steady_state_calls),
        cmocka_unit_test(no_descriptor_for_accept),
    };
    return cmocka_run_group_tests_name("epoll driver: flow", tests, NULL, NULL);
}
