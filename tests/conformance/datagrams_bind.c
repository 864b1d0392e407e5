/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* datagrams_bind.c: making datagram sockets: their addresses, families and peers, and what cannot be made. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const quoit_addr *peer_of(const struct pump *pump, const quoit_event *event) {
    return (const quoit_addr *)(uintptr_t)(pump->batch->recv_base + event->value);
}

/* The addresses that are told: whose it is in the event, and by the calls. */
static void addresses(void) {
    static const uint16_t families[] = {QUOIT_FAMILY_V4, QUOIT_FAMILY_V6};
    for (int i = 0; i < 2; i++) {
        struct pump pump;
        quoit_addr here = i ? addr_v6(0) : addr_v4(0), there = i ? addr_v6(0) : addr_v4(0), seen;
        pump_open(&pump, NULL);
        quoit_handle socket = bind_on(&pump, &here, 0);
        CHECK_EQ(quoit_local_addr(pump.worker, socket, &seen), QUOIT_OK);
        CHECK(!memcmp(&seen, &here, sizeof seen));
        CHECK_EQ(quoit_peer_addr(pump.worker, socket, &seen), -ENOTCONN);
        int fd = peer_bind(&there);
        peer_send_to(fd, &here, "hello", 5);
        quoit_event event = op_must(&pump, op_recvmsg(&pump, socket, 0, 0), 5);
        CHECK_EQ(peer_of(&pump, &event)->family, families[i]);
        CHECK(!memcmp(peer_of(&pump, &event), &there, sizeof there));
        CHECK(!memcmp(event_data(&pump, &event), "hello", 5));
        close(fd);
        pump_close(&pump);
    }
}

/* An IPv6 socket on :: takes IPv4 too, unless it was asked not to. */
static void both_families(void) {
    struct pump pump;
    quoit_addr any = {.family = QUOIT_FAMILY_V6, .len = 16}, only = any, there = addr_v4(0), to;
    pump_open(&pump, NULL);
    quoit_handle socket = bind_on(&pump, &any, 0);
    int fd = peer_bind(&there);
    to = addr_v4(any.port);
    peer_send_to(fd, &to, "four", 4);
    quoit_event event = op_must(&pump, op_recvmsg(&pump, socket, 0, 0), 4);
    quoit_addr mapped = *peer_of(&pump, &event);
    CHECK_EQ(mapped.family, QUOIT_FAMILY_V6);
    CHECK_EQ(mapped.port, there.port);
    CHECK(mapped.bytes[10] == 0xFF && mapped.bytes[11] == 0xFF && !memcmp(mapped.bytes + 12, there.bytes, 4));
    /* And answers it. */
    char text[8];
    op_must(&pump, op_sendmsg(&pump, socket, &mapped, "back", 4, 0), 4);
    CHECK_EQ(peer_recv_from(&pump, fd, text, sizeof text, NULL), 4);
    only.port = any.port;
    op_must(&pump, op_close(&pump, socket, 0), 0);
    bind_on(&pump, &only, QUOIT_BIND_V6ONLY);
    quoit_addr four = {.family = QUOIT_FAMILY_V4, .len = 4, .port = any.port};
    bind_on(&pump, &four, 0); /* the port is free there */
    close(fd);
    pump_close(&pump);
}

static uint64_t bind_with(struct pump *pump, const quoit_addr *addr, const quoit_bind_options *options) {
    quoit_op *op = op_new(pump, QUOIT_OP_BIND, 0);
    op->addr = (uintptr_t)addr;
    op->len = addr ? sizeof *addr : 0;
    op->arg2 = (uintptr_t)options;
    return op->user_data;
}

