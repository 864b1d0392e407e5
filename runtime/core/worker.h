/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The worker and everything it owns. All of it is touched by the worker's thread alone, but what is marked atomic. */
#ifndef QT_WORKER_H
#define QT_WORKER_H

#include "../base/blocks.h"
#include "../base/index.h"
#include "../base/list.h"
#include "../base/slab.h"
#include "../base/wheel.h"
#include "../driver/driver.h"
#include "drain.h"
#include "mailbox.h"
#include "registry.h"
#include "runtime.h"

#include <quoit/quoit.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct qt_worker qt_worker;
typedef struct qt_object qt_object;
typedef struct qt_pending qt_pending;
typedef struct qt_hub qt_hub;
typedef struct qt_clocks qt_clocks;

/* An accepted op that has not told its last event. */
struct qt_pending {
    qt_link link;          /* in its object's list, or in worker->loose */
    qt_index_node by_data; /* in worker->named, if it can be cancelled by user_data alone */
    qt_worker *worker;
    qt_object *object; /* null for ops without one */
    qt_req *req;       /* its kernel request, if it has one of its own */
    uint64_t source;
    uint64_t user_data;
    uint32_t opcode;
    uint32_t flags;
    int32_t verdict; /* -ECANCELED or -ETIMEDOUT once asked to end */
    uint32_t arg;
    uint64_t total;  /* bytes told (recv), bytes to send (send) */
    uint64_t done;   /* bytes that left (send, write) */
    uint64_t flight; /* the newest zero-copy send with bytes of it, 0 none */
    void *state;     /* opcode's own, freed by its handler */
    qt_timer deadline;
};

/* What a handle names. Kinds with more to say begin with this. */
struct qt_object {
    uint64_t handle;
    qt_worker *worker;
    qt_link pendings;
    qt_pending *close_op;
    uint32_t reqs; /* kernel requests in flight that name this object */
    int32_t fd;
    uint8_t kind;
    uint8_t closing; /* QT_OPEN, … */
    bool adopted;    /* its descriptor was the program's */
    bool moving;     /* to another worker: takes no new ops but close and cancel */
};

enum { QT_OPEN, QT_CLOSING, QT_ABORTING, QT_CLOSE_SUBMITTED };

typedef struct qt_slot {
    qt_object *object;
    uint32_t generation;
    uint32_t next_free;
} qt_slot;

typedef struct qt_handles {
    qt_slot *slots;
    uint32_t capacity;
    uint32_t free_head; /* FIFO: the oldest freed slot is reused first */
    uint32_t free_tail;
    uint32_t live;
    uint32_t max;
} qt_handles;

/* A receive buffer (pool) or a block lent by a file read (large). */
typedef struct qt_buffer {
    uint64_t owner; /* handle of the stream or file whose bytes it holds */
    uint32_t generation;
    uint32_t next_free;
    uint32_t length; /* bytes that were received into it */
    uint16_t keeps;  /* KEEPs not released */
    uint16_t pins;   /* queued sends and paused receives that point into it */
    uint8_t where;   /* QT_BUFFER_* */
    uint8_t lent;    /* in an event that waits or is in the current batch */
    uint8_t counted; /* counts as kept memory */
    uint8_t class;   /* large: its size class */
    uint64_t offset; /* in the receive arena */
    /* A datagram, by offsets in the buffer; `length` is then where its payload ends. */
    uint32_t packet; /* 0: no datagram; else 1 + where the peer's address lies */
    uint32_t payload;
    uint32_t whole;   /* bytes that it had */
    uint32_t segment; /* of each of those that were joined */
    bool credentials; /* its sender's lie behind the peer's address */
} qt_buffer;

enum { QT_BUFFER_STASH, QT_BUFFER_DRIVER, QT_BUFFER_HELD };

#define QT_POOL_BUFFERS_MAX 65536u
#define QT_LARGE_CLASSES 9 /* 4 KiB to 1 MiB */

