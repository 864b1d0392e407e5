/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The one interface between core and the kernel. A driver takes requests (qt_req), carries them to the kernel in
 * qt_driver_ops.enter, and tells completions from qt_driver_ops.harvest. Nothing completes inside submit or cancel.
 *
 * Threads: all calls are the worker thread's, but create, destroy and wake (any thread).
 * A driver knows nothing of handles, ops or events; core knows nothing of rings or epoll.
 */
#ifndef QT_DRIVER_H
#define QT_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qt_req_code {
    QT_REQ_NOP,
    QT_REQ_ACCEPT,  /* fd listener; result: new fd, close-on-exec. MULTISHOT */
    QT_REQ_CONNECT, /* fd, addr sockaddr, len its size */
    QT_REQ_RECV,    /* fd, into a pool buffer; len cap, 0 for the whole buffer. MULTISHOT (then len is 0) */
    QT_REQ_RECVMSG, /* fd, addr struct msghdr: one datagram, with its whole length. MULTISHOT, POOL (see below) */
    QT_REQ_RECV_FD, /* fd, addr struct msghdr, op_flags MSG_*: into its memory; descriptors that come are close-on-exec */
    QT_REQ_DISCARD,  /* fd, addr memory, len: receive into memory (what arrives is thrown away) */
    QT_REQ_SEND,     /* fd, addr, len, op_flags MSG_* */
    QT_REQ_SENDMSG,  /* fd, addr struct msghdr, op_flags MSG_* */
    QT_REQ_SHUTDOWN, /* fd, op_flags SHUT_* */
    QT_REQ_CLOSE,    /* fd */
    QT_REQ_POLL,     /* fd, op_flags POLL* mask, one-shot; result: mask */
    QT_REQ_OPENAT,   /* fd directory or AT_FDCWD, addr path, op_flags O_*, len mode; result: fd */
    QT_REQ_READ,     /* fd, addr, len, offset (-1: the file's own) */
    QT_REQ_WRITE,    /* fd, addr, len, offset (-1: the file's own), op_flags RWF_* */
    QT_REQ_WRITEV,   /* fd, addr iovec, len their number, offset, op_flags RWF_* */
    QT_REQ_FSYNC,    /* fd, op_flags 1: data only */
    QT_REQ_SPLICE, /* fd at offset, to the descriptor op_flags at addr; UINT64_MAX, -1: pipe or socket; len */
};

/* qt_req.flags */
#define QT_REQ_MULTISHOT 0x1u /* completions with MORE until one without */
/*
 * A RECVMSG without flags fills the memory that its msghdr names. With POOL the payload goes to the start of a pool buffer, as
 * much as msg_iov[0].iov_len says, name and control to the msghdr's memory. With MULTISHOT all goes to a pool buffer: the payload at
 * QT_PACKET_HEAD + msg_namelen + msg_controllen, before it the other two. The completion's packet says what lies where.
 */
#define QT_REQ_POOL 0x2u
/*
 * SEND, SENDMSG, where the driver has it: from the caller's memory. After a completion with MORE the msghdr is the caller's again, and a last
 * one tells that the payload is: with COPIED if the kernel did not send from there after all. A refusal leaves at once and has sent nothing.
 */
#define QT_REQ_ZEROCOPY 0x4u

/* qt_req.state, the driver's; core may read it */
enum qt_req_state { QT_REQ_IDLE, QT_REQ_QUEUED, QT_REQ_IN_FLIGHT, QT_REQ_IN_POOL };

/* What a RECVMSG brought; its pointers are good until done returns. */
typedef struct qt_packet {
    const void *name;
    const void *control;
    uint32_t name_len;
    uint32_t control_len;
    uint32_t at;    /* where the payload begins, from the start of its buffer or memory */
    uint32_t len;   /* bytes of it that are there */
    uint32_t whole; /* bytes that the datagram had */
} qt_packet;

