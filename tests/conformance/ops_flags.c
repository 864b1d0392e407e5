/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ops_flags.c: for each opcode, the flags it takes not and the fields it does not use. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "world.h"

#include <errno.h>

#define F(name) QUOIT_OPF_##name
#define SEND_FLAGS (F(QUIET) | F(BORROW) | F(IOV) | F(ARENA_SEND) | F(ARENA_RECV))

/* What the header allows; what it leaves open (QUIET where the event brings nothing) counts as allowed here. */
static const uint32_t allowed_flags[OPCODES] = {
    [QUOIT_OP_NOP] = F(QUIET),
    [QUOIT_OP_LISTEN] = F(ARENA_SEND),
    [QUOIT_OP_ACCEPT] = F(MULTI) | F(AUTO_RECV) | F(KEEP),
    [QUOIT_OP_CONNECT] = F(ARENA_SEND),
    [QUOIT_OP_RECV] = F(MULTI) | F(KEEP),
    [QUOIT_OP_RECV_PAUSE] = F(QUIET),
    [QUOIT_OP_RECV_RESUME] = F(QUIET),
    [QUOIT_OP_SEND] = SEND_FLAGS | F(ZEROCOPY),
    [QUOIT_OP_SENDV] = SEND_FLAGS | F(ZEROCOPY),
    [QUOIT_OP_SHUTDOWN] = F(QUIET),
    [QUOIT_OP_CLOSE] = F(QUIET) | F(ABORT),
    [QUOIT_OP_CANCEL] = F(QUIET),
    [QUOIT_OP_TIMER] = F(ABS) | F(ARMED),
    [QUOIT_OP_POST] = F(QUIET),
    [QUOIT_OP_POLL] = F(MULTI) | F(ARMED),
    [QUOIT_OP_OPEN] = F(ARENA_SEND),
    [QUOIT_OP_READ] = F(BORROW),
    [QUOIT_OP_WRITE] = SEND_FLAGS,
    [QUOIT_OP_FSYNC] = F(QUIET),
    [QUOIT_OP_OFFLOAD] = F(ARGS) | F(ARENA_SEND),
    [QUOIT_OP_KEEP] = F(QUIET),
    [QUOIT_OP_RELEASE] = F(QUIET),
    [QUOIT_OP_BIND] = F(ARENA_SEND),
    [QUOIT_OP_RECVMSG] = F(MULTI) | F(KEEP),
    [QUOIT_OP_SENDMSG] = SEND_FLAGS,
    [QUOIT_OP_MULTICAST] = F(QUIET) | F(ARENA_SEND),
    [QUOIT_OP_SOCKET_SET] = F(QUIET),
    [QUOIT_OP_SPLICE] = 0,
    [QUOIT_OP_SEND_FD] = F(QUIET) | F(ARENA_SEND),
    [QUOIT_OP_CHANNEL] = 0,
    [QUOIT_OP_CHANNEL_SEND] = F(QUIET),
    [QUOIT_OP_CHANNEL_RECV] = F(MULTI),
};

#define U(name) (1u << QUOIT_FIELD_##name)

