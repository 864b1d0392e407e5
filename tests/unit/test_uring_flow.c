/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The io_uring driver under pressure: full queues, and cancels that race with what they cancel. */
#include "uring_rig.h"

#include "driver/uring.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static const struct ring_size tiny = {16, 32};

/* Far more than the submission queue holds, in one tick; each is told once. */
static void more_submits_than_entries(void **state) {
    enum { MANY = 1000 };
    struct rig rig;
    unsigned told[MANY] = {0};
    static qt_req *reqs[MANY];
    ring_open_sized(&rig, state, 0, (struct ring_size){16, 4096});
    for (int i = 0; i < MANY; i++) {
        reqs[i] = rig_req(&rig, QT_REQ_NOP, -1);
        rig_submit(&rig, reqs[i]);
    }
    rig_until(&rig, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(rig.told[i].res, 0);
        told[rig.told[i].req->slot]++;
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(told[i], 1);
    assert_int_equal(rig.d->cq_overflows, 0);
    rig.read = rig.count;
    rig_sleeps(&rig);
    rig_close(&rig);
}

/* More completions than the completion queue holds: none is lost, and the overflow is counted. */
static void more_completions_than_entries(void **state) {
    enum { MANY = 500 };
    struct rig rig;
    ring_open_sized(&rig, state, 0, tiny);
    for (int i = 0; i < MANY; i++)
        rig_submit(&rig, rig_req(&rig, QT_REQ_NOP, -1));
    rig_until(&rig, MANY);
    rig.read = rig.count;
    rig_sleeps(&rig);
    assert_true(rig.d->cq_overflows > 0);
    assert_int_equal(rig.d->cq_entries, 32);
    rig_close(&rig);
}

/* Multishot receives that an overflow ended go on when they are submitted again, and every byte arrives in order. */
static void receives_survive_overflow(void **state) {
    enum { PAIRS = 60, ROUNDS = 6 };
    struct rig rig;
    static int fds[PAIRS][2];
    static qt_req *reqs[PAIRS];
    unsigned got[PAIRS] = {0};
    unsigned ended = 0;
    ring_open_sized(&rig, state, RIG_BUFFERS, tiny);
    rig.keep = true;
    for (int i = 0; i < PAIRS; i++) {
        rig_pair(fds[i]);
        reqs[i] = rig_recv(&rig, fds[i][0], QT_REQ_MULTISHOT);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint8_t byte = (uint8_t)round;
        for (int i = 0; i < PAIRS; i++)
            rig_write(fds[i][1], &byte, 1);
        rig_tick(&rig, 0, 0); /* all complete before the first is taken */
        for (unsigned seen = 0; seen < PAIRS;) {
            rig_until(&rig, rig.read + 1);
            struct told told = rig.told[rig.read++];
            int i = 0;
            while (reqs[i] != told.req)
                i++;
            if (told.res > 0) {
                assert_int_equal(*rig_buffer(&rig, told.bid), got[i]++);
                rig.d->ops->buffer_add(rig.d, told.bid);
                seen++;
            } else {
                assert_true(told.res == -ENOBUFS);
            }
            if (!(told.flags & QT_CQ_MORE)) {
                ended++;
                rig_submit(&rig, reqs[i]);
            }
        }
    }
    assert_true(ended > 0 && rig.d->cq_overflows > 0);
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(got[i], ROUNDS);
        close(fds[i][0]);
        close(fds[i][1]);
    }
    rig_close(&rig);
}

/* What waits for room can be cancelled there; the rest goes on in order. */
static void cancel_in_the_backlog(void **state) {
    struct rig rig;
    qt_req *reqs[40];
    assert_int_equal(ring_create(&rig, (uint32_t)(uintptr_t)*state, tiny), 0);
    for (int i = 0; i < 40; i++) {
        reqs[i] = rig_req(&rig, QT_REQ_NOP, -1);
        rig_submit(&rig, reqs[i]); /* not enabled: the kernel takes nothing yet */
    }
    assert_int_equal(reqs[39]->state, QT_REQ_QUEUED);
    rig_cancel(&rig, reqs[30]);
    rig_cancel(&rig, reqs[30]);
    assert_int_equal(rig.count, 0);
    assert_true(rig.d->ops->pending(rig.d));
    assert_int_equal(rig.d->ops->enable(rig.d), 0);
    rig_until(&rig, 40);
    assert_ptr_equal(rig.told[0].req, reqs[30]);
    assert_int_equal(rig.told[0].res, -ECANCELED);
    for (unsigned i = 1; i < 40; i++) {
        assert_int_equal(rig.told[i].res, 0);
        assert_ptr_equal(rig.told[i].req, reqs[i <= 30 ? i - 1 : i]);
    }
    rig.read = rig.count;
    rig_sleeps(&rig);
    rig_close(&rig);
}

static void cancel_what_waits(void **state) {
    struct rig rig;
    int fds[2];
    int pipe_fds[2];
    char byte;
    ring_open(&rig, state, 4);
    rig_pair(fds);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    qt_req *reqs[] = {rig_recv(&rig, fds[0], QT_REQ_MULTISHOT), rig_req(&rig, QT_REQ_POLL, fds[0]),
                      rig_memory(&rig, QT_REQ_READ, pipe_fds[0], &byte, 1)};
    reqs[1]->op_flags = 1;
    rig_submit(&rig, reqs[1]);
    rig_submit(&rig, reqs[2]);
    rig_tick(&rig, 0, 10);
    for (int i = 0; i < 3; i++) {
        rig_cancel(&rig, reqs[i]);
        rig_ends(&rig, reqs[i], -ECANCELED);
    }
    /* In the tick of their submission, and once more. */
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_cancel(&rig, req);
    assert_int_equal(ring_result(&rig, req), -ECANCELED);
    rig_submit(&rig, req);
    rig_sleeps(&rig);
    rig_cancel(&rig, req);
    rig_cancel(&rig, req);
    rig_ends(&rig, req, -ECANCELED);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    rig_close(&rig);
}

