/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ops_args.c: for each opcode, values of its fields that it cannot take. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "world.h"

#include <errno.h>
#include <string.h>

/* Ends with this status and, for refusals by field, with the field's number. */
static void must_fail(struct world *world, quoit_op *op, int64_t status, uint32_t field) {
    quoit_event event = op_must(&world->pump, op->user_data, status);
    CHECK_EQ(event.aux, field);
    CHECK_EQ(event.value, 0);
}

#define FIELD(name) QUOIT_E_FIELD, QUOIT_FIELD_##name

static void addresses(void) {
    struct world world;
    world_open(&world);
    for (uint32_t opcode = QUOIT_OP_LISTEN; opcode <= QUOIT_OP_CONNECT; opcode += 2) {
        quoit_op *op = world_op(&world, opcode);
        op->addr = 0;
        must_fail(&world, op, FIELD(ADDR));
        op = world_op(&world, opcode);
        op->len = sizeof(quoit_addr) - 1;
        CHECK_EQ(op_finish(&world.pump, op->user_data).result, QUOIT_E_STRUCT_SIZE);
        op = world_op(&world, opcode);
        op->len = 0;
        CHECK_EQ(op_finish(&world.pump, op->user_data).result, QUOIT_E_STRUCT_SIZE);
        static const struct {
            uint16_t family;
            uint32_t len;
        } wrong[] = {{0, 4},
                     {4, 4},
                     {65535, 4},
                     {QUOIT_FAMILY_V4, 3},
                     {QUOIT_FAMILY_V4, 16},
                     {QUOIT_FAMILY_V6, 4},
                     {QUOIT_FAMILY_UNIX, 0},
                     {QUOIT_FAMILY_UNIX, 113},
                     {QUOIT_FAMILY_UNIX, UINT32_MAX}};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            world.addr.family = wrong[i].family;
            world.addr.len = wrong[i].len;
            must_fail(&world, world_op(&world, opcode), FIELD(ADDR));
        }
        world.addr = addr_v4(0);
    }
    world_close(&world);
}

static void listen_arguments(void) {
    struct world world;
    quoit_listen_options options = {.struct_size = sizeof options, .flags = 0x80000000u};
    world_open(&world);
    quoit_op *op = world_op(&world, QUOIT_OP_LISTEN);
    op->arg2 = (uintptr_t)&options;
    CHECK_EQ(op_finish(&world.pump, op->user_data).result, QUOIT_E_FLAGS);
    options.flags = 0;
    options.struct_size = 4;
    op = world_op(&world, QUOIT_OP_LISTEN);
    op->arg2 = (uintptr_t)&options;
    CHECK_EQ(op_finish(&world.pump, op->user_data).result, QUOIT_E_STRUCT_SIZE);
    options.struct_size = sizeof options;
    options.reserved = 1;
    op = world_op(&world, QUOIT_OP_LISTEN);
    op->arg2 = (uintptr_t)&options;
    must_fail(&world, op, FIELD(ARG2));
    options.reserved = 0;
    op = world_op(&world, QUOIT_OP_LISTEN);
    op->arg2 = (uintptr_t)&options;
    op_must(&world.pump, op->user_data, 0);
    CHECK_EQ(quoit_local_addr(world.pump.worker, world.pump.listener, &world.addr), QUOIT_OK);
    op = world_op(&world, QUOIT_OP_LISTEN); /* the port is taken */
    op_must(&world.pump, op->user_data, -EADDRINUSE);
    world.addr = addr_v4(1);
    world.addr.bytes[0] = 192; /* no address of this machine */
    op_must(&world.pump, world_op(&world, QUOIT_OP_LISTEN)->user_data, -EADDRNOTAVAIL);
    world.addr = addr_unix("/nowhere/at/all");
    op_must(&world.pump, world_op(&world, QUOIT_OP_LISTEN)->user_data, -ENOENT);
    world_close(&world);
}

