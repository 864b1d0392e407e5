/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * quoit/op.h: operations, what a program asks of a worker.
 *
 * An accepted op ends in exactly one last event (one without QUOIT_EVF_MORE), unless it is QUIET and succeeds.
 * A bad op is accepted too: it ends in an event that carries its error, with `aux` naming the field.
 * Fields that an opcode does not use must be zero.
 */
#ifndef QUOIT_OP_H
#define QUOIT_OP_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * 64 bytes, frozen for SONAME 1.
 *   opcode      QUOIT_OP_*
 *   flags       QUOIT_OPF_*; the low half is common, the high half depends on the opcode
 *   target      handle the op works on; 0 where the opcode takes none
 *   user_data   comes back in each event of this op
 *   addr        pointer to payload or argument; an offset into the send arena with ARENA_SEND, into the receive
 *               arena with ARENA_RECV
 *   len         length of what addr points at: bytes, or number of quoit_iov with IOV
 *   arg, offset, arg2   by opcode
 *   timeout_ns  deadline relative to the batch's now_ns; 0 none. A late op ends with -ETIMEDOUT and loses nothing.
 */
typedef struct quoit_op {
    uint32_t opcode;
    uint32_t flags;
    uint64_t target;
    uint64_t user_data;
    uint64_t addr;
    uint32_t len;
    uint32_t arg;
    int64_t offset;
    uint64_t arg2;
    uint64_t timeout_ns;
} quoit_op;

/* Flags of every opcode (where the opcode's text allows them). */
/* Keep going: events with MORE until an error, the end, a cancel or a close. */
#define QUOIT_OPF_MULTI 0x1
/* Every buffer of a recv or recvmsg comes KEPT: it is the program's until released. */
#define QUOIT_OPF_KEEP 0x2
/* Tell only failure. Refused together with BORROW. */
#define QUOIT_OPF_QUIET 0x4
/* The payload stays the program's memory, untouched until the op's last event; else it is copied. */
#define QUOIT_OPF_BORROW 0x8
/* addr points at len quoit_iov. */
#define QUOIT_OPF_IOV 0x10
/* addr (and arg2 where it is a pointer) are offsets in the batch's scratch region. */
#define QUOIT_OPF_ARENA_SEND 0x20
/* addr is the offset of lent or kept received bytes, arg2 the buffer handle of that event. */
#define QUOIT_OPF_ARENA_RECV 0x40
/* addr points at an argument struct that begins with struct_size. */
#define QUOIT_OPF_ARGS 0x80
/* Times are absolute. */
#define QUOIT_OPF_ABS 0x100
/* Reserved: refused. */
#define QUOIT_OPF_LINK 0x200

/* Flags by opcode. */
/* accept: arm a MULTI recv on each new stream; its events carry the accept's user_data. */
#define QUOIT_OPF_AUTO_RECV 0x10000
/*
 * send: let the kernel send from the memory where the payload lies, without a copy of its own, if it can. For large payloads: with BORROW or an
 * arena flag. The op ends only when the kernel needs that memory no more, which over a network is when the peer has acknowledged
 * the bytes, also after a cancel, its deadline or a close, if some had left. A stream whose bytes the kernel
 * copies after all (loopback), or that it refuses, goes on with plain sends. An ABORT before the end resets the connection.
 */
#define QUOIT_OPF_ZEROCOPY 0x10000
/* close: tear down at once; unsent bytes are dropped. */
#define QUOIT_OPF_ABORT 0x10000
/* timer, MULTI poll: one event more, at once, that carries the handle. */
#define QUOIT_OPF_ARMED 0x10000

/*
 * Opcodes. "->" names the last event: result, then value and others. Errors that any op can end with: QUOIT_E_OPCODE,
 * _FLAGS, _FIELD, _HANDLE, _STALE, _KIND, _WORKER, _CLOSING, _LIMIT, -ECANCELED, -ETIMEDOUT, -ENOMEM.
 */

/* nop: nothing. Flags QUIET. -> 0 */
#define QUOIT_OP_NOP 0
/*
 * listen: addr -> quoit_addr (len its size), arg backlog (0: 1024), arg2 -> quoit_listen_options or 0.
 * Flags ARENA_SEND. -> 0, value listener, aux the port that was bound. Errors: socket(2), bind(2), listen(2).
 */
