/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* world.h: a worker with one object of each type, and for each opcode an op that it would take. */
#ifndef TEST_WORLD_H
#define TEST_WORLD_H

#include "ops.h"

/* Opcodes to try: all that a library may have, and the gaps between them. */
#define OPCODES 64

struct world {
    struct pump pump;
    struct link link;
    quoit_handle file, directory, timer, datagram, channel;
    int sink; /* a UDP socket that datagrams are sent to */
    quoit_addr sink_addr, group;
    char path[64];
    quoit_addr addr;
    quoit_call call;
    char payload[16];
    int spare; /* a descriptor for ADOPT, -1 none */
};

void world_open(struct world *world);
void world_close(struct world *world);

/* An object of that type (QUOIT_HANDLE_*), 0 for types without one. */
quoit_handle world_object(const struct world *world, uint32_t type);

/* The type of target that the opcode takes, 0 for none. */
uint32_t world_target_type(uint32_t opcode);

/* After an op of the world that went well: a spare descriptor that it took is the library's. */
void world_spent(struct world *world, const quoit_event *event);

/* Puts an op into the array that would be taken: tests then spoil one thing of it. */
quoit_op *world_op(struct world *world, uint32_t opcode);

#endif
