/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* adopt_datagrams.c: datagram sockets of the program that become the library's, and back: no datagram is lost or told twice. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

static uint64_t op_adopt(struct pump *pump, int fd, uint32_t type) {
    quoit_op *op = op_new(pump, QUOIT_OP_ADOPT, 0);
    op->offset = fd;
    op->arg = type;
    return op->user_data;
}

static uint64_t op_detach(struct pump *pump, quoit_handle object) {
    return op_simple(pump, QUOIT_OP_DETACH, object);
}

static quoit_addr own_addr(int number) {
    char name[100];
    snprintf(name, sizeof name, "@quoit-adopt-%d-%d", (int)getpid(), number);
    return addr_unix(name);
}

static const quoit_addr *addr_in(const struct pump *pump, uint64_t offset) {
    return (const quoit_addr *)(uintptr_t)(pump->batch->recv_base + offset);
}

static void connect_to(int fd, const quoit_addr *to) {
    struct sockaddr_storage name;
    socklen_t len = peer_sockaddr(to, &name);
    CHECK_EQ(connect(fd, (struct sockaddr *)&name, len), 0);
}

/* Of each family, its type told or found out, with a peer or without. */
static void each_family(void) {
    struct pump pump;
    char text[16];
    pump_open(&pump, NULL);
    for (int i = 0; i < 12; i++) {
        quoit_addr here = i % 3 == 0 ? addr_v4(0) : i % 3 == 1 ? addr_v6(0) : own_addr(1), there = here, seen;
        if (i % 3 == 2)
            there = own_addr(2);
        bool connected = i / 3 % 2;
        int own = peer_bind(&here), fd = peer_bind(&there);
        if (connected)
            connect_to(own, &there);
        quoit_event event = op_must(&pump, op_adopt(&pump, own, i < 6 ? 0 : QUOIT_HANDLE_DATAGRAM), 0);
        quoit_handle socket = event.value;
        CHECK_EQ(quoit_handle_kind(socket), QUOIT_HANDLE_DATAGRAM);
        CHECK_EQ(fcntl(own, F_GETFD), FD_CLOEXEC);
        CHECK_EQ(quoit_local_addr(pump.worker, socket, &seen), QUOIT_OK);
        CHECK(!memcmp(&seen, &here, sizeof seen));
        peer_send_to(fd, &here, "to", 2);
        uint64_t recv = op_recvmsg(&pump, socket, i % 2 ? QUOIT_OPF_MULTI : 0, 0);
        PUMP_UNTIL(&pump, op_record(&pump, recv)->events == 1);
        event = op_record(&pump, recv)->last;
        CHECK(event.result == 2 && !memcmp(event_data(&pump, &event), "to", 2));
        CHECK(!memcmp(addr_in(&pump, event.value), &there, sizeof there));
        quoit_op *op = op_new(&pump, QUOIT_OP_SENDMSG, socket); /* to whom it came from */
        op->flags = QUOIT_OPF_ARENA_RECV;
        op->addr = event.offset;
        op->len = event.len;
        op->arg2 = event.buffer;
        op_must(&pump, op->user_data, 2);
        CHECK_EQ(peer_recv_from(&pump, fd, text, sizeof text, &seen), 2);
        CHECK(!memcmp(&seen, &here, sizeof seen));
        op_must(&pump, op_sendmsg(&pump, socket, NULL, "x", 1, 0),
                connected    ? 1
                : i % 3 == 2 ? -ENOTCONN
                             : -EDESTADDRREQ);
        op_must(&pump, op_close(&pump, socket, 0), 0);
        CHECK_EQ(fcntl(own, F_GETFD), -1); /* closing is the library's */
        close(fd);
    }
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

/* What it was set to before is told by its receives, whatever else it was set to tell. */
static void keeps_what_it_was_set_to(void) {
    struct pump pump;
    static const char data[3000];
    pump_open(&pump, NULL);
    for (int i = 0; i < 8; i++) {
        quoit_addr here = i % 2 ? addr_v6(0) : addr_v4(0), there = here;
        int own = peer_bind(&here), fd = peer_bind(&there), on = 1, size = 1000;
        CHECK_EQ(setsockopt(own, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), 0);
        if (i & 2)
            CHECK_EQ(i % 2 ? setsockopt(own, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on)
                           : setsockopt(own, IPPROTO_IP, IP_PKTINFO, &on, sizeof on),
                     0);
        CHECK_EQ(setsockopt(own, SOL_UDP, UDP_GRO, &on, sizeof on), 0);
        CHECK_EQ(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof size), 0);
        quoit_handle socket = op_must(&pump, op_adopt(&pump, own, 0), 0).value;
        uint64_t recv = op_recvmsg(&pump, socket, i & 4 ? QUOIT_OPF_MULTI : 0, 0);
        peer_send_to(fd, &here, data, sizeof data);
        for (uint32_t got = 0, seen = 0; got < sizeof data; got += op_record(&pump, recv)->last.len) {
            if (op_record(&pump, recv)->ended)
                recv = op_recvmsg(&pump, socket, 0, 0), seen = 0;
            seen++;
            PUMP_UNTIL(&pump, op_record(&pump, recv)->events >= seen);
            CHECK_EQ(op_record(&pump, recv)->events, seen);
            quoit_event event = op_record(&pump, recv)->last;
            CHECK_EQ(event.aux, event.len > 1000 ? 1000 : 0);
            if (i & 2)
                CHECK(!memcmp(addr_in(&pump, event.value + sizeof here)->bytes, here.bytes, here.len));
            if (i & 2)
                CHECK_EQ(addr_in(&pump, event.value + sizeof here)->port, here.port);
        }
        op_must(&pump, op_close(&pump, socket, QUOIT_OPF_ABORT), 0);
        close(fd);
    }
    pump_close(&pump);
}

