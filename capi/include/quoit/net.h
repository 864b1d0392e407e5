/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/net.h: addresses, and what listen, connect, bind, send and shutdown take. */
#ifndef QUOIT_NET_H
#define QUOIT_NET_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * 128 bytes, frozen for SONAME 1. A socket address.
 *   family    QUOIT_FAMILY_*
 *   port      host byte order; 0 for Unix sockets
 *   scope     IPv6 scope (interface index)
 *   flowinfo  IPv6 flow label, host byte order
 *   len       bytes used in `bytes`: 4, 16, or the path's length (a leading NUL names an abstract socket)
 *   bytes     address in network order, or the path
 */
typedef struct quoit_addr {
    uint16_t family;
    uint16_t port;
    uint32_t scope;
    uint32_t flowinfo;
    uint32_t len;
    uint8_t bytes[112];
} quoit_addr;

#define QUOIT_FAMILY_UNIX 1
#define QUOIT_FAMILY_V4 2
#define QUOIT_FAMILY_V6 3

/* Options of listen. */
typedef struct quoit_listen_options {
    uint32_t struct_size;
    uint32_t flags;
    /* Most streams of this listener at one time (0: no bound). While it is reached, connections wait in the backlog. */
    uint32_t streams_max;
    /*
     * With REUSEPORT, and for each worker of the runtime that listens at this address alike: a worker that has more than so many percent more
     * streams of its listener than the one with the fewest hands new ones over to that one (0: never). There it is an accept like any other.
     */
    uint32_t skew_percent;
    uint64_t reserved;
} quoit_listen_options;

/* Several sockets share the port (SO_REUSEPORT): one listener per worker. */
#define QUOIT_LISTEN_REUSEPORT 0x1
/* IPv6 only (IPV6_V6ONLY); else an IPv6 listener on :: takes IPv4 too. */
#define QUOIT_LISTEN_V6ONLY 0x2
/* Leave Nagle's algorithm on for accepted streams; by default TCP_NODELAY is set. */
#define QUOIT_LISTEN_DELAY 0x4
/* Remove an old Unix socket file at this path first. */
#define QUOIT_LISTEN_UNLINK 0x8
/* Bind also to an address that no interface has yet (IP_FREEBIND). */
#define QUOIT_LISTEN_FREEBIND 0x10
/* Accept a connection when its first bytes are there, or after about a second (TCP_DEFER_ACCEPT); QUOIT_SOCKET_DEFER_ACCEPT sets another time. */
#define QUOIT_LISTEN_DEFER_ACCEPT 0x20
/* Unix only: connections of messages (SOCK_SEQPACKET). What it accepts are datagram sockets: recvmsg, sendmsg. */
#define QUOIT_LISTEN_SEQPACKET 0x40

/* Mask in a connect's arg: leave Nagle's algorithm on. */
#define QUOIT_CONNECT_DELAY 0x1
/* Unix only: a connection of messages (SOCK_SEQPACKET), a datagram socket: recvmsg, sendmsg. */
#define QUOIT_CONNECT_SEQPACKET 0x2

/* Options of bind. A peer whose family is 0 is none; with one the socket is connected: it takes what that peer sends and no other's. */
typedef struct quoit_bind_options {
    uint32_t struct_size;
    uint32_t flags;
    uint64_t reserved;
    quoit_addr peer;
} quoit_bind_options;

/* Several sockets share the port (SO_REUSEPORT): one per worker, or many that join one group. */
#define QUOIT_BIND_REUSEPORT 0x1
/* IPv6 only (IPV6_V6ONLY); else an IPv6 socket on :: takes IPv4 too, its peers' addresses mapped (::ffff:a.b.c.d). */
#define QUOIT_BIND_V6ONLY 0x2
/* May send to broadcast addresses (SO_BROADCAST). */
#define QUOIT_BIND_BROADCAST 0x4
/* Remove an old Unix socket file at this path first. */
#define QUOIT_BIND_UNLINK 0x8
/* Each recvmsg tells where its datagram was sent to: a second quoit_addr behind the peer's. */
#define QUOIT_BIND_PKTINFO 0x10
/* The kernel may join datagrams of one peer (UDP_GRO): aux of a recvmsg is then the size of each but the last. */
#define QUOIT_BIND_GRO 0x20

/*
 * Where a datagram leaves from, for a sendmsg's offset.
 *   source   its address (port 0), and in `scope` the interface to leave by, 0 any; family 0: the address is the
 *            kernel's choice, only the interface is given
 */
typedef struct quoit_packet_info {
    uint32_t struct_size;
    uint32_t flags;
    uint64_t reserved;
    quoit_addr source;
} quoit_packet_info;

/* A send's arg: more follows soon, the kernel may wait for it (MSG_MORE). */
#define QUOIT_SEND_CORK 0x1

/* A shutdown's arg. */
#define QUOIT_SHUTDOWN_RECV 1
#define QUOIT_SHUTDOWN_SEND 2
#define QUOIT_SHUTDOWN_BOTH 3

/*
 * Reads "127.0.0.1:80", "[::1]:80", "[fe80::1%2]:80" or "unix:/path" ("unix:@name" is abstract) of text_len bytes into *out.
 * Any thread; text and out are the caller's and not kept. QUOIT_E_ARGUMENT if it is none of these. Since 0.1.
 */
QUOIT_API quoit_status quoit_addr_parse(const char *text, uint32_t text_len, quoit_addr *out);

/* Writes the same form, NUL-terminated, into text; returns its length without the NUL, or -ENOSPC. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_addr_text(const quoit_addr *addr, char *text, uint32_t capacity);

/* The peer's and the local address of a stream or datagram socket, or the local one of a listener, into *out. Owner thread. Errors: as ops, getpeername(2). Since 0.1. */
QUOIT_API quoit_status quoit_peer_addr(quoit_worker *worker, quoit_handle handle, quoit_addr *out);
QUOIT_API quoit_status quoit_local_addr(quoit_worker *worker, quoit_handle handle, quoit_addr *out);

#ifdef __cplusplus
}
#endif

#endif
