/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* overflow.c: a completion queue far too small for what happens: the kernel keeps it, nothing is lost. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <string.h>
#include <unistd.h>

static const quoit_worker_options tiny = {.ring_entries = 4, .cq_entries = 8, .recv_buffers = 64};

/* On io_uring it must have happened, or the test shows nothing. */
static void check_overflowed(struct pump *pump) {
    quoit_stats stats = stats_of(pump);
    if (stats.driver == QUOIT_DRIVER_EPOLL)
        CHECK_EQ(stats.cq_overflows, 0);
    else
        CHECK(stats.cq_overflows > 0);
}

static void many_come_at_once(void) {
    enum { PEERS = 200 };
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    int fds[PEERS];
    pump_open(&pump, &tiny);
    pump.collect = true;
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    pump_turn_nb(&pump);
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < PEERS; i++) {
            if (!round)
                fds[i] = peer_connect(&addr);
            peer_send_pattern(NULL, fds[i], 1, (uint64_t)round * 3000, 3000);
        }
    PUMP_UNTIL(&pump, stats_of(&pump).bytes_received == (uint64_t)PEERS * 12000);
    CHECK_EQ(pump.nstreams, PEERS);
    CHECK(!op_ended(&pump, accept)); /* a MULTI op is the program's: it went on */
    for (int i = 0; i < PEERS; i++) {
        CHECK_EQ(pump.streams[i]->len, 12000);
        CHECK_PATTERN(pump.streams[i]->data, 1, 0, 12000);
        CHECK(!pump.streams[i]->auto_ended);
    }
    check_overflowed(&pump);
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    PUMP_UNTIL(&pump, pump.streams[PEERS - 1]->auto_ended);
    pump_close(&pump);
}

static void echo_under_overflow(void) {
    enum { PEERS = 100 };
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    int fds[PEERS];
    quoit_worker_options options = tiny;
    options.recv_buffers = 16;
    pump_open(&pump, &options);
    serve_echo(&pump, &addr);
    pump_turn_nb(&pump);
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_connect(&addr);
    for (uint64_t round = 0; round < 10; round++) {
        for (int i = 0; i < PEERS; i++)
            peer_send_pattern(NULL, fds[i], (uint64_t)i, round * 2500, 2500);
        for (int i = 0; i < PEERS; i++)
            peer_recv_pattern(&pump, fds[i], (uint64_t)i, round * 2500, 2500);
    }
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    PUMP_UNTIL(&pump, stats_of(&pump).objects_live == 1);
    pump_close(&pump);
}

/* More requests in one batch than either queue holds. */
static void many_ops_in_one_batch(void) {
    enum { LINKS = 60 };
    struct pump pump;
    struct link links[LINKS];
    uint64_t recvs[LINKS], sends[LINKS];
    pump_open(&pump, &tiny);
    for (int i = 0; i < LINKS; i++)
        links[i] = link_open(&pump);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < LINKS; i++) {
            recvs[i] = op_recv(&pump, links[i].stream, 0, 0);
            sends[i] = op_send(&pump, links[i].stream, &"abcde"[round], 1, 0);
        }
        pump_turn_nb(&pump);
        for (int i = 0; i < LINKS; i++)
            peer_send(NULL, links[i].fd, "x", 1);
        for (int i = 0; i < LINKS; i++) {
            char byte = 0;
            op_must(&pump, sends[i], 1);
            op_must(&pump, recvs[i], 1);
            peer_recv(NULL, links[i].fd, &byte, 1);
            CHECK_EQ(byte, "abcde"[round]);
        }
    }
    for (int i = 0; i < LINKS; i++) {
        close(links[i].fd);
        sends[i] = op_close(&pump, links[i].stream, i % 2 ? QUOIT_OPF_ABORT : 0);
    }
    for (int i = 0; i < LINKS; i++)
        op_must(&pump, sends[i], 0);
    pump_close(&pump);
}

static void files_in_a_tiny_ring(void) {
    enum { READS = 200 };
    struct pump pump;
    static char data[READS][512];
    uint64_t reads[READS];
    pump_open(&pump, &tiny);
    quoit_op *op = op_new(&pump, QUOIT_OP_OPEN, 0);
    op->addr = (uintptr_t) "/proc/self/exe";
    op->len = 14;
    op->arg = QUOIT_OPEN_READ;
    quoit_handle file = op_must(&pump, op->user_data, 0).value;
    for (int i = 0; i < READS; i++) {
        op = op_new(&pump, QUOIT_OP_READ, file);
        op->flags = QUOIT_OPF_BORROW;
        op->addr = (uintptr_t)data[i];
        op->len = 512;
        reads[i] = op->user_data;
    }
    for (int i = 0; i < READS; i++)
        op_must(&pump, reads[i], 512);
    for (int i = 1; i < READS; i++)
        CHECK(!memcmp(data[i], data[0], 512));
    pump_close(&pump);
}

/* Stop and destroy with the queue overflowed. */
static void stop_under_overflow(void) {
    enum { PEERS = 100 };
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    int fds[PEERS];
    for (int round = 0; round < 2; round++) {
        pump_open(&pump, &tiny);
        quoit_handle listener = listen_on(&pump, &addr);
        op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
        pump_turn_nb(&pump);
        for (int i = 0; i < PEERS; i++) {
            fds[i] = peer_connect(&addr);
            peer_fill(fds[i], 1);
        }
        pump_turn_nb(&pump);
        for (int i = 0; i < PEERS; i++)
            peer_send(NULL, fds[i], "", 0);
        round ? pump_abandon(&pump) : pump_close(&pump);
        for (int i = 0; i < PEERS; i++)
            close(fds[i]);
        addr.port = 0;
    }
}

static const struct test_case cases[] = {
    {"many_come_at_once", many_come_at_once},         {"echo_under_overflow", echo_under_overflow},
    {"many_ops_in_one_batch", many_ops_in_one_batch}, {"files_in_a_tiny_ring", files_in_a_tiny_ring},
    {"stop_under_overflow", stop_under_overflow},
};
TEST_GROUP(overflow, cases);
