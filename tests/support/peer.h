/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * peer.h: the other side of a connection, plain sockets. Where a call must wait it turns the given worker meanwhile;
 * without one (null) it polls the socket. All give up when the test's time is up.
 */
#ifndef TEST_PEER_H
#define TEST_PEER_H

#include "pump.h"

#include <pthread.h>
#include <sys/socket.h>

/* Connected and non-blocking. */
int peer_connect(const quoit_addr *addr);
/* A listening socket, non-blocking; its port goes into the address. */
int peer_listen(quoit_addr *addr, int backlog);
/* A UDP or Unix datagram socket bound to the address, non-blocking; its port goes into the address. */
int peer_bind(quoit_addr *addr);
void peer_send_to(int fd, const quoit_addr *to, const void *data, size_t len);
/* The next datagram, waited for: its length; who sent it goes to *from, if that is not null. */
size_t peer_recv_from(struct pump *pump, int fd, void *data, size_t room, quoit_addr *from);
/* The next connection, waited for. */
int peer_accept(struct pump *pump, int listener);

void peer_send(struct pump *pump, int fd, const void *data, size_t len);
void peer_recv(struct pump *pump, int fd, void *data, size_t len);
/* Bytes of a pattern (pattern.h). */
void peer_send_pattern(struct pump *pump, int fd, uint64_t seed, uint64_t position, size_t len);
void peer_recv_pattern(struct pump *pump, int fd, uint64_t seed, uint64_t position, size_t len);
/* Reads the pattern to the end of the stream; returns how many bytes came before it. */
size_t peer_recv_to_end(struct pump *pump, int fd, uint64_t seed);
/* The end of the stream, with nothing before it. */
void peer_expect_end(struct pump *pump, int fd);
/* The next read's errno, when it is a reset. */
void peer_expect_reset(struct pump *pump, int fd);
/* Writes until the socket takes no more; returns how much it took. */
size_t peer_fill(int fd, uint64_t seed);
/* Bytes that lie in the socket's receive queue. */
size_t peer_queued(int fd);
/* Closes so that the other side gets a reset. */
void peer_reset(int fd);
void peer_small_buffers(int fd, int bytes);

socklen_t peer_sockaddr(const quoit_addr *addr, struct sockaddr_storage *out);

/* pthread_create and pthread_join that cannot fail. */
pthread_t thread_start(void *(*function)(void *), void *arg);
void *thread_join(pthread_t thread);

#endif
