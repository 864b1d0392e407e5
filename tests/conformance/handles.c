/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* handles.c: handles that are stale, foreign or were never any: an error that says so, and no harm to the living. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "pattern.h"
#include "peer.h"
#include "world.h"

#include <string.h>
#include <unistd.h>

#define GENERATION (1ull << 24)
#define WORKER (1ull << 48)
#define TYPE (1ull << 56)

static void must_refuse(struct world *world, uint32_t opcode, quoit_handle handle, int64_t status,
                        const char *what) {
    quoit_op *op = world_op(world, opcode);
    op->target = handle;
    quoit_event event = op_finish(&world->pump, op->user_data);
    if (event.result != status || event.aux != QUOIT_FIELD_TARGET || event.value)
        FAIL("op %u on %s (%llx) ended with %lld %s, aux %u, not %s", opcode, what,
             (unsigned long long)handle, (long long)event.result,
             event.result < 0 ? quoit_status_name((quoit_status)event.result) : "", event.aux,
             quoit_status_name((quoit_status)status));
}

/* Ops that take a target of one type only. */
static bool is_strict(uint32_t opcode) {
    return world_target_type(opcode) && opcode != QUOIT_OP_CLOSE && opcode != QUOIT_OP_CANCEL &&
           opcode != QUOIT_OP_SOCKET_SET && opcode != QUOIT_OP_DETACH;
}

static void never_a_handle(void) {
    static const quoit_handle never[] = {
        1, 7, 255, 1ull << 63, UINT64_MAX, 100 * TYPE, 90 * TYPE, 0xFFFFFFFFull, 3 * TYPE | 1ull << 63};
    struct world world;
    world_open(&world);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
        if (!world_target_type(opcode))
            continue;
        for (size_t i = 0; i < sizeof never / sizeof *never; i++)
            must_refuse(&world, opcode, never[i], QUOIT_E_HANDLE, "no handle");
        if (opcode != QUOIT_OP_CANCEL)
            must_refuse(&world, opcode, 0, QUOIT_E_HANDLE, "0");
    }
    world_close(&world);
}

static void other_generations(void) {
    struct world world;
    world_open(&world);
    struct link gone = link_open(&world.pump);
    link_close(&world.pump, &gone);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
        quoit_handle live = world_object(&world, world_target_type(opcode));
        if (!live)
            continue;
        must_refuse(&world, opcode, live + GENERATION, QUOIT_E_STALE, "the next generation");
        must_refuse(&world, opcode, live + 1000 * GENERATION, QUOIT_E_STALE, "a later generation");
        if (world_target_type(opcode) == QUOIT_HANDLE_STREAM) {
            must_refuse(&world, opcode, gone.stream, QUOIT_E_STALE, "a closed stream");
            must_refuse(&world, opcode, gone.stream + GENERATION, QUOIT_E_STALE, "a freed slot");
            must_refuse(&world, opcode, (live & ~0xFFFFFFull) | 0xFFFFFF, QUOIT_E_STALE,
                        "a slot that never was");
        }
    }
    world_close(&world);
}

