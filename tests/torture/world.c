/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A world: a runtime and a worker with random options, its lanes, and what must be left of them at the end: nothing. */
#include "torture.h"

#include "pattern.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t world_random(uint64_t *state) {
    return pattern_random(state);
}

static uint32_t one_of(struct world *world, const uint32_t *values, uint32_t count) {
    return values[world_random(&world->random) % count];
}

#define ONE_OF(world, ...)                                                                                   \
    one_of(world, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void open_world(struct world *world) {
    quoit_runtime_options options = {
        .struct_size = sizeof options, .driver = torture_driver, .pool_threads = 1};
    quoit_worker_options worker = {.struct_size = sizeof worker};
    worker.events_max = ONE_OF(world, 1, 2, 3, 7, 16, 64, 256, 256);
    worker.ops_max = ONE_OF(world, 16, 64, 256);
    worker.recv_buffers = ONE_OF(world, 16, 64, 256);
    worker.recv_buffer_size = ONE_OF(world, 64, 256, 2048, 2048, 16384);
    worker.send_limit = ONE_OF(world, 0, 0, 65536);
    worker.kept_stream_max = ONE_OF(world, 0, 4096);
    worker.ring_entries = ONE_OF(world, 0, 16, 64);
    if (world_random(&world->random) % 4 == 0)
        worker.flags = QUOIT_WORKER_GREASE;
    quoit_status status = quoit_runtime_create(&options, &world->runtime);
    if (status >= 0)
        status = quoit_worker_create(world->runtime, &worker, &world->worker);
    if (status < 0)
        torture_fail(NULL, "runtime: %s", quoit_status_name(status));
    if (torture_driver > QUOIT_DRIVER_URING &&
        quoit_runtime_driver(world->runtime) != (int32_t)torture_driver)
        torture_fail(NULL, "another driver ran than the one that was asked");
    world->batch = quoit_worker_batch(world->worker);
    world->nlanes = ONE_OF(world, 8, 24, LANES_MAX);
    for (uint32_t i = 0; i < world->nlanes; i++) {
        struct lane *lane = &world->lanes[i];
        *lane = (struct lane){.world = world, .index = i, .peer_listener = -1, .phase = DONE};
        lane->random = world_random(&world->random);
        lane->since_ns = torture_now();
        lane->datagrams = ONE_OF(world, 0, 0, 1);
        lane->datagrams ? datagram_bind(lane) : establish_begin(lane);
    }
}

static void take_events(struct world *world, quoit_status nevents) {
    const quoit_event *events = (const quoit_event *)(uintptr_t)world->batch->events;
    if (nevents < 0)
        torture_fail(NULL, "turn: %s", quoit_status_name(nevents));
    for (int32_t i = 0; i < nevents; i++) {
        if (events[i].kind >= QUOIT_KIND_GREASE)
            continue;
        uint64_t index = events[i].user_data >> 32;
        if (index >= world->nlanes)
            torture_fail(NULL, "an event of kind %u for no op: user_data %llx", events[i].kind,
                         (unsigned long long)events[i].user_data);
        world->moved = true;
        lane_event(&world->lanes[index], &events[i]);
    }
}

static void turn(struct world *world) {
    uint32_t nops = world->nops;
    int64_t wait = world->moved || nops != 0 ? 0 : 1000000;
    world->nops = 0;
    world->moved = false;
    world->scratch_used = 0;
    quoit_status nevents = quoit_turn(world->worker, nops, wait);
    world->now_ns = torture_now();
    take_events(world, nevents);
}

static bool all_done(const struct world *world) {
    for (uint32_t i = 0; i < world->nlanes; i++)
        if (world->lanes[i].phase != DONE)
            return false;
    return true;
}

/* The worker is stopped amid everything: each op still tells its end, and no lane gives another. */
static void stop_world(struct world *world) {
    world->stopped = true;
    if (quoit_stop(world->batch->worker) < 0)
        torture_fail(NULL, "stop failed");
    uint64_t since = torture_now();
    do {
        turn(world);
        if (torture_now() - since > STALL_SECONDS * 1000000000ull)
            torture_fail(NULL, "the worker does not drain");
    } while (!(world->batch->flags & QUOIT_BATCH_DRAINED));
    for (uint32_t i = 0; i < world->nlanes; i++) {
        struct lane *lane = &world->lanes[i];
        if (lane->datagrams) {
            datagram_finish(lane);
        } else if (lane->connected) {
            lane->conn.torn = lane->conn.closed = true;
            stream_finish(lane);
        }
        establish_end(lane);
        if (!lane_quiet(lane))
            torture_fail(lane, "the worker is drained, but an op has not ended");
    }
}

/* The lanes' last closes end. */
static void wait_for_closes(struct world *world) {
    uint64_t since = torture_now();
    for (uint32_t i = 0; i < world->nlanes;) {
        if (lane_quiet(&world->lanes[i])) {
            i++;
            continue;
        }
        turn(world);
        if (torture_now() - since > STALL_SECONDS * 1000000000ull)
            torture_fail(&world->lanes[i], "a close at the end of the world has not ended");
    }
    turn(world); /* the last loans end */
}

static void check_counters(struct world *world) {
    struct totals *totals = world->totals;
    quoit_stats stats = {.struct_size = sizeof stats};
    if (quoit_stats_read(world->batch->worker, &stats) < 0)
        torture_fail(NULL, "stats failed");
    totals->objects_left += stats.objects_live;
    totals->ops_left += stats.ops_live;
    if (world->stopped)
        return; /* what was lent in the last batch, or kept, stays so */
    totals->buffers_left += stats.buffers_total - stats.buffers_free + stats.leaked;
    totals->buffers_left += stats.buffers_kept != 0 || stats.send_bytes_queued != 0;
}

void world_run(struct world *world) {
    uint32_t fds = plain_fds();
    open_world(world);
    bool stop = world_random(&world->random) % 3 == 0;
    while (!all_done(world)) {
        world->now_ns = torture_now();
        for (uint32_t i = 0; i < world->nlanes; i++)
            lane_step(&world->lanes[i]);
        turn(world);
        if (world->done >= world->goal) {
            world->ending = true;
            if (stop)
                break;
        }
    }
    if (!stop) {
        wait_for_closes(world);
        check_counters(world);
        stop_world(world);
    } else {
        stop_world(world);
        check_counters(world);
    }
    if (quoit_worker_destroy(world->worker) < 0 || quoit_runtime_destroy(world->runtime) < 0)
        torture_fail(NULL, "destroy failed");
    world->totals->fds_left += plain_fds() - fds;
    world->totals->worlds++;
}