/* Fields that must be zero. */
static const uint32_t unused_fields[OPCODES] = {
    [QUOIT_OP_NOP] = U(TARGET) | U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_LISTEN] = U(TARGET) | U(OFFSET),
    [QUOIT_OP_ACCEPT] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_CONNECT] = U(TARGET) | U(OFFSET),
    [QUOIT_OP_RECV] = U(ADDR) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_RECV_PAUSE] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_RECV_RESUME] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_SEND] = U(OFFSET) | U(ARG2),
    [QUOIT_OP_SENDV] = U(OFFSET) | U(ARG2),
    [QUOIT_OP_SHUTDOWN] = U(ADDR) | U(LEN) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_CLOSE] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_CANCEL] = U(ADDR) | U(LEN) | U(OFFSET),
    [QUOIT_OP_TIMER] = U(ADDR) | U(LEN),
    [QUOIT_OP_POST] = U(LEN),
    [QUOIT_OP_POLL] = U(TARGET) | U(ADDR) | U(LEN) | U(ARG2),
    [QUOIT_OP_OPEN] = U(ARG2),
    [QUOIT_OP_READ] = U(ARG) | U(ARG2),
    [QUOIT_OP_WRITE] = U(ARG) | U(ARG2),
    [QUOIT_OP_FSYNC] = U(ADDR) | U(LEN) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_OFFLOAD] = U(TARGET) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_KEEP] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_RELEASE] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_BIND] = U(TARGET) | U(ARG) | U(OFFSET),
    [QUOIT_OP_RECVMSG] = U(ADDR) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_MULTICAST] = U(OFFSET) | U(ARG2),
    [QUOIT_OP_SOCKET_SET] = U(ADDR) | U(LEN) | U(ARG2),
    [QUOIT_OP_ADOPT] = U(TARGET) | U(ADDR) | U(LEN) | U(ARG2),
    [QUOIT_OP_DETACH] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_SEND_FD] = U(ARG) | U(ARG2),
    [QUOIT_OP_MOVE] = U(LEN) | U(ARG) | U(OFFSET),
    [QUOIT_OP_RECV_FD] = U(ADDR) | U(ARG) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_CHANNEL] = U(TARGET) | U(ADDR) | U(OFFSET) | U(ARG2),
    [QUOIT_OP_CHANNEL_SEND] = U(LEN) | U(ARG2),
    [QUOIT_OP_CHANNEL_RECV] = U(ADDR) | U(LEN) | U(ARG) | U(OFFSET) | U(ARG2),
};

/* The op must be refused before anything of it is done. */
static void must_refuse(struct world *world, uint64_t id, int64_t status, uint32_t field, const char *what,
                        uint32_t number) {
    quoit_event event = op_finish(&world->pump, id);
    if (event.result != status || event.aux != field || event.value || event.flags)
        FAIL("op %u with %s %u ended with %lld %s, aux %u, not %s, aux %u", event.kind, what, number,
             (long long)event.result, quoit_status_name((quoit_status)event.result), event.aux,
             quoit_status_name((quoit_status)status), field);
}

static void flags_not_taken(void) {
    struct world world;
    world_open(&world);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++)
        for (uint32_t bit = 0; bit < 32; bit++) {
            if (!quoit_op_supported(opcode) || allowed_flags[opcode] >> bit & 1)
                continue;
            quoit_op *op = world_op(&world, opcode);
            op->flags |= 1u << bit;
            must_refuse(&world, op->user_data, QUOIT_E_FLAGS, QUOIT_FIELD_FLAGS, "the flag bit", bit);
        }
    world_close(&world);
}

static void flags_that_exclude_each_other(void) {
    static const struct {
        uint32_t opcode, flags;
    } wrong[] = {
        {QUOIT_OP_SEND, F(QUIET) | F(BORROW)},
        {QUOIT_OP_SEND, F(BORROW) | F(ARENA_SEND)},
        {QUOIT_OP_SEND, F(BORROW) | F(ARENA_RECV)},
        {QUOIT_OP_SEND, F(ARENA_SEND) | F(ARENA_RECV)},
        {QUOIT_OP_SENDV, F(IOV) | F(QUIET) | F(BORROW)},
        {QUOIT_OP_WRITE, F(QUIET) | F(BORROW)},
        {QUOIT_OP_WRITE, F(ARENA_SEND) | F(ARENA_RECV)},
        {QUOIT_OP_SENDMSG, F(QUIET) | F(BORROW)},
        {QUOIT_OP_SENDMSG, F(BORROW) | F(ARENA_SEND)},
        {QUOIT_OP_SENDMSG, F(ARENA_SEND) | F(ARENA_RECV)},
        {QUOIT_OP_ACCEPT, F(KEEP)},
        {QUOIT_OP_ACCEPT, F(KEEP) | F(MULTI)},
        {QUOIT_OP_OFFLOAD, 0},
        {QUOIT_OP_OFFLOAD, F(ARENA_SEND)},
    };
    struct world world;
    world_open(&world);
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        quoit_op *op = world_op(&world, wrong[i].opcode);
        op->flags = wrong[i].flags;
        must_refuse(&world, op->user_data, QUOIT_E_FLAGS, QUOIT_FIELD_FLAGS, "the combination", i);
    }
    world_close(&world);
}