#define QUOIT_OP_LISTEN 1
/*
 * accept: target listener. Flags MULTI, AUTO_RECV, KEEP (for AUTO_RECV). -> 0, value stream; of a QUOIT_LISTEN_SEQPACKET listener
 * value datagram socket, a connection, and its receive is a recvmsg.
 * Running out of file descriptors pauses a MULTI accept until one is free; it does not end it.
 */
#define QUOIT_OP_ACCEPT 2
/* connect: addr -> quoit_addr, arg QUOIT_CONNECT_* mask, arg2 -> local quoit_addr or 0. -> 0, value stream, with QUOIT_CONNECT_SEQPACKET datagram socket. Errors: connect(2). */
#define QUOIT_OP_CONNECT 3
/*
 * recv: target stream, len most bytes a event may bring (0: a whole buffer). Flags MULTI, KEEP. One recv may be
 * armed per stream (else QUOIT_E_BUSY). -> bytes, value running total, offset, len, buffer. The end of the stream
 * is told by QUOIT_EVF_EOF on the last event, with result 0 or with the last bytes.
 */
#define QUOIT_OP_RECV 4
/* recv pause, resume: target stream or datagram socket. No event of its receive comes between the two. Flags QUIET. -> 0 */
#define QUOIT_OP_RECV_PAUSE 5
#define QUOIT_OP_RECV_RESUME 6
/*
 * send: target stream, addr and len payload (copied unless BORROW or an arena flag says otherwise), arg QUOIT_SEND_CORK
 * or 0; with ARENA_RECV arg2 the buffer. Flags QUIET, BORROW, IOV (then len counts quoit_iov: "sendv"), ARENA_SEND,
 * ARENA_RECV, ZEROCOPY. -> bytes, or an error with value = bytes that did leave. -ENOBUFS: send_limit reached, nothing of it was sent.
 */
#define QUOIT_OP_SEND 7
/* sendv: send with IOV, under a name of its own. */
#define QUOIT_OP_SENDV 8
/* shutdown: target stream or connection of messages (seqpacket), arg QUOIT_SHUTDOWN_*; waits for queued sends. Flags QUIET. -> 0 */
#define QUOIT_OP_SHUTDOWN 9
/*
 * close: any handle but a worker or buffer. Ends every op of the object, then the handle; its event is the handle's
 * last. A datagram socket first sends what is queued. A stream, and a connection of messages, first sends what is queued, then FIN, and discards input until
 * the peer's FIN or timeout_ns (0: the worker's close_timeout_ns without progress). Flags ABORT, QUIET. An ABORT on an object that is closing hastens that; its own event is
 * QUOIT_E_CLOSING. -> 0, value unsent bytes
 */
#define QUOIT_OP_CLOSE 10
/*
 * cancel: target an object (arg: opcode or 0 for all its ops); or target 0, then arg is the opcode and arg2 the user_data of
 * ops that have no object yet. -> number of ops asked to end, or -ENOENT. Each ends with its own event: -ECANCELED, or success if it won.
 */
#define QUOIT_OP_CANCEL 11
/*
 * timer: target 0, or a timer to re-arm. arg QUOIT_CLOCK_*, offset ns from now (with ABS: a time of that clock), arg2 period ns or 0.
 * Flags ABS, ARMED. -> expirations, value timer (gone with its last event); MORE while periodic. Re-arming ends
 * nothing: the first op stays the one that answers, the re-arm itself -> 0. BOOT counts suspend. WALL with ABS, and its period, follow the
 * clock when it is set, forwards or back; without ABS it is a span, like MONOTONIC. Errors: -EMFILE (BOOT, WALL with ABS: a worker's
 * first one opens a descriptor).
 */
#define QUOIT_OP_TIMER 12
/*
 * post: target a worker of this process. addr word 1, arg u32, offset word 2, arg2 user_data there. Flags QUIET. -> 0, or -EAGAIN
 * when its mailbox is full. There: kind QUOIT_KIND_MESSAGE, result word 2, value word 1, aux arg.
 */
#define QUOIT_OP_POST 13
/*
 * poll: offset a file descriptor (duplicated: the program's stays its own), arg QUOIT_POLL_* mask; ERR and HUP are told
 * unasked (poll(2)). Flags MULTI, and with it ARMED. -> mask. MULTI: an event with MORE in each tick that finds it ready, until a cancel, a
 * close, its deadline or an error; value is its handle, gone with the last event. What was read before the next turn
 * makes no event. Regular files are always ready. Errors: -EBADF, -EMFILE.
 */