typedef struct qt_buffers {
    uint8_t *base;
    uint64_t arena_size;
    uint32_t size;
    uint32_t target; /* waiting in the driver or lent in this batch */
    uint32_t in_driver;
    uint32_t lent_pool;
    uint32_t created; /* pool buffers that exist: bids below this */
    uint32_t created_max;
    uint32_t stash_head;
    uint32_t stash_count;
    qt_buffer *pool;
    qt_buffer *large;
    uint32_t large_count;
    uint32_t large_capacity;
    uint32_t large_free[QT_LARGE_CLASSES];
    uint64_t large_start; /* arena offset of the large region */
    uint64_t large_next;
    uint64_t kept_bytes;
    uint64_t kept_max;
    uint32_t *lent; /* buffer indexes lent in this batch, at most events_max */
    uint32_t lent_count;
    qt_link starved; /* streams whose receive found no buffer */
    uint32_t rearm_at_once;
    bool found_none; /* some receive, since the last time starved ones were armed */
} qt_buffers;

/* Scratch regions of the send arena. */
typedef struct qt_scratch {
    uint8_t *base;
    uint64_t arena_size; /* of the regions */
    uint64_t mapped;     /* with what lies before them */
    uint32_t region_size;
    uint32_t region_count;
    uint32_t *pins;   /* sends in flight per region */
    uint32_t current; /* UINT32_MAX: none */
} qt_scratch;

/* Events that did not fit the batch. */
typedef struct qt_event_queue {
    quoit_event *items;
    uint32_t head;
    uint32_t count;
    uint32_t capacity; /* power of two */
} qt_event_queue;

#define QT_PIPES_KEPT 8

#define QT_OWNER_TO_BE UINTPTR_MAX
#define QT_OWNER_ENDED (-1)

enum { QT_THREAD_NONE, QT_THREAD_RUNS, QT_THREAD_JOINING };

struct qt_worker {
    qt_shell *shell;
    qt_runtime *runtime;
    quoit_batch *batch;
    quoit_op *ops;
    quoit_event *events;
    size_t batch_bytes;
    quoit_worker_options options;
    qt_driver *driver;
    uint64_t handle;
    uint8_t id;

    atomic_uintptr_t owner; /* qt_self of the owner; 0 none yet; QT_OWNER_TO_BE */
    atomic_int owner_tid;   /* 0 not known yet; QT_OWNER_ENDED */
    bool enabled;
    bool filling; /* events may go straight into the batch */
    bool draining;
    bool drained;
    qt_drain drain;
    bool executing_post;
    atomic_bool in_turn; /* also while quoit_run runs */
    atomic_bool stop;
    atomic_bool nudged; /* a post without ops: the turn returns */
    atomic_int sleeping;
    pthread_mutex_t life_lock; /* start against end */
    bool ended;                /* under it: somebody destroys this worker */
    atomic_int threaded;       /* QT_THREAD_*: a thread of the library runs it */
    pthread_t thread;
    quoit_batch_fn on_batch;
    void *on_batch_ctx;
    quoit_status run_result;

    qt_event_queue queue;
    qt_handles handles;
    qt_req_table requests;
    qt_slab pendings;
    qt_slab streams;
    qt_slab datagrams;
    qt_slab outgoings;
    qt_slab objects;
    qt_slab pieces;
    qt_slab send_slots;
    qt_slab flights;
    qt_slab splices_slab;
    qt_slab wait_slab;
    qt_blocks blocks;
    qt_wheel wheel;
    qt_clocks *clocks; /* null until a timer needs the boot or wall clock */
    qt_buffers buffers;
    qt_scratch scratch;
    qt_mailbox mailbox;
    qt_link loose;   /* pending ops without an object */
    qt_index named;  /* pending ops that have no object or whose object is their own, by user_data */
    qt_link dirty;   /* streams with sends to submit */
    qt_link leaving; /* streams that move when what was told of them is seen */
    uint64_t seen;   /* events of batches that the program has had */
    qt_link stalled; /* listeners that wait for a file descriptor */
    qt_link waits;   /* its sends to channels that wait, or whose letters are on the way */
    qt_link splices;
    int pipes[QT_PIPES_KEPT][2]; /* empty ones, for splices */
    uint32_t pipes_kept;
    uint32_t pipes_out;
    uint64_t harvested;     /* events there were after the last harvest */
    uint64_t channels_told; /* and after messages of channels were told */
    qt_link channels_ready; /* its channels that have something to tell */
    qt_hub *hub;
    uint64_t *adopted; /* a bit for each descriptor that was the program's */
    uint32_t adopted_words;
    uint64_t submitted; /* requests since the last enter */
    uint64_t grease;
    qt_link works;         /* jobs with the blocking pool */
    qt_link works_waiting; /* jobs that found its queue full */
    pthread_mutex_t works_lock;
    pthread_cond_t works_home;
    uint32_t works_out;     /* under the lock */
    bool ending;            /* takes no more jobs */
    bool copies;            /* its kernel has no zero-copy sends */
    bool leaked;            /* the kernel may still write to what its requests point at */
    uint64_t posts_refused; /* atomic */
    uint64_t driver_calls;  /* the driver's system calls, as last published */
    uint8_t *sink;          /* input after close goes here */
    quoit_stats stats;
};

