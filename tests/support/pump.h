/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pump.h: a worker under test. Every op made with op_new and every event is followed, and what the ABI promises
 * for all of them is checked at each turn: one last event per op, none after it, the order per object.
 */
#ifndef TEST_PUMP_H
#define TEST_PUMP_H

#include <quoit/quoit.h>
#include <stdbool.h>
#include <stddef.h>

struct op_record {
    quoit_handle target;
    uint32_t opcode, flags;
    uint32_t events;   /* seen so far */
    uint32_t periodic; /* a timer with a period may have MORE */
    bool taken;        /* by the worker; false while it is still in the array */
    bool ended;
    bool limited;     /* has a timeout_ns */
    bool asked_late;  /* a cancel or close came when it had ended */
    uint8_t asked;    /* what was asked of it while it was open: cells.c */
    uint64_t given;   /* the how-many-th array it was given in */
    quoit_event last; /* the newest */
};

/* A stream as its events show it. */
struct stream {
    quoit_handle handle;
    uint64_t accept_id;
    bool auto_recv, auto_ended;
    bool eof, paused, closed, resuming;
    int64_t end; /* result of the event that ended its receiving */
    uint64_t total, recv_id;
    uint32_t recv_events;
    uint8_t *data; /* what was received, when the pump collects */
    size_t len, room;
};

struct pump {
    quoit_runtime *runtime;
    quoit_worker *worker;
    quoit_batch *batch;
    quoit_handle handle;
    quoit_handle listener; /* used by link_open */
    bool owns_runtime;
    uint32_t nops; /* in the array, not given yet */
    struct op_record *records;
    uint32_t count, room;
    struct stream **streams;
    uint32_t nstreams, streams_room;
    uint32_t *slots; /* index + 1 of the newest stream at each slot */
    uint32_t nslots;
    uint64_t tick, now_ns;
    uint64_t greased, messages, moves, turns, gives;
    quoit_event moved; /* the newest stream that came from another worker */
    bool collect;
    /* Called for each event after it was checked. */
    void (*on_event)(struct pump *, const quoit_event *);
    void *ctx;
};

/* Opens a runtime and a worker; options may be null. Asserts the driver. */
void pump_open(struct pump *pump, const quoit_worker_options *options);
void pump_open_in(struct pump *pump, quoit_runtime *runtime, const quoit_worker_options *options);

/* A runtime by itself, its driver asserted; options may be null. */
quoit_runtime *runtime_open(const quoit_runtime_options *options);

/* Stops the worker, takes its events to the end, checks that nothing is owed or left, destroys. */
void pump_close(struct pump *pump);
/* The same but destroying: for workers that are driven or destroyed by the test itself. */
void pump_drain(struct pump *pump);
void pump_check_ended(struct pump *pump);
/* Destroys without draining; ops are not asserted to have ended. */
void pump_abandon(struct pump *pump);

/* One turn, its events checked. Returns how many there are besides grease. */
int pump_turn(struct pump *pump, int64_t timeout_ns);
int pump_turn_nb(struct pump *pump);
/* Takes the events that are in the batch: for tests that call turn or run themselves. */
int pump_take(struct pump *pump, int nevents);
/* Counts the ops in the array as taken: for tests that give them to a call themselves. Returns how many. */
uint32_t pump_give(struct pump *pump);
/* quoit_submit of what is in the array. */
void pump_submit(struct pump *pump);

/* The next op of the array, zeroed, with a user_data of its own. */
quoit_op *op_new(struct pump *pump, uint32_t opcode, quoit_handle target);
/* A record for an op that another thread or another worker's post brings. Returns its user_data. */
uint64_t op_expect(struct pump *pump, uint32_t opcode, uint32_t flags, quoit_handle target);
struct op_record *op_record(struct pump *pump, uint64_t id);
bool op_ended(struct pump *pump, uint64_t id);
/* Turns until the op ended; its last event. */
quoit_event op_finish(struct pump *pump, uint64_t id);
/* The same, and its result must be this. */
quoit_event op_must(struct pump *pump, uint64_t id, int64_t result);

struct stream *stream_of(struct pump *pump, quoit_handle handle);
struct stream *stream_add(struct pump *pump, quoit_handle handle);

static inline const void *event_data(const struct pump *pump, const quoit_event *event) {
    return (const void *)(uintptr_t)(pump->batch->recv_base + event->offset);
}

static inline const quoit_event *pump_event(const struct pump *pump, uint32_t index) {
    return (const quoit_event *)(uintptr_t)pump->batch->events + index;
}

/* Fails the test when its time is up, naming what it waits for and the ops that are open. */
void pump_check_time(struct pump *pump, const char *what, const char *file, int line);

/* Turns, sleeping in them, until the condition holds: for what the worker itself brings about. */
#define PUMP_UNTIL(pump, condition)                                                                          \
    while (!(condition)) {                                                                                   \
        pump_check_time(pump, #condition, __FILE__, __LINE__);                                               \
        pump_turn(pump, 200000000);                                                                          \
    }

/* The same for what others bring about, a peer's socket or a thread: turns of 1 ms at most. */
#define PUMP_POLL(pump, condition)                                                                           \
    while (!(condition)) {                                                                                   \
        pump_check_time(pump, #condition, __FILE__, __LINE__);                                               \
        pump_turn(pump, 1000000);                                                                            \
    }

#endif