#define QUOIT_OP_POLL 14
/* open: target directory or 0, addr path (len its bytes, no NUL needed), arg QUOIT_OPEN_*, offset mode. Flags ARENA_SEND. -> 0, value file or directory. */
#define QUOIT_OP_OPEN 15
/*
 * read: target file, len bytes at most, offset position (-1: the file's own, for pipes). addr 0 lends a buffer (len up to
 * QUOIT_READ_MAX); else addr is the program's memory, with BORROW. -> bytes, EOF at the end; lent: offset, len, buffer, value file size unknown (0).
 */
#define QUOIT_OP_READ 16
/* write: target file, payload as in send, offset position, -1 appends. Flags as send, but IOV not with ARENA_RECV. -> bytes, or an error with value = bytes done. */
#define QUOIT_OP_WRITE 17
/* fsync: target file, arg 1 for data only. -> 0 */
#define QUOIT_OP_FSYNC 18
/*
 * offload: flags ARGS (ARENA_SEND allowed), addr -> quoit_call, len its size. Runs a native function on the blocking pool.
 * -> 0, value the return value's bits. -EAGAIN: the pool's queue is full. A call that runs is not interrupted by cancel.
 */
#define QUOIT_OP_OFFLOAD 19
/* keep: target a buffer that is lent now. -> 0, buffer. Each keep needs one release. -ENOBUFS: the cap on kept memory is reached. */
#define QUOIT_OP_KEEP 20
/* release: target a kept buffer. Tells only failure. Releasing twice is QUOIT_E_STALE. */
#define QUOIT_OP_RELEASE 21

/*
 * bind: makes a datagram socket, UDP or Unix by the family. addr -> quoit_addr to be bound to (len its size; port 0: a free one), arg2 ->
 * quoit_bind_options or 0. With a peer in the options addr and len may be 0: then the kernel chooses the local address.
 * Flags ARENA_SEND. -> 0, value datagram socket, aux the port that was bound. Errors: socket(2), bind(2), connect(2).
 */
#define QUOIT_OP_BIND 22
/*
 * recvmsg: target datagram socket, len most payload bytes an event may bring (0: what a receive buffer has room for beside the
 * addresses, at least 1500; what needs more has a block of its own lent, up to QUOIT_DATAGRAM_MAX). Flags MULTI, KEEP. One may be armed per socket
 * (else QUOIT_E_BUSY); recv pause and resume hold it as they hold a recv. -> length of the datagram; offset, len: its bytes;
 * buffer; value: arena offset of the peer's quoit_addr in the same buffer (len 0 when it has no name), and 128 above it, with
 * QUOIT_BIND_PKTINFO, the quoit_addr that the datagram was sent to, `scope` the interface it came by; aux: with QUOIT_BIND_GRO the
 * size of each joined datagram, 0 when it is one. With QUOIT_EVF_TRUNC it was longer than len: result tells its whole length. Result 0 is an
 * empty datagram, never the end. A peer that refused an earlier datagram of a connected socket ends the op: -ECONNREFUSED. Only a connection of
 * messages (seqpacket) ends: by QUOIT_EVF_EOF on a last event that brings no message, or by -ECONNRESET, its peer having left without reading all;
 * either behind all that had come. Of a Unix socket with QUOIT_SOCKET_CREDENTIALS an event with QUOIT_EVF_CREDENTIALS has, 128 above value, three 32-bit words: pid,
 * uid and gid of who sent the message.
 */
#define QUOIT_OP_RECVMSG 23
/*
 * sendmsg: target datagram socket, payload as in send (also none: an empty datagram); arg: 0, or the size of segments: then each so many
 * bytes are a datagram of their own (UDP only; one after the other where kernel or device cannot split them); arg2 -> quoit_addr of
 * the peer, 0 when connected; offset -> quoit_packet_info or 0. Flags QUIET, BORROW, IOV, ARENA_SEND (arg2 and offset lie there too), ARENA_RECV: then
 * without IOV arg2 is the buffer, as in send, and a socket that is not connected answers who sent these bytes; with IOV arg2 is the peer.
 * -> bytes, or an error with value = bytes that did leave. -ENOBUFS: send_limit reached; -EMSGSIZE: too long for a datagram; -EDESTADDRREQ: no
 * peer; -ECONNREFUSED: an earlier datagram was refused, this one did not leave; -EPIPE: the peer of a connection takes no more. On a connection of
 * messages arg2 names no other peer (QUOIT_E_FIELD).
 */
