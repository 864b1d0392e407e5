/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* datagrams.c: receiving datagrams: how long, how many; loans, pauses, starvation, cancels. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const quoit_addr *peer_of(const struct pump *pump, const quoit_event *event) {
    return (const quoit_addr *)(uintptr_t)(pump->batch->recv_base + event->value);
}

/* A socket of the worker, and one of the test's. */
struct pair {
    struct pump pump;
    quoit_handle socket;
    quoit_addr here, there;
    int fd;
};

static void pair_open(struct pair *pair, const quoit_worker_options *options, uint32_t flags) {
    pump_open(&pair->pump, options);
    pair->here = addr_v4(0);
    pair->there = addr_v4(0);
    pair->socket = bind_on(&pair->pump, &pair->here, flags);
    pair->fd = peer_bind(&pair->there);
}

static void pair_close(struct pair *pair) {
    close(pair->fd);
    op_must(&pair->pump, op_close(&pair->pump, pair->socket, 0), 0);
    pump_close(&pair->pump);
}

/* Datagram `n` of a test: its number, then a pattern. */
static void make(uint8_t *data, uint32_t n, size_t len) {
    pattern_fill(data, n, 0, len);
    memcpy(data, &n, len < sizeof n ? len : sizeof n);
}

static void send_number(struct pair *pair, uint32_t n, size_t len) {
    static uint8_t data[65536];
    make(data, n, len);
    peer_send_to(pair->fd, &pair->here, data, len);
}

/* What an event brought is datagram `n` of that length, as far as it is there, from the test's socket. */
static void check_number(struct pair *pair, const quoit_event *event, uint32_t n, size_t len) {
    static uint8_t want[65536];
    make(want, n, len);
    CHECK_EQ(event->result, len);
    CHECK(!memcmp(event_data(&pair->pump, event), want, event->len));
    CHECK(!memcmp(peer_of(&pair->pump, event), &pair->there, sizeof pair->there));
}

/* Follows a MULTI receive: numbers in order, without a gap. */
struct counting {
    struct pair *pair;
    uint32_t next;
    size_t len;
    quoit_handle kept[1024];
    uint32_t nkept;
};

static void on_number(struct pump *pump, const quoit_event *event) {
    struct counting *counting = pump->ctx;
    if (event->kind != QUOIT_OP_RECVMSG || event->result < 0)
        return;
    check_number(counting->pair, event, counting->next++, counting->len);
    if (event->flags & QUOIT_EVF_KEPT)
        counting->kept[counting->nkept++ % 1024] = event->buffer;
}

static void follow(struct counting *counting, struct pair *pair, size_t len) {
    memset(counting, 0, sizeof *counting);
    counting->pair = pair;
    counting->len = len;
    pair->pump.ctx = counting;
    pair->pump.on_event = on_number;
}

static void single_shot(void) {
    struct pair pair;
    pair_open(&pair, NULL, 0);
    for (uint32_t n = 0; n < 20; n++) {
        uint64_t recv = 0;
        if (n % 2)
            recv = op_recvmsg(&pair.pump, pair.socket, 0, 0), pump_turn_nb(&pair.pump);
        send_number(&pair, n, 4 + n * 50);
        if (n % 2 == 0)
            recv = op_recvmsg(&pair.pump, pair.socket, 0, 0);
        quoit_event event = op_finish(&pair.pump, recv);
        check_number(&pair, &event, n, 4 + n * 50);
        CHECK_EQ(event.flags & ~(uint32_t)QUOIT_EVF_NONEMPTY, QUOIT_EVF_LENT);
    }
    /* Nothing is received that nobody asked for. */
    send_number(&pair, 1, 10);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pair.pump, 1000000), 0);
    quoit_event event = op_finish(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 0));
    check_number(&pair, &event, 1, 10);
    pair_close(&pair);
}

static void multi_goes_on(void) {
    struct pair pair;
    struct counting counting;
    pair_open(&pair, NULL, 0);
    follow(&counting, &pair, 100);
    uint64_t recv = op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, 0);
    for (uint32_t n = 0; n < 500; n++) {
        send_number(&pair, n, 100);
        if (n % 10 == 9)
            PUMP_UNTIL(&pair.pump, counting.next == n + 1);
    }
    op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, 0), QUOIT_E_BUSY);
    op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 0), QUOIT_E_BUSY);
    CHECK(!op_ended(&pair.pump, recv) && op_record(&pair.pump, recv)->events == 500);
    pair_close(&pair);
}

static void cancel(struct pair *pair, uint64_t recv) {
    op_must(&pair->pump, op_cancel(&pair->pump, pair->socket, 0, 0), 1);
    op_must(&pair->pump, recv, -ECANCELED);
}

