/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* quoit/runtime.h: runtimes, workers and the calls that drive them. */
#ifndef QUOIT_RUNTIME_H
#define QUOIT_RUNTIME_H

#include "base.h"
#include "event.h"
#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Drivers. AUTO takes the best that works and keeps the reason; all others are that one or an error. */
#define QUOIT_DRIVER_AUTO 0
/* Any rung of io_uring, but never epoll. */
#define QUOIT_DRIVER_URING 1
#define QUOIT_DRIVER_URING_DEFER 2
#define QUOIT_DRIVER_URING_COOP 3
#define QUOIT_DRIVER_URING_PLAIN 4
#define QUOIT_DRIVER_EPOLL 5

typedef struct quoit_runtime_options {
    uint32_t struct_size;
    /* QUOIT_RUNTIME_* */
    uint32_t flags;
    /* QUOIT_DRIVER_*. The environment's QUOIT_DRIVER (auto, uring, uring-defer, uring-coop, uring-plain, epoll) decides when this is AUTO. */
    uint32_t driver;
    /* Threads of the blocking pool (4) and how many calls may wait for one (1024). */
    uint32_t pool_threads;
    uint32_t pool_queue;
    uint32_t reserved;
    uint64_t reserved2;
} quoit_runtime_options;

/* Write each log line to standard error too. */
#define QUOIT_RUNTIME_LOG_STDERR 0x1

typedef struct quoit_worker_options {
    uint32_t struct_size;
    /* QUOIT_WORKER_* */
    uint32_t flags;
    /* Events per batch (256, at least 1) and ops per turn (4 x events_max, at least 1). At most 65536 each. */
    uint32_t events_max;
    uint32_t ops_max;
    /* Bytes of a scratch region (1 MiB), and of the arenas (1 GiB each, addresses only). */
    uint32_t scratch_len;
    uint32_t reserved;
    uint64_t recv_arena;
    uint64_t send_arena;
    /* Receive buffers that wait for data (256; a power of two up to 32768) and their size (2048, from 64 to 1 MiB). */
    uint32_t recv_buffers;
    uint32_t recv_buffer_size;
    /* Copied bytes that one stream may owe (4 MiB). */
    uint64_t send_limit;
    /* Kept or send-referenced received bytes: per stream (64 KiB) and in all (256 MiB). */
    uint64_t kept_stream_max;
    uint64_t kept_max;
    /* io_uring: submission entries (256) and completion entries (4096, at least twice the former). */
    uint32_t ring_entries;
    uint32_t cq_entries;
    /* Live objects (1048576), ops that posts may leave waiting (65536) and their payload bytes (64 MiB). */
    uint32_t objects_max;
    uint32_t mailbox_ops;
    uint64_t mailbox_bytes;
    /* How long a close that names no time waits without progress: for the peer to read, and for its FIN (5 s). */
    uint64_t close_timeout_ns;
    /* For quoit_worker_start: CPU number + 1 to pin to, 0 none. */
    uint32_t cpu;
    uint32_t reserved2;
} quoit_worker_options;

/* Inject events of unknown kinds now and then, to prove that the program ignores them. */
#define QUOIT_WORKER_GREASE 0x1

/*
 * Creates a runtime into *out. options may be null (all defaults). Any thread. The driver is chosen here, by trying. Errors: QUOIT_E_ARGUMENT,
 * _STRUCT_SIZE, _FLAGS, _DRIVER, _LIMIT (64 runtimes), -EMFILE, -ENFILE, -ENOMEM. Since 0.1.
 */
QUOIT_API quoit_status quoit_runtime_create(const quoit_runtime_options *options, quoit_runtime **out);

/*
 * Ends the runtime: stops and joins workers on threads of the library, destroys the others (which must not be running: else QUOIT_E_BUSY and nothing
 * happens), waits for offloaded calls. In the child of a fork it only closes the child's copies of file descriptors. Any thread, not from a
 * callback (QUOIT_E_REENTER). Later calls with it give QUOIT_E_CLOSED. Since 0.1.
 */
QUOIT_API quoit_status quoit_runtime_destroy(quoit_runtime *runtime);

/* The driver that was chosen (QUOIT_DRIVER_*). Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_runtime_driver(quoit_runtime *runtime);

/* Why, as a sentence, NUL-terminated into text; returns its length or -ENOSPC. Any thread. Since 0.1. */
QUOIT_API quoit_status quoit_runtime_driver_reason(quoit_runtime *runtime, char *text, uint32_t capacity);

/*
 * Creates a worker of the runtime into *out. options may be null. Any thread; the first thread that turns or runs it owns it from then on. Errors: QUOIT_E_ARGUMENT,
 * _STRUCT_SIZE, _FLAGS, _CLOSED, _LIMIT (255 workers in a process), -EMFILE, -ENOMEM. Since 0.1.
 */
QUOIT_API quoit_status quoit_worker_create(quoit_runtime *runtime, const quoit_worker_options *options,
                                           quoit_worker **out);

/*
 * Destroys a worker: what is still in flight ends without being told (quoit_stop first to be told). Owner thread, or any thread before the
 * first turn, after quoit_worker_join, or when the owner thread has ended. Errors: QUOIT_E_THREAD, _REENTER, _BUSY (its thread still runs: stop and join first). Since 0.1.
 */
QUOIT_API quoit_status quoit_worker_destroy(quoit_worker *worker);

/* The worker's batch, at a constant address until it is destroyed; null if the worker is not a live one. Any thread. Since 0.1. */
QUOIT_API quoit_batch *quoit_worker_batch(quoit_worker *worker);

/* The worker's handle, for quoit_post, quoit_stop and QUOIT_OP_POST; 0 if the worker is not a live one. Any thread. Since 0.1. */
QUOIT_API quoit_handle quoit_worker_handle(quoit_worker *worker);

