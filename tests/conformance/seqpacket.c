/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* seqpacket.c: connections of messages, received: boundaries, lengths, empty ones, ends and resets, cancels and pauses. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "pattern.h"
#include "peer.h"
#include "sequenced.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void send_message(int fd, uint64_t seed, size_t len) {
    static char data[100000];
    pattern_fill(data, seed, 0, len);
    CHECK_EQ(send(fd, data, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* The n-th event of the receive, waited for. */
static quoit_event nth(struct pump *pump, uint64_t recv, uint32_t n) {
    PUMP_UNTIL(pump, op_record(pump, recv)->events >= n);
    CHECK_EQ(op_record(pump, recv)->events, n);
    return op_record(pump, recv)->last;
}

/* One message of a row: the peer sends it when what was before it has been told. */
static void each_size(void) {
    static const size_t sizes[] = {5, 0, 1, 0, 0, 900, 5000, 0, 70000, 2};
    static const uint32_t caps[] = {0, 700, 100000};
    static char want[100000];
    for (int i = 0; i < 6; i++) {
        struct pump pump;
        pump_open(&pump, NULL);
        struct link link = sequenced_open(&pump, i);
        uint32_t seen = 0;
        uint64_t recv = op_recvmsg(&pump, link.stream, i < 3 ? QUOIT_OPF_MULTI : 0, caps[i % 3]);
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
            if (op_record(&pump, recv)->ended)
                recv = op_recvmsg(&pump, link.stream, 0, caps[i % 3]), seen = 0;
            if (n % 2)
                pump_turn_nb(&pump);
            send_message(link.fd, n, sizes[n]);
            quoit_event event = nth(&pump, recv, ++seen);
            CHECK_EQ(event.result, (int64_t)sizes[n]);
            CHECK(!(event.flags & QUOIT_EVF_EOF));
            CHECK(caps[i % 3] == 0 || event.len == (sizes[n] < caps[i % 3] ? sizes[n] : caps[i % 3]));
            pattern_fill(want, n, 0, sizes[n]);
            CHECK(!memcmp(event_data(&pump, &event), want, event.len));
        }
        CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
        if (op_record(&pump, recv)->ended)
            recv = op_recvmsg(&pump, link.stream, 0, caps[i % 3]);
        CHECK_EQ(op_must(&pump, recv, 0).flags, QUOIT_EVF_EOF);
        CHECK_EQ(op_must(&pump, op_recvmsg(&pump, link.stream, 0, 0), 0).flags, QUOIT_EVF_EOF); /* again */
        sequenced_close(&pump, &link);
        pump_close(&pump);
    }
}

/* Messages that all lie there already, empty ones in any place, also right before the end. */
static void empty_before_the_end(void) {
    for (uint32_t empty = 0; empty < 16; empty++)
        for (int how = 0; how < 6; how++) {
            struct pump pump;
            static const uint32_t caps[] = {0, 700, 5000};
            pump_open(&pump, NULL);
            struct link link = sequenced_open(&pump, 0);
            uint64_t recv = 0;
            if (how % 2) {
                recv = op_recvmsg(&pump, link.stream, QUOIT_OPF_MULTI, caps[how / 2]);
                pump_turn_nb(&pump);
            }
            for (int n = 0; n < 4; n++)
                CHECK_EQ(send(link.fd, "abcd", empty >> n & 1 ? 0 : 4, MSG_NOSIGNAL), empty >> n & 1 ? 0 : 4);
            close(link.fd);
            for (uint32_t n = 0; n <= 4; n++) {
                if (how % 2 == 0)
                    recv = op_recvmsg(&pump, link.stream, 0, caps[how / 2]);
                PUMP_UNTIL(&pump, op_record(&pump, recv)->events > (how % 2 ? n : 0));
                quoit_event event = op_record(&pump, recv)->last;
                if (how % 2) {
                    op_finish(&pump, recv);
                    CHECK_EQ(op_record(&pump, recv)->events, 5);
                    CHECK_EQ(op_record(&pump, recv)->last.flags, QUOIT_EVF_EOF);
                    break;
                }
                CHECK_EQ(event.flags, n < 4 ? QUOIT_EVF_LENT : QUOIT_EVF_EOF);
                CHECK_EQ(event.result, n < 4 && !(empty >> n & 1) ? 4 : 0);
            }
            op_must(&pump, op_close(&pump, link.stream, 0), 0);
            pump_close(&pump);
        }
}

/* Message and end at once, again and again: a receive that waits must see the end too. */
static void last_words(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (int round = 0; round < 60; round++) {
        struct link link = sequenced_open(&pump, 0);
        uint64_t recv = op_recvmsg(&pump, link.stream, QUOIT_OPF_MULTI, 0);
        pump_turn_nb(&pump);
        CHECK_EQ(send(link.fd, "bye", round % 3, MSG_NOSIGNAL), round % 3);
        close(link.fd);
        CHECK_EQ(op_must(&pump, recv, 0).flags, QUOIT_EVF_EOF);
        CHECK_EQ(op_record(&pump, recv)->events, 2);
        op_must(&pump, op_close(&pump, link.stream, 0), 0);
    }
    pump_close(&pump);
}

struct following {
    uint32_t next, ends;
};

/* Numbers, and every third message an empty one; in whatever op they come. */
static void on_number(struct pump *pump, const quoit_event *event) {
    struct following *following = pump->ctx;
    uint32_t number;
    if (event->kind != QUOIT_OP_RECVMSG || event->result < 0)
        return;
    if (event->flags & QUOIT_EVF_EOF) {
        following->ends++;
        return;
    }
    CHECK_EQ(event->result, following->next % 3 ? (int)sizeof number : 0);
    if (event->len) {
        memcpy(&number, event_data(pump, event), sizeof number);
        CHECK_EQ(number, following->next);
    }
    following->next++;
}

static void send_number(int fd, uint32_t number) {
    ssize_t len = number % 3 ? sizeof number : 0;
    CHECK_EQ(send(fd, &number, (size_t)len, MSG_NOSIGNAL), len);
}

/* The peer left without reading: first what it had sent, then the reset, as on a stream. */
static void reset(void) {
    for (int i = 0; i < 4; i++) {
        struct following following = {0};
        struct pump pump;
        pump_open(&pump, NULL);
        struct link link = sequenced_open(&pump, 0);
        uint32_t multi = i % 2 ? QUOIT_OPF_MULTI : 0;
        pump.on_event = on_number;
        pump.ctx = &following;
        op_must(&pump, op_sendmsg(&pump, link.stream, NULL, "unread", 6, 0), 6);
        uint64_t recv = op_recvmsg(&pump, link.stream, multi, 0);
        pump_turn_nb(&pump);
        for (uint32_t n = 0; n < 5; n++)
            send_number(link.fd, n);
        close(link.fd);
        if (i >= 2) { /* what ends meanwhile forgets nothing */
            op_finish(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECVMSG, 0));
            if (op_finish(&pump, recv).result != -ECONNRESET)
                recv = op_recvmsg(&pump, link.stream, multi, 0);
        }
        while (op_finish(&pump, recv).result >= 0)
            recv = op_recvmsg(&pump, link.stream, multi, 0);
        CHECK_EQ(op_must(&pump, recv, -ECONNRESET).flags, 0);
        CHECK(following.next == 5 && following.ends == 0);
        CHECK_EQ(op_must(&pump, op_recvmsg(&pump, link.stream, 0, 0), 0).flags, QUOIT_EVF_EOF);
        op_must(&pump, op_sendmsg(&pump, link.stream, NULL, "x", 1, 0), -EPIPE);
        op_must(&pump, op_close(&pump, link.stream, 0), 0);
        pump_close(&pump);
    }
}

