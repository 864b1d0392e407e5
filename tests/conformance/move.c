/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* move.c: streams that go to another worker, with all that was received and not told, and what counts them. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "movers.h"
#include "pair.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 1000000000ull

static void there_and_back(void) {
    struct movers m;
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    for (int i = 0; i < 30; i++) {
        struct pump *from = i % 2 ? &m.b : &m.a, *to = i % 2 ? &m.a : &m.b;
        quoit_addr before, after;
        echo_over(from, link.stream, link.fd, "at one");
        peer_send(from, link.fd, "on the way", 10); /* nobody receives */
        CHECK_EQ(quoit_peer_addr(from->worker, link.stream, &before), QUOIT_OK);
        link.stream = move_over(from, to, link.stream);
        CHECK_EQ(quoit_peer_addr(to->worker, link.stream, &after), QUOIT_OK);
        CHECK(!memcmp(&before, &after, sizeof before));
        quoit_event event = op_must(to, op_recv(to, link.stream, 0, 0), 10);
        CHECK(!memcmp(event_data(to, &event), "on the way", 10));
        echo_over(to, link.stream, link.fd, "at the other");
    }
    CHECK_EQ(stats_of(&m.a).objects_live, 2); /* it, and the listener */
    CHECK_EQ(stats_of(&m.b).objects_live, 0);
    link_close(&m.a, &link);
    movers_close(&m);
}

/* A receive tells what came and ends; what is queued leaves first, the end of sending in its place. */
static void after_what_runs(void) {
    struct movers m;
    static char data[8 << 20];
    char chunk[4096];
    for (int multi = 0; multi < 2; multi++) {
        movers_open(&m, NULL, NULL);
        struct link link = link_open(&m.a);
        peer_small_buffers(link.fd, 65536);
        uint64_t recv = op_recv(&m.a, link.stream, multi ? QUOIT_OPF_MULTI : 0, 0);
        pattern_fill(data, 8, 0, sizeof data);
        uint64_t send = op_send(&m.a, link.stream, data, sizeof data,
                                QUOIT_OPF_BORROW | (multi ? QUOIT_OPF_ZEROCOPY : 0));
        uint64_t end = op_shutdown(&m.a, link.stream, QUOIT_SHUTDOWN_SEND);
        uint64_t move = op_move(&m.a, link.stream, m.b.handle, 1);
        for (int i = 0; i < 20; i++)
            movers_turn(&m);
        CHECK(!op_ended(&m.a, send) && !op_ended(&m.a, move));
        op_must(&m.a, recv, -ECANCELED);
        for (size_t got = 0; got < sizeof data; got += sizeof chunk) {
            peer_recv(&m.a, link.fd, chunk, sizeof chunk);
            CHECK_PATTERN(chunk, 8, got, sizeof chunk);
        }
        op_must(&m.a, send, sizeof data);
        op_must(&m.a, end, 0);
        CHECK(!op_ended(&m.a, move));
        BOTH_UNTIL(&m, op_ended(&m.a, move));
        op_must(&m.a, move, 0);
        peer_expect_end(&m.a, link.fd);
        peer_send(&m.b, link.fd, "still read", 10);
        op_must(&m.b, op_recv(&m.b, m.b.moved.value, 0, 0), 10);
        close(link.fd);
        movers_close(&m);
    }
}

/* The other worker hears of it when this one's program has had all that was told before. */
static void after_all_was_told(void) {
    enum { REFUSED = 20 };
    quoit_worker_options options = {.events_max = 1};
    struct movers m;
    uint64_t recv, refused[REFUSED];
    movers_open(&m, &options, NULL);
    struct link link = link_open_recv(&m.a, &recv);
    op_must(&m.a, op_simple(&m.a, QUOIT_OP_RECV_PAUSE, link.stream), 0);
    pump_settle(&m.a); /* with nothing in the kernel the receive ends within the turn that takes the move */
    for (int i = 0; i < REFUSED; i++)
        refused[i] = op_recv(&m.a, link.stream, 0, 0);
    uint64_t move = op_move(&m.a, link.stream, m.b.handle, 1);
    BOTH_UNTIL(&m, m.b.moves);
    CHECK(!op_ended(&m.a, move));
    CHECK(op_ended(&m.a, recv));
    for (int i = 0; i < REFUSED; i++)
        CHECK(op_ended(&m.a, refused[i]));
    op_must(&m.a, move, 0);
    echo_over(&m.b, m.b.moved.value, link.fd, "all told");
    close(link.fd);
    movers_close(&m);
}