static void spoil(quoit_op *op, uint32_t field) {
    switch (field) {
    case QUOIT_FIELD_TARGET:
        op->target = 7;
        break;
    case QUOIT_FIELD_ADDR:
        op->addr = 1;
        break;
    case QUOIT_FIELD_LEN:
        op->len = 1;
        break;
    case QUOIT_FIELD_ARG:
        op->arg = 1;
        break;
    case QUOIT_FIELD_OFFSET:
        op->offset = 1;
        break;
    default:
        op->arg2 = 1;
    }
}

static void unused_fields_must_be_zero(void) {
    struct world world;
    world_open(&world);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++)
        for (uint32_t field = QUOIT_FIELD_TARGET; field <= QUOIT_FIELD_ARG2; field++) {
            if (!quoit_op_supported(opcode) || !(unused_fields[opcode] >> field & 1))
                continue;
            quoit_op *op = world_op(&world, opcode);
            spoil(op, field);
            must_refuse(&world, op->user_data, QUOIT_E_FIELD, field, "the field", field);
        }
    world_close(&world);
}

static void unknown_opcodes(void) {
    static const uint32_t unknown[] = {OPCODES - 1, 100, 0x100, 0x7FFF};
    static const uint32_t never[] = {0x8000,  QUOIT_KIND_MESSAGE, QUOIT_KIND_GREASE, 0xFFFF,
                                     0x10000, UINT32_MAX};
    struct world world;
    world_open(&world);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        quoit_op *op = op_new(&world.pump, unknown[i], world.link.stream);
        CHECK_EQ(op_must(&world.pump, op->user_data, QUOIT_E_OPCODE).kind, unknown[i]);
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        quoit_op *op = op_new(&world.pump, never[i], world.link.stream);
        quoit_event event = op_must(&world.pump, op->user_data, QUOIT_E_OPCODE);
        CHECK_EQ(event.kind, QUOIT_KIND_BAD_OP);
        CHECK_EQ(event.aux, never[i]);
        CHECK_EQ(event.source, world.link.stream);
    }
    world_close(&world);
}

/* A time limit is taken by every opcode, also by those that need no time. */
static void every_op_takes_a_timeout(void) {
    struct world world;
    world_open(&world);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
        if (!quoit_op_supported(opcode) || opcode == QUOIT_OP_KEEP || opcode == QUOIT_OP_RELEASE ||
            opcode == QUOIT_OP_CLOSE || opcode == QUOIT_OP_DETACH || opcode == QUOIT_OP_MOVE)
            continue; /* no buffer is lent here; closing comes last, adopt.c detaches, move.c moves */
        quoit_op *op = world_op(&world, opcode);
        uint64_t id = op->user_data;
        op->timeout_ns = 30000000;
        if (opcode == QUOIT_OP_CANCEL)
            op->arg = QUOIT_OP_SEND;
        quoit_event event = op_finish(&world.pump, id);
        world_spent(&world, &event);
        if (event.result == QUOIT_E_FIELD || event.result == QUOIT_E_FLAGS)
            FAIL("op %u does not take timeout_ns", opcode);
        if (opcode == QUOIT_OP_RECV || opcode == QUOIT_OP_ACCEPT || opcode == QUOIT_OP_RECVMSG)
            CHECK_EQ(event.result, -ETIMEDOUT); /* nobody came */
    }
    quoit_op *op = world_op(&world, QUOIT_OP_CLOSE);
    op->timeout_ns = 30000000;
    op_must(&world.pump, op->user_data, 0);
    world_close(&world);
}

static const struct test_case cases[] = {
    {"flags_not_taken", flags_not_taken},
    {"flags_that_exclude_each_other", flags_that_exclude_each_other},
    {"unused_fields_must_be_zero", unused_fields_must_be_zero},
    {"unknown_opcodes", unknown_opcodes},
    {"every_op_takes_a_timeout", every_op_takes_a_timeout},
};
TEST_GROUP(ops_flags, cases);