static void masks_and_enums(void) {
    static const struct {
        uint32_t opcode, arg;
    } wrong[] = {
        {QUOIT_OP_CONNECT, 0x2}, {QUOIT_OP_CONNECT, 0x80000000u},
        {QUOIT_OP_SEND, 0x2},    {QUOIT_OP_SHUTDOWN, 0},
        {QUOIT_OP_SHUTDOWN, 4},  {QUOIT_OP_TIMER, 3},
        {QUOIT_OP_POLL, 0},      {QUOIT_OP_POLL, 0x40},
        {QUOIT_OP_OPEN, 0x400},  {QUOIT_OP_OPEN, 0},
        {QUOIT_OP_FSYNC, 2},
    };
    struct world world;
    world_open(&world);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        quoit_op *op = world_op(&world, wrong[i].opcode);
        op->arg = wrong[i].arg;
        quoit_event event = op_finish(&world.pump, op->user_data);
        if (event.result != QUOIT_E_FIELD || event.aux != QUOIT_FIELD_ARG)
            FAIL("op %u with arg %x ended with %lld %s, aux %u", wrong[i].opcode, wrong[i].arg,
                 (long long)event.result, quoit_status_name((quoit_status)event.result), event.aux);
    }
    world_close(&world);
}

static void payloads(void) {
    static const uint32_t opcodes[] = {QUOIT_OP_SEND, QUOIT_OP_SENDV, QUOIT_OP_WRITE};
    static quoit_iov slices[QUOIT_IOV_MAX + 1];
    struct world world;
    world_open(&world);
    for (size_t i = 0; i < 3; i++) {
        quoit_op *op = world_op(&world, opcodes[i]);
        op->addr = 0;
        op->len = 5;
        must_fail(&world, op, FIELD(ADDR));
        op = world_op(&world, opcodes[i]);
        op->flags = QUOIT_OPF_IOV;
        op->addr = (uintptr_t)slices;
        op->len = QUOIT_IOV_MAX + 1;
        must_fail(&world, op, QUOIT_E_LIMIT, QUOIT_FIELD_LEN);
        slices[1].flags = 1;
        op = world_op(&world, opcodes[i]);
        op->flags = QUOIT_OPF_IOV;
        op->addr = (uintptr_t)slices;
        op->len = 2;
        CHECK_EQ(op_finish(&world.pump, op->user_data).result, QUOIT_E_FIELD);
        slices[1].flags = 0;
        slices[1].len = 5; /* of nothing */
        op = world_op(&world, opcodes[i]);
        op->flags = QUOIT_OPF_IOV;
        op->addr = (uintptr_t)slices;
        op->len = 2;
        CHECK_EQ(op_finish(&world.pump, op->user_data).result, QUOIT_E_FIELD);
        slices[1].len = 0;
    }
    world_close(&world);
}

static void file_arguments(void) {
    struct world world;
    static char deep[8192];
    world_open(&world);
    quoit_op *op = world_op(&world, QUOIT_OP_OPEN);
    op->addr = 0;
    must_fail(&world, op, FIELD(ADDR));
    op = world_op(&world, QUOIT_OP_OPEN);
    op->len = 0;
    CHECK(op_finish(&world.pump, op->user_data).result < 0);
    op = world_op(&world, QUOIT_OP_OPEN);
    op->addr = (uintptr_t) "/tmp\0x"; /* a NUL inside would hide the rest */
    op->len = 6;
    CHECK(op_finish(&world.pump, op->user_data).result < 0);
    memset(deep, 'a', sizeof deep);
    op = world_op(&world, QUOIT_OP_OPEN);
    op->addr = (uintptr_t)deep;
    op->len = sizeof deep;
    must_fail(&world, op, FIELD(LEN));
    op = world_op(&world, QUOIT_OP_READ);
    op->len = QUOIT_READ_MAX + 1;
    must_fail(&world, op, FIELD(LEN));
    op = world_op(&world, QUOIT_OP_READ);
    op->addr = (uintptr_t)deep; /* the program's memory needs BORROW */
    CHECK(op_finish(&world.pump, op->user_data).result <= -20001);
    op = world_op(&world, QUOIT_OP_READ);
    op->flags = QUOIT_OPF_BORROW; /* of nothing */
    CHECK(op_finish(&world.pump, op->user_data).result <= -20001);
    op = world_op(&world, QUOIT_OP_READ);
    op->offset = -2;
    must_fail(&world, op, FIELD(OFFSET));
    op = world_op(&world, QUOIT_OP_WRITE);
    op->offset = -2;
    must_fail(&world, op, FIELD(OFFSET));
    op = world_op(&world, QUOIT_OP_POLL);
    op->offset = -1;
    CHECK(op_finish(&world.pump, op->user_data).result < 0);
    op = world_op(&world, QUOIT_OP_POLL);
    op->offset = 1000000; /* not open */
    op_must(&world.pump, op->user_data, -EBADF);
    op = world_op(&world, QUOIT_OP_POLL);
    op->offset = 1ll << 40;
    CHECK(op_finish(&world.pump, op->user_data).result < 0);
    world_close(&world);
}