/* Bytes that a pause held back, and the end behind them, are the first that is told, wherever that is. */
static void what_was_held(void) {
    quoit_worker_options options = {.events_max = 1};
    for (int ends = 0; ends < 2; ends++)
        for (int moves = 1; moves <= 3; moves++) {
            struct movers m;
            movers_open(&m, &options, NULL);
            struct link link = link_with_held(&m.a);
            /* An op that does not go with what is held says whether something is. */
            bool epoll = quoit_runtime_driver(m.runtime) == QUOIT_DRIVER_EPOLL;
            op_must(&m.a, op_simple(&m.a, QUOIT_OP_RECV_FD, link.stream), epoll ? -EOPNOTSUPP : QUOIT_E_BUSY);
            if (ends)
                CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
            else
                peer_send(&m.a, link.fd, "later", 5);
            for (int i = 0; i < moves; i++)
                link.stream = i % 2 ? move_over(&m.b, &m.a, link.stream) : move_over(&m.a, &m.b, link.stream);
            struct pump *at = moves % 2 ? &m.b : &m.a;
            quoit_event event = op_must(at, op_recv(at, link.stream, 0, 4), 4);
            CHECK(!memcmp(event_data(at, &event), "held", 4));
            event = op_must(at, op_recv(at, link.stream, QUOIT_OPF_KEEP, 0), ends ? 0 : 5);
            CHECK_EQ(!!(event.flags & QUOIT_EVF_EOF), ends);
            if (!ends) {
                CHECK(!memcmp(event_data(at, &event), "later", 5));
                op_release(at, event.buffer);
            }
            link_close(at, &link);
            movers_close(&m);
        }
}

/* A reset that the kernel told during a pause is told once, there: asked again it would say that all ended well. */
static void held_reset(void) {
    quoit_worker_options options = {.events_max = 1};
    struct movers m;
    struct link busy, link;
    uint64_t recvs[2];
    movers_open(&m, &options, NULL);
    for (bool first = false; !first;) {
        busy = link_open_recv(&m.a, &recvs[0]);
        link = link_open_recv(&m.a, &recvs[1]);
        pump_settle(&m.a);
        peer_send(&m.a, busy.fd, "busy", 4);
        peer_reset(link.fd);
        PUMP_UNTIL(&m.a, op_record(&m.a, recvs[0])->events || op_record(&m.a, recvs[1])->events);
        first = !op_ended(&m.a, recvs[1]);
        if (!first)
            op_must(&m.a, op_close(&m.a, link.stream, QUOIT_OPF_ABORT), 0);
        else
            op_must(&m.a, op_simple(&m.a, QUOIT_OP_RECV_PAUSE, link.stream), 0);
        link_close(&m.a, &busy);
    }
    pump_settle(&m.a);
    CHECK(!op_ended(&m.a, recvs[1]));
    link.stream = move_over(&m.a, &m.b, link.stream);
    op_must(&m.a, recvs[1], -ECANCELED);
    op_must(&m.b, op_recv(&m.b, link.stream, 0, 0), -ECONNRESET);
    op_must(&m.b, op_close(&m.b, link.stream, QUOIT_OPF_ABORT), 0);
    movers_close(&m);
}