/* A connected socket hears its peer alone; what the peer refuses is told, and the socket lives on. */
static void connected(void) {
    struct pump pump;
    quoit_addr there = addr_v4(0), other = addr_v4(0), here, seen;
    pump_open(&pump, NULL);
    int fd = peer_bind(&there), stranger = peer_bind(&other);
    quoit_bind_options options = {.struct_size = sizeof options, .peer = there};
    quoit_event event = op_must(&pump, bind_with(&pump, NULL, &options), 0);
    quoit_handle socket = event.value;
    CHECK_EQ(quoit_peer_addr(pump.worker, socket, &seen), QUOIT_OK);
    CHECK(!memcmp(&seen, &there, sizeof seen));
    CHECK_EQ(quoit_local_addr(pump.worker, socket, &here), QUOIT_OK);
    CHECK_EQ(here.port, event.aux);
    peer_send_to(stranger, &here, "no", 2);
    peer_send_to(fd, &here, "yes", 3);
    event = op_must(&pump, op_recvmsg(&pump, socket, 0, 0), 3);
    CHECK(!memcmp(peer_of(&pump, &event), &there, sizeof there));
    char text[8];
    op_must(&pump, op_sendmsg(&pump, socket, NULL, "hello", 5, 0), 5);
    CHECK_EQ(peer_recv_from(&pump, fd, text, sizeof text, &seen), 5);
    CHECK(!memcmp(&seen, &here, sizeof seen));
    /* Nobody there any more: the kernel says so to the next that asks, a receive … */
    close(fd);
    uint64_t recv = op_recvmsg(&pump, socket, QUOIT_OPF_MULTI, 0);
    pump_turn_nb(&pump);
    op_finish(&pump, op_sendmsg(&pump, socket, NULL, "lost", 4, 0));
    event = op_must(&pump, recv, -ECONNREFUSED);
    CHECK_EQ(event.flags, 0);
    /* … or a send, which did not leave then. */
    op_must(&pump, op_sendmsg(&pump, socket, NULL, "lost", 4, 0), 4);
    CHECK_EQ(op_must(&pump, op_sendmsg(&pump, socket, NULL, "lost", 4, 0), -ECONNREFUSED).value, 0);
    fd = peer_bind(&there);
    op_must(&pump, op_sendmsg(&pump, socket, NULL, "again", 5, 0), 5);
    CHECK_EQ(peer_recv_from(&pump, fd, text, sizeof text, NULL), 5);
    close(fd);
    close(stranger);
    pump_close(&pump);
}

static void bind_arguments(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0), taken = addr_v4(0), six = addr_v6(1);
    pump_open(&pump, NULL);
    quoit_bind_options options = {.struct_size = sizeof options, .flags = 0x40};
    CHECK_EQ(op_must(&pump, bind_with(&pump, &addr, &options), QUOIT_E_FLAGS).aux, QUOIT_FIELD_ARG2);
    options.flags = 0;
    options.reserved = 1;
    CHECK_EQ(op_must(&pump, bind_with(&pump, &addr, &options), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG2);
    options.reserved = 0;
    options.struct_size = 16;
    op_must(&pump, bind_with(&pump, &addr, &options), QUOIT_E_STRUCT_SIZE);
    options.struct_size = sizeof options;
    options.peer.family = 9;
    CHECK_EQ(op_must(&pump, bind_with(&pump, &addr, &options), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG2);
    options.peer = six;
    CHECK_EQ(op_finish(&pump, bind_with(&pump, &addr, &options)).aux, QUOIT_FIELD_ARG2);
    CHECK_EQ(op_must(&pump, bind_with(&pump, NULL, NULL), QUOIT_E_STRUCT_SIZE).aux, QUOIT_FIELD_ADDR);
    bind_on(&pump, &taken, 0);
    CHECK_EQ(op_must(&pump, bind_with(&pump, &taken, NULL), -EADDRINUSE).aux, QUOIT_FIELD_ADDR);
    addr.bytes[0] = 192;
    op_must(&pump, bind_with(&pump, &addr, NULL), -EADDRNOTAVAIL);
    CHECK_EQ(stats_of(&pump).objects_live, 1);
    pump_close(&pump);
}

/* Two sockets on one port, each told by the kernel which peers are its own. */
static void one_port_for_two(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    uint32_t got = 0;
    uint64_t recv[2];
    pump_open(&pump, NULL);
    for (int i = 0; i < 2; i++)
        recv[i] = op_recvmsg(&pump, bind_on(&pump, &addr, QUOIT_BIND_REUSEPORT), QUOIT_OPF_MULTI, 0);
    for (int i = 0; i < 64; i++) {
        quoit_addr there = addr_v4(0);
        int fd = peer_bind(&there);
        peer_send_to(fd, &addr, "x", 1);
        close(fd);
    }
    while (got < 64) {
        pump_check_time(&pump, "64 datagrams", __FILE__, __LINE__);
        pump_turn(&pump, 10000000);
        got = op_record(&pump, recv[0])->events + op_record(&pump, recv[1])->events;
    }
    CHECK(op_record(&pump, recv[0])->events > 0 && op_record(&pump, recv[1])->events > 0);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"addresses", addresses},           {"both_families", both_families},       {"connected", connected},
    {"bind_arguments", bind_arguments}, {"one_port_for_two", one_port_for_two},
};
TEST_GROUP(datagrams_bind, cases);