static void other_types(void) {
    struct world world;
    world_open(&world);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++)
        for (uint32_t type = QUOIT_HANDLE_WORKER; type <= QUOIT_HANDLE_CHANNEL; type++) {
            /* Those that datagram sockets have too; descriptors only Unix ones: seqpacket_ops.c. */
            bool both = opcode == QUOIT_OP_RECV_PAUSE || opcode == QUOIT_OP_RECV_RESUME ||
                        opcode == QUOIT_OP_SEND_FD || opcode == QUOIT_OP_RECV_FD;
            if (!is_strict(opcode) || type == world_target_type(opcode) || !world_object(&world, type) ||
                (both && type == QUOIT_HANDLE_DATAGRAM) ||
                (opcode == QUOIT_OP_SPLICE && type == QUOIT_HANDLE_STREAM))
                continue;
            must_refuse(&world, opcode, world_object(&world, type), QUOIT_E_KIND, "another type");
        }
    must_refuse(&world, QUOIT_OP_CLOSE, world.pump.handle, QUOIT_E_KIND, "a worker");
    must_refuse(&world, QUOIT_OP_CLOSE, 8 * TYPE | (world.pump.handle & 0xFF * WORKER) | GENERATION,
                QUOIT_E_KIND, "a buffer");
    must_refuse(&world, QUOIT_OP_OPEN, world.file, QUOIT_E_KIND, "a file");
    must_refuse(&world, QUOIT_OP_SPLICE, world.directory, QUOIT_E_KIND, "a directory");
    must_refuse(&world, QUOIT_OP_TIMER, world.link.stream, QUOIT_E_KIND, "a stream");
    must_refuse(&world, QUOIT_OP_SOCKET_SET, world.file, QUOIT_E_KIND, "a file");
    must_refuse(&world, QUOIT_OP_DETACH, world.timer, QUOIT_E_KIND, "a timer");
    /* A type written over a live handle of another does not make it one. */
    must_refuse(&world, QUOIT_OP_ACCEPT, (world.link.stream & ~(127 * TYPE)) | 2 * TYPE, QUOIT_E_STALE,
                "a forged type");
    world_close(&world);
}

static void other_workers(void) {
    struct world world, other;
    world_open(&world);
    world_open(&other);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
        uint32_t type = world_target_type(opcode);
        if (type && type != QUOIT_HANDLE_WORKER && type != QUOIT_HANDLE_BUFFER &&
            opcode != QUOIT_OP_CHANNEL_SEND) /* those three have tests of their own */
            must_refuse(&world, opcode, world_object(&other, type), QUOIT_E_WORKER, "another worker's");
    }
    must_refuse(&world, QUOIT_OP_OPEN, other.directory, QUOIT_E_WORKER, "another worker's");
    must_refuse(&world, QUOIT_OP_TIMER, other.timer, QUOIT_E_WORKER, "another worker's");
    must_refuse(&world, QUOIT_OP_RECV, world.link.stream ^ 0x55 * WORKER, QUOIT_E_WORKER,
                "a worker's that is not");
    world_close(&other);
    world_close(&world);
}

static void slots_are_small_and_unique(void) {
    struct pump pump;
    quoit_handle handles[200];
    uint32_t count = 0;
    pump_open(&pump, NULL);
    for (int i = 0; i < 100; i++) {
        quoit_addr addr = addr_v4(0);
        uint64_t timer = op_timer(&pump, 3600000000000ull, 0, QUOIT_OPF_ARMED);
        handles[count++] = listen_on(&pump, &addr);
        PUMP_UNTIL(&pump, op_record(&pump, timer)->events);
        handles[count++] = op_record(&pump, timer)->last.value;
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK((handles[i] & 0xFFFFFF) < 1024);
        for (uint32_t k = 0; k < i; k++)
            CHECK((handles[i] & 0xFFFFFF) != (handles[k] & 0xFFFFFF));
    }
    pump_close(&pump);
}

/* A slot is used again only after all that were free before it: an old handle stays wrong for long. */
static void slots_come_back_late(void) {
    struct pump pump;
    static quoit_handle seen[3000];
    pump_open(&pump, NULL);
    for (int i = 0; i < 3000; i++) {
        uint64_t timer = op_timer(&pump, 3600000000000ull, 0, QUOIT_OPF_ARMED);
        PUMP_UNTIL(&pump, op_record(&pump, timer)->events);
        seen[i] = op_record(&pump, timer)->last.value;
        if (i)
            CHECK((seen[i] & 0xFFFFFF) != (seen[i - 1] & 0xFFFFFF));
        for (int k = i > 500 ? i - 500 : 0; k < i; k++)
            CHECK(seen[k] != seen[i]);
        op_must(&pump, op_close(&pump, seen[i], 0), 0);
    }
    pump_close(&pump);
}