/* What was held comes in the pieces that the receive asks for, some here and some there. */
static void in_small_pieces(void) {
    quoit_worker_options options = {.events_max = 1};
    struct movers m;
    movers_open(&m, &options, &options);
    struct link link = link_with_held(&m.a);
    op_must(&m.a, op_simple(&m.a, QUOIT_OP_RECV_RESUME, link.stream), 0);
    quoit_event event = op_must(&m.a, op_recv(&m.a, link.stream, 0, 1), 1);
    CHECK(!memcmp(event_data(&m.a, &event), "h", 1));
    link.stream = move_over(&m.a, &m.b, link.stream);
    m.b.collect = true;
    uint64_t recv = op_recv(&m.b, link.stream, QUOIT_OPF_MULTI, 2);
    PUMP_UNTIL(&m.b, op_record(&m.b, recv)->events == 1);
    CHECK_EQ(op_record(&m.b, recv)->last.result, 2);
    PUMP_UNTIL(&m.b, op_record(&m.b, recv)->events == 2);
    CHECK_EQ(op_record(&m.b, recv)->last.result, 1);
    CHECK(!memcmp(stream_of(&m.b, link.stream)->data, "eld", 3));
    peer_send(&m.b, link.fd, "s", 1);
    PUMP_UNTIL(&m.b, op_record(&m.b, recv)->events == 3);
    link_close(&m.b, &link);
    movers_close(&m);
}

/* A splice takes what is left of such a piece. */
static void the_rest_of_a_piece(void) {
    quoit_worker_options options = {.events_max = 1};
    struct movers m;
    char text[3];
    movers_open(&m, &options, &options);
    struct link link = link_with_held(&m.a), to = link_open(&m.b);
    link.stream = move_over(&m.a, &m.b, link.stream);
    quoit_event event = op_must(&m.b, op_recv(&m.b, link.stream, 0, 1), 1);
    CHECK(!memcmp(event_data(&m.b, &event), "h", 1));
    quoit_op *op = op_new(&m.b, QUOIT_OP_SPLICE, link.stream);
    op->arg2 = to.stream;
    op->len = 3;
    op_must(&m.b, op->user_data, 3);
    peer_recv(&m.b, to.fd, text, 3);
    CHECK(!memcmp(text, "eld", 3));
    link_close(&m.b, &link);
    link_close(&m.b, &to);
    movers_close(&m);
}

/* A pause is the old handle's; so are the buffers that the program keeps. */
static void what_stays(void) {
    struct movers m;
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    peer_send(&m.a, link.fd, "kept", 4);
    quoit_event kept = op_must(&m.a, op_recv(&m.a, link.stream, QUOIT_OPF_KEEP, 0), 4);
    op_must(&m.a, op_simple(&m.a, QUOIT_OP_RECV_PAUSE, link.stream), 0);
    link.stream = move_over(&m.a, &m.b, link.stream);
    echo_over(&m.b, link.stream, link.fd, "no pause");
    CHECK(!memcmp(event_data(&m.a, &kept), "kept", 4));
    CHECK(stats_of(&m.a).buffers_kept > 0);
    op_release(&m.a, kept.buffer);
    pump_turn_nb(&m.a);
    CHECK_EQ(stats_of(&m.a).buffers_kept, 0);
    link_close(&m.b, &link);
    movers_close(&m);
}

/* The options of a socket go with it: an ABORT that is a reset still is. */
static void resets_there(void) {
    struct movers m;
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    quoit_op *op = op_new(&m.a, QUOIT_OP_SOCKET_SET, link.stream);
    op->arg = QUOIT_SOCKET_LINGER;
    op_must(&m.a, op->user_data, 0);
    link.stream = move_over(&m.a, &m.b, link.stream);
    op_must(&m.b, op_close(&m.b, link.stream, QUOIT_OPF_ABORT), 0);
    peer_expect_reset(&m.b, link.fd);
    close(link.fd);
    movers_close(&m);
}

static quoit_handle adopt(struct pump *pump, int fd, int64_t result) {
    quoit_op *op = op_new(pump, QUOIT_OP_ADOPT, 0);
    op->offset = fd;
    return op_must(pump, op->user_data, result).value;
}

