/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/event.h: events, what a program is told, and the batch that carries a tick's ops and events. */
#ifndef QUOIT_EVENT_H
#define QUOIT_EVENT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * 64 bytes, frozen for SONAME 1. Readable until the worker's next turn.
 *   kind        the opcode it answers, or QUOIT_KIND_*. Ignore kinds you do not know.
 *   flags       QUOIT_EVF_*
 *   source      the op's target as given, 0 if it had none
 *   user_data   the op's
 *   result      >= 0 success, else a quoit_status
 *   offset,len  received bytes, in the receive arena: recv_base + offset
 *   aux         by kind; for a refused op QUOIT_FIELD_*
 *   buffer      handle of the buffer that holds the bytes (0 none)
 *   value       by kind: a new object, a total, bytes done before an error
 */
typedef struct quoit_event {
    uint32_t kind;
    uint32_t flags;
    uint64_t source;
    uint64_t user_data;
    int64_t result;
    uint64_t offset;
    uint32_t len;
    uint32_t aux;
    uint64_t buffer;
    uint64_t value;
} quoit_event;

/* More events of this op follow. */
#define QUOIT_EVF_MORE 0x1
/* The stream or file ended; on a recv's last event. */
#define QUOIT_EVF_EOF 0x2
/* The bytes are lent: they stay until the next turn has read its ops. */
#define QUOIT_EVF_LENT 0x4
/* The bytes are the program's until it releases the buffer. */
#define QUOIT_EVF_KEPT 0x8
/* KEEP was asked but kept memory is at its cap: the bytes stay only until the next turn; copy them. */
#define QUOIT_EVF_COPIED 0x10
/* The datagram was longer than what was asked for: result is its length, len what is here. */
#define QUOIT_EVF_TRUNC 0x20
/* The socket had more bytes queued when this was received (a hint). */
#define QUOIT_EVF_NONEMPTY 0x40
/* channel recv: the event brings a message, whose words are in result, value and aux. */
#define QUOIT_EVF_MESSAGE 0x10000
/* recvmsg, recv fd: the credentials there are of who sent this message (QUOIT_SOCKET_CREDENTIALS). */
#define QUOIT_EVF_CREDENTIALS 0x20000

/* Kinds that answer no op. */
/* The op's opcode was 0x8000 or above; aux is that opcode. */
#define QUOIT_KIND_BAD_OP 0x8000
/* A message sent by QUOIT_OP_POST: result word 2, value word 1, aux the u32, user_data as the sender chose. */
#define QUOIT_KIND_MESSAGE 0x8001
/* A stream came from another worker, which was asked for QUOIT_OP_MOVE: value its handle here, source the one it had there, user_data as chosen there. */
#define QUOIT_KIND_MOVED 0x8002
/*
 * The worker drains (quoit_drain). At first with MORE: no connection is accepted any more but those in the backlog; value is how many accepted streams
 * there are: finish what runs and close them. At the end without MORE: result 0 when all were closed, -ETIMEDOUT when the grace was over, -ECANCELED
 * when quoit_stop cut it short; value is how many streams are cut off.
 */
#define QUOIT_KIND_DRAIN 0x8003
/* Kinds from here to 0xFFFF are injected by the grease option and mean nothing; user_data is all ones. */
#define QUOIT_KIND_GREASE 0xFF00

/*
 * 128 bytes. One per worker, at a constant address for the worker's life, as are the two arrays it names.
 * Constant from creation: all but flags, nops, nevents, scratch_len, scratch_off, now_ns, tick, next_ns.
 *   ops, events   addresses of quoit_op[ops_max] and quoit_event[events_max], 64-byte aligned
 *   nops          read by quoit_run after the callback; set to 0 by every turn
 *   nevents       events to read now
 *   stride        bytes from one op or event to the next: 64
 *   scratch_off, scratch_len   part of the send arena that may be written until the next turn; len may be 0, and only then off is 0
 *   now_ns        CLOCK_MONOTONIC at this batch
 *   tick          turns made so far
 *   next_ns       ns from now_ns to when a turn is due for a timer or deadline, or sooner; -1 none, 0 due
 *   recv_base, recv_size, send_base, send_size   the arenas
 *   worker        the worker's handle
 */
typedef struct quoit_batch {
    uint32_t struct_size;
    uint32_t flags;
    uint64_t ops;
    uint64_t events;
    uint32_t nops;
    uint32_t ops_max;
    uint32_t nevents;
    uint32_t events_max;
    uint32_t stride;
    uint32_t scratch_len;
    uint64_t scratch_off;
    uint64_t now_ns;
    uint64_t tick;
    int64_t next_ns;
    uint64_t recv_base;
    uint64_t recv_size;
    uint64_t send_base;
    uint64_t send_size;
    uint64_t worker;
    uint64_t reserved;
} quoit_batch;

/* Flags of a batch. */
/* A signal interrupted this thread's wait: let your language's handlers run. */
#define QUOIT_BATCH_INTERRUPTED 0x1
/* More events are ready: the next turn does not wait, and the worker fd is readable. */
#define QUOIT_BATCH_LEFT 0x2
/* quoit_stop was asked and every op has told its last event. */
#define QUOIT_BATCH_DRAINED 0x4

#ifdef __cplusplus
}
#endif

#endif