/* Cancels, deadlines and pauses between the messages: none is lost, none comes twice or while it is paused. */
static void nothing_is_lost(void) {
    for (int events = 1; events <= 64; events *= 8) {
        quoit_worker_options options = {.events_max = (uint32_t)events};
        struct following following = {0};
        struct pump pump;
        uint32_t sent = 0;
        pump_open(&pump, &options);
        struct link link = sequenced_open(&pump, 1);
        pump.on_event = on_number;
        pump.ctx = &following;
        for (int round = 0; round < 120; round++) {
            uint64_t recv =
                op_recvmsg(&pump, link.stream, round % 2 ? QUOIT_OPF_MULTI : 0, round % 5 ? 0 : 5000);
            if (round % 7 == 0)
                ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns = 1000000;
            if (round % 3)
                pump_turn_nb(&pump);
            for (int n = 0; n < 3; n++)
                send_number(link.fd, sent++);
            if (round % 4 == 0)
                pump_turn_nb(&pump);
            if (round % 5 == 1) {
                op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_PAUSE, link.stream), 0);
                uint32_t told = following.next;
                for (int i = 0; i < 3; i++)
                    pump_turn_nb(&pump);
                CHECK_EQ(following.next, told);
            }
            op_finish(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECVMSG, 0));
            op_finish(&pump, recv);
            if (round % 5 == 1)
                op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_RESUME, link.stream), 0);
        }
        uint64_t recv = op_recvmsg(&pump, link.stream, QUOIT_OPF_MULTI, 0);
        close(link.fd);
        op_must(&pump, recv, 0);
        CHECK_EQ(following.next, sent);
        CHECK_EQ(following.ends, 1);
        op_must(&pump, op_close(&pump, link.stream, 0), 0);
        pump_close(&pump);
    }
}