/* A Unix stream that was the program's: its number is known where it is, and only there. */
static void adopted(void) {
    struct movers m;
    int ends[2];
    movers_open(&m, NULL, NULL);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    quoit_handle stream = adopt(&m.a, ends[0], 0);
    uint64_t recv = op_simple(&m.a, QUOIT_OP_RECV_FD, stream);
    pump_turn_nb(&m.a);
    stream = move_over(&m.a, &m.b, stream);
    op_must(&m.a, recv, -ECANCELED);
    echo_over(&m.b, stream, ends[1], "adopted");
    adopt(&m.b, ends[0], QUOIT_E_BUSY);
    stream = move_over(&m.b, &m.a, stream);
    adopt(&m.a, ends[0], QUOIT_E_BUSY);
    op_must(&m.a, op_close(&m.a, stream, QUOIT_OPF_ABORT), 0);
    CHECK_EQ(fcntl(ends[0], F_GETFD), -1);
    close(ends[1]);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); /* most likely the same number */
    stream = move_over(&m.b, &m.a, adopt(&m.b, ends[0], 0));
    CHECK_EQ((int)op_must(&m.a, op_simple(&m.a, QUOIT_OP_DETACH, stream), 0).value, ends[0]);
    close(ends[0]);
    close(ends[1]);
    movers_close(&m);
}