static void refused(void) {
    struct pump pump;
    quoit_addr here = addr_v4(0);
    pump_open(&pump, NULL);
    int own = peer_bind(&here), other = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (uint32_t type = QUOIT_HANDLE_LISTENER; type <= QUOIT_HANDLE_FILE; type++)
        CHECK_EQ(op_must(&pump, op_adopt(&pump, own, type), QUOIT_E_KIND).aux, QUOIT_FIELD_ARG);
    CHECK(other >= 0);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, other, 0), QUOIT_E_UNSUPPORTED).aux, QUOIT_FIELD_OFFSET);
    CHECK(fcntl(own, F_GETFL) & O_NONBLOCK);
    quoit_handle socket = op_must(&pump, op_adopt(&pump, own, 0), 0).value;
    CHECK_EQ(op_must(&pump, op_adopt(&pump, own, 0), QUOIT_E_BUSY).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ((int)op_must(&pump, op_detach(&pump, socket), 0).value, own);
    CHECK(!(fcntl(own, F_GETFL) & O_NONBLOCK)); /* blocking, as what is detached is */
    op_must(&pump, op_recvmsg(&pump, socket, 0, 0), QUOIT_E_STALE);
    op_must(&pump, op_detach(&pump, socket), QUOIT_E_STALE);
    close(own);
    close(other);
    pump_close(&pump);
}

/* The next number, wherever it is read: none is lost, none comes twice. */
static void take_number(int fd, uint32_t *next) {
    uint32_t number;
    CHECK_EQ(recv(fd, &number, sizeof number, 0), sizeof number);
    CHECK_EQ(number, *next);
    ++*next;
}

static void on_number(struct pump *pump, const quoit_event *event) {
    uint32_t number, *next = pump->ctx;
    if (event->kind != QUOIT_OP_RECVMSG || event->result < 0)
        return;
    CHECK_EQ(event->len, sizeof number);
    memcpy(&number, event_data(pump, event), sizeof number);
    CHECK_EQ(number, *next);
    ++*next;
}

