/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* socket_ops.c: options of sockets, set and read back, and those whose effect a peer can see. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "peer.h"
#include "world.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#define SECOND 1000000000ll

static uint64_t op_set(struct pump *pump, quoit_handle socket, uint32_t option, int64_t value) {
    quoit_op *op = op_new(pump, QUOIT_OP_SOCKET_SET, socket);
    op->arg = option;
    op->offset = value;
    return op->user_data;
}

static int64_t get(struct pump *pump, quoit_handle socket, uint32_t option) {
    int64_t value = INT64_MIN;
    CHECK_EQ(quoit_socket_get(pump->worker, socket, option, &value), QUOIT_OK);
    return value;
}

static quoit_handle listen_with(struct pump *pump, quoit_addr *addr, uint32_t flags, int64_t result) {
    quoit_listen_options options = {.struct_size = sizeof options, .flags = flags};
    quoit_op *op = op_new(pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    op->arg2 = (uintptr_t)&options;
    quoit_event event = op_must(pump, op->user_data, result);
    addr->port = (uint16_t)event.aux;
    return event.value;
}

/* What is set is read back, in whole units of the kernel. */
static void values_come_back(void) {
    static const struct {
        uint32_t option;
        int64_t value, read;
    } rows[] = {
        {QUOIT_SOCKET_NODELAY, 0, 0},
        {QUOIT_SOCKET_NODELAY, 1, 1},
        {QUOIT_SOCKET_KEEPALIVE, 1, 1},
        {QUOIT_SOCKET_KEEPALIVE_IDLE, 30 * SECOND, 30 * SECOND},
        {QUOIT_SOCKET_KEEPALIVE_IDLE, 1, SECOND},
        {QUOIT_SOCKET_KEEPALIVE_INTERVAL, 2 * SECOND + 1, 3 * SECOND},
        {QUOIT_SOCKET_KEEPALIVE_COUNT, 4, 4},
        {QUOIT_SOCKET_TOS, 0x10, 0x10},
        {QUOIT_SOCKET_USER_TIMEOUT, 1500000000, 1500000000},
        {QUOIT_SOCKET_USER_TIMEOUT, 1500000001, 1501000000},
        {QUOIT_SOCKET_USER_TIMEOUT, 0, 0},
        {QUOIT_SOCKET_PRIORITY, 5, 5},
    };
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    quoit_handle sockets[2] = {link.stream, pump.listener};
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_NODELAY), 1);
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            op_must(&pump, op_set(&pump, sockets[i], rows[k].option, rows[k].value), 0);
            CHECK_EQ(get(&pump, sockets[i], rows[k].option), rows[k].read);
        }
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_LINGER), -1);
    op_must(&pump, op_set(&pump, link.stream, QUOIT_SOCKET_LINGER, 0), 0);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_LINGER), 0);
    op_must(&pump, op_set(&pump, link.stream, QUOIT_SOCKET_LINGER, -1), 0);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_LINGER), -1);
    /* The kernel rounds buffers as it likes, but a larger one is larger, and no smaller than asked. */
    for (uint32_t option = QUOIT_SOCKET_SEND_BUFFER; option <= QUOIT_SOCKET_RECV_BUFFER; option++) {
        op_must(&pump, op_set(&pump, link.stream, option, 16384), 0);
        int64_t small = get(&pump, link.stream, option);
        op_must(&pump, op_set(&pump, link.stream, option, 65536), 0);
        CHECK(small >= 16384 && get(&pump, link.stream, option) > small);
    }
    op_must(&pump, op_set(&pump, pump.listener, QUOIT_SOCKET_INCOMING_CPU, 0), 0);
    CHECK_EQ(get(&pump, pump.listener, QUOIT_SOCKET_INCOMING_CPU), 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void options_of_ipv6(void) {
    struct pump pump;
    quoit_addr addr = addr_v6(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_with(&pump, &addr, QUOIT_LISTEN_V6ONLY | QUOIT_LISTEN_REUSEPORT, 0);
    op_must(&pump, op_set(&pump, listener, QUOIT_SOCKET_TOS, 0x20), 0);
    CHECK_EQ(get(&pump, listener, QUOIT_SOCKET_TOS), 0x20);
    CHECK_EQ(get(&pump, listener, QUOIT_SOCKET_V6ONLY), 1);
    CHECK_EQ(get(&pump, listener, QUOIT_SOCKET_REUSEPORT), 1);
    addr = (quoit_addr){.family = QUOIT_FAMILY_V6, .len = 16};
    listener = listen_with(&pump, &addr, 0, 0);
    CHECK_EQ(get(&pump, listener, QUOIT_SOCKET_V6ONLY), 0);
    CHECK_EQ(get(&pump, listener, QUOIT_SOCKET_REUSEPORT), 0);
    pump_close(&pump);
}

/* What needs a privilege is refused as the kernel refuses it to this process. */
static void with_privilege(void) {
    struct pump pump;
    int mark = 7, spin = 50;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    int may = setsockopt(link.fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0 ? 0 : -errno;
    op_must(&pump, op_set(&pump, link.stream, QUOIT_SOCKET_MARK, mark), may);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_MARK), may ? 0 : mark);
    may = setsockopt(link.fd, SOL_SOCKET, SO_BUSY_POLL, &spin, sizeof spin) == 0 ? 0 : -errno;
    op_must(&pump, op_set(&pump, link.stream, QUOIT_SOCKET_BUSY_POLL, 49001), may);
    if (may == 0)
        CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_BUSY_POLL), 50000);
    op_must(&pump, op_set(&pump, link.stream, QUOIT_SOCKET_BUSY_POLL, 0), 0);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_BUSY_POLL), 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void wrong_options(void) {
    static const struct {
        uint32_t option;
        int64_t value;
        uint32_t field;
        bool listener;
    } rows[] = {
        {0, 0, QUOIT_FIELD_ARG, false},
        {QUOIT_SOCKET_CREDENTIALS + 1, 0, QUOIT_FIELD_ARG, false},
        {UINT32_MAX, 0, QUOIT_FIELD_ARG, false},
        {QUOIT_SOCKET_FREEBIND, 1, QUOIT_FIELD_ARG, true},
        {QUOIT_SOCKET_V6ONLY, 1, QUOIT_FIELD_ARG, true},
        {QUOIT_SOCKET_REUSEPORT, 1, QUOIT_FIELD_ARG, true},
        {QUOIT_SOCKET_LINGER, 0, QUOIT_FIELD_ARG, true},
        {QUOIT_SOCKET_DEFER_ACCEPT, SECOND, QUOIT_FIELD_ARG, false},
        {QUOIT_SOCKET_NODELAY, 2, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_NODELAY, -1, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_KEEPALIVE_IDLE, 0, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_KEEPALIVE_IDLE, INT64_MAX, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_KEEPALIVE_COUNT, 1ll << 32, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_LINGER, 1, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_SEND_BUFFER, 0, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_TOS, 256, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_MARK, 1ll << 32, QUOIT_FIELD_OFFSET, false},
        {QUOIT_SOCKET_USER_TIMEOUT, INT64_MIN, QUOIT_FIELD_OFFSET, false},
    };
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        quoit_handle socket = rows[i].listener ? pump.listener : link.stream;
        quoit_event event =
            op_must(&pump, op_set(&pump, socket, rows[i].option, rows[i].value), QUOIT_E_FIELD);
        CHECK_EQ(event.aux, rows[i].field);
    }
    /* What the kernel itself refuses. */
    op_must(&pump, op_set(&pump, link.stream, QUOIT_SOCKET_KEEPALIVE_COUNT, 1000), -EINVAL);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void options_of_unix_sockets(void) {
    struct pump pump;
    char name[64];
    pump_open(&pump, NULL);
    snprintf(name, sizeof name, "@quoit-test-%d-options", (int)getpid());
    quoit_addr addr = addr_unix(name);
    quoit_handle listener = listen_on(&pump, &addr);
    op_must(&pump, op_set(&pump, listener, QUOIT_SOCKET_NODELAY, 1), -EOPNOTSUPP);
    op_must(&pump, op_set(&pump, listener, QUOIT_SOCKET_SEND_BUFFER, 32768), 0);
    CHECK(get(&pump, listener, QUOIT_SOCKET_SEND_BUFFER) >= 32768);
    int64_t value;
    CHECK_EQ(quoit_socket_get(pump.worker, listener, QUOIT_SOCKET_NODELAY, &value), -EOPNOTSUPP);
    pump_close(&pump);
}

