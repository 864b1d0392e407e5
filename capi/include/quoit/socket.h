/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/socket.h: options of sockets, and descriptors that this process was started with. */
#ifndef QUOIT_SOCKET_H
#define QUOIT_SOCKET_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Options of a socket, for QUOIT_OP_SOCKET_SET (arg) and quoit_socket_get; our own numbers. Values are integers: switches 0 or 1, times
 * in ns (rounded up to what the kernel counts in), sizes in bytes. Streams that a listener accepts begin with its options, but LINGER.
 */
/* Small sends leave at once (TCP_NODELAY); on unless listen or connect said otherwise. */
#define QUOIT_SOCKET_NODELAY 1
/* Ask a silent peer whether it is there (SO_KEEPALIVE); after how long a silence, how often (times), how many unanswered ones end it. */
#define QUOIT_SOCKET_KEEPALIVE 2
#define QUOIT_SOCKET_KEEPALIVE_IDLE 3
#define QUOIT_SOCKET_KEEPALIVE_INTERVAL 4
#define QUOIT_SOCKET_KEEPALIVE_COUNT 5
/* Streams only. 0: a close with ABORT resets the connection (RST); -1, the default: it ends it. No other value: a close has its own patience. */
#define QUOIT_SOCKET_LINGER 6
/* Listeners only. Accept a connection when its first bytes are there, or after this time (TCP_DEFER_ACCEPT); 0 off. */
#define QUOIT_SOCKET_DEFER_ACCEPT 7
/* The kernel's buffers (SO_SNDBUF, SO_RCVBUF); it may take more than is set or cut it to its bound, and get tells what it took. */
#define QUOIT_SOCKET_SEND_BUFFER 8
#define QUOIT_SOCKET_RECV_BUFFER 9
/* Type of service or traffic class of what is sent, 0 to 255 (IP_TOS, IPV6_TCLASS). */
#define QUOIT_SOCKET_TOS 10
/* The CPU that should serve, or on a stream did receive (SO_INCOMING_CPU); -1 none. */
#define QUOIT_SOCKET_INCOMING_CPU 11
/* Time that a receive may spin at the device (SO_BUSY_POLL). More than the system's default needs a privilege: -EPERM. */
#define QUOIT_SOCKET_BUSY_POLL 12
/* How long sent bytes may stay unacknowledged before the connection ends (TCP_USER_TIMEOUT); 0 the system's default. */
#define QUOIT_SOCKET_USER_TIMEOUT 13
/* Queueing priority, 0 to 6 without privilege (SO_PRIORITY), and the mark for routing and filters, with privilege (SO_MARK). */
#define QUOIT_SOCKET_PRIORITY 14
#define QUOIT_SOCKET_MARK 15
/* To be read only; listen's flags set them: QUOIT_LISTEN_FREEBIND, _V6ONLY, _REUSEPORT. */
#define QUOIT_SOCKET_FREEBIND 16
#define QUOIT_SOCKET_V6ONLY 17
#define QUOIT_SOCKET_REUSEPORT 18
/*
 * Unix only (else -EOPNOTSUPP): each message comes with pid, uid and gid of who sent it (SO_PASSCRED): recvmsg, recv fd, which then say
 * QUOIT_EVF_CREDENTIALS. A socket of this process that has no name gets one when it sends (autobind, unix(7)).
 */
#define QUOIT_SOCKET_CREDENTIALS 19

/* The option's value now, of a stream, listener or datagram socket, into *out. Owner thread. Errors: QUOIT_E_ARGUMENT (no such option, or not of this type), as ops, getsockopt(2). Since 0.1. */
QUOIT_API quoit_status quoit_socket_get(quoit_worker *worker, quoit_handle handle, uint32_t option,
                                        int64_t *out);

/*
 * Descriptors that a service manager passed to this process (LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES: sd_listen_fds(3)). Returns how many; they are
 * *first, *first + 1, …, all made close-on-exec, to be given to QUOIT_OP_ADOPT. 0: none, or they are another process's. names may be null; else it gets their
 * names with ':' between, NUL-terminated, of at most capacity bytes; "" when they have none. The variables stay: unset them if programs that are started later
 * must not see them. Any thread, while none changes the environment. Errors: QUOIT_E_ARGUMENT: first is null; -EINVAL: the variables hold no numbers; -EBADF: one
 * of them is not open; -ENOSPC: the names are longer. Since 0.1.
 */
QUOIT_API quoit_status quoit_inherited_fds(int32_t *first, char *names, uint32_t capacity);

#ifdef __cplusplus
}
#endif

#endif