/* A socket goes out and comes back, over and over, while numbers come. */
static void there_and_back(void) {
    struct pump pump;
    for (int i = 0; i < 2; i++) {
        uint32_t sent = 0, next = 0;
        quoit_addr here = i ? own_addr(1) : addr_v4(0), there = i ? own_addr(2) : addr_v4(0);
        pump_open(&pump, NULL);
        pump.on_event = on_number;
        pump.ctx = &next;
        quoit_handle socket = bind_on(&pump, &here, 0);
        int fd = peer_bind(&there);
        for (int round = 0; round < 60; round++) {
            uint64_t recv = op_recvmsg(&pump, socket, round % 2 ? QUOIT_OPF_MULTI : 0, 0);
            pump_turn_nb(&pump);
            for (int n = 0; n < 3; n++, sent++)
                peer_send_to(fd, &here, &sent, sizeof sent);
            if (round % 3)
                PUMP_UNTIL(&pump, op_record(&pump, recv)->events);
            if (!op_ended(&pump, recv)) {
                op_finish(&pump, op_cancel(&pump, socket, QUOIT_OP_RECVMSG, 0));
                op_finish(&pump, recv);
            }
            int own = (int)op_must(&pump, op_detach(&pump, socket), 0).value;
            while (next < sent)
                take_number(own, &next);
            CHECK_EQ(peer_queued(own), 0);
            peer_send_to(fd, &here, &sent, sizeof sent), sent++; /* waits in the socket */
            socket = op_must(&pump, op_adopt(&pump, own, 0), 0).value;
        }
        op_must(&pump, op_recvmsg(&pump, socket, 0, 0), sizeof sent);
        CHECK_EQ(next, sent);
        op_must(&pump, op_close(&pump, socket, QUOIT_OPF_ABORT), 0);
        close(fd);
        pump_close(&pump);
    }
}

/* As adopt.c does for streams: one that the kernel had brought when the pause came stays until it is told. */
static void not_while_held(void) {
    quoit_worker_options options = {.events_max = 1};
    struct pump pump;
    quoit_addr here[2] = {addr_v4(0), addr_v4(0)}, there = addr_v4(0);
    quoit_handle sockets[2];
    uint64_t recvs[2];
    pump_open(&pump, &options);
    bool epoll = quoit_runtime_driver(pump.runtime) == QUOIT_DRIVER_EPOLL;
    int fd = peer_bind(&there);
    for (int i = 0; i < 2; i++) {
        sockets[i] = bind_on(&pump, &here[i], 0);
        recvs[i] = op_recvmsg(&pump, sockets[i], QUOIT_OPF_MULTI, 0);
    }
    pump_turn_nb(&pump);
    CHECK_EQ(op_must(&pump, op_detach(&pump, sockets[0]), QUOIT_E_BUSY).aux, QUOIT_FIELD_TARGET);
    for (int i = 0; i < 2; i++)
        peer_send_to(fd, &here[i], "held", 4);
    PUMP_UNTIL(&pump, op_record(&pump, recvs[0])->events || op_record(&pump, recvs[1])->events);
    int other = op_record(&pump, recvs[0])->events ? 1 : 0;
    op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_PAUSE, sockets[other]), 0);
    op_must(&pump, op_cancel(&pump, sockets[other], QUOIT_OP_RECVMSG, 0), 1);
    op_must(&pump, recvs[other], -ECANCELED);
    CHECK_EQ(op_record(&pump, recvs[other])->events, 1);
    quoit_event event = op_must(&pump, op_detach(&pump, sockets[other]), epoll ? 0 : QUOIT_E_BUSY);
    int own = (int)event.value;
    if (!epoll) {
        CHECK_EQ(event.aux, QUOIT_FIELD_TARGET);
        op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_RESUME, sockets[other]), 0);
        event = op_must(&pump, op_recvmsg(&pump, sockets[other], 0, 0), 4);
        CHECK(!memcmp(event_data(&pump, &event), "held", 4));
        peer_send_to(fd, &here[other], "next", 4);
        own = (int)op_must(&pump, op_detach(&pump, sockets[other]), 0).value;
    }
    char text[5] = "";
    CHECK_EQ(recv(own, text, 4, 0), 4);
    CHECK(!strcmp(text, epoll ? "held" : "next"));
    close(own);
    close(fd);
    pump_close(&pump);
}