static void bad_call(struct world *world, int64_t status) {
    quoit_event event = op_finish(&world->pump, world_op(world, QUOIT_OP_OFFLOAD)->user_data);
    CHECK_EQ(event.result, status);
}

static void offload_arguments(void) {
    struct world world;
    static const uint8_t wrong_type[1] = {12}, no_value[1] = {QUOIT_TYPE_VOID};
    world_open(&world);
    quoit_call good = world.call;
    quoit_op *op = world_op(&world, QUOIT_OP_OFFLOAD);
    op->addr = 0;
    must_fail(&world, op, FIELD(ADDR));
    op = world_op(&world, QUOIT_OP_OFFLOAD);
    op->len = 8;
    CHECK(op_finish(&world.pump, op->user_data).result <= -20001);
    world.call.struct_size = 8;
    bad_call(&world, QUOIT_E_STRUCT_SIZE);
    world.call = good;
    world.call.entry = 0;
    bad_call(&world, QUOIT_E_FIELD);
    world.call = good;
    world.call.nargs = QUOIT_CALL_ARGS_MAX + 1;
    bad_call(&world, QUOIT_E_FIELD);
    world.call = good;
    world.call.types = 0;
    bad_call(&world, QUOIT_E_FIELD);
    world.call = good;
    world.call.args = 0;
    bad_call(&world, QUOIT_E_FIELD);
    world.call = good;
    world.call.types = (uintptr_t)wrong_type;
    bad_call(&world, QUOIT_E_FIELD);
    world.call.types = (uintptr_t)no_value;
    bad_call(&world, QUOIT_E_FIELD);
    world.call = good;
    world.call.return_type = 12;
    bad_call(&world, QUOIT_E_FIELD);
    world.call = good;
    world.call.flags = 1;
    quoit_event event = op_finish(&world.pump, world_op(&world, QUOIT_OP_OFFLOAD)->user_data);
    CHECK(event.result == QUOIT_E_FLAGS || event.result == QUOIT_E_FIELD);
    world.call = good;
    CHECK_EQ(op_must(&world.pump, world_op(&world, QUOIT_OP_OFFLOAD)->user_data, 0).value, 7);
    world_close(&world);
}

/* A wrong op in the middle of a batch does not touch its neighbours. */
static void wrong_among_right(void) {
    struct world world;
    uint64_t ids[30];
    world_open(&world);
    for (int i = 0; i < 30; i++) {
        quoit_op *op = op_new(&world.pump, i % 3 == 1 ? 0x4000 : QUOIT_OP_NOP, 0);
        ids[i] = op->user_data;
        if (i % 3 == 2)
            op->arg = 1;
    }
    for (int i = 0; i < 30; i++)
        op_must(&world.pump, ids[i], i % 3 == 0 ? 0 : i % 3 == 1 ? QUOIT_E_OPCODE : QUOIT_E_FIELD);
    uint64_t quiet = op_simple(&world.pump, QUOIT_OP_NOP, 0);
    ((quoit_op *)(uintptr_t)world.pump.batch->ops)[world.pump.nops - 1].flags = QUOIT_OPF_QUIET;
    op_must(&world.pump, op_simple(&world.pump, QUOIT_OP_NOP, 0), 0);
    CHECK_EQ(op_record(&world.pump, quiet)->events, 0);
    quoit_op *op = op_new(&world.pump, QUOIT_OP_NOP, 0);
    op->flags = QUOIT_OPF_QUIET;
    op->len = 1;
    op_must(&world.pump, op->user_data, QUOIT_E_FIELD); /* failure is told */
    world_close(&world);
}

static const struct test_case cases[] = {
    {"addresses", addresses},
    {"listen_arguments", listen_arguments},
    {"masks_and_enums", masks_and_enums},
    {"payloads", payloads},
    {"file_arguments", file_arguments},
    {"offload_arguments", offload_arguments},
    {"wrong_among_right", wrong_among_right},
};
TEST_GROUP(ops_args, cases);