#define QUOIT_OP_SENDMSG 24
/*
 * multicast: target UDP socket, addr -> quoit_addr of the group (len its size; `scope` the interface, 0 the kernel's choice; port 0), arg
 * QUOIT_MULTICAST_*. Flags QUIET, ARENA_SEND. -> 0. Errors: -EADDRINUSE: joined already, -EADDRNOTAVAIL: not joined, ip(7), ipv6(7).
 */
#define QUOIT_OP_MULTICAST 25
/*
 * socket set: target stream, listener or datagram socket, arg QUOIT_SOCKET_* (quoit/socket.h), offset the value. Takes effect at once, also on what is
 * queued. Flags QUIET. -> 0. Errors: QUOIT_E_FIELD (no such option of this type, or not its value), setsockopt(2).
 */
#define QUOIT_OP_SOCKET_SET 26
/*
 * adopt: offset a file descriptor that becomes quoit's, to be closed by it alone; arg what it is: QUOIT_HANDLE_STREAM, _LISTENER, _DATAGRAM (UDP,
 * Unix, seqpacket), _FILE (a pipe, device or regular file), or 0: found out. It is made close-on-exec and blocking, for all that share it, and a time to linger is
 * taken off. A datagram socket keeps its peer, and packet info and GRO if they are on. -> 0, value the object. On failure it stays the caller's. Errors:
 * -EBADF: not open; QUOIT_E_KIND: not what arg says; QUOIT_E_UNSUPPORTED: a directory or socket of another sort; QUOIT_E_BUSY: this worker has
 * adopted it already.
 */
#define QUOIT_OP_ADOPT 27
/*
 * detach: target stream, datagram socket, listener or file without ops in flight; the opposite of adopt, also for what accept, connect, bind, listen and
 * open made. Ends the handle and leaves the descriptor. -> 0, value the descriptor: the program's, to be closed by it, blocking and close-on-exec.
 * Errors: QUOIT_E_BUSY: an op has not told its last event, or bytes or datagrams came (while receiving was paused) that no receive has told, or
 * connections that no accept has: let it, then detach.
 */
#define QUOIT_OP_DETACH 28
/*
 * splice: target the source, a stream or file; arg2 the destination, another one of this worker. len and the upper half arg: how many bytes, 0 until the end
 * of the source. offset: position in a source file (-1: its own, for pipes), addr: in a destination file (-1: appends), both 0 for a stream. It
 * is in the order of the destination's sends, which wait for it; the source takes no recv, recv fd or splice meanwhile. What a pause held back
 * goes first. -> bytes, EOF at the source's end; or an error with value = bytes that arrived. offset: bytes that were taken from the source. A cancel,
 * the deadline, a close of the source stream or of the destination stream takes no more from it, and the op ends when what was taken has arrived. Only
 * when the destination fails, or an ABORT, stop or the close of a file cuts it, offset is more than value. Errors:
 * QUOIT_E_BUSY: the source receives; those of recv, read, send and write.
 */
#define QUOIT_OP_SPLICE 29
/*
 * send fd: target Unix stream or datagram socket, offset a file descriptor (duplicated: the program's stays its own), addr and len the bytes that it goes
 * with, at least one, copied; a message of their own where there are such. In the order of the target's sends. Flags QUIET, ARENA_SEND. -> bytes, as send; the
 * descriptor left with the first of them. Errors: -EOPNOTSUPP: not a Unix socket; -EBADF; -ENOTCONN: a datagram socket without a peer; -ETOOMANYREFS: too many of this
 * user's are on their way (unix(7)): it alone did not leave.
 */