/* Sends that wait for room are not left behind. */
static void not_while_sending(void) {
    struct pump pump;
    uint64_t sends[4000];
    uint32_t number, next = 0, count = 0;
    quoit_addr here = own_addr(1), there = own_addr(2);
    pump_open(&pump, NULL);
    quoit_handle socket = bind_on(&pump, &here, 0);
    int fd = peer_bind(&there);
    do {
        CHECK(count < 4000);
        sends[count] = op_sendmsg(&pump, socket, &there, &count, sizeof count, 0);
        for (int i = 0; i < 3 && !op_ended(&pump, sends[count]); i++)
            pump_turn(&pump, 1000000);
    } while (op_ended(&pump, sends[count++]));
    CHECK_EQ(op_must(&pump, op_detach(&pump, socket), QUOIT_E_BUSY).aux, QUOIT_FIELD_TARGET);
    while (!op_ended(&pump, sends[count - 1])) {
        pump_check_time(&pump, "the last send", __FILE__, __LINE__);
        pump_turn(&pump, 1000000);
        while (recv(fd, &number, sizeof number, MSG_DONTWAIT) == sizeof number)
            CHECK_EQ(number, next++);
    }
    int own = (int)op_must(&pump, op_detach(&pump, socket), 0).value;
    while (recv(fd, &number, sizeof number, MSG_DONTWAIT) == sizeof number)
        CHECK_EQ(number, next++);
    CHECK_EQ(next, count);
    close(own);
    close(fd);
    pump_close(&pump);
}

/* As a service manager passes one: descriptor 3. */
static void inherited(void) {
    struct pump pump;
    char names[8], pid[16], text[8];
    int32_t first;
    quoit_addr here = addr_v4(0), there = addr_v4(0);
    int aside = fcntl(3, F_DUPFD_CLOEXEC, 100), bound = peer_bind(&here);
    if (bound != 3) {
        CHECK_EQ(dup2(bound, 3), 3);
        close(bound);
    }
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_FDNAMES", "dns", 1);
    CHECK_EQ(quoit_inherited_fds(&first, names, sizeof names), 1);
    CHECK(first == 3 && !strcmp(names, "dns"));
    pump_open(&pump, NULL);
    quoit_handle socket = op_must(&pump, op_adopt(&pump, first, QUOIT_HANDLE_DATAGRAM), 0).value;
    int fd = peer_bind(&there);
    peer_send_to(fd, &here, "asks", 4);
    op_must(&pump, op_recvmsg(&pump, socket, 0, 0), 4);
    op_must(&pump, op_sendmsg(&pump, socket, &there, "told", 4, 0), 4);
    CHECK_EQ(peer_recv_from(&pump, fd, text, sizeof text, NULL), 4);
    op_must(&pump, op_close(&pump, socket, 0), 0);
    close(fd);
    pump_close(&pump);
    if (aside >= 0) {
        CHECK_EQ(dup3(aside, 3, O_CLOEXEC), 3);
        close(aside);
    }
}

static const struct test_case cases[] = {
    {"each_family", each_family},
    {"keeps_what_it_was_set_to", keeps_what_it_was_set_to},
    {"refused", refused},
    {"there_and_back", there_and_back},
    {"not_while_held", not_while_held},
    {"not_while_sending", not_while_sending},
    {"inherited", inherited},
};
TEST_GROUP(adopt_datagrams, cases);
