/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* tcp.c: listen, accept, connect and echo over IPv4 and IPv6. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void echo_sizes(quoit_addr addr) {
    static const size_t sizes[] = {1, 2, 63, 64, 2047, 2048, 2049, 65536, 1 << 20};
    struct pump pump;
    pump_open(&pump, NULL);
    serve_echo(&pump, &addr);
    int fd = peer_connect(&addr);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t done = 0; done < sizes[i];) {
            /* As much as the sockets surely hold, so that the peer never needs to do two things at a time. */
            size_t part = sizes[i] - done < 65536 ? sizes[i] - done : 65536;
            peer_send_pattern(&pump, fd, i, done, part);
            peer_recv_pattern(&pump, fd, i, done, part);
            done += part;
        }
    CHECK_EQ(shutdown(fd, SHUT_WR), 0);
    peer_expect_end(&pump, fd);
    close(fd);
    pump_close(&pump);
}

static void echo_v4(void) {
    echo_sizes(addr_v4(0));
}

static void echo_v6(void) {
    echo_sizes(addr_v6(0));
}

/* A listener on :: takes IPv4 too unless told otherwise. */
static void v6_takes_v4_too(void) {
    struct pump pump;
    quoit_addr any = {.family = QUOIT_FAMILY_V6, .len = 16};
    char byte = 'x';
    pump_open(&pump, NULL);
    serve_echo(&pump, &any);
    quoit_addr v4 = addr_v4(any.port);
    int fd = peer_connect(&v4);
    peer_send(&pump, fd, &byte, 1);
    peer_recv(&pump, fd, &byte, 1);
    close(fd);
    quoit_listen_options options = {.struct_size = sizeof options, .flags = QUOIT_LISTEN_V6ONLY};
    any.port = 0;
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&any;
    op->len = sizeof any;
    op->arg2 = (uintptr_t)&options;
    v4 = addr_v4((uint16_t)op_must(&pump, op->user_data, 0).aux);
    quoit_op *dial = op_new(&pump, QUOIT_OP_CONNECT, 0);
    dial->addr = (uintptr_t)&v4;
    dial->len = sizeof v4;
    op_must(&pump, dial->user_data, -ECONNREFUSED);
    pump_close(&pump);
}

/* Both families on one port, each with a listener of its own. */
static void both_families_on_one_port(void) {
    struct pump pump;
    quoit_listen_options options = {.struct_size = sizeof options, .flags = QUOIT_LISTEN_V6ONLY};
    quoit_addr v4 = {.family = QUOIT_FAMILY_V4, .len = 4}, v6 = {.family = QUOIT_FAMILY_V6, .len = 16}, peer;
    pump_open(&pump, NULL);
    quoit_handle listeners[2] = {listen_on(&pump, &v4), 0};
    v6.port = v4.port;
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&v6;
    op->len = sizeof v6;
    op->arg2 = (uintptr_t)&options;
    quoit_event event = op_must(&pump, op->user_data, 0);
    CHECK_EQ(event.aux, v4.port);
    listeners[1] = event.value;
    for (int i = 0; i < 2; i++) {
        quoit_addr to = i ? addr_v6(v4.port) : addr_v4(v4.port);
        int fd = peer_connect(&to);
        quoit_handle stream = op_must(&pump, op_accept(&pump, listeners[i], 0), 0).value;
        CHECK_EQ(quoit_peer_addr(pump.worker, stream, &peer), QUOIT_OK);
        CHECK_EQ(peer.family, i ? QUOIT_FAMILY_V6 : QUOIT_FAMILY_V4);
        close(fd);
    }
    pump_close(&pump);
}

static uint64_t op_connect(struct pump *pump, const quoit_addr *addr) {
    quoit_op *op = op_new(pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    return op->user_data;
}

static void connect_out(quoit_addr addr) {
    struct pump pump;
    quoit_addr local, peer;
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 8);
    quoit_handle stream = op_must(&pump, op_connect(&pump, &addr), 0).value;
    int fd = peer_accept(&pump, listener);
    CHECK_EQ(quoit_peer_addr(pump.worker, stream, &peer), QUOIT_OK);
    CHECK(!memcmp(&peer, &addr, sizeof peer));
    CHECK_EQ(quoit_local_addr(pump.worker, stream, &local), QUOIT_OK);
    CHECK(local.family == addr.family && local.port != 0 && local.port != addr.port);
    op_must(&pump, op_send(&pump, stream, "hello", 5, 0), 5);
    char text[5];
    peer_recv(&pump, fd, text, 5);
    CHECK(!memcmp(text, "hello", 5));
    peer_send(&pump, fd, "world", 5);
    CHECK_EQ(op_finish(&pump, op_recv(&pump, stream, 0, 0)).result, 5);
    op_must(&pump, op_close(&pump, stream, QUOIT_OPF_ABORT), 0);
    close(fd);
    close(listener);
    pump_close(&pump);
}