static void truncated(void) {
    struct pair pair;
    static const uint32_t caps[] = {1, 10, 99, 100, 101, 1900};
    pair_open(&pair, NULL, 0);
    for (int multi = 0; multi < 2; multi++)
        for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
            send_number(&pair, 7, 100);
            send_number(&pair, 8, 50);
            uint64_t recv = op_recvmsg(&pair.pump, pair.socket, multi ? QUOIT_OPF_MULTI : 0, caps[i]);
            PUMP_UNTIL(&pair.pump, op_record(&pair.pump, recv)->events);
            if (!multi) {
                quoit_event event = op_record(&pair.pump, recv)->last;
                check_number(&pair, &event, 7, 100);
                CHECK_EQ(event.len, caps[i] < 100 ? caps[i] : 100);
                recv = op_recvmsg(&pair.pump, pair.socket, 0, caps[i]);
            }
            /* The rest of it is gone; the next is whole. */
            PUMP_UNTIL(&pair.pump, op_record(&pair.pump, recv)->last.result == 50);
            CHECK_EQ(op_record(&pair.pump, recv)->last.len, caps[i] < 50 ? caps[i] : 50);
            if (multi)
                cancel(&pair, recv);
        }
    pair_close(&pair);
}

/* Beyond what a pool buffer has room for: cut without a cap, whole with one. */
static void longer_than_a_buffer(void) {
    struct pair pair;
    pair_open(&pair, NULL, 0);
    for (int multi = 0; multi < 2; multi++) {
        uint32_t flags = multi ? QUOIT_OPF_MULTI : 0;
        uint64_t recv = op_recvmsg(&pair.pump, pair.socket, flags, 0);
        send_number(&pair, 1, 5000);
        PUMP_UNTIL(&pair.pump, op_record(&pair.pump, recv)->events);
        quoit_event event = op_record(&pair.pump, recv)->last;
        check_number(&pair, &event, 1, 5000);
        CHECK(event.flags & QUOIT_EVF_TRUNC && event.len >= 1500 && event.len < 2048);
        if (multi)
            cancel(&pair, recv);
        recv = op_recvmsg(&pair.pump, pair.socket, flags, 65507);
        for (uint32_t n = 1; n <= 5; n++) {
            send_number(&pair, n, n * 13000);
            PUMP_UNTIL(&pair.pump, op_record(&pair.pump, recv)->events == (multi ? n : 1));
            event = op_record(&pair.pump, recv)->last;
            check_number(&pair, &event, n, n * 13000);
            CHECK_EQ(event.len, n * 13000);
            if (!multi)
                recv = op_recvmsg(&pair.pump, pair.socket, 0, 65507);
        }
        cancel(&pair, recv);
    }
    op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, QUOIT_DATAGRAM_MAX + 1), QUOIT_E_FIELD);
    pair_close(&pair);
}

/* Buffers that have no room for an address, or where none would be aligned. */
static void odd_buffers(void) {
    static const uint32_t sizes[] = {64, 128, 136, 200, 1001, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        quoit_worker_options options = {.recv_buffer_size = sizes[i], .recv_buffers = 16};
        struct pair pair;
        struct counting counting;
        pair_open(&pair, &options, 0);
        follow(&counting, &pair, 900);
        op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, 0);
        for (uint32_t n = 0; n < 50; n++) {
            send_number(&pair, n, 900);
            PUMP_UNTIL(&pair.pump, counting.next == n + 1);
        }
        pair_close(&pair);
    }
}

/* An empty datagram is one, and never the end. */
static void empty(void) {
    struct pair pair;
    pair_open(&pair, NULL, 0);
    peer_send_to(pair.fd, &pair.here, "", 0);
    quoit_event event = op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 0), 0);
    CHECK_EQ(event.flags & ~(uint32_t)QUOIT_EVF_NONEMPTY, QUOIT_EVF_LENT);
    CHECK_EQ(event.len, 0);
    CHECK(!memcmp(peer_of(&pair.pump, &event), &pair.there, sizeof pair.there));
    uint64_t recv = op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, 0);
    for (uint32_t n = 0; n < 30; n++) {
        peer_send_to(pair.fd, &pair.here, "x", n % 3 ? 0 : 1);
        if (n % 4 == 0)
            PUMP_UNTIL(&pair.pump, op_record(&pair.pump, recv)->events == n + 1);
    }
    PUMP_UNTIL(&pair.pump, op_record(&pair.pump, recv)->events == 30);
    CHECK_EQ(op_record(&pair.pump, recv)->last.flags & QUOIT_EVF_MORE, QUOIT_EVF_MORE);
    CHECK_EQ(op_record(&pair.pump, recv)->last.result, 0);
    uint64_t send = op_sendmsg(&pair.pump, pair.socket, &pair.there, NULL, 0, 0);
    char byte;
    CHECK_EQ(peer_recv_from(&pair.pump, pair.fd, &byte, 1, NULL), 0);
    op_must(&pair.pump, send, 0);
    pair_close(&pair);
}