/* Bits flipped at random in live handles, on every op with a target: refused, or it was another live one. */
static void flipped_bits(void) {
    struct world world;
    uint64_t random = 11;
    world_open(&world);
    int tries = test_is_slow() ? 5000 : 40000;
    for (int i = 0; i < tries; i++) {
        uint32_t type = QUOIT_HANDLE_LISTENER + (uint32_t)(pattern_random(&random) % 5);
        quoit_handle live = world_object(&world, type), wrong = live;
        for (uint64_t flips = 1 + pattern_random(&random) % 3; flips; flips--)
            wrong ^= 1ull << (pattern_random(&random) % 64);
        bool alive = false;
        for (uint32_t other = QUOIT_HANDLE_WORKER; other <= QUOIT_HANDLE_CHANNEL; other++)
            alive |= wrong == world_object(&world, other);
        uint32_t opcode = (uint32_t)(pattern_random(&random) % OPCODES);
        if (alive || !world_target_type(opcode))
            continue;
        quoit_op *op = world_op(&world, opcode);
        op->target = wrong;
        if (op->flags & QUOIT_OPF_QUIET)
            op->flags &= ~(uint32_t)QUOIT_OPF_QUIET;
        uint64_t id = op->user_data;
        quoit_addr addr;
        CHECK(quoit_peer_addr(world.pump.worker, wrong, &addr) < 0);
        quoit_event event = op_finish(&world.pump, id);
        if (event.result != QUOIT_E_HANDLE && event.result != QUOIT_E_STALE && event.result != QUOIT_E_KIND &&
            event.result != QUOIT_E_WORKER)
            FAIL("op %u on %llx (from %llx) ended with %lld", opcode, (unsigned long long)wrong,
                 (unsigned long long)live, (long long)event.result);
    }
    /* All of them live on. */
    char byte = 'q';
    op_must(&world.pump, op_send(&world.pump, world.link.stream, &byte, 1, 0), 1);
    peer_recv(&world.pump, world.link.fd, &byte, 1);
    peer_send(&world.pump, world.link.fd, &byte, 1);
    op_must(&world.pump, op_recv(&world.pump, world.link.stream, 0, 0), 1);
    op_must(&world.pump, op_close(&world.pump, world.timer, 0), 0);
    op_must(&world.pump, op_close(&world.pump, world.file, 0), 0);
    op_must(&world.pump, op_close(&world.pump, world.directory, 0), 0);
    world_close(&world);
}

static void buffers_of_all_sorts(void) {
    struct world world, other;
    world_open(&world);
    world_open(&other);
    peer_send(&world.pump, world.link.fd, "abc", 3);
    quoit_event event = op_must(&world.pump, op_recv(&world.pump, world.link.stream, QUOIT_OPF_KEEP, 0), 3);
    for (uint32_t opcode = QUOIT_OP_KEEP; opcode <= QUOIT_OP_RELEASE; opcode++) {
        must_refuse(&world, opcode, event.buffer + GENERATION, QUOIT_E_STALE, "the next generation");
        must_refuse(&world, opcode, event.buffer ^ 0xFFFF, QUOIT_E_STALE, "another slot");
        must_refuse(&world, opcode, event.buffer | 0xFFFFFF, QUOIT_E_STALE, "a slot that never was");
        must_refuse(&world, opcode, world.link.stream, QUOIT_E_KIND, "a stream");
        must_refuse(&other, opcode, event.buffer, QUOIT_E_WORKER, "another worker's");
    }
    CHECK(!memcmp(event_data(&world.pump, &event), "abc", 3));
    op_release(&world.pump, event.buffer);
    world_close(&other);
    world_close(&world);
}

static const struct test_case cases[] = {
    {"never_a_handle", never_a_handle},
    {"other_generations", other_generations},
    {"other_types", other_types},
    {"other_workers", other_workers},
    {"slots_are_small_and_unique", slots_are_small_and_unique},
    {"slots_come_back_late", slots_come_back_late},
    {"flipped_bits", flipped_bits},
    {"buffers_of_all_sorts", buffers_of_all_sorts},
};
TEST_GROUP(handles, cases);
