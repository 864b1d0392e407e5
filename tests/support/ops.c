/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "ops.h"

#include "check.h"
#include "peer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

quoit_addr addr_v4(uint16_t port) {
    quoit_addr addr = {.family = QUOIT_FAMILY_V4, .port = port, .len = 4, .bytes = {127, 0, 0, 1}};
    return addr;
}

quoit_addr addr_v6(uint16_t port) {
    quoit_addr addr = {.family = QUOIT_FAMILY_V6, .port = port, .len = 16};
    addr.bytes[15] = 1;
    return addr;
}

quoit_addr addr_unix(const char *path) {
    quoit_addr addr = {.family = QUOIT_FAMILY_UNIX, .len = (uint32_t)strlen(path)};
    CHECK(addr.len <= sizeof addr.bytes);
    memcpy(addr.bytes, path, addr.len);
    if (path[0] == '@')
        addr.bytes[0] = 0;
    return addr;
}

quoit_handle listen_on(struct pump *pump, quoit_addr *addr) {
    quoit_op *op = op_new(pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    quoit_event event = op_must(pump, op->user_data, 0);
    CHECK_EQ(quoit_handle_kind(event.value), QUOIT_HANDLE_LISTENER);
    if (addr->family != QUOIT_FAMILY_UNIX) {
        CHECK(event.aux > 0 && event.aux < 65536);
        addr->port = (uint16_t)event.aux;
    }
    return event.value;
}

quoit_handle bind_on(struct pump *pump, quoit_addr *addr, uint32_t flags) {
    quoit_bind_options options = {.struct_size = sizeof options, .flags = flags};
    quoit_op *op = op_new(pump, QUOIT_OP_BIND, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    op->arg2 = (uintptr_t)&options;
    quoit_event event = op_must(pump, op->user_data, 0);
    CHECK_EQ(quoit_handle_kind(event.value), QUOIT_HANDLE_DATAGRAM);
    if (addr->family != QUOIT_FAMILY_UNIX) {
        CHECK(event.aux > 0 && event.aux < 65536);
        addr->port = (uint16_t)event.aux;
    }
    return event.value;
}

uint64_t op_recvmsg(struct pump *pump, quoit_handle datagram, uint32_t flags, uint32_t cap) {
    quoit_op *op = op_new(pump, QUOIT_OP_RECVMSG, datagram);
    op->flags = flags;
    op->len = cap;
    return op->user_data;
}

uint64_t op_sendmsg(struct pump *pump, quoit_handle datagram, const quoit_addr *to, const void *data,
                    size_t len, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_SENDMSG, datagram);
    op->flags = flags;
    op->addr = (uintptr_t)data;
    op->len = (uint32_t)len;
    op->arg2 = (uintptr_t)to;
    return op->user_data;
}

uint64_t op_accept(struct pump *pump, quoit_handle listener, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_ACCEPT, listener);
    op->flags = flags;
    return op->user_data;
}

uint64_t op_recv(struct pump *pump, quoit_handle stream, uint32_t flags, uint32_t cap) {
    quoit_op *op = op_new(pump, QUOIT_OP_RECV, stream);
    op->flags = flags;
    op->len = cap;
    return op->user_data;
}

uint64_t op_send(struct pump *pump, quoit_handle stream, const void *data, size_t len, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_SEND, stream);
    op->flags = flags;
    op->addr = (uintptr_t)data;
    op->len = (uint32_t)len;
    return op->user_data;
}

uint64_t op_close(struct pump *pump, quoit_handle handle, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_CLOSE, handle);
    op->flags = flags;
    return op->user_data;
}

uint64_t op_cancel(struct pump *pump, quoit_handle target, uint32_t opcode, uint64_t user_data) {
    quoit_op *op = op_new(pump, QUOIT_OP_CANCEL, target);
    op->arg = opcode;
    op->arg2 = user_data;
    return op->user_data;
}

uint64_t op_timer(struct pump *pump, uint64_t after_ns, uint64_t period_ns, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_TIMER, 0);
    op->flags = flags;
    op->offset = (int64_t)after_ns;
    op->arg2 = period_ns;
    return op->user_data;
}

uint64_t op_shutdown(struct pump *pump, quoit_handle stream, uint32_t how) {
    quoit_op *op = op_new(pump, QUOIT_OP_SHUTDOWN, stream);
    op->arg = how;
    return op->user_data;
}

uint64_t op_simple(struct pump *pump, uint32_t opcode, quoit_handle target) {
    return op_new(pump, opcode, target)->user_data;
}

uint64_t op_release(struct pump *pump, quoit_handle buffer) {
    return op_simple(pump, QUOIT_OP_RELEASE, buffer);
}

void op_echo(struct pump *pump, const quoit_event *event) {
    quoit_op *op = op_new(pump, QUOIT_OP_SEND, event->source);
    op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET;
    op->addr = event->offset;
    op->len = event->len;
    op->arg2 = event->buffer;
}

struct link link_open(struct pump *pump) {
    static quoit_addr addr;
    if (!pump->listener) {
        addr = addr_v4(0);
        pump->listener = listen_on(pump, &addr);
    } else {
        CHECK_EQ(quoit_local_addr(pump->worker, pump->listener, &addr), QUOIT_OK);
    }
    struct link link = {.fd = peer_connect(&addr)};
    link.stream = op_must(pump, op_accept(pump, pump->listener, 0), 0).value;
    return link;
}

struct link link_open_recv(struct pump *pump, uint64_t *recv) {
    struct link link = link_open(pump);
    *recv = op_recv(pump, link.stream, QUOIT_OPF_MULTI, 0);
    return link;
}

void link_close(struct pump *pump, struct link *link) {
    close(link->fd);
    op_must(pump, op_close(pump, link->stream, QUOIT_OPF_ABORT), 0);
}

void on_event_echo(struct pump *pump, const quoit_event *event) {
    if (event->kind != QUOIT_OP_RECV)
        return;
    if (event->len)
        op_echo(pump, event);
    if (!(event->flags & QUOIT_EVF_MORE) && event->result >= 0)
        op_close(pump, event->source, QUOIT_OPF_QUIET);
    else if (!(event->flags & QUOIT_EVF_MORE) && event->result != QUOIT_E_STALE)
        op_close(pump, event->source, QUOIT_OPF_QUIET | QUOIT_OPF_ABORT);
}

quoit_handle serve_echo(struct pump *pump, quoit_addr *addr) {
    quoit_handle listener = listen_on(pump, addr);
    op_accept(pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    pump->on_event = on_event_echo;
    return listener;
}

quoit_stats stats_of(struct pump *pump) {
    quoit_stats stats = {.struct_size = sizeof stats};
    CHECK_EQ(quoit_stats_read(pump->handle, &stats), QUOIT_OK);
    return stats;
}