/* The end that comes in a pause waits, behind the messages before it. */
static void end_in_a_pause(void) {
    struct following following = {0};
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = sequenced_open(&pump, 0);
    pump.on_event = on_number;
    pump.ctx = &following;
    uint64_t recv = op_recvmsg(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    pump_turn_nb(&pump);
    op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_PAUSE, link.stream), 0);
    for (uint32_t n = 0; n < 6; n++)
        send_number(link.fd, n);
    close(link.fd);
    for (int i = 0; i < 4; i++)
        pump_turn_nb(&pump);
    CHECK(following.next == 0 && following.ends == 0);
    op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_RESUME, link.stream), 0);
    op_must(&pump, recv, 0);
    CHECK(following.next == 6 && following.ends == 1);
    op_must(&pump, op_close(&pump, link.stream, 0), 0);
    pump_close(&pump);
}

/* A listener's connections are received from at once, and keep its rules: so many at one time, each end frees a place. */
static void accepted_and_received(void) {
    struct pump pump;
    struct following following = {.next = 1}; /* no empty one */
    quoit_listen_options options = {
        .struct_size = sizeof options, .flags = QUOIT_LISTEN_SEQPACKET, .streams_max = 2};
    quoit_addr addr = sequenced_addr(3);
    int fds[3];
    pump_open(&pump, NULL);
    pump.ctx = &following;
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg2 = (uintptr_t)&options;
    quoit_handle listener = op_must(&pump, op->user_data, 0).value;
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    for (int i = 0; i < 3; i++)
        fds[i] = sequenced_connect(&addr);
    PUMP_UNTIL(&pump, op_record(&pump, accept)->events >= 2);
    quoit_handle first = op_record(&pump, accept)->last.value;
    for (int i = 0; i < 5; i++)
        pump_turn_nb(&pump);
    CHECK_EQ(op_record(&pump, accept)->events, 2);
    pump.on_event = on_number;
    for (int i = 0; i < 2; i++) {
        uint32_t number = following.next;
        CHECK_EQ(send(fds[i], &number, sizeof number, MSG_NOSIGNAL), sizeof number);
        PUMP_UNTIL(&pump, following.next > number);
    }
    op_must(&pump, op_close(&pump, first, QUOIT_OPF_ABORT), 0);
    PUMP_UNTIL(&pump, op_record(&pump, accept)->events == 3);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    PUMP_UNTIL(&pump, following.ends == 2);
    pump_close(&pump);
}

