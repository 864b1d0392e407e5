/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "pump.h"

#include "cells.h"
#include "check.h"
#include "runner.h"
#include "track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_driver(quoit_runtime *runtime) {
    uint32_t want = test_settings.expect_driver;
    quoit_status ran = quoit_runtime_driver(runtime);
    char reason[512];
    CHECK(quoit_runtime_driver_reason(runtime, reason, sizeof reason) > 0);
    if (want == QUOIT_DRIVER_URING)
        CHECK(ran >= QUOIT_DRIVER_URING_DEFER && ran <= QUOIT_DRIVER_URING_PLAIN);
    else if (want == QUOIT_DRIVER_AUTO)
        CHECK_EQ(ran, quoit_probe_driver());
    else if (ran != (quoit_status)want)
        FAIL("the driver that ran is %s, it must be %s: %s", driver_text((uint32_t)ran), driver_text(want),
             reason);
    test_note_driver((uint32_t)ran);
}

quoit_runtime *runtime_open(const quoit_runtime_options *options) {
    quoit_runtime_options all = {.struct_size = sizeof all};
    quoit_runtime *runtime = NULL;
    if (options)
        all = *options;
    all.driver = test_settings.driver;
    CHECK_EQ(quoit_runtime_create(&all, &runtime), QUOIT_OK);
    CHECK(runtime != NULL);
    assert_driver(runtime);
    return runtime;
}

void pump_open_in(struct pump *pump, quoit_runtime *runtime, const quoit_worker_options *options) {
    quoit_worker_options all = {.struct_size = sizeof all};
    if (options)
        all = *options;
    all.struct_size = sizeof all;
    if (!all.events_max)
        all.events_max = test_settings.events_max;
    if (test_settings.grease)
        all.flags |= QUOIT_WORKER_GREASE;
    memset(pump, 0, sizeof *pump);
    pump->runtime = runtime;
    CHECK_EQ(quoit_worker_create(runtime, &all, &pump->worker), QUOIT_OK);
    pump->batch = quoit_worker_batch(pump->worker);
    pump->handle = quoit_worker_handle(pump->worker);
    CHECK(pump->batch != NULL);
    CHECK_EQ(pump->batch->struct_size, sizeof(quoit_batch));
    CHECK_EQ(pump->batch->worker, pump->handle);
}

void pump_open(struct pump *pump, const quoit_worker_options *options) {
    pump_open_in(pump, runtime_open(NULL), options);
    pump->owns_runtime = true;
}

static void free_pump(struct pump *pump) {
    for (uint32_t i = 0; i < pump->nstreams; i++) {
        free(pump->streams[i]->data);
        free(pump->streams[i]);
    }
    free(pump->streams);
    free(pump->slots);
    free(pump->records);
    memset(pump, 0, sizeof *pump);
}

void pump_drain(struct pump *pump) {
    CHECK_EQ(quoit_stop(pump->handle), QUOIT_OK);
    do {
        pump_check_time(pump, "the worker to be drained", __FILE__, __LINE__);
        pump_turn(pump, 200000000);
    } while (!(pump->batch->flags & QUOIT_BATCH_DRAINED));
    CHECK_EQ(quoit_turn(pump->worker, 0, 0), QUOIT_E_CLOSED);
    pump_check_ended(pump);
}

void pump_check_ended(struct pump *pump) {
    quoit_stats stats = {.struct_size = sizeof stats};
    track_ended(pump);
    CHECK_EQ(quoit_stats_read(pump->handle, &stats), QUOIT_OK);
    CHECK_EQ(stats.objects_live, 0);
    CHECK_EQ(stats.ops_live, 0);
    CHECK_EQ(stats.send_bytes_queued, 0);
    CHECK_EQ(stats.leaked, 0);
}

void pump_close(struct pump *pump) {
    pump_drain(pump);
    pump_abandon(pump);
}

void pump_abandon(struct pump *pump) {
    cells_write(pump);
    CHECK_EQ(quoit_worker_destroy(pump->worker), QUOIT_OK);
    if (pump->owns_runtime)
        CHECK_EQ(quoit_runtime_destroy(pump->runtime), QUOIT_OK);
    free_pump(pump);
}

uint32_t pump_give(struct pump *pump) {
    uint32_t nops = pump->nops;
    pump->gives++;
    const quoit_op *ops = (const quoit_op *)(uintptr_t)pump->batch->ops;
    for (uint32_t i = 0; i < nops; i++) {
        struct op_record *record = op_record(pump, ops[i].user_data);
        if (!record)
            continue; /* a test that wrote a user_data of its own */
        record->opcode = ops[i].opcode;
        record->flags = ops[i].flags;
        record->target = ops[i].target;
        record->periodic = ops[i].opcode == QUOIT_OP_TIMER && ops[i].arg2;
        record->taken = true;
        record->limited = ops[i].timeout_ns != 0;
        record->given = pump->gives;
        cells_given(pump, &ops[i]);
        struct stream *stream = stream_of(pump, ops[i].target);
        if (stream && ops[i].opcode == QUOIT_OP_RECV_RESUME)
            stream->resuming = true;
    }
    pump->nops = 0;
    return nops;
}