static void pause_and_resume(void) {
    struct pair pair;
    struct counting counting;
    pair_open(&pair, NULL, 0);
    follow(&counting, &pair, 60);
    uint64_t recv = op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, 0);
    uint32_t n = 0;
    for (int round = 0; round < 50; round++) {
        send_number(&pair, n++, 60);
        send_number(&pair, n++, 60);
        if (round % 2)
            pump_turn_nb(&pair.pump);
        op_must(&pair.pump, op_simple(&pair.pump, QUOIT_OP_RECV_PAUSE, pair.socket), 0);
        uint32_t before = counting.next;
        send_number(&pair, n++, 60);
        for (int i = 0; i < 3; i++)
            pump_turn(&pair.pump, 500000);
        CHECK_EQ(counting.next, before);
        op_must(&pair.pump, op_simple(&pair.pump, QUOIT_OP_RECV_RESUME, pair.socket), 0);
        PUMP_UNTIL(&pair.pump, counting.next == n);
    }
    CHECK(!op_ended(&pair.pump, recv));
    pair_close(&pair);
}

/* Kept datagrams stay; at the cap the socket pauses until some are released. */
static void kept(void) {
    quoit_worker_options options = {.kept_stream_max = 8 * 2048, .recv_buffers = 8};
    struct pair pair;
    struct counting counting;
    pair_open(&pair, &options, 0);
    follow(&counting, &pair, 60);
    uint64_t recv = op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI | QUOIT_OPF_KEEP, 0);
    for (uint32_t n = 0; n < 40; n++)
        send_number(&pair, n, 60);
    uint32_t released = 0;
    while (released < 40) {
        PUMP_UNTIL(&pair.pump, counting.nkept > released);
        for (int i = 0; i < 12; i++) /* more than may be kept, also where a turn brings one event */
            pump_turn(&pair.pump, 500000);
        CHECK(counting.next - released < 40);
        for (; released < counting.nkept; released++)
            op_release(&pair.pump, counting.kept[released]);
    }
    CHECK_EQ(counting.next, 40);
    CHECK(stats_of(&pair.pump).recv_paused > 0);
    op_must(&pair.pump, op_cancel(&pair.pump, pair.socket, 0, 0), 1);
    op_must(&pair.pump, recv, -ECANCELED);
    /* By hand, with a block of its own. */
    pair.pump.on_event = NULL;
    send_number(&pair, 3, 6000);
    quoit_event event = op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 7000), 6000);
    op_must(&pair.pump, op_simple(&pair.pump, QUOIT_OP_KEEP, event.buffer), 0);
    send_number(&pair, 4, 6000);
    op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 7000), 6000);
    check_number(&pair, &event, 3, 6000);
    op_release(&pair.pump, event.buffer);
    pair_close(&pair);
}

/* Over the arena's cap the datagrams come all the same, to be copied. */
static void kept_over_the_cap(void) {
    static const uint32_t caps[] = {0, 6000};
    for (int i = 0; i < 2; i++) {
        quoit_worker_options options = {.kept_max = caps[i] ? 40000 : 4096, .kept_stream_max = 1 << 20};
        struct pair pair;
        uint32_t copied = 0;
        quoit_handle held[8];
        uint32_t nheld = 0;
        pair_open(&pair, &options, 0);
        for (uint32_t n = 0; n < 8; n++) {
            send_number(&pair, n, 700);
            quoit_event event =
                op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_KEEP, caps[i]), 700);
            check_number(&pair, &event, n, 700);
            copied += event.flags & QUOIT_EVF_COPIED ? 1 : 0;
            if (event.flags & QUOIT_EVF_KEPT)
                held[nheld++] = event.buffer;
        }
        CHECK(copied > 0 && nheld > 0);
        while (nheld)
            op_release(&pair.pump, held[--nheld]);
        pair_close(&pair);
    }
}