static quoit_handle listen_max(struct pump *pump, quoit_addr *addr, uint32_t most, uint32_t skew) {
    quoit_listen_options options = {.struct_size = sizeof options,
                                    .flags = QUOIT_LISTEN_REUSEPORT,
                                    .streams_max = most,
                                    .skew_percent = skew};
    quoit_op *op = op_new(pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    op->arg2 = (uintptr_t)&options;
    quoit_event event = op_must(pump, op->user_data, 0);
    addr->port = (uint16_t)event.aux;
    return event.value;
}

/* One that left has made room in its listener; coming back it needs room again, and counts. */
static void the_place_it_had(void) {
    struct movers m;
    quoit_addr addr = addr_v4(0);
    int fds[3];
    movers_open(&m, NULL, NULL);
    quoit_handle listener = listen_max(&m.a, &addr, 1, 0);
    uint64_t accept = op_accept(&m.a, listener, QUOIT_OPF_MULTI);
    for (int i = 0; i < 3; i++)
        fds[i] = peer_connect(&addr);
    PUMP_UNTIL(&m.a, op_record(&m.a, accept)->events == 1);
    quoit_handle first = op_record(&m.a, accept)->last.value;
    for (int i = 0; i < 5; i++)
        pump_turn_nb(&m.a);
    CHECK_EQ(op_record(&m.a, accept)->events, 1);
    first = move_over(&m.a, &m.b, first);
    PUMP_UNTIL(&m.a, op_record(&m.a, accept)->events == 2);
    quoit_handle second = op_record(&m.a, accept)->last.value;
    uint64_t move = op_move(&m.b, first, m.a.handle, 0);
    BOTH_UNTIL(&m, op_ended(&m.b, move));
    op_must(&m.b, move, QUOIT_E_LIMIT);
    echo_over(&m.b, first, fds[0], "it stayed");
    /* The listener goes on as soon as the second has left; so the first comes back while it does not accept. */
    op_must(&m.a, op_cancel(&m.a, listener, 0, 0), 1);
    op_must(&m.a, accept, -ECANCELED);
    second = move_over(&m.a, &m.b, second);
    first = move_over(&m.b, &m.a, first);
    accept = op_accept(&m.a, listener, QUOIT_OPF_MULTI);
    for (int i = 0; i < 5; i++)
        pump_turn_nb(&m.a);
    CHECK_EQ(op_record(&m.a, accept)->events, 0);
    op_must(&m.a, op_close(&m.a, first, QUOIT_OPF_ABORT), 0);
    PUMP_UNTIL(&m.a, op_record(&m.a, accept)->events == 1);
    op_must(&m.b, op_close(&m.b, second, QUOIT_OPF_ABORT), 0);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    movers_close(&m);
}

/* Where the workers' listeners share port and load, it counts for the other's. */
static void the_place_it_takes(void) {
    struct movers m;
    quoit_addr addr = addr_v4(0);
    quoit_handle streams[3];
    int fds[3];
    movers_open(&m, NULL, NULL);
    uint64_t accept = op_accept(&m.a, listen_max(&m.a, &addr, 0, 10), QUOIT_OPF_MULTI);
    for (uint32_t i = 0; i < 3; i++) {
        fds[i] = peer_connect(&addr);
        PUMP_UNTIL(&m.a, op_record(&m.a, accept)->events == i + 1);
        streams[i] = op_record(&m.a, accept)->last.value;
    }
    uint64_t other = op_accept(&m.b, listen_max(&m.b, &addr, 1, 10), QUOIT_OPF_MULTI);
    streams[0] = move_over(&m.a, &m.b, streams[0]);
    uint64_t move = op_move(&m.a, streams[1], m.b.handle, 0);
    BOTH_UNTIL(&m, op_ended(&m.a, move));
    op_must(&m.a, move, QUOIT_E_LIMIT);
    op_must(&m.b, op_close(&m.b, streams[0], QUOIT_OPF_ABORT), 0);
    streams[1] = move_over(&m.a, &m.b, streams[1]);
    echo_over(&m.b, streams[1], fds[1], "in its place");
    echo_over(&m.a, streams[2], fds[2], "as ever");
    CHECK_EQ(op_record(&m.b, other)->events, 0);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    movers_close(&m);
}

/* Two are moved off a worker that drains, so that it ends at once, whatever its grace; the other then waits for those. */
static void drains(void) {
    struct movers m;
    struct link links[2];
    movers_open(&m, NULL, NULL);
    for (int i = 0; i < 2; i++)
        links[i] = link_open(&m.a);
    CHECK_EQ(quoit_drain(m.a.handle, 3600 * SECONDS), QUOIT_OK);
    pump_turn(&m.a, 0);
    for (int i = 0; i < 2; i++) {
        CHECK(!(m.a.batch->flags & QUOIT_BATCH_DRAINED));
        uint64_t move = op_move(&m.a, links[i].stream, m.b.handle, 0);
        BOTH_UNTIL(&m, op_ended(&m.a, move));
        links[i].stream = op_record(&m.a, move)->last.value;
        CHECK_EQ(op_record(&m.a, move)->last.result, 0);
        echo_over(&m.b, links[i].stream, links[i].fd, "moved off");
    }
    PUMP_UNTIL(&m.a, m.a.batch->flags & QUOIT_BATCH_DRAINED);
    pump_check_ended(&m.a);
    pump_abandon(&m.a);
    CHECK_EQ(quoit_drain(m.b.handle, 3600 * SECONDS), QUOIT_OK);
    for (int i = 0; i < 2; i++) {
        pump_turn(&m.b, 0);
        CHECK(!(m.b.batch->flags & QUOIT_BATCH_DRAINED));
        link_close(&m.b, &links[i]);
    }
    PUMP_UNTIL(&m.b, m.b.batch->flags & QUOIT_BATCH_DRAINED);
    pump_check_ended(&m.b);
    pump_abandon(&m.b);
    CHECK_EQ(quoit_runtime_destroy(m.runtime), QUOIT_OK);
}

/* Another thread asks for it; the kernel wakes who sleeps. */
static void posted(void) {
    struct movers m;
    movers_open(&m, NULL, NULL);
    struct link link = link_open(&m.a);
    quoit_op op = {.opcode = QUOIT_OP_MOVE,
                   .target = link.stream,
                   .arg2 = m.b.handle,
                   .addr = 77,
                   .user_data = op_expect(&m.a, QUOIT_OP_MOVE, 0, link.stream)};
    CHECK_EQ(quoit_post(m.a.handle, &op, 1), 1);
    BOTH_UNTIL(&m, op_ended(&m.a, op.user_data));
    op_must(&m.a, op.user_data, 0);
    CHECK_EQ(m.b.moved.user_data, 77);
    link.stream = m.b.moved.value;
    link_close(&m.b, &link);
    movers_close(&m);
}

static const struct test_case cases[] = {
    {"there_and_back", there_and_back},
    {"after_what_runs", after_what_runs},
    {"after_all_was_told", after_all_was_told},
    {"what_was_held", what_was_held},
    {"held_reset", held_reset},
    {"in_small_pieces", in_small_pieces},
    {"the_rest_of_a_piece", the_rest_of_a_piece},
    {"what_stays", what_stays},
    {"resets_there", resets_there},
    {"adopted", adopted},
    {"the_place_it_had", the_place_it_had},
    {"the_place_it_takes", the_place_it_takes},
    {"drains", drains},
    {"posted", posted},
};
TEST_GROUP(move, cases);