/* Datagram sockets have the options that are not of connections. */
static void options_of_datagram_sockets(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_op *op = op_new(&pump, QUOIT_OP_BIND, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    quoit_handle socket = op_must(&pump, op->user_data, 0).value;
    op_must(&pump, op_set(&pump, socket, QUOIT_SOCKET_TOS, 0x28), 0);
    CHECK_EQ(get(&pump, socket, QUOIT_SOCKET_TOS), 0x28);
    op_must(&pump, op_set(&pump, socket, QUOIT_SOCKET_PRIORITY, 3), 0);
    CHECK_EQ(get(&pump, socket, QUOIT_SOCKET_PRIORITY), 3);
    op_must(&pump, op_set(&pump, socket, QUOIT_SOCKET_RECV_BUFFER, 16384), 0);
    CHECK(get(&pump, socket, QUOIT_SOCKET_RECV_BUFFER) >= 16384);
    CHECK_EQ(get(&pump, socket, QUOIT_SOCKET_REUSEPORT), 0);
    for (uint32_t option = QUOIT_SOCKET_NODELAY; option <= QUOIT_SOCKET_DEFER_ACCEPT; option++)
        CHECK_EQ(op_must(&pump, op_set(&pump, socket, option, 1), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    close((int)op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, socket), 0).value);
    pump_close(&pump);
}

static void accepted_streams_inherit(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    pump.listener = listen_with(&pump, &addr, QUOIT_LISTEN_DELAY, 0);
    op_must(&pump, op_set(&pump, pump.listener, QUOIT_SOCKET_KEEPALIVE, 1), 0);
    op_must(&pump, op_set(&pump, pump.listener, QUOIT_SOCKET_KEEPALIVE_IDLE, 77 * SECOND), 0);
    struct link link = link_open(&pump);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_KEEPALIVE), 1);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_KEEPALIVE_IDLE), 77 * SECOND);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_NODELAY), 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* QUIET tells nothing of success, and failure. */