void pump_submit(struct pump *pump) {
    uint32_t nops = pump_give(pump);
    CHECK_EQ(quoit_submit(pump->worker, nops), nops);
}

int pump_take(struct pump *pump, int nevents) {
    uint64_t greased = pump->greased;
    track_batch(pump, nevents);
    for (int i = 0; i < nevents; i++) {
        const quoit_event *event = pump_event(pump, (uint32_t)i);
        track_event(pump, event);
        if (pump->on_event && event->kind < QUOIT_KIND_GREASE)
            pump->on_event(pump, event);
    }
    return nevents - (int)(pump->greased - greased);
}

int pump_turn(struct pump *pump, int64_t timeout_ns) {
    uint32_t nops = pump_give(pump);
    return pump_take(pump, quoit_turn(pump->worker, nops, timeout_ns));
}

int pump_turn_nb(struct pump *pump) {
    uint32_t nops = pump_give(pump);
    return pump_take(pump, quoit_turn_nb(pump->worker, nops));
}

static struct op_record *new_record(struct pump *pump) {
    if (pump->count == pump->room) {
        pump->room = pump->room ? pump->room * 2 : 256;
        pump->records = realloc(pump->records, pump->room * sizeof *pump->records);
        CHECK(pump->records != NULL);
    }
    struct op_record *record = &pump->records[pump->count++];
    memset(record, 0, sizeof *record);
    return record;
}

quoit_op *op_new(struct pump *pump, uint32_t opcode, quoit_handle target) {
    if (pump->nops == pump->batch->ops_max)
        pump_submit(pump);
    quoit_op *op = (quoit_op *)(uintptr_t)pump->batch->ops + pump->nops++;
    struct op_record *record = new_record(pump);
    record->opcode = opcode;
    memset(op, 0, sizeof *op);
    op->opcode = opcode;
    op->target = target;
    op->user_data = TRACK_ID | (pump->count - 1);
    return op;
}

uint64_t op_expect(struct pump *pump, uint32_t opcode, uint32_t flags, quoit_handle target) {
    struct op_record *record = new_record(pump);
    record->opcode = opcode;
    record->flags = flags;
    record->target = target;
    record->taken = true;
    return TRACK_ID | (pump->count - 1);
}

struct op_record *op_record(struct pump *pump, uint64_t id) {
    uint64_t index = id ^ TRACK_ID;
    return index < pump->count ? &pump->records[index] : NULL;
}

bool op_ended(struct pump *pump, uint64_t id) {
    return op_record(pump, id)->ended;
}

quoit_event op_finish(struct pump *pump, uint64_t id) {
    PUMP_UNTIL(pump, op_ended(pump, id));
    return op_record(pump, id)->last;
}

quoit_event op_must(struct pump *pump, uint64_t id, int64_t result) {
    quoit_event event = op_finish(pump, id);
    if (event.result != result)
        FAIL("op %u ended with %lld %s, not %lld; aux %u value %llu", event.kind, (long long)event.result,
             event.result < 0 ? quoit_status_name((quoit_status)event.result) : "", (long long)result,
             event.aux, (unsigned long long)event.value);
    return event;
}

struct stream *stream_of(struct pump *pump, quoit_handle handle) {
    uint32_t slot = handle & 0xFFFFFF;
    if (slot >= pump->nslots || !pump->slots[slot])
        return NULL;
    struct stream *stream = pump->streams[pump->slots[slot] - 1];
    return stream->handle == handle ? stream : NULL;
}

struct stream *stream_add(struct pump *pump, quoit_handle handle) {
    uint32_t slot = handle & 0xFFFFFF;
    struct stream *stream = calloc(1, sizeof *stream);
    CHECK(stream != NULL);
    stream->handle = handle;
    if (slot >= pump->nslots) {
        uint32_t nslots = slot + 64;
        pump->slots = realloc(pump->slots, nslots * sizeof *pump->slots);
        CHECK(pump->slots != NULL);
        memset(pump->slots + pump->nslots, 0, (nslots - pump->nslots) * sizeof *pump->slots);
        pump->nslots = nslots;
    }
    if (pump->nstreams == pump->streams_room) {
        pump->streams_room = pump->streams_room ? pump->streams_room * 2 : 64;
        pump->streams = realloc(pump->streams, pump->streams_room * sizeof(*pump->streams));
        CHECK(pump->streams != NULL);
    }
    pump->streams[pump->nstreams++] = stream;
    pump->slots[slot] = pump->nstreams;
    return stream;
}

void pump_check_time(struct pump *pump, const char *what, const char *file, int line) {
    char open[400] = "";
    size_t used = 0;
    if (test_now_ns() < test_deadline_ns())
        return;
    for (uint32_t i = 0; i < pump->count && used < sizeof open - 40; i++) {
        const struct op_record *record = &pump->records[i];
        if (record->taken && !record->ended && !(record->flags & QUOIT_OPF_QUIET))
            used += (size_t)snprintf(open + used, sizeof open - used, " %u(%llx,%u)", record->opcode,
                                     (unsigned long long)record->target, record->events);
    }
    check_fail(file, line, "time is up, waiting for: %s; open ops (target, events so far):%s", what, open);
}