#define QT_PACKET_HEAD 16u

typedef struct qt_completion {
    int32_t res; /* >= 0, or -errno; -ENOBUFS from RECV, RECVMSG: the pool was empty, no bytes were taken */
    uint32_t flags;          /* QT_CQ_* */
    uint32_t bid;            /* the pool buffer, with QT_CQ_BUFFER */
    const qt_packet *packet; /* RECVMSG with res >= 0 */
} qt_completion;

#define QT_CQ_MORE 0x1u     /* the request goes on */
#define QT_CQ_BUFFER 0x2u   /* bid is valid and the buffer is the receiver's now, also when res <= 0 */
#define QT_CQ_NONEMPTY 0x4u /* hint: the socket had more */
#define QT_CQ_COPIED 0x8u   /* ZEROCOPY, the last: no copy was saved */

typedef struct qt_req qt_req;
typedef void (*qt_req_fn)(qt_req *req, const qt_completion *completion);

/*
 * One request in flight. Core fills the upper half, submits, and leaves it alone until the completion without MORE; then
 * the request is core's again (the driver does not touch it after calling done), to free or to submit once more.
 */
struct qt_req {
    qt_req_fn done;
    void *owner;
    uint8_t code;
    uint8_t flags;
    uint8_t state;
    uint8_t cancelled; /* cancel was called since submit */
    int32_t fd;
    uint32_t len;
    uint32_t op_flags;
    uint64_t addr;
    int64_t offset;
    /* driver's */
    uint32_t slot; /* constant: its place in the request table */
    uint32_t generation;
    qt_req *next;
    qt_req *prev;
    int64_t scratch;
};

/* Requests live in chunks with stable addresses, found by slot. Freed ones get a new generation. */
typedef struct qt_req_table {
    qt_req **chunks;
    uint32_t chunk_count;
    uint32_t live;
    qt_req *free_head;
} qt_req_table;

#define QT_REQ_CHUNK 256u

qt_req *qt_req_alloc(qt_req_table *table); /* zeroed but for slot and generation; null when memory is out */
void qt_req_free(qt_req_table *table, qt_req *req);
qt_req *qt_req_find(qt_req_table *table, uint32_t slot, uint32_t generation); /* null when stale */
void qt_req_table_destroy(qt_req_table *table);

/* The packet of a RECVMSG that was not MULTISHOT: `header` as the kernel left it, `whole` its result. (driver/request.c) */
struct msghdr;
void qt_packet_read(qt_packet *packet, const struct msghdr *header, uint32_t room, uint32_t whole);

/* What the driver asks of core. */
typedef struct qt_driver_host {
    void *ctx;
    /* Run a file request (OPENAT READ WRITE WRITEV FSYNC) with qt_req_execute on a thread of the blocking pool; core
     * later calls req->done on the worker thread. Returns 0, or -errno when the pool's queue is full. */
    int (*run_blocking)(void *ctx, qt_req *req);
    /* Try to take it back: true if it had not begun (then done comes with -ECANCELED from core). */
    bool (*cancel_blocking)(void *ctx, qt_req *req);
    /* From destroy, may be null: the kernel did not confirm in time that it let go of the requests' memory. Core must leak what they
     * point at, the receive buffers and the request table. */
    void (*leaked)(void *ctx);
} qt_driver_host;

/* Performs a file request with plain system calls on the calling thread; returns its result. (driver/blocking.c) */
int32_t qt_req_execute(const qt_req *req);

/* Rungs: QUOIT_DRIVER_URING_DEFER, _COOP, _PLAIN, QUOIT_DRIVER_EPOLL (quoit/runtime.h). */
typedef struct qt_driver_options {
    uint32_t rung;
    uint32_t ring_entries;
    uint32_t cq_entries;
    uint32_t buffer_entries; /* most buffers that are added at one time; a power of two */
    uint32_t buffer_size;
    bool patient;         /* on ENOMEM try again for a second: dead rings are freed late */
    uint8_t *buffer_base; /* buffer `bid` lies at buffer_base + bid * buffer_size */
    qt_driver_host host;
    qt_req_table *requests;
} qt_driver_options;