static void quiet(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    quoit_op *op = op_new(&pump, QUOIT_OP_SOCKET_SET, link.stream);
    op->flags = QUOIT_OPF_QUIET;
    op->arg = QUOIT_SOCKET_TOS;
    op->offset = 8;
    uint64_t id = op->user_data;
    op_must(&pump, op_simple(&pump, QUOIT_OP_NOP, 0), 0);
    CHECK_EQ(op_record(&pump, id)->events, 0);
    CHECK_EQ(get(&pump, link.stream, QUOIT_SOCKET_TOS), 8);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Without LINGER an abort ends the connection, with LINGER 0 it resets it; also when ops are in flight. */
static void linger_resets(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (int round = 0; round < 4; round++) {
        uint64_t recv;
        struct link link = link_open_recv(&pump, &recv);
        pump_turn_nb(&pump);
        if (round % 2)
            op_must(&pump, op_set(&pump, link.stream, QUOIT_SOCKET_LINGER, 0), 0);
        if (round >= 2)
            op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0), 1);
        op_must(&pump, op_close(&pump, link.stream, QUOIT_OPF_ABORT), 0);
        op_must(&pump, recv, -ECANCELED);
        if (round % 2)
            peer_expect_reset(&pump, link.fd);
        else
            peer_expect_end(&pump, link.fd);
        close(link.fd);
    }
    pump_close(&pump);
}