#define QT_SINK_SIZE 65536u

static inline int64_t qt_now(const qt_worker *w) {
    return (int64_t)w->batch->now_ns;
}

/* A time that far from now, or the end of time. */
static inline int64_t qt_after(int64_t now, uint64_t ns) {
    return ns > (uint64_t)(INT64_MAX - now) ? INT64_MAX : now + (int64_t)ns;
}

/* Counters are read by other threads: each store is whole. */
#define QT_COUNT(w, field, n)                                                                                \
    __atomic_store_n(&(w)->stats.field, (w)->stats.field + (uint64_t)(n), __ATOMIC_RELAXED)

/* worker.c */
int qt_worker_create(qt_runtime *runtime, const quoit_worker_options *options, qt_worker **out);
void qt_worker_free(qt_worker *w, bool forked);

/* turn.c */
quoit_status qt_turn(qt_worker *w, uint32_t nops, int64_t timeout_ns, bool may_block);
quoit_status qt_run(qt_worker *w, quoit_batch_fn on_batch, void *ctx);
void qt_submit_ops(qt_worker *w, uint32_t nops);
void qt_wake(qt_worker *w); /* any thread */

/* dispatch.c */
void qt_execute(qt_worker *w, const quoit_op *op);
bool qt_op_known(uint32_t opcode);

/* events.c */
quoit_event *qt_event(qt_worker *w, uint32_t kind, uint64_t source, uint64_t user_data, int64_t result);
quoit_event *qt_pending_event(qt_pending *p, int64_t result); /* with MORE set: the op goes on */
void qt_refuse(qt_worker *w, const quoit_op *op, int64_t status, uint32_t field);
void qt_succeed(qt_worker *w, const quoit_op *op, uint64_t value); /* an op that ends at once */
void qt_events_move(qt_worker *w);

/* pending.c */
qt_pending *qt_pending_new(qt_worker *w, const quoit_op *op,
                           qt_object *object); /* null: refused with -ENOMEM */
quoit_event *qt_finish(qt_pending *p, int64_t result,
                       uint64_t value); /* the last event; null if QUIET; frees p */
void qt_pending_drop(qt_pending *p);    /* frees without an event */
void qt_pending_discard(qt_pending *p); /* the worker ends: frees what the op owns beside itself */
void qt_pending_end(qt_pending *p, int32_t verdict); /* ask it to end: cancel, deadline, close, stop */

/* handles.c */
uint64_t qt_handle_make(uint32_t kind, uint32_t worker, uint32_t generation, uint32_t slot);
int qt_handle_new(qt_worker *w, qt_object *object, uint32_t kind, int fd); /* 0, QUOIT_E_LIMIT or -ENOMEM */
void qt_handle_free(qt_worker *w, qt_object *object);
quoit_status qt_handle_find(qt_worker *w, uint64_t handle, uint32_t kinds, qt_object **out);
#define QT_KIND(kind) (1u << (kind))
#define QT_HANDLE_LAST QUOIT_HANDLE_CHANNEL

/* post.c: looks a worker up from any thread; leave the shell afterwards */
quoit_status qt_worker_of_handle(uint64_t handle, qt_shell **shell, qt_worker **out);

/* timers.c: one of QUOIT_CLOCK_*, now */
int64_t qt_clock(uint32_t clock);

/* cancel.c */
void qt_op_cancel(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_stop_begin(qt_worker *w);

#endif