#define QUOIT_OP_SEND_FD 30
/*
 * recv fd: target Unix stream or datagram socket, len most bytes (0: some 4000; at most 65536). Instead of a recv or recvmsg, which drop descriptors: one of
 * either may be armed (else QUOIT_E_BUSY, also while bytes that a pause held back are not told). -> bytes, offset, len, buffer as recv; of a message its whole length,
 * with TRUNC where len is less, and 0 for an empty one; aux the number of descriptors that came with them: the program's, close-on-exec; value the arena offset, in the
 * same buffer, of 32-bit words: pid, uid and gid of who made the peer's end (SO_PEERCRED; 0, -1, -1 when there is none) or, with QUOIT_EVF_CREDENTIALS, of who sent this, then the descriptors. Of more than QUOIT_FDS_MAX the
 * rest is closed: QUOIT_EVF_TRUNC. EOF as recv. Error: -EOPNOTSUPP: not a Unix socket.
 */
#define QUOIT_OP_RECV_FD 31
/*
 * move: target stream, arg2 another worker of this process, addr the user_data of its event there. A recv or recv fd that is armed tells what came
 * and ends as if cancelled, and what is queued is sent; meanwhile other ops of the stream are refused with QUOIT_E_BUSY. When all that was told of the
 * stream has been in a batch before this turn's, the stream becomes the other worker's under a new handle: there kind QUOIT_KIND_MOVED, source the old handle,
 * value the new one. -> 0, value the new handle, the old one's last event. What was received and not told (a pause held it back), and an end that was
 * not told, go along: the first recv there tells them. A pause ends, kept buffers stay. Any failure leaves the stream where it is, to be used on. A cancel,
 * the deadline and a close take it back until the other worker has taken it in a turn of its own. Errors: QUOIT_E_FIELD: arg2 is this worker;
 * -EAGAIN: the other's mailbox is full; QUOIT_E_CLOSED: it drains or was stopped; QUOIT_E_LIMIT: it has objects_max objects, or its listener
 * that the stream would count for has streams_max.
 */
#define QUOIT_OP_MOVE 32
/*
 * channel: a bounded channel whose receiver is this worker. len how many messages it holds (1 to QUOIT_CHANNEL_MAX), arg
 * QUOIT_CHANNEL_*. -> 0, value channel. A close ends the sends that wait; then the receiver has what is inside,
 * and the end. An ABORT, the close's deadline and a stop drop what is inside: the close's value is how many.
 */
#define QUOIT_OP_CHANNEL 33
/*
 * channel send: target a channel of any worker of this process. addr word 1, arg u32, offset word 2. Flags QUIET. Ends when
 * the message is in the channel; without room that takes until the receiver has made some. A send that ends in any other way
 * is not in it. Per sender first in, first out. Cancelled by target 0, arg and arg2, or by a channel of one's own. -> 0, with
 * EOF when it closed a oneshot. Errors: -EPIPE: the channel closes; QUOIT_E_BUSY: another worker is the sender (one-to-one).
 */
#define QUOIT_OP_CHANNEL_SEND 34
/*
 * channel recv: target a channel, also one that closes. Flags MULTI. One may be armed per channel (else QUOIT_E_BUSY). ->
 * word 2, value word 1, aux the u32, flag QUOIT_EVF_MESSAGE: without that flag the result is a status. EOF comes with the
 * last message, or alone. What was not told when the op ends stays in the channel.
 */
#define QUOIT_OP_CHANNEL_RECV 35

/* Most payload bytes one recvmsg may bring: more than any datagram has. */
#define QUOIT_DATAGRAM_MAX 131072

/* A multicast's arg. */
#define QUOIT_MULTICAST_JOIN 1
#define QUOIT_MULTICAST_LEAVE 2

/* Most descriptors that one recv fd tells. */
#define QUOIT_FDS_MAX 32

/* Kinds of channel. */
/* Any worker sends. */
#define QUOIT_CHANNEL_MANY_TO_ONE 0
/* One worker sends: the first to do so. */
#define QUOIT_CHANNEL_ONE_TO_ONE 1
/* One message (len 1), which closes it: the handle ends with the event that brings it. */
#define QUOIT_CHANNEL_ONESHOT 2

/* Most messages that a channel may hold. */
#define QUOIT_CHANNEL_MAX 1048576

/* Most bytes one lent file read may bring. */
#define QUOIT_READ_MAX 1048576

/* Masks of poll. */
#define QUOIT_POLL_IN 0x1
#define QUOIT_POLL_OUT 0x2
#define QUOIT_POLL_ERR 0x4
#define QUOIT_POLL_HUP 0x8
#define QUOIT_POLL_RDHUP 0x10
#define QUOIT_POLL_PRI 0x20

#ifdef __cplusplus
}
#endif

#endif