/* A silent connection is not told until its first bytes are there. */
static void defer_accept(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    char byte = 'd';
    pump_open(&pump, NULL);
    quoit_handle listener = listen_with(&pump, &addr, QUOIT_LISTEN_DEFER_ACCEPT, 0);
    CHECK(get(&pump, listener, QUOIT_SOCKET_DEFER_ACCEPT) >= SECOND);
    op_must(&pump, op_set(&pump, listener, QUOIT_SOCKET_DEFER_ACCEPT, 60 * SECOND), 0);
    CHECK(get(&pump, listener, QUOIT_SOCKET_DEFER_ACCEPT) >= 60 * SECOND);
    uint64_t accept = op_accept(&pump, listener, 0);
    pump_turn_nb(&pump);
    int fd = peer_connect(&addr);
    for (int i = 0; i < 20; i++)
        pump_turn(&pump, 1000000);
    CHECK(!op_ended(&pump, accept));
    peer_send(&pump, fd, &byte, 1);
    quoit_handle stream = op_must(&pump, accept, 0).value;
    CHECK_EQ(op_finish(&pump, op_recv(&pump, stream, 0, 0)).result, 1);
    op_must(&pump, op_close(&pump, stream, QUOIT_OPF_ABORT), 0);
    close(fd);
    pump_close(&pump);
}

/* 192.0.2.1 (TEST-NET-1) is nobody's. */
static void freebind(void) {
    struct pump pump;
    quoit_addr nobody = {.family = QUOIT_FAMILY_V4, .len = 4, .bytes = {192, 0, 2, 1}}, bound;
    pump_open(&pump, NULL);
    listen_with(&pump, &nobody, 0, -EADDRNOTAVAIL);
    nobody.port = 0;
    quoit_handle listener = listen_with(&pump, &nobody, QUOIT_LISTEN_FREEBIND, 0);
    CHECK_EQ(quoit_local_addr(pump.worker, listener, &bound), QUOIT_OK);
    CHECK_EQ(bound.bytes[0], 192);
    CHECK_EQ(get(&pump, listener, QUOIT_SOCKET_FREEBIND), 1);
    pump_close(&pump);
}

struct asker {
    quoit_worker *worker;
    quoit_handle socket;
    quoit_status status;
};

static void *ask(void *arg) {
    struct asker *asker = arg;
    int64_t value;
    asker->status = quoit_socket_get(asker->worker, asker->socket, QUOIT_SOCKET_TOS, &value);
    return NULL;
}

static void wrong_questions(void) {
    struct world world;
    int64_t value = 5;
    world_open(&world);
    quoit_worker *worker = world.pump.worker;
    quoit_handle stream = world.link.stream;
    CHECK_EQ(quoit_socket_get(worker, stream, QUOIT_SOCKET_TOS, NULL), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_socket_get(worker, stream, 0, &value), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_socket_get(worker, stream, 1000, &value), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_socket_get(worker, stream, QUOIT_SOCKET_DEFER_ACCEPT, &value), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_socket_get(worker, world.file, QUOIT_SOCKET_TOS, &value), QUOIT_E_KIND);
    CHECK_EQ(quoit_socket_get(worker, stream + (1ull << 24), QUOIT_SOCKET_TOS, &value), QUOIT_E_STALE);
    CHECK_EQ(quoit_socket_get(worker, 7, QUOIT_SOCKET_TOS, &value), QUOIT_E_HANDLE);
    CHECK_EQ(value, 5);
    struct asker asker = {.worker = worker, .socket = stream};
    thread_join(thread_start(ask, &asker));
    CHECK_EQ(asker.status, QUOIT_E_THREAD);
    world_close(&world);
}

static const struct test_case cases[] = {
    {"values_come_back", values_come_back},
    {"options_of_ipv6", options_of_ipv6},
    {"with_privilege", with_privilege},
    {"wrong_options", wrong_options},
    {"options_of_unix_sockets", options_of_unix_sockets},
    {"options_of_datagram_sockets", options_of_datagram_sockets},
    {"accepted_streams_inherit", accepted_streams_inherit},
    {"quiet", quiet},
    {"linger_resets", linger_resets},
    {"defer_accept", defer_accept},
    {"freebind", freebind},
    {"wrong_questions", wrong_questions},
};
TEST_GROUP(socket_ops, cases);