static void connect_v4(void) {
    connect_out(addr_v4(0));
}

static void connect_v6(void) {
    connect_out(addr_v6(0));
}

static void connect_refused(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 1);
    close(listener); /* nobody listens at that port now */
    quoit_event event = op_must(&pump, op_connect(&pump, &addr), -ECONNREFUSED);
    CHECK_EQ(event.value, 0);
    for (int i = 0; i < 50; i++)
        op_must(&pump, op_connect(&pump, &addr), -ECONNREFUSED);
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

static void connect_from_an_address(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0), from = addr_v4(0), seen;
    from.bytes[3] = 9; /* 127.0.0.9 */
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 8);
    quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg = QUOIT_CONNECT_DELAY;
    op->arg2 = (uintptr_t)&from;
    quoit_handle stream = op_must(&pump, op->user_data, 0).value;
    CHECK_EQ(quoit_local_addr(pump.worker, stream, &seen), QUOIT_OK);
    CHECK(!memcmp(seen.bytes, from.bytes, 4));
    close(peer_accept(&pump, listener));
    close(listener);
    pump_close(&pump);
}

/* Two streams of one worker talk to each other. */
static void connect_to_oneself(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    static char data[300000];
    pump_open(&pump, NULL);
    pump.collect = true;
    serve_echo(&pump, &addr);
    quoit_handle stream = op_must(&pump, op_connect(&pump, &addr), 0).value;
    pattern_fill(data, 1, 0, sizeof data);
    pump.on_event = NULL;
    /* The far side echoes; only its events are given to the echo. */
    uint64_t recv = op_recv(&pump, stream, QUOIT_OPF_MULTI, 0);
    uint64_t send = op_send(&pump, stream, data, sizeof data, 0);
    (void)recv;
    struct stream *near = stream_of(&pump, stream);
    while (near->len < sizeof data) {
        pump_check_time(&pump, "the bytes to come back", __FILE__, __LINE__);
        int n = pump_turn(&pump, 200000000);
        for (int i = 0; i < n; i++)
            if (pump_event(&pump, (uint32_t)i)->source != stream)
                on_event_echo(&pump, pump_event(&pump, (uint32_t)i));
    }
    CHECK_PATTERN(near->data, 1, 0, sizeof data);
    op_must(&pump, send, sizeof data);
    pump_close(&pump);
}

static void accept_one_at_a_time(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    int fds[5];
    for (int i = 0; i < 5; i++)
        fds[i] = peer_connect(&addr);
    for (int i = 0; i < 5; i++) {
        quoit_event event = op_must(&pump, op_accept(&pump, listener, 0), 0);
        CHECK(!(event.flags & QUOIT_EVF_MORE));
    }
    CHECK_EQ(pump.nstreams, 5);
    uint64_t waiting = op_accept(&pump, listener, 0);
    CHECK_EQ(pump_turn(&pump, 0), 0);
    int late = peer_connect(&addr);
    op_must(&pump, waiting, 0);
    close(late);
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    pump_close(&pump);
}

/* The streams come in the order of the connections, each with its own peer. */
static void accept_many(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0), mine, seen;
    int fds[100];
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI);
    for (int i = 0; i < 100; i++)
        fds[i] = peer_connect(&addr);
    PUMP_UNTIL(&pump, pump.nstreams == 100);
    for (int i = 0; i < 100; i++) {
        struct sockaddr_storage name;
        socklen_t len = sizeof name;
        CHECK_EQ(getsockname(fds[i], (struct sockaddr *)&name, &len), 0);
        CHECK_EQ(quoit_peer_addr(pump.worker, pump.streams[i]->handle, &seen), QUOIT_OK);
        struct sockaddr_storage shown;
        CHECK_EQ(peer_sockaddr(&seen, &shown), len);
        CHECK(!memcmp(&shown, &name, len));
        CHECK_EQ(quoit_local_addr(pump.worker, pump.streams[i]->handle, &mine), QUOIT_OK);
        CHECK(!memcmp(&mine, &addr, sizeof mine));
        close(fds[i]);
    }
    CHECK(!op_ended(&pump, accept));
    CHECK_EQ(op_record(&pump, accept)->events, 100);
    CHECK_EQ(stats_of(&pump).accepts, 100);
    op_must(&pump, op_close(&pump, listener, 0), 0);
    CHECK_EQ(op_record(&pump, accept)->last.result, -ECANCELED);
    pump_close(&pump);
}

