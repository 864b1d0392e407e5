/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "sequenced.h"

#include "check.h"
#include "peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

quoit_addr sequenced_addr(int number) {
    char name[64];
    snprintf(name, sizeof name, "@quoit-sequenced-%d-%d", (int)getpid(), number);
    return addr_unix(name);
}

static int new_socket(void) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    return fd;
}

int sequenced_connect(const quoit_addr *addr) {
    struct sockaddr_storage name;
    socklen_t len = peer_sockaddr(addr, &name);
    int fd = new_socket();
    CHECK_EQ(connect(fd, (struct sockaddr *)&name, len), 0);
    return fd;
}

quoit_handle sequenced_listen(struct pump *pump, const quoit_addr *addr) {
    quoit_listen_options options = {.struct_size = sizeof options, .flags = QUOIT_LISTEN_SEQPACKET};
    quoit_op *op = op_new(pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    op->arg2 = (uintptr_t)&options;
    quoit_handle listener = op_must(pump, op->user_data, 0).value;
    CHECK_EQ(quoit_handle_kind(listener), QUOIT_HANDLE_LISTENER);
    return listener;
}

uint64_t sequenced_op_connect(struct pump *pump, const quoit_addr *addr) {
    quoit_op *op = op_new(pump, QUOIT_OP_CONNECT, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    op->arg = QUOIT_CONNECT_SEQPACKET;
    return op->user_data;
}

static struct link accepted(struct pump *pump) {
    quoit_addr addr = sequenced_addr(100);
    quoit_handle listener = sequenced_listen(pump, &addr);
    struct link link = {.fd = sequenced_connect(&addr)};
    link.stream = op_must(pump, op_accept(pump, listener, 0), 0).value;
    op_must(pump, op_close(pump, listener, 0), 0);
    return link;
}

static struct link connected(struct pump *pump) {
    quoit_addr addr = sequenced_addr(101);
    struct sockaddr_storage name;
    socklen_t len = peer_sockaddr(&addr, &name);
    int listening = new_socket();
    CHECK_EQ(bind(listening, (struct sockaddr *)&name, len), 0);
    CHECK_EQ(listen(listening, 4), 0);
    struct link link = {.stream = op_must(pump, sequenced_op_connect(pump, &addr), 0).value};
    link.fd = peer_accept(pump, listening);
    CHECK_EQ(fcntl(link.fd, F_SETFL, O_NONBLOCK), 0);
    close(listening);
    return link;
}

static struct link adopted(struct pump *pump) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    quoit_op *op = op_new(pump, QUOIT_OP_ADOPT, 0);
    op->offset = ends[0];
    return (struct link){.stream = op_must(pump, op->user_data, 0).value, .fd = ends[1]};
}

struct link sequenced_open(struct pump *pump, int how) {
    struct link link = how % 3 == 0 ? accepted(pump) : how % 3 == 1 ? connected(pump) : adopted(pump);
    CHECK_EQ(quoit_handle_kind(link.stream), QUOIT_HANDLE_DATAGRAM);
    return link;
}

void sequenced_close(struct pump *pump, struct link *link) {
    close(link->fd);
    op_must(pump, op_close(pump, link->stream, QUOIT_OPF_ABORT), 0);
}