/* The worker's own on both sides; who they are can be asked. */
static void both_ends(void) {
    struct pump pump;
    quoit_addr addr = sequenced_addr(4), seen;
    pump_open(&pump, NULL);
    uint64_t accept = op_accept(&pump, sequenced_listen(&pump, &addr), 0);
    uint64_t connect = sequenced_op_connect(&pump, &addr);
    quoit_handle near = op_must(&pump, connect, 0).value, far = op_must(&pump, accept, 0).value;
    CHECK_EQ(quoit_handle_kind(near), QUOIT_HANDLE_DATAGRAM);
    CHECK_EQ(quoit_handle_kind(far), QUOIT_HANDLE_DATAGRAM);
    CHECK_EQ(quoit_peer_addr(pump.worker, near, &seen), QUOIT_OK);
    CHECK(!memcmp(&seen, &addr, sizeof seen));
    uint64_t recv = op_recvmsg(&pump, near, QUOIT_OPF_KEEP, 0);
    op_must(&pump, op_sendmsg(&pump, far, NULL, "kept", 4, 0), 4);
    quoit_event event = op_must(&pump, recv, 4);
    CHECK_EQ(event.flags, QUOIT_EVF_KEPT);
    quoit_op *op = op_new(&pump, QUOIT_OP_SENDMSG, near); /* back from where it lies */
    op->flags = QUOIT_OPF_ARENA_RECV;
    op->addr = event.offset;
    op->len = event.len;
    op->arg2 = event.buffer;
    op_must(&pump, op->user_data, 4);
    op_release(&pump, event.buffer);
    event = op_must(&pump, op_recvmsg(&pump, far, 0, 0), 4);
    CHECK(!memcmp(event_data(&pump, &event), "kept", 4));
    uint64_t shut[2] = {op_close(&pump, near, 0), op_close(&pump, far, 0)};
    op_must(&pump, shut[0], 0);
    op_must(&pump, shut[1], 0);
    pump_close(&pump);
}

struct told {
    uint32_t begins, ends;
    uint64_t streams;
};

static void on_drain(struct pump *pump, const quoit_event *event) {
    struct told *told = pump->ctx;
    if (event->kind != QUOIT_KIND_DRAIN)
        return;
    told->begins += event->flags & QUOIT_EVF_MORE ? 1 : 0;
    told->ends += event->flags & QUOIT_EVF_MORE ? 0 : 1;
    told->streams = event->value;
    CHECK_EQ(event->result, 0);
}

/* A worker that drains waits for what it accepted, until it is closed or given away. At a path, whose old file is in the way. */
static void drained(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/quoit-sequenced-%d", (int)getpid());
    quoit_addr addr = addr_unix(path);
    quoit_listen_options options = {.struct_size = sizeof options,
                                    .flags = QUOIT_LISTEN_SEQPACKET | QUOIT_LISTEN_UNLINK};
    for (int give = 0; give < 2; give++) {
        struct told told = {0};
        struct pump pump;
        pump_open(&pump, NULL);
        pump.on_event = on_drain;
        pump.ctx = &told;
        quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
        op->addr = (uintptr_t)&addr;
        op->len = sizeof addr;
        op->arg2 = (uintptr_t)&options;
        uint64_t accept = op_accept(&pump, op_must(&pump, op->user_data, 0).value, QUOIT_OPF_MULTI);
        int fd = sequenced_connect(&addr);
        PUMP_UNTIL(&pump, op_record(&pump, accept)->events == 1);
        quoit_handle socket = op_record(&pump, accept)->last.value;
        CHECK_EQ(quoit_drain(pump.handle, 60000000000u), QUOIT_OK);
        PUMP_UNTIL(&pump, told.begins == 1);
        CHECK_EQ(told.streams, 1);
        op_must(&pump, op_sendmsg(&pump, socket, NULL, "last", 4, 0), 4);
        CHECK_EQ(told.ends, 0);
        uint64_t leaves =
            give ? op_simple(&pump, QUOIT_OP_DETACH, socket) : op_close(&pump, socket, QUOIT_OPF_ABORT);
        uint64_t number = op_must(&pump, leaves, 0).value;
        PUMP_UNTIL(&pump, pump.batch->flags & QUOIT_BATCH_DRAINED);
        CHECK(told.ends == 1 && told.streams == 0);
        if (give)
            close((int)number);
        close(fd);
        pump_check_ended(&pump);
        pump_abandon(&pump);
    }
    unlink(path);
}

static const struct test_case cases[] = {
    {"each_size", each_size},
    {"empty_before_the_end", empty_before_the_end},
    {"last_words", last_words},
    {"reset", reset},
    {"nothing_is_lost", nothing_is_lost},
    {"end_in_a_pause", end_in_a_pause},
    {"accepted_and_received", accepted_and_received},
    {"both_ends", both_ends},
    {"drained", drained},
};
TEST_GROUP(seqpacket, cases);
