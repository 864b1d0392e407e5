/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* move_ends.c: moves that do not come about: what cannot be, what is taken back, workers that end. The stream is never lost. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "movers.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull

/* Ends with this; the stream is where it was. */
static void must_stay(struct movers *m, const struct link *link, uint64_t move, int64_t status,
                      uint32_t field) {
    uint64_t before = m->b.moves;
    CHECK_EQ(op_must(&m->a, move, status).aux, field);
    CHECK_EQ(op_record(&m->a, move)->last.value, 0);
    CHECK_EQ(m->b.moves, before);
    echo_over(&m->a, link->stream, link->fd, "it is here");
}

static void no_such_worker(void) {
    struct movers m;
    struct pump gone;
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    pump_open_in(&gone, m.runtime, NULL);
    quoit_handle stale = gone.handle;
    pump_close(&gone);
    static const struct {
        quoit_handle worker;
        int64_t status;
    } wrong[] = {{0, QUOIT_E_HANDLE}, {7, QUOIT_E_HANDLE}, {UINT64_MAX, QUOIT_E_HANDLE}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        must_stay(&m, &link, op_move(&m.a, link.stream, wrong[i].worker, 0), wrong[i].status,
                  QUOIT_FIELD_ARG2);
    must_stay(&m, &link, op_move(&m.a, link.stream, m.a.handle, 0), QUOIT_E_FIELD, QUOIT_FIELD_ARG2);
    must_stay(&m, &link, op_move(&m.a, link.stream, link.stream, 0), QUOIT_E_KIND, QUOIT_FIELD_ARG2);
    must_stay(&m, &link, op_move(&m.a, link.stream, stale, 0), QUOIT_E_STALE, QUOIT_FIELD_ARG2);
    must_stay(&m, &link, op_move(&m.a, link.stream, m.b.handle ^ 1ull << 24, 0), QUOIT_E_STALE,
              QUOIT_FIELD_ARG2);
    op_must(&m.b, op_move(&m.b, link.stream, m.b.handle, 0), QUOIT_E_WORKER);
    link_close(&m.a, &link);
    op_must(&m.a, op_move(&m.a, link.stream, m.b.handle, 0), QUOIT_E_STALE);
    movers_close(&m);
}

/* What that worker has no room for. */
static void no_room(void) {
    quoit_worker_options options = {.mailbox_ops = 1, .objects_max = 1};
    struct movers m;
    movers_open(&m, NULL, &options);
    struct link link = link_open(&m.a), other = link_open(&m.a);
    quoit_op nop = {.opcode = QUOIT_OP_NOP, .flags = QUOIT_OPF_QUIET};
    CHECK_EQ(quoit_post(m.b.handle, &nop, 1), 1);
    must_stay(&m, &link, op_move(&m.a, link.stream, m.b.handle, 0), -EAGAIN, 0);
    pump_turn_nb(&m.b);
    other.stream = move_over(&m.a, &m.b, other.stream);
    uint64_t move = op_move(&m.a, link.stream, m.b.handle, 0);
    BOTH_UNTIL(&m, op_ended(&m.a, move));
    must_stay(&m, &link, move, QUOIT_E_LIMIT, 0);
    link_close(&m.b, &other);
    link.stream = move_over(&m.a, &m.b, link.stream);
    link_close(&m.b, &link);
    movers_close(&m);
}

/* What came and was not told is there after a failure too. */
static void no_room_for_what_was_held(void) {
    quoit_worker_options options = {.events_max = 1}, small = {.objects_max = 1};
    struct movers m;
    movers_open(&m, &options, &small);
    struct link link = link_with_held(&m.a);
    op_timer(&m.b, 3600000 * MS, 0, 0); /* the one object */
    pump_turn_nb(&m.b);
    uint64_t move = op_move(&m.a, link.stream, m.b.handle, 0);
    BOTH_UNTIL(&m, op_ended(&m.a, move));
    op_must(&m.a, move, QUOIT_E_LIMIT);
    op_must(&m.a, op_simple(&m.a, QUOIT_OP_RECV_RESUME, link.stream), 0);
    quoit_event event = op_must(&m.a, op_recv(&m.a, link.stream, 0, 0), 4);
    CHECK(!memcmp(event_data(&m.a, &event), "held", 4));
    link_close(&m.a, &link);
    movers_close(&m);
}

/* A worker that was stopped takes none, nor one that drains, nor one that is destroyed with the letter unread: before its first turn. */
static void workers_that_end(void) {
    enum { STOPPED, DRAINS, DESTROYED, HOWS };
    for (int how = 0; how < HOWS; how++) {
        struct movers m;
        movers_open(&m, NULL, NULL);
        struct link link = link_open(&m.a), there = link_open(&m.a);
        if (how == DRAINS) /* so that it has something to wait for */
            there.stream = move_over(&m.a, &m.b, there.stream);
        if (how == STOPPED)
            CHECK_EQ(quoit_stop(m.b.handle), QUOIT_OK);
        if (how == DRAINS)
            CHECK_EQ(quoit_drain(m.b.handle, 3600000 * MS), QUOIT_OK);
        uint64_t move = op_move(&m.a, link.stream, m.b.handle, 0);
        for (int i = 0; i < 5; i++)
            pump_turn_nb(&m.a);
        CHECK_EQ(op_ended(&m.a, move), how == STOPPED);
        if (how == DRAINS)
            BOTH_UNTIL(&m, op_ended(&m.a, move));
        if (how == DESTROYED)
            pump_abandon(&m.b);
        must_stay(&m, &link, move, how == DESTROYED ? QUOIT_E_STALE : QUOIT_E_CLOSED, QUOIT_FIELD_ARG2);
        close(link.fd);
        close(there.fd);
        pump_close(&m.a);
        if (how != DESTROYED)
            pump_close(&m.b);
        CHECK_EQ(quoit_runtime_destroy(m.runtime), QUOIT_OK);
    }
}

/* What was on its way before the stop was asked is taken, and closed with the rest. */
static void stopped_behind_it(void) {
    struct movers m;
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    uint64_t move = op_move(&m.a, link.stream, m.b.handle, 0);
    for (int i = 0; i < 3; i++)
        pump_turn_nb(&m.a);
    pump_drain(&m.b);
    CHECK_EQ(m.b.moves, 1);
    pump_abandon(&m.b);
    op_must(&m.a, move, 0);
    peer_expect_end(&m.a, link.fd);
    close(link.fd);
    pump_close(&m.a);
    CHECK_EQ(quoit_runtime_destroy(m.runtime), QUOIT_OK);
}

/* While it waits the stream takes no other op, and no question. */
static void busy(void) {
    struct movers m;
    quoit_addr addr;
    int64_t value;
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    uint64_t move = op_move(&m.a, link.stream, m.b.handle, 0);
    const uint64_t refused[] = {
        op_recv(&m.a, link.stream, 0, 0),
        op_send(&m.a, link.stream, "x", 1, 0),
        op_shutdown(&m.a, link.stream, QUOIT_SHUTDOWN_SEND),
        op_simple(&m.a, QUOIT_OP_RECV_PAUSE, link.stream),
        op_simple(&m.a, QUOIT_OP_DETACH, link.stream),
        op_move(&m.a, link.stream, m.b.handle, 0),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK_EQ(op_must(&m.a, refused[i], QUOIT_E_BUSY).aux, QUOIT_FIELD_TARGET);
    for (int i = 0; i < 3; i++)
        pump_turn_nb(&m.a);
    CHECK(!op_ended(&m.a, move)); /* that worker has not turned */
    CHECK_EQ(quoit_peer_addr(m.a.worker, link.stream, &addr), QUOIT_E_BUSY);
    CHECK_EQ(quoit_socket_get(m.a.worker, link.stream, QUOIT_SOCKET_NODELAY, &value), QUOIT_E_BUSY);
    BOTH_UNTIL(&m, op_ended(&m.a, move));
    link.stream = op_must(&m.a, move, 0).value;
    link_close(&m.b, &link);
    movers_close(&m);
}

/* In its own batch; while it waits for its peer to read; while the letter lies unread; after it was read. */
static void cancelled(void) {
    struct movers m;
    static char data[8 << 20];
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    peer_small_buffers(link.fd, 65536);
    uint64_t move = op_move(&m.a, link.stream, m.b.handle, 0);
    uint64_t cancel = op_cancel(&m.a, link.stream, QUOIT_OP_MOVE, 0);
    op_must(&m.a, cancel, 1);
    must_stay(&m, &link, move, -ECANCELED, 0);

    move = op_move(&m.a, link.stream, m.b.handle, 0);
    for (int i = 0; i < 3; i++)
        pump_turn_nb(&m.a);
    CHECK(!op_ended(&m.a, move));
    op_must(&m.a, op_cancel(&m.a, link.stream, QUOIT_OP_MOVE, 0), 1);
    op_must(&m.a, move, -ECANCELED);
    for (int i = 0; i < 3; i++)
        pump_turn_nb(&m.b);
    must_stay(&m, &link, move, -ECANCELED, 0);

    move = op_move(&m.a, link.stream, m.b.handle, 0);
    for (int i = 0; i < 3; i++)
        pump_turn_nb(&m.a);
    pump_turn_nb(&m.b);
    CHECK_EQ(m.b.moves, 1);
    cancel = op_cancel(&m.a, link.stream, QUOIT_OP_MOVE, 0);
    pump_submit(&m.a); /* its answer waits in the mailbox, which this does not open */
    op_must(&m.a, cancel, 1);
    op_must(&m.a, move, 0);
    op_must(&m.a, op_cancel(&m.a, link.stream, QUOIT_OP_MOVE, 0), QUOIT_E_STALE);
    link.stream = m.b.moved.value;

    uint64_t send = op_send(&m.b, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
    move = op_move(&m.b, link.stream, m.a.handle, 0);
    for (int i = 0; i < 3; i++)
        movers_turn(&m);
    CHECK(!op_ended(&m.b, move) && !op_ended(&m.b, send));
    op_must(&m.b, op_cancel(&m.b, link.stream, QUOIT_OP_MOVE, 0), 1);
    op_must(&m.b, move, -ECANCELED);
    move = op_move(&m.b, link.stream, m.a.handle, 0);
    op_must(&m.b, op_cancel(&m.b, link.stream, QUOIT_OP_SEND, 0), 1); /* then it need not wait */
    op_must(&m.b, send, -ECANCELED);
    BOTH_UNTIL(&m, op_ended(&m.b, move));
    link.stream = op_must(&m.b, move, 0).value;
    link_close(&m.a, &link);
    movers_close(&m);
}

static void deadlines(void) {
    struct movers m;
    static char data[8 << 20];
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    peer_small_buffers(link.fd, 65536);
    /* The other does not turn. */
    quoit_op *op = op_new(&m.a, QUOIT_OP_MOVE, link.stream);
    op->arg2 = m.b.handle;
    op->timeout_ns = 20 * MS;
    must_stay(&m, &link, op->user_data, -ETIMEDOUT, 0);
    pump_turn_nb(&m.b);
    CHECK_EQ(m.b.moves, 0);
    /* The peer does not read. */
    uint64_t send = op_send(&m.a, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
    op = op_new(&m.a, QUOIT_OP_MOVE, link.stream);
    op->arg2 = m.b.handle;
    op->timeout_ns = 20 * MS;
    uint64_t move = op->user_data;
    BOTH_UNTIL(&m, op_ended(&m.a, move));
    op_must(&m.a, move, -ETIMEDOUT);
    CHECK(!op_ended(&m.a, send));
    op_must(&m.a, op_cancel(&m.a, link.stream, QUOIT_OP_SEND, 0), 1);
    op_must(&m.a, send, -ECANCELED);
    /* In time. */
    op = op_new(&m.a, QUOIT_OP_MOVE, link.stream);
    op->arg2 = m.b.handle;
    op->timeout_ns = 60000 * MS;
    move = op->user_data;
    BOTH_UNTIL(&m, op_ended(&m.a, move));
    link.stream = op_must(&m.a, move, 0).value;
    link_close(&m.b, &link);
    movers_close(&m);
}

/* A close takes it back, or is too late: then the handle is the other worker's. */
static void closed(void) {
    for (int abort = 0; abort < 2; abort++)
        for (int when = 0; when < 4; when++) {
            struct movers m;
            movers_open(&m, NULL, NULL);
            uint64_t recv, close_op;
            struct link link = link_open_recv(&m.a, &recv);
            pump_turn_nb(&m.a);
            uint64_t move = op_move(&m.a, link.stream, m.b.handle, 0);
            for (int i = 0; when > 0 && i < 20; i++)
                pump_turn_nb(&m.a);
            if (when == 3)
                PUMP_UNTIL(&m.b, m.b.moves);
            if (when == 2) {
                CHECK_EQ(quoit_stop(m.a.handle), QUOIT_OK);
                PUMP_UNTIL(&m.a, m.a.batch->flags & QUOIT_BATCH_DRAINED);
            } else {
                close_op = op_close(&m.a, link.stream, abort ? QUOIT_OPF_ABORT : 0);
                pump_submit(&m.a);
                if (when < 2)
                    CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
                op_must(&m.a, close_op, when == 3 ? QUOIT_E_STALE : 0);
            }
            CHECK_EQ(op_record(&m.a, recv)->last.result, -ECANCELED);
            CHECK_EQ(op_record(&m.a, move)->last.result, when == 3 ? 0 : -ECANCELED);
            for (int i = 0; i < 3; i++)
                pump_turn_nb(&m.b);
            CHECK_EQ(m.b.moves, when == 3);
            if (when == 3)
                echo_over(&m.b, m.b.moved.value, link.fd, "it is there");
            else
                peer_expect_end(&m.b, link.fd);
            close(link.fd);
            if (when == 2)
                pump_abandon(&m.a);
            else
                pump_close(&m.a);
            pump_close(&m.b);
            CHECK_EQ(quoit_runtime_destroy(m.runtime), QUOIT_OK);
        }
}

struct leaver {
    struct movers *m;
    struct link link;
    bool early; /* the move has not begun when its thread ends */
};

static void *leave(void *arg) {
    struct leaver *leaver = arg;
    struct pump *pump = &leaver->m->a;
    leaver->link = link_open(pump);
    op_move(pump, leaver->link.stream, leaver->m->b.handle, 0);
    if (leaver->early)
        pump_submit(pump);
    for (int i = 0; !leaver->early && i < 3; i++)
        pump_turn_nb(pump);
    return NULL;
}

/*
 * The old worker's thread has ended, and it is destroyed as it is: before the other reads the letter the stream ends with it,
 * after that it lives on, though the old one never saw the answer.
 */
static void destroyed(void) {
    for (int when = 0; when < 3; when++) {
        struct movers m;
        struct leaver leaver = {.m = &m, .early = when == 2};
        movers_open(&m, NULL, NULL);
        thread_join(thread_start(leave, &leaver));
        if (when == 1)
            PUMP_UNTIL(&m.b, m.b.moves);
        pump_abandon(&m.a);
        for (int i = 0; i < 3; i++)
            pump_turn_nb(&m.b);
        CHECK_EQ(m.b.moves, when == 1);
        if (when == 1)
            echo_over(&m.b, m.b.moved.value, leaver.link.fd, "it lives on");
        else
            peer_expect_end(&m.b, leaver.link.fd);
        close(leaver.link.fd);
        pump_close(&m.b);
        CHECK_EQ(quoit_runtime_destroy(m.runtime), QUOIT_OK);
    }
}

static const struct test_case cases[] = {
    {"no_such_worker", no_such_worker},
    {"no_room", no_room},
    {"no_room_for_what_was_held", no_room_for_what_was_held},
    {"workers_that_end", workers_that_end},
    {"stopped_behind_it", stopped_behind_it},
    {"busy", busy},
    {"cancelled", cancelled},
    {"deadlines", deadlines},
    {"closed", closed},
    {"destroyed", destroyed},
};
TEST_GROUP(move_ends, cases);
