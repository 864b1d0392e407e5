/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ops.h: the ops that most tests need, in one call each. Those that return an id only put the op in the array. */
#ifndef TEST_OPS_H
#define TEST_OPS_H

#include "pump.h"

quoit_addr addr_v4(uint16_t port);
quoit_addr addr_v6(uint16_t port);
/* "/path", or "@name" for the abstract space. */
quoit_addr addr_unix(const char *path);

/* Listens and returns the handle; the port that was bound goes into the address. */
quoit_handle listen_on(struct pump *pump, quoit_addr *addr);

/* Binds a datagram socket, options of these flags, and returns the handle; the port goes into the address. */
quoit_handle bind_on(struct pump *pump, quoit_addr *addr, uint32_t flags);
uint64_t op_recvmsg(struct pump *pump, quoit_handle datagram, uint32_t flags, uint32_t cap);
/* To the peer, or null for the one it is connected to. */
uint64_t op_sendmsg(struct pump *pump, quoit_handle datagram, const quoit_addr *to, const void *data,
                    size_t len, uint32_t flags);

uint64_t op_accept(struct pump *pump, quoit_handle listener, uint32_t flags);
uint64_t op_recv(struct pump *pump, quoit_handle stream, uint32_t flags, uint32_t cap);
uint64_t op_send(struct pump *pump, quoit_handle stream, const void *data, size_t len, uint32_t flags);
uint64_t op_close(struct pump *pump, quoit_handle handle, uint32_t flags);
uint64_t op_cancel(struct pump *pump, quoit_handle target, uint32_t opcode, uint64_t user_data);
uint64_t op_timer(struct pump *pump, uint64_t after_ns, uint64_t period_ns, uint32_t flags);
uint64_t op_shutdown(struct pump *pump, quoit_handle stream, uint32_t how);
uint64_t op_simple(struct pump *pump, uint32_t opcode, quoit_handle target);
uint64_t op_release(struct pump *pump, quoit_handle buffer);
/* Sends back an event's bytes from where they lie. */
void op_echo(struct pump *pump, const quoit_event *event);

/* A stream of the worker and the peer's socket that it is connected to (non-blocking). */
struct link {
    quoit_handle stream;
    int fd;
};

/* Over a listener of the pump's own (IPv4), which is opened at first use. */
struct link link_open(struct pump *pump);
/* The same, the stream receiving with MULTI; *recv gets the op. */
struct link link_open_recv(struct pump *pump, uint64_t *recv);
/* Closes the peer's socket and the stream (ABORT). */
void link_close(struct pump *pump, struct link *link);

/* Echoes on every stream of a listener (AUTO_RECV), closes them at their end. Sets on_event. */
quoit_handle serve_echo(struct pump *pump, quoit_addr *addr);
void on_event_echo(struct pump *pump, const quoit_event *event);

quoit_stats stats_of(struct pump *pump);

#endif