typedef struct qt_driver qt_driver;

typedef struct qt_driver_ops {
    const char *name;

    /* The owner thread's first call. 0 or -errno. */
    int (*enable)(qt_driver *d);

    /* Frees all. Requests in flight are given up without a completion, after the kernel has let go of their memory; a CLOSE is
     * performed all the same, and once.
     * forked: this is a child; close the fds, touch no ring. */
    void (*destroy)(qt_driver *d, bool forked);

    /* Queue for the next enter. req->state must be IDLE. Cannot fail: errors come as completions. */
    void (*submit)(qt_driver *d, qt_req *req);

    /* Ask a submitted request to end. Its own completion tells what became of it: -ECANCELED, or what it won. */
    void (*cancel)(qt_driver *d, qt_req *req);

    /* Hand everything queued to the kernel and wait for a completion: timeout_ns 0 no wait, -1 for ever. Returns 0, or
     * -EINTR when a signal interrupted the wait. One system call where that is possible. */
    int (*enter)(qt_driver *d, int64_t timeout_ns);

    /* Tell up to `budget` completions by req->done; returns how many. No system call in the ring driver. */
    uint32_t (*harvest)(qt_driver *d, uint32_t budget);

    /* True when harvest would find something, or the kernel has work that only an enter shows. No system call in the ring driver; poll(2) in
     * the epoll driver and only when it is hosted. */
    bool (*pending)(qt_driver *d);

    /* Give a pool buffer to receive into; it takes effect at once or with the next enter. */
    void (*buffer_add)(qt_driver *d, uint32_t bid);

    /* The number means another file from now on, or none of ours: what is known of it is forgotten. No request names it. */
    void (*forget)(qt_driver *d, int fd);

    /* Any thread: make an enter that waits return. */
    void (*wake)(qt_driver *d);

    /* The fd for a foreign loop; the first call turns hosting on. -errno on failure. */
    int (*host_fd)(qt_driver *d);

    /* Hosted only: around a harvest. begin silences the fd; end clears it and makes it readable again when `left` is set or
     * anything is pending; deadline_ns (CLOCK_MONOTONIC, -1 none) is when it must become readable by itself. */
    void (*host_begin)(qt_driver *d);
    void (*host_end)(qt_driver *d, bool left, int64_t deadline_ns);
} qt_driver_ops;

/* Common head of every driver; core reads the counters. */
struct qt_driver {
    const qt_driver_ops *ops;
    uint32_t rung;
    bool hosted;
    bool zerocopy;         /* takes ZEROCOPY */
    bool splices;          /* takes SPLICE */
    bool forgets_ends;     /* a multishot receive may not tell an end that came together with bytes */
    uint32_t ring_entries; /* what was got */
    uint32_t cq_entries;
    uint64_t system_calls;
    uint64_t cq_overflows;
    uint64_t wakes; /* atomic, relaxed */
};

/* Each creates its driver, or returns -errno (uring: after its ladder of sizes and a short retry on ENOMEM). Any thread: nothing
 * binds to the caller; enable does. */
int qt_uring_create(const qt_driver_options *options, qt_driver **out);
int qt_epoll_create(const qt_driver_options *options, qt_driver **out);

/*
 * Picks the rung for a runtime by trying (sets up a small ring for real and closes it). `wanted` is QUOIT_DRIVER_*.
 * Returns the rung >= 0; or QUOIT_E_DRIVER when `wanted` is forced and cannot be had; or -EMFILE/-ENFILE. `reason` gets a
 * sentence in each case.
 */
int qt_driver_choose(uint32_t wanted, char *reason, size_t reason_size);

#endif
