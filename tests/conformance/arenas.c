/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* arenas.c: sending from the scratch region and from received bytes, and what is checked there. */
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

static char *scratch(struct pump *pump) {
    return (char *)(uintptr_t)(pump->batch->send_base + pump->batch->scratch_off);
}

/* A send of the scratch region's bytes. */
static uint64_t op_send_scratch(struct pump *pump, quoit_handle stream, uint64_t offset, uint32_t len,
                                uint32_t flags) {
    return op_send(pump, stream, (const void *)(uintptr_t)offset, len, QUOIT_OPF_ARENA_SEND | flags);
}

static uint64_t op_send_received(struct pump *pump, quoit_handle stream, uint64_t offset, uint32_t len,
                                 quoit_handle buffer) {
    uint64_t id = op_send(pump, stream, (const void *)(uintptr_t)offset, len, QUOIT_OPF_ARENA_RECV);
    ((quoit_op *)(uintptr_t)pump->batch->ops)[pump->nops - 1].arg2 = buffer;
    return id;
}

/* Turns until the batch names a region of that size. */
static void want_scratch(struct pump *pump, uint32_t len) {
    PUMP_POLL(pump, pump->batch->scratch_len >= len);
}

static void scratch_send(void) {
    struct pump pump;
    uint64_t at = 0;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int round = 0; round < 40; round++) {
        want_scratch(&pump, 100000);
        pattern_fill(scratch(&pump), 1, at, 100000);
        uint64_t from = pump.batch->scratch_off;
        op_send_scratch(&pump, link.stream, from, 40000, QUOIT_OPF_QUIET);
        uint64_t last = op_send_scratch(&pump, link.stream, from + 40000, 60000, 0);
        peer_recv_pattern(&pump, link.fd, 1, at, 100000);
        op_must(&pump, last, 60000);
        at += 100000;
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Regions stay as they are until their last send is done, however many turns that takes. */
static void scratch_of_a_slow_stream(void) {
    struct pump pump;
    quoit_worker_options options = {.scratch_len = 65536, .send_arena = 16 << 20, .send_limit = 64 << 20};
    uint64_t at = 0;
    pump_open(&pump, &options);
    struct link slow = link_open(&pump), fast = link_open(&pump);
    for (int round = 0; round < 400; round++) {
        uint32_t len = pump.batch->scratch_len < 50000 ? pump.batch->scratch_len : 50000;
        if (len > 16) {
            pattern_fill(scratch(&pump), 1, at, len);
            op_send_scratch(&pump, slow.stream, pump.batch->scratch_off, len, QUOIT_OPF_QUIET);
            op_send_scratch(&pump, fast.stream, pump.batch->scratch_off, len, QUOIT_OPF_QUIET);
            at += len;
        }
        pump_turn_nb(&pump);
        if (pump.batch->scratch_len)
            memset(scratch(&pump), 0xEE, pump.batch->scratch_len); /* the new one is ours to write on */
        peer_recv_pattern(&pump, fast.fd, 1, len > 16 ? at - len : at, len > 16 ? len : 0);
    }
    CHECK(at > 4 << 20);
    peer_recv_pattern(&pump, slow.fd, 1, 0, at);
    link_close(&pump, &slow);
    link_close(&pump, &fast);
    pump_close(&pump);
}

static void scratch_range_is_checked(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    want_scratch(&pump, 4096);
    quoit_batch *batch = pump.batch;
    uint64_t off = batch->scratch_off, len = batch->scratch_len;
    const struct {
        uint64_t addr;
        uint32_t len;
    } wrong[] = {
        {off + len, 1},
        {off + len - 1, 2},
        {off, (uint32_t)len + 1},
        {UINT64_MAX, 1},
        {UINT64_MAX - 3, 8},
        {batch->send_size, 1},
        {batch->send_size - 1, 2},
        {off ^ 1ull << 62, 1},
        {batch->send_base + off, 16},
        {off, UINT32_MAX},
    };
    uint64_t ids[sizeof wrong / sizeof *wrong];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ids[i] = op_send_scratch(&pump, link.stream, wrong[i].addr, wrong[i].len, 0);
    uint64_t edge = op_send_scratch(&pump, link.stream, off + len - 1, 1, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        quoit_event event = op_finish(&pump, ids[i]);
        if (event.result != QUOIT_E_RANGE || event.aux != QUOIT_FIELD_ADDR)
            FAIL("the wrong range number %zu ended with %lld, aux %u", i, (long long)event.result, event.aux);
    }
    op_must(&pump, edge, 1);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Only the region of the batch that is current, not one before it that a slow stream still needs. */
static void old_scratch_is_refused(void) {
    struct pump pump;
    quoit_worker_options options = {.send_limit = 64 << 20};
    uint64_t at = 0;
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    uint64_t old = pump.batch->scratch_off;
    while (pump.batch->scratch_off == old) {
        CHECK(at < 48 << 20);
        pattern_fill(scratch(&pump), 1, at, 1 << 20);
        op_send_scratch(&pump, link.stream, old, 1 << 20, QUOIT_OPF_QUIET);
        at += 1 << 20;
        pump_turn_nb(&pump);
        PUMP_POLL(&pump, pump.batch->scratch_len == 1 << 20);
    }
    op_must(&pump, op_send_scratch(&pump, link.stream, old, 100, 0), QUOIT_E_RANGE);
    peer_recv_pattern(&pump, link.fd, 1, 0, at);
    /* With submit the region stays. */
    want_scratch(&pump, 4096);
    old = pump.batch->scratch_off;
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        last = op_send_scratch(&pump, link.stream, old, 10, 0);
        pump_submit(&pump);
        CHECK_EQ(pump.batch->scratch_off, old);
    }
    op_must(&pump, last, 10);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Addresses, paths, slices and calls by offset: for languages whose memory moves. */
static void arguments_in_scratch(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    want_scratch(&pump, 4096);
    quoit_addr addr = addr_v4(0);
    quoit_listen_options options = {.struct_size = sizeof options, .flags = QUOIT_LISTEN_DELAY};
    uint64_t base = pump.batch->scratch_off;
    memcpy(scratch(&pump) + 256, &addr, sizeof addr);
    options.struct_size = 0; /* refused: an offset that names it is never taken for none */
    memcpy(scratch(&pump), &options, sizeof options);
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->addr = base + 256;
    op->len = sizeof addr;
    op->arg2 = base;
    CHECK_EQ(op_finish(&pump, op->user_data).result, QUOIT_E_STRUCT_SIZE);
    want_scratch(&pump, 4096);
    base = pump.batch->scratch_off;
    options.struct_size = sizeof options;
    memcpy(scratch(&pump) + 256, &addr, sizeof addr);
    memcpy(scratch(&pump), &options, sizeof options);
    op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->addr = base + 256;
    op->len = sizeof addr;
    op->arg2 = base;
    quoit_event event = op_must(&pump, op->user_data, 0);
    quoit_handle listener = event.value;
    uint64_t accept = op_accept(&pump, listener, 0);
    addr.port = (uint16_t)event.aux;
    want_scratch(&pump, 4096);
    memcpy(scratch(&pump), &addr, sizeof addr);
    op = op_new(&pump, QUOIT_OP_CONNECT, 0);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->addr = pump.batch->scratch_off;
    op->len = sizeof addr;
    quoit_handle near = op_must(&pump, op->user_data, 0).value, far = op_must(&pump, accept, 0).value;
    want_scratch(&pump, 4096);
    base = pump.batch->scratch_off;
    quoit_iov slices[3] = {
        {.addr = base + 100, .len = 3}, {.addr = base + 200, .len = 0}, {.addr = base + 300, .len = 4}};
    memcpy(scratch(&pump), slices, sizeof slices);
    memcpy(scratch(&pump) + 100, "abc", 3);
    memcpy(scratch(&pump) + 300, "defg", 4);
    op = op_new(&pump, QUOIT_OP_SENDV, near);
    op->flags = QUOIT_OPF_ARENA_SEND | QUOIT_OPF_IOV;
    op->addr = base;
    op->len = 3;
    op_must(&pump, op->user_data, 7);
    event = op_must(&pump, op_recv(&pump, far, 0, 0), 7);
    CHECK(!memcmp(event_data(&pump, &event), "abcdefg", 7));
    want_scratch(&pump, 4096);
    memcpy(scratch(&pump), "/etc/hostname/..", 16);
    op = op_new(&pump, QUOIT_OP_OPEN, 0);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->addr = pump.batch->scratch_off;
    op->len = 4;
    op->arg = QUOIT_OPEN_READ | QUOIT_OPEN_DIRECTORY;
    CHECK_EQ(quoit_handle_kind(op_must(&pump, op->user_data, 0).value), QUOIT_HANDLE_DIRECTORY);
    op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->addr = pump.batch->scratch_off + pump.batch->scratch_len - 8;
    op->len = sizeof addr;
    CHECK_EQ(op_finish(&pump, op->user_data).result, QUOIT_E_RANGE);
    pump_close(&pump);
}

static void slices_out_of_scratch(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    want_scratch(&pump, 4096);
    uint64_t base = pump.batch->scratch_off;
    quoit_iov slices[2] = {{.addr = base, .len = 10}, {.addr = base + pump.batch->scratch_len - 5, .len = 6}};
    memcpy(scratch(&pump) + 1024, slices, sizeof slices);
    quoit_op *op = op_new(&pump, QUOIT_OP_SENDV, link.stream);
    op->flags = QUOIT_OPF_ARENA_SEND | QUOIT_OPF_IOV;
    op->addr = base + 1024;
    op->len = 2;
    op_must(&pump, op->user_data, QUOIT_E_RANGE);
    op_must(&pump, op_send(&pump, link.stream, "z", 1, 0), 1);
    char byte;
    peer_recv(&pump, link.fd, &byte, 1);
    CHECK_EQ(byte, 'z'); /* nothing of the refused one was sent */
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Proxy: bytes of one stream sent on another from where they lie, parts and several times over. */
static void received_bytes_to_another_stream(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link from = link_open(&pump), to = link_open(&pump);
    peer_send_pattern(&pump, from.fd, 1, 0, 1000);
    quoit_event event = op_must(&pump, op_recv(&pump, from.stream, 0, 0), 1000);
    op_send_received(&pump, to.stream, event.offset, 1000, event.buffer);
    op_send_received(&pump, to.stream, event.offset + 100, 200, event.buffer);
    uint64_t last = op_send_received(&pump, from.stream, event.offset + 999, 1, event.buffer);
    peer_recv_pattern(&pump, to.fd, 1, 0, 1000);
    peer_recv_pattern(&pump, to.fd, 1, 100, 200);
    peer_recv_pattern(&pump, from.fd, 1, 999, 1);
    op_must(&pump, last, 1);
    link_close(&pump, &from);
    link_close(&pump, &to);
    pump_close(&pump);
}

static void received_slices(void) {
    struct pump pump;
    enum { SLICES = 20 };
    quoit_iov slices[SLICES];
    pump_open(&pump, NULL);
    struct link links[SLICES], to = link_open(&pump);
    uint64_t recvs[SLICES];
    for (uint32_t i = 0; i < SLICES; i++) {
        links[i] = link_open(&pump);
        peer_send_pattern(&pump, links[i].fd, 1, i * 50, 50);
        recvs[i] = op_recv(&pump, links[i].stream, QUOIT_OPF_KEEP, 0);
    }
    for (uint32_t i = 0; i < SLICES; i++) {
        quoit_event event = op_must(&pump, recvs[i], 50);
        CHECK(event.flags & QUOIT_EVF_KEPT);
        slices[i] = (quoit_iov){.addr = event.offset, .len = 50, .flags = event.buffer & 0xFFFFFF};
        recvs[i] = event.buffer;
    }
    quoit_op *op = op_new(&pump, QUOIT_OP_SENDV, to.stream);
    op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_IOV;
    op->addr = (uintptr_t)slices;
    op->len = SLICES;
    uint64_t id = op->user_data;
    peer_recv_pattern(&pump, to.fd, 1, 0, SLICES * 50);
    op_must(&pump, id, SLICES * 50);
    slices[7].flags ^= 0x100; /* of no buffer that is lent */
    op = op_new(&pump, QUOIT_OP_SENDV, to.stream);
    op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_IOV;
    op->addr = (uintptr_t)slices;
    op->len = SLICES;
    CHECK(op_finish(&pump, op->user_data).result <= -20001);
    for (uint32_t i = 0; i < SLICES; i++) {
        op_release(&pump, recvs[i]);
        link_close(&pump, &links[i]);
    }
    link_close(&pump, &to);
    pump_close(&pump);
}

static void ended_loan_is_stale(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 100);
    quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 100);
    /* A call that fails ends no loan, nor does submit. */
    CHECK_EQ(quoit_turn(pump.worker, UINT32_MAX, 0), QUOIT_E_TOO_MANY);
    op_simple(&pump, QUOIT_OP_NOP, 0);
    pump_submit(&pump);
    uint64_t good = op_send_received(&pump, link.stream, event.offset, 100, event.buffer);
    op_must(&pump, good, 100);
    pump_turn_nb(&pump); /* two turns later the send is done and the loan over */
    quoit_event late =
        op_finish(&pump, op_send_received(&pump, link.stream, event.offset, 100, event.buffer));
    CHECK_EQ(late.result, QUOIT_E_STALE);
    CHECK_EQ(late.aux, QUOIT_FIELD_ARG2);
    peer_recv_pattern(&pump, link.fd, 1, 0, 100);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void received_range_is_checked(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 100);
    uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_KEEP, 0);
    quoit_event event = op_must(&pump, recv, 100);
    const struct {
        uint64_t addr;
        uint32_t len;
    } wrong[] = {
        {event.offset - 1, 10}, {event.offset + 1000000, 10}, {UINT64_MAX, 4}, {event.offset, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        op_must(&pump, op_send_received(&pump, link.stream, wrong[i].addr, wrong[i].len, event.buffer),
                QUOIT_E_RANGE);
    op_must(&pump, op_send_received(&pump, link.stream, event.offset, 10, 0), QUOIT_E_HANDLE);
    op_must(&pump, op_send_received(&pump, link.stream, event.offset, 10, link.stream), QUOIT_E_KIND);
    op_must(&pump, op_send_received(&pump, link.stream, event.offset, 10, event.buffer + (1ull << 24)),
            QUOIT_E_STALE);
    op_must(&pump, op_send_received(&pump, link.stream, event.offset, 100, event.buffer), 100);
    op_release(&pump, event.buffer);
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"scratch_send", scratch_send},
    {"scratch_of_a_slow_stream", scratch_of_a_slow_stream},
    {"scratch_range_is_checked", scratch_range_is_checked},
    {"old_scratch_is_refused", old_scratch_is_refused},
    {"arguments_in_scratch", arguments_in_scratch},
    {"slices_out_of_scratch", slices_out_of_scratch},
    {"received_bytes_to_another_stream", received_bytes_to_another_stream},
    {"received_slices", received_slices},
    {"ended_loan_is_stale", ended_loan_is_stale},
    {"received_range_is_checked", received_range_is_checked},
};
TEST_GROUP(arenas, cases);