/*
 * A file descriptor that is readable when a turn would have something to do, for a foreign event loop. Non-blocking, close-on-exec, the worker's own: poll
 * it for input only, never read, write or close it (a host that closes what it is given gets a dup(2)). It also wakes for timers and deadlines. Owner thread, or any before the first turn. Since 0.1.
 */
QUOIT_API quoit_status quoit_worker_fd(quoit_worker *worker);

/*
 * Takes the first nops ops of the worker's array, then submits, waits until there is an event, a deadline passes or timeout_ns is over (-1 for ever, 0 no
 * wait), and returns the number of events in the worker's array, which may be 0. Once any op is taken the return is never an error. The loans of the last
 * batch end. Owner thread. Errors, which take no op: QUOIT_E_THREAD, _REENTER, _FORKED, _CLOSED, _TOO_MANY, _ARGUMENT. Since 0.1.
 */
QUOIT_API quoit_status quoit_turn(quoit_worker *worker, uint32_t nops, int64_t timeout_ns);

/* The same, never blocks. Since 0.1. */
QUOIT_API quoit_status quoit_turn_nb(quoit_worker *worker, uint32_t nops);

/* Takes nops ops in mid-batch, also in a batch callback: no system call, no events, loans stay; the op array may then be refilled from its start. Returns nops. Errors as turn. Since 0.1. */
QUOIT_API quoit_status quoit_submit(quoit_worker *worker, uint32_t nops);

/*
 * Called once per tick that has events, with the worker's batch. It may write ops into the batch's array and set batch->nops; they enter the kernel with the call that waits
 * next. Returns 0 to go on, QUOIT_RUN_STOP to make quoit_run return 0, or a negative status that quoit_run returns. Must not unwind (throw, panic, longjmp) through the library.
 */
typedef quoit_status (*quoit_batch_fn)(void *ctx, quoit_worker *worker, quoit_batch *batch);

#define QUOIT_RUN_STOP 1

/*
 * Runs the worker on this thread: batch->nops ops first, then turns and callbacks until the callback or quoit_stop ends it. After quoit_stop it goes on until every
 * op has told its last event, then returns 0. ctx is handed through. Owner thread. Errors as turn. Since 0.1.
 */
QUOIT_API quoit_status quoit_run(quoit_worker *worker, quoit_batch_fn on_batch, void *ctx);

/* Runs the worker on a thread of the library (named, signals blocked, pinned if options.cpu says so) until stopped. Any thread, before the first turn. Errors: pthread_create(3). Since 0.1. */
QUOIT_API quoit_status quoit_worker_start(quoit_worker *worker, quoit_batch_fn on_batch, void *ctx);

/* Waits for that thread and returns what its quoit_run returned. Any thread but that one (QUOIT_E_REENTER). Since 0.1. */
QUOIT_API quoit_status quoit_worker_join(quoit_worker *worker);

/*
 * Asks a worker to stop: no new op is taken (they end with QUOIT_E_CLOSING), each op in flight ends with its last event (-ECANCELED unless it won), every object is aborted. Turns go on
 * until the batch flag DRAINED, after which turn gives QUOIT_E_CLOSED. Any thread. Errors: QUOIT_E_HANDLE, _STALE, _FORKED. Since 0.1.
 */
QUOIT_API quoit_status quoit_stop(quoit_handle worker);

/*
 * Asks a worker to end in order: it accepts what is in the backlogs, closes its listeners (LISTEN and ACCEPT end with QUOIT_E_CLOSING from then on), tells the program
 * (QUOIT_KIND_DRAIN) and goes on until every accepted stream is closed or grace_ns is over; then as quoit_stop. Asked again, the shorter grace counts, from then on. A
 * socket that another process holds too stays open there. Any thread. Errors: QUOIT_E_HANDLE, _KIND, _STALE, _FORKED. Since 0.1.
 */
QUOIT_API quoit_status quoit_drain(quoit_handle worker, uint64_t grace_ns);

/* Signals of quoit_drain_on_signals. */
#define QUOIT_SIGNAL_TERM 0x1
#define QUOIT_SIGNAL_INT 0x2
#define QUOIT_SIGNAL_HUP 0x4
#define QUOIT_SIGNAL_QUIT 0x8

/*
 * From now on the first of these signals (a mask of QUOIT_SIGNAL_*) drains every worker of the runtime with this grace, a second one without any. The
 * signals are blocked on the calling thread and read by a thread of the library (signalfd(2)): call it before other threads start, which inherit that. What the process
 * executes inherits it too. Once per runtime, until its end. Any thread. Errors: QUOIT_E_ARGUMENT, _BUSY, _CLOSED, _FORKED, -EMFILE, -ENOMEM, pthread_create(3). Since 0.1.
 */
QUOIT_API quoit_status quoit_drain_on_signals(quoit_runtime *runtime, uint32_t signals, uint64_t grace_ns);

/*
 * Copies n ops with all they point at and has them executed on that worker, where their events appear. ARENA_*, BORROW, KEEP and RELEASE end there with -EINVAL.
 * Returns how many were taken, 0 if its mailbox is full; wakes it if it sleeps. With n 0 nothing is posted, nor refused for want of room: the turn that waits, or
 * the next one, returns, with events or without. Any thread. ops is the caller's. Errors: QUOIT_E_ARGUMENT, _HANDLE, _STALE, _CLOSED, _FORKED, -ENOMEM. Since 0.1.
 */
QUOIT_API quoit_status quoit_post(quoit_handle worker, const quoit_op *ops, uint32_t n);

#ifdef __cplusplus
}
#endif

#endif