/* Fewer buffers than datagrams: all are told, none twice. */
static void starved(void) {
    quoit_worker_options options = {.recv_buffers = 2, .events_max = 8};
    struct pair pairs[3];
    struct counting counting[3];
    pair_open(&pairs[0], &options, 0);
    for (int i = 1; i < 3; i++) {
        pairs[i] = pairs[0];
        pairs[i].here = addr_v4(0);
        pairs[i].there = addr_v4(0);
        pairs[i].socket = bind_on(&pairs[0].pump, &pairs[i].here, 0);
        pairs[i].fd = peer_bind(&pairs[i].there);
    }
    struct pump *pump = &pairs[0].pump;
    uint64_t recv[3];
    for (int i = 0; i < 3; i++)
        recv[i] = op_recvmsg(pump, pairs[i].socket, QUOIT_OPF_MULTI, i == 2 ? 300 : 0);
    for (uint32_t n = 0; n < 300; n++) {
        for (int i = 0; i < 3; i++)
            send_number(&pairs[i], n, 40);
        if (n % 20 == 19)
            for (int i = 0; i < 3; i++)
                PUMP_UNTIL(pump, op_record(pump, recv[i])->events == n + 1);
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(op_record(pump, recv[i])->last.result, 40);
    (void)counting;
    for (int i = 1; i < 3; i++)
        close(pairs[i].fd);
    pair_close(&pairs[0]);
}

/* A cancel takes nothing away: every datagram is told by this receive or the next. */
static void cancel_loses_nothing(void) {
    struct pair pair;
    struct counting counting;
    pair_open(&pair, NULL, 0);
    follow(&counting, &pair, 60);
    uint32_t n = 0;
    for (int round = 0; round < 300; round++) {
        uint64_t recv =
            op_recvmsg(&pair.pump, pair.socket, round % 3 ? QUOIT_OPF_MULTI : 0, round % 5 ? 0 : 60);
        if (round % 4)
            pump_turn_nb(&pair.pump);
        if (round % 2)
            send_number(&pair, n++, 60);
        op_cancel(&pair.pump, pair.socket, QUOIT_OP_RECVMSG, 0);
        if (round % 7 == 0)
            send_number(&pair, n++, 60);
        quoit_event event = op_finish(&pair.pump, recv);
        CHECK(event.result == -ECANCELED || event.result == 60);
    }
    uint64_t recv = op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, 0);
    PUMP_UNTIL(&pair.pump, counting.next == n);
    op_must(&pair.pump, op_cancel(&pair.pump, pair.socket, QUOIT_OP_RECVMSG, 0), 1);
    op_must(&pair.pump, recv, -ECANCELED);
    pair_close(&pair);
}

static void deadlines(void) {
    struct pair pair;
    struct counting counting;
    pair_open(&pair, NULL, 0);
    follow(&counting, &pair, 60);
    uint32_t n = 0;
    for (int round = 0; round < 6; round++) {
        uint64_t recv = op_recvmsg(&pair.pump, pair.socket, round % 2 ? QUOIT_OPF_MULTI : 0, 0);
        quoit_op *op = (quoit_op *)(uintptr_t)pair.pump.batch->ops + pair.pump.nops - 1;
        op->timeout_ns = 20000000;
        uint64_t begun = pair.pump.batch->now_ns;
        if (round >= 2)
            send_number(&pair, n++, 60);
        quoit_event event = op_finish(&pair.pump, recv);
        if (round == 2 || round == 4) {
            CHECK_EQ(event.result, 60); /* in time */
            continue;
        }
        CHECK_EQ(event.result, -ETIMEDOUT);
        CHECK(pair.pump.batch->now_ns >= begun + 20000000);
    }
    CHECK_EQ(counting.next, n);
    pair_close(&pair);
}

/* A close ends the receive; datagrams that were held are dropped with their buffers. */
static void close_in_flight(void) {
    struct pair pair;
    pair_open(&pair, NULL, 0);
    for (int i = 0; i < 8; i++) {
        quoit_addr here = addr_v4(0);
        quoit_handle socket = bind_on(&pair.pump, &here, 0);
        uint64_t recv = op_recvmsg(&pair.pump, socket, i % 2 ? QUOIT_OPF_MULTI : 0, i & 2 ? 20000 : 0);
        pump_turn_nb(&pair.pump);
        if (i & 4)
            op_must(&pair.pump, op_simple(&pair.pump, QUOIT_OP_RECV_PAUSE, socket), 0);
        op_must(&pair.pump, op_close(&pair.pump, socket, i & 1 ? QUOIT_OPF_ABORT : 0), 0);
        op_must(&pair.pump, recv, -ECANCELED);
        op_must(&pair.pump, op_recvmsg(&pair.pump, socket, 0, 0), QUOIT_E_STALE);
    }
    CHECK_EQ(stats_of(&pair.pump).buffers_kept, 0);
    pair_close(&pair);
}

static const struct test_case cases[] = {
    {"single_shot", single_shot},
    {"multi_goes_on", multi_goes_on},
    {"truncated", truncated},
    {"longer_than_a_buffer", longer_than_a_buffer},
    {"odd_buffers", odd_buffers},
    {"empty", empty},
    {"pause_and_resume", pause_and_resume},
    {"kept", kept},
    {"kept_over_the_cap", kept_over_the_cap},
    {"starved", starved},
    {"cancel_loses_nothing", cancel_loses_nothing},
    {"deadlines", deadlines},
    {"close_in_flight", close_in_flight},
};
TEST_GROUP(datagrams, cases);
