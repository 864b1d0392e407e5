/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* matrix.c: what is the same for every opcode: closing objects, cancels that come after, cancels in the op's own batch. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "world.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Each op of a target: on one that is closing it is refused, and the close goes on. */
static void on_closing_objects(void) {
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
        struct world world;
        if (!quoit_op_supported(opcode) || world_target_type(opcode) == QUOIT_HANDLE_CHANNEL)
            continue; /* a channel that is empty closes at once: channels.c */
        world_open(&world);
        quoit_handle target = world_object(&world, world_target_type(opcode));
        if (opcode == QUOIT_OP_OPEN)
            target = world.directory;
        uint32_t type = target ? (uint32_t)quoit_handle_kind(target) : 0;
        if (opcode != QUOIT_OP_CANCEL && type && type != QUOIT_HANDLE_WORKER) {
            uint64_t closing = op_close(&world.pump, target, 0);
            quoit_op *op = world_op(&world, opcode);
            op->target = target;
            quoit_event event = op_must(&world.pump, op->user_data, QUOIT_E_CLOSING);
            CHECK_EQ(event.aux, QUOIT_FIELD_TARGET);
            if (type == QUOIT_HANDLE_STREAM)
                CHECK_EQ(shutdown(world.link.fd, SHUT_RDWR), 0); /* it waits for the peer */
            op_must(&world.pump, closing, 0);
        }
        world_close(&world);
    }
}

/* An op that has told its last event is not found by a cancel, and nothing else ends for it. */
static void cancels_that_come_after(void) {
    struct world world;
    quoit_addr anywhere = {.family = QUOIT_FAMILY_V4, .len = 4};
    world_open(&world);
    CHECK_EQ(quoit_local_addr(world.pump.worker, world.pump.listener, &world.addr), QUOIT_OK);
    uint64_t stays = op_timer(&world.pump, 3600000000000ull, 0, 0);
    for (uint32_t opcode = 0; opcode < OPCODES; opcode++) {
        if (!quoit_op_supported(opcode) || opcode == QUOIT_OP_CLOSE || opcode == QUOIT_OP_CANCEL ||
            opcode == QUOIT_OP_ACCEPT || opcode == QUOIT_OP_RECV || opcode == QUOIT_OP_RECVMSG ||
            opcode == QUOIT_OP_DETACH || opcode == QUOIT_OP_MOVE || opcode == QUOIT_OP_SEND_FD ||
            opcode == QUOIT_OP_RECV_FD || world_target_type(opcode) == QUOIT_HANDLE_BUFFER)
            continue; /* those that wait for a peer are in cancel_ops.c, detach in adopt.c, move in move.c, those of Unix streams in fds.c */
        quoit_op *op = world_op(&world, opcode);
        uint64_t id = op->user_data;
        quoit_handle target = op->target;
        if (opcode == QUOIT_OP_LISTEN || opcode == QUOIT_OP_BIND)
            op->addr = (uintptr_t)&anywhere;
        if (op_finish(&world.pump, id).result < 0)
            FAIL("op %u of the world ended with %lld", opcode,
                 (long long)op_record(&world.pump, id)->last.result);
        world_spent(&world, &op_record(&world.pump, id)->last);
        quoit_event event = op_finish(&world.pump, target ? op_cancel(&world.pump, target, opcode, 0)
                                                          : op_cancel(&world.pump, 0, opcode, id));
        CHECK_EQ(event.result, opcode == QUOIT_OP_POST ? QUOIT_E_KIND : -ENOENT);
    }
    CHECK(!op_ended(&world.pump, stays));
    world_close(&world);
}

/* A target that the op may go without is checked all the same. */
static void no_handles(void) {
    static const uint32_t opcodes[] = {QUOIT_OP_TIMER, QUOIT_OP_OPEN, QUOIT_OP_CANCEL};
    struct world world;
    world_open(&world);
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        quoit_op *op = world_op(&world, opcodes[i]);
        op->target = 7;
        CHECK_EQ(op_must(&world.pump, op->user_data, QUOIT_E_HANDLE).aux, QUOIT_FIELD_TARGET);
    }
    world_close(&world);
}

/* At the bound on live objects whatever would make one is refused, and leaves nothing behind. */
static void at_the_bound_of_objects(void) {
    quoit_worker_options options = {.objects_max = 1};
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, &options);
    quoit_handle listener = listen_on(&pump, &addr);
    int spare = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 3; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
        op->addr = (uintptr_t)&addr;
        op->len = sizeof addr;
        op_must(&pump, op->user_data, QUOIT_E_LIMIT);
        op = op_new(&pump, QUOIT_OP_BIND, 0);
        op->addr = (uintptr_t)&addr;
        op->len = sizeof addr;
        op_must(&pump, op->user_data, QUOIT_E_LIMIT);
        op = op_new(&pump, QUOIT_OP_POLL, 0);
        op->flags = QUOIT_OPF_MULTI;
        op->arg = QUOIT_POLL_IN;
        op_must(&pump, op->user_data, QUOIT_E_LIMIT);
        op = op_new(&pump, QUOIT_OP_OPEN, 0);
        op->addr = (uintptr_t) "/";
        op->len = 1;
        op->arg = QUOIT_OPEN_READ | QUOIT_OPEN_DIRECTORY;
        op_must(&pump, op->user_data, QUOIT_E_LIMIT);
        op = op_new(&pump, QUOIT_OP_ADOPT, 0);
        op->offset = spare;
        op_must(&pump, op->user_data, QUOIT_E_LIMIT);
        op = op_new(&pump, QUOIT_OP_CHANNEL, 0);
        op->len = 1;
        op_must(&pump, op->user_data, QUOIT_E_LIMIT);
    }
    close(spare); /* it stayed the test's */
    CHECK_EQ(stats_of(&pump).objects_live, 1);
    op_must(&pump, op_close(&pump, listener, 0), 0);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"on_closing_objects", on_closing_objects},
    {"cancels_that_come_after", cancels_that_come_after},
    {"no_handles", no_handles},
    {"at_the_bound_of_objects", at_the_bound_of_objects},
};
TEST_GROUP(matrix, cases);