static void side_queries(void) {
    struct pump pump;
    quoit_addr addr;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    CHECK_EQ(quoit_local_addr(pump.worker, pump.listener, &addr), QUOIT_OK);
    CHECK(quoit_peer_addr(pump.worker, pump.listener, &addr) < 0); /* it has none */
    CHECK_EQ(quoit_peer_addr(pump.worker, pump.handle, &addr), QUOIT_E_KIND);
    CHECK_EQ(quoit_peer_addr(pump.worker, 12, &addr), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_file_size(pump.worker, link.stream), QUOIT_E_KIND);
    link_close(&pump, &link);
    CHECK_EQ(quoit_peer_addr(pump.worker, link.stream, &addr), QUOIT_E_STALE);
    CHECK_EQ(quoit_local_addr(pump.worker, link.stream, &addr), QUOIT_E_STALE);
    pump_close(&pump);
}

static void shared_port(void) {
    struct pump pump, other;
    quoit_addr addr = addr_v4(0);
    quoit_listen_options options = {.struct_size = sizeof options, .flags = QUOIT_LISTEN_REUSEPORT};
    int fds[64];
    pump_open(&pump, NULL);
    pump_open_in(&other, pump.runtime, NULL);
    for (int i = 0; i < 2; i++) {
        struct pump *at = i ? &other : &pump;
        quoit_op *op = op_new(at, QUOIT_OP_LISTEN, 0);
        op->addr = (uintptr_t)&addr;
        op->len = sizeof addr;
        op->arg2 = (uintptr_t)&options;
        quoit_event event = op_must(at, op->user_data, 0);
        addr.port = (uint16_t)event.aux;
        op_accept(at, event.value, QUOIT_OPF_MULTI);
    }
    for (int i = 0; i < 64; i++)
        fds[i] = peer_connect(&addr);
    while (pump.nstreams + other.nstreams < 64) {
        pump_check_time(&pump, "64 streams", __FILE__, __LINE__);
        pump_turn(&pump, 1000000);
        pump_turn(&other, 1000000);
    }
    CHECK(pump.nstreams && other.nstreams); /* 2^-63 that one gets none */
    for (int i = 0; i < 64; i++)
        close(fds[i]);
    pump_close(&other);
    pump_close(&pump);
}

/* Many at a time, of different sizes, each with bytes of its own. */
static void echo_many_streams(void) {
    enum { PEERS = 200 };
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    static int fds[PEERS];
    pump_open(&pump, NULL);
    serve_echo(&pump, &addr);
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_connect(&addr);
    for (size_t round = 0, at = 0; round < 5; round++) {
        size_t size = round * 3000 + 1;
        for (int i = 0; i < PEERS; i++)
            peer_send_pattern(&pump, fds[i], (uint64_t)i, at, size);
        for (int i = 0; i < PEERS; i++)
            peer_recv_pattern(&pump, fds[i], (uint64_t)i, at, size);
        at += size;
    }
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    PUMP_UNTIL(&pump, stats_of(&pump).objects_live == 1);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"echo_v4", echo_v4},
    {"echo_v6", echo_v6},
    {"v6_takes_v4_too", v6_takes_v4_too},
    {"both_families_on_one_port", both_families_on_one_port},
    {"connect_v4", connect_v4},
    {"connect_v6", connect_v6},
    {"connect_refused", connect_refused},
    {"connect_from_an_address", connect_from_an_address},
    {"connect_to_oneself", connect_to_oneself},
    {"accept_one_at_a_time", accept_one_at_a_time},
    {"accept_many", accept_many},
    {"side_queries", side_queries},
    {"shared_port", shared_port},
    {"echo_many_streams", echo_many_streams},
};
TEST_GROUP(tcp, cases);
