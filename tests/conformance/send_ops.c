/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* send_ops.c: sending: copied, borrowed, gathered, quiet; its bounds and its failures. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The payload is copied when the op is taken: the program may write over it at once. */
static void copied_by_default(void) {
    struct pump pump;
    static char data[100000];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (size_t i = 0; i < 20; i++) {
        pattern_fill(data, 1, i * sizeof data, sizeof data);
        op_send(&pump, link.stream, data, sizeof data, i % 2 ? QUOIT_OPF_QUIET : 0);
        pump_submit(&pump);
        memset(data, 0xEE, sizeof data);
    }
    peer_recv_pattern(&pump, link.fd, 1, 0, 20 * sizeof data);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void borrowed_until_its_end(void) {
    struct pump pump;
    enum { SIZE = 16 << 20 }; /* a window does not grow while nobody reads */
    static char data[SIZE];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, SIZE);
    uint64_t send = op_send(&pump, link.stream, data, SIZE, QUOIT_OPF_BORROW);
    pump_turn_nb(&pump);
    CHECK(!op_ended(&pump, send)); /* nobody reads yet, and no socket holds that much */
    peer_recv_pattern(&pump, link.fd, 1, 0, SIZE);
    quoit_event event = op_must(&pump, send, SIZE);
    memset(data, 0, SIZE);
    CHECK_EQ(event.flags, 0);
    CHECK(stats_of(&pump).sends_partial > 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void slices_of_all_counts(void) {
    static const uint32_t counts[] = {0, 1, 2, 63, 64, 65, 1000, QUOIT_IOV_MAX};
    static char data[QUOIT_IOV_MAX * 40];
    static quoit_iov slices[QUOIT_IOV_MAX];
    struct pump pump;
    uint64_t at = 0;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int vectored = 0; vectored < 2; vectored++) {
            uint64_t len = 0;
            pattern_fill(data, 1, at, sizeof data);
            for (uint32_t k = 0; k < counts[i]; k++) {
                slices[k] = (quoit_iov){.addr = (uintptr_t)data + len, .len = k % 40};
                len += k % 40;
            }
            quoit_op *op = op_new(&pump, vectored ? QUOIT_OP_SENDV : QUOIT_OP_SEND, link.stream);
            op->flags = QUOIT_OPF_IOV;
            op->addr = counts[i] ? (uintptr_t)slices : 0;
            op->len = counts[i];
            uint64_t id = op->user_data;
            pump_submit(&pump);
            memset(slices, 0xEE, sizeof slices); /* the array is copied, the payload too */
            memset(data, 0, sizeof data);
            op_must(&pump, id, (int64_t)len);
            peer_recv_pattern(&pump, link.fd, 1, at, len);
            at += len;
        }
    link_close(&pump, &link);
    pump_close(&pump);
}

static void borrowed_slices(void) {
    enum { SLICES = 700, SIZE = 5000 };
    static char data[SLICES * SIZE];
    static quoit_iov slices[SLICES];
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    for (uint32_t i = 0; i < SLICES; i++)
        slices[i] = (quoit_iov){.addr = (uintptr_t)data + (size_t)i * SIZE, .len = SIZE};
    quoit_op *op = op_new(&pump, QUOIT_OP_SENDV, link.stream);
    op->flags = QUOIT_OPF_IOV | QUOIT_OPF_BORROW;
    op->addr = (uintptr_t)slices;
    op->len = SLICES;
    uint64_t id = op->user_data;
    pump_submit(&pump);
    memset(slices, 0xEE, sizeof slices);
    peer_recv_pattern(&pump, link.fd, 1, 0, sizeof data);
    op_must(&pump, id, sizeof data);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void nothing_to_send(void) {
    static const uint32_t flags[] = {0, QUOIT_OPF_BORROW, QUOIT_OPF_IOV};
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (size_t i = 0; i < 3; i++) {
        uint64_t first = op_send(&pump, link.stream, "a", 1, 0);
        uint64_t empty = op_send(&pump, link.stream, NULL, 0, flags[i]);
        op_must(&pump, empty, 0); /* after the first, the pump checks that */
        CHECK(op_ended(&pump, first));
        char byte;
        peer_recv(&pump, link.fd, &byte, 1);
    }
    uint64_t quiet = op_send(&pump, link.stream, NULL, 0, QUOIT_OPF_QUIET);
    op_must(&pump, op_send(&pump, link.stream, "a", 1, 0), 1);
    CHECK_EQ(op_record(&pump, quiet)->events, 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void cork_is_a_hint(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (size_t i = 0; i < 100; i++) {
        char data[10];
        pattern_fill(data, 1, i * 10, 10);
        op_send(&pump, link.stream, data, 10, 0);
        ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].arg = i < 99 ? QUOIT_SEND_CORK : 0;
        pump_submit(&pump);
    }
    peer_recv_pattern(&pump, link.fd, 1, 0, 1000);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* What a stream owes in one turn leaves in few system calls. */
static void small_sends_are_gathered(void) {
    struct pump pump;
    char data[1000];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    quoit_stats before = stats_of(&pump);
    for (int i = 0; i < 1000; i++)
        op_send(&pump, link.stream, data + i, 1, QUOIT_OPF_QUIET);
    peer_recv_pattern(&pump, link.fd, 1, 0, sizeof data);
    quoit_stats after = stats_of(&pump);
    CHECK(after.sends - before.sends <= 40);
    CHECK(after.sends_gathered > before.sends_gathered);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Over the limit a send ends with -ENOBUFS and nothing of it leaves; those taken all do. */
static void bound_of_what_is_owed(void) {
    struct pump pump;
    quoit_worker_options options = {.send_limit = 200000};
    enum { SIZE = 30000 };
    static char data[SIZE];
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    uint64_t taken = 0;
    int refused = 0;
    while (refused < 3) {
        pattern_fill(data, 1, taken, SIZE);
        uint64_t id = op_send(&pump, link.stream, data, SIZE, refused == 1 ? QUOIT_OPF_QUIET : 0);
        pump_turn_nb(&pump);
        if (op_ended(&pump, id) && op_record(&pump, id)->last.result == -ENOBUFS) {
            CHECK_EQ(op_record(&pump, id)->last.value, 0);
            refused++;
        } else {
            taken += SIZE;
        }
        CHECK(taken < 64 << 20);
    }
    CHECK(stats_of(&pump).send_bytes_queued <= 200000);
    CHECK(taken >= 200000 - SIZE); /* how much the socket took beside, only the kernel knows */
    /* Another stream has a limit of its own. */
    struct link other = link_open(&pump);
    op_must(&pump, op_send(&pump, other.stream, data, SIZE, 0), SIZE);
    link_close(&pump, &other);
    peer_recv_pattern(&pump, link.fd, 1, 0, taken);
    op_must(&pump, op_send(&pump, link.stream, "more", 4, 0), 4);
    char text[4];
    peer_recv(&pump, link.fd, text, 4);
    CHECK(!memcmp(text, "more", 4));
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Nothing drains within a batch: so many are taken as fit, to the byte, and the others are refused. */
static void bound_within_a_batch(void) {
    struct pump pump;
    quoit_worker_options options = {.send_limit = 200000};
    enum { SIZE = 30000, GIVEN = 10, FIT = 6 };
    static char data[SIZE];
    uint64_t sends[GIVEN];
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    for (uint64_t i = 0; i < GIVEN; i++) {
        pattern_fill(data, 1, i * SIZE, SIZE);
        sends[i] = op_send(&pump, link.stream, data, SIZE, 0);
        pump_submit(&pump);
    }
    CHECK_EQ(stats_of(&pump).send_bytes_queued, FIT * SIZE);
    for (int i = FIT; i < GIVEN; i++)
        CHECK_EQ(op_must(&pump, sends[i], -ENOBUFS).value, 0);
    peer_recv_pattern(&pump, link.fd, 1, 0, FIT * SIZE);
    for (int i = 0; i < FIT; i++)
        op_must(&pump, sends[i], SIZE);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* One send larger than the limit can never be taken; borrowed memory is not counted. */
static void one_send_over_the_bound(void) {
    struct pump pump;
    quoit_worker_options options = {.send_limit = 1 << 16};
    enum { SIZE = 1 << 20 };
    static char data[SIZE];
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, SIZE);
    op_must(&pump, op_send(&pump, link.stream, data, SIZE, 0), -ENOBUFS);
    uint64_t send = op_send(&pump, link.stream, data, SIZE, QUOIT_OPF_BORROW);
    peer_recv_pattern(&pump, link.fd, 1, 0, SIZE);
    op_must(&pump, send, SIZE);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* A peer that goes away: each send ends once, in order, with what had left. */
static void peer_gone_in_mid_send(void) {
    struct pump pump;
    enum { SIZE = 1 << 20 };
    static char data[SIZE];
    uint64_t sends[8], left = 0;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int i = 0; i < 8; i++)
        sends[i] = op_send(&pump, link.stream, data, SIZE, QUOIT_OPF_BORROW);
    pump_turn_nb(&pump);
    static char sink[SIZE + SIZE / 2];
    peer_recv(&pump, link.fd, sink, sizeof sink);
    peer_reset(link.fd);
    bool failed = false;
    for (int i = 0; i < 8; i++) {
        quoit_event event = op_finish(&pump, sends[i]);
        if (event.result == SIZE) {
            CHECK(!failed);
            left += SIZE;
            continue;
        }
        CHECK(event.result == -ECONNRESET || event.result == -EPIPE);
        CHECK(event.value < SIZE);
        CHECK(!failed || event.value == 0); /* only the first may have been begun */
        left += event.value;
        failed = true;
    }
    CHECK(failed);
    CHECK(left >= sizeof sink);
    op_must(&pump, op_close(&pump, link.stream, 0), 0);
    pump_close(&pump);
}

static void quiet_tells_failure(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_reset(link.fd);
    uint64_t id = 0;
    do {
        id = op_send(&pump, link.stream, "x", 1, QUOIT_OPF_QUIET);
        pump_turn(&pump, 1000000);
        pump_check_time(&pump, "a send to fail", __FILE__, __LINE__);
    } while (!op_ended(&pump, id));
    int64_t result = op_record(&pump, id)->last.result;
    CHECK(result == -EPIPE || result == -ECONNRESET);
    op_must(&pump, op_close(&pump, link.stream, QUOIT_OPF_ABORT), 0);
    pump_close(&pump);
}

/* A stream whose sending is blocked reads no more than it must: its peer is slowed, memory does not grow. */
static void slow_reader_slows_the_sender(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    serve_echo(&pump, &addr);
    int fd = peer_connect(&addr);
    size_t sent = 0;
    while (!stats_of(&pump).recv_paused) {
        sent += peer_fill(fd, 0);
        pump_turn(&pump, 1000000);
        CHECK(sent < 200 << 20);
        pump_check_time(&pump, "the stream to pause", __FILE__, __LINE__);
    }
    CHECK(stats_of(&pump).send_bytes_queued <= 4 << 20);
    close(fd);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"copied_by_default", copied_by_default},
    {"borrowed_until_its_end", borrowed_until_its_end},
    {"slices_of_all_counts", slices_of_all_counts},
    {"borrowed_slices", borrowed_slices},
    {"nothing_to_send", nothing_to_send},
    {"cork_is_a_hint", cork_is_a_hint},
    {"small_sends_are_gathered", small_sends_are_gathered},
    {"bound_of_what_is_owed", bound_of_what_is_owed},
    {"bound_within_a_batch", bound_within_a_batch},
    {"one_send_over_the_bound", one_send_over_the_bound},
    {"peer_gone_in_mid_send", peer_gone_in_mid_send},
    {"quiet_tells_failure", quiet_tells_failure},
    {"slow_reader_slows_the_sender", slow_reader_slows_the_sender},
};
TEST_GROUP(send_ops, cases);