/*
 * A cancel races with the bytes: before them, after them, and in the same tick. The request tells one end, and the bytes are either
 * told or still in the socket.
 */
static void cancel_races(void **state) {
    struct rig rig;
    int fds[2];
    unsigned won = 0;
    unsigned lost = 0;
    ring_open(&rig, state, 4);
    rig_pair(fds);
    for (unsigned round = 0; round < 600; round++) {
        qt_req *req = rig_recv(&rig, fds[0], 0);
        if (round % 2)
            rig_tick(&rig, 0, 10);
        assert_int_equal(rig.count, rig.read);
        if (round % 3 == 0)
            rig_write(fds[1], "b", 1);
        rig_cancel(&rig, req);
        if (round % 3 == 1)
            rig_write(fds[1], "b", 1);
        int32_t res = ring_result(&rig, req);
        if (round % 3 == 2)
            rig_write(fds[1], "b", 1);
        if (res == 1) {
            won++;
        } else {
            char byte;
            assert_int_equal(res, -ECANCELED);
            assert_int_equal(recv(fds[0], &byte, 1, 0), 1);
            lost++;
        }
        qt_req_free(&rig.requests, req);
    }
    assert_true(won > 60 && lost > 60);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

struct stream {
    int fd;
    uint64_t sent;
    atomic_bool stop;
};

static void *write_stream(void *argument) {
    struct stream *stream = argument;
    uint8_t bytes[48];
    while (!atomic_load(&stream->stop)) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)(stream->sent + i);
        ssize_t n = send(stream->fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        stream->sent += n > 0 ? (uint64_t)n : 0;
    }
    shutdown(stream->fd, SHUT_WR);
    return NULL;
}

/*
 * Cancelled again and again while another thread writes, until enough of the cancels have won: every byte comes once and in order,
 * and each cancel ends the receive.
 */
static void cancel_of_a_busy_receive(void **state) {
    struct rig rig;
    int fds[2];
    pthread_t thread;
    uint64_t at = 0;
    unsigned cancels = 0;
    unsigned cancelled = 0;
    ring_open(&rig, state, 16);
    rig.keep = true;
    rig_pair(fds);
    struct stream stream = {.fd = fds[1]};
    assert_int_equal(pthread_create(&thread, NULL, write_stream, &stream), 0);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    for (;;) {
        struct told told = rig_next(&rig, req);
        rig.read = rig.count == rig.read ? rig.count = 0 : rig.read;
        for (int32_t i = 0; i < told.res; i++)
            assert_int_equal(rig_buffer(&rig, told.bid)[i], (uint8_t)at++);
        if (told.flags & QT_CQ_BUFFER)
            rig.d->ops->buffer_add(rig.d, told.bid);
        if (!(told.flags & QT_CQ_MORE)) {
            if (told.res == 0)
                break;
            assert_true(told.res > 0 || told.res == -ECANCELED || told.res == -ENOBUFS);
            cancelled += told.res == -ECANCELED;
            rig_submit(&rig, req);
        } else if (req->state == QT_REQ_IN_FLIGHT && !req->cancelled) {
            rig_cancel(&rig, req);
            cancels++;
            atomic_store(&stream.stop, cancels >= 400 && cancelled > 100);
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(at, stream.sent);
    assert_true(cancels >= 400 && cancelled > 100);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* So many bytes that the kernel takes them in several goes: a cancel between two of them must not be lost. */
static void cancel_between_goes(void **state) {
    struct rig rig;
    int fds[2];
    uint8_t bytes[60 * RIG_BUFFER_SIZE] = {0};
    ring_open(&rig, state, RIG_BUFFERS);
    rig.keep = true;
    rig_pair(fds);
    rig_write(fds[1], bytes, sizeof bytes);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_cancel(&rig, req);
    struct told told;
    do
        told = rig_next(&rig, req);
    while (told.flags & QT_CQ_MORE);
    assert_int_equal(told.res, -ECANCELED);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

/* A cancel that does not find a live request, as some kernels have it, is asked again until the request ends. */
static void cancel_that_missed(void **state) {
    struct rig rig;
    int fds[2];
    ring_open(&rig, state, 1);
    rig_pair(fds);
    qt_req *req = rig_recv(&rig, fds[0], QT_REQ_MULTISHOT);
    rig_tick(&rig, 0, 1);
    struct io_uring_sqe *sqe = qt_uring_sqe((qt_uring *)rig.d);
    io_uring_prep_cancel64(sqe, UINT64_MAX, 0);
    sqe->user_data = qt_uring_user_data(req, QT_TAG_CANCEL);
    req->cancelled = 1;
    rig_ends(&rig, req, -ECANCELED);
    rig_sleeps(&rig);
    close(fds[0]);
    close(fds[1]);
    rig_close(&rig);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_submits_than_entries), cmocka_unit_test(more_completions_than_entries),
        cmocka_unit_test(receives_survive_overflow), cmocka_unit_test(cancel_in_the_backlog),
        cmocka_unit_test(cancel_what_waits),         cmocka_unit_test(cancel_races),
        cmocka_unit_test(cancel_of_a_busy_receive),  cmocka_unit_test(cancel_between_goes),
        cmocka_unit_test(cancel_that_missed),
    };
    return ring_run("uring flow", tests, sizeof tests / sizeof tests[0]);
}
