/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "world.h"

#include "check.h"
#include "pair.h"
#include "peer.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static quoit_handle open_path(struct pump *pump, const char *path, uint32_t how) {
    quoit_op *op = op_new(pump, QUOIT_OP_OPEN, 0);
    op->addr = (uintptr_t)path;
    op->len = (uint32_t)strlen(path);
    op->arg = how;
    return op_must(pump, op->user_data, 0).value;
}

static uint64_t call_me(uint64_t value) {
    return value;
}

void world_open(struct world *world) {
    static const uint8_t types[1] = {QUOIT_TYPE_U64};
    static const uint64_t args[1] = {7};
    memset(world, 0, sizeof *world);
    world->spare = -1;
    pump_open(&world->pump, NULL);
    world->link = link_open(&world->pump);
    strcpy(world->path, "/tmp/quoit-test-XXXXXX");
    int fd = mkstemp(world->path);
    CHECK(fd >= 0);
    close(fd);
    world->file = open_path(&world->pump, world->path, QUOIT_OPEN_READ | QUOIT_OPEN_WRITE);
    world->directory = open_path(&world->pump, "/tmp", QUOIT_OPEN_READ | QUOIT_OPEN_DIRECTORY);
    uint64_t timer = op_timer(&world->pump, 3600000000000ull, 0, QUOIT_OPF_ARMED);
    PUMP_UNTIL(&world->pump, op_record(&world->pump, timer)->events);
    world->timer = op_record(&world->pump, timer)->last.value;
    world->channel = channel_new(&world->pump, QUOIT_CHANNEL_MANY_TO_ONE, 64);
    world->addr = addr_v4(0);
    world->datagram = bind_on(&world->pump, &world->addr, 0);
    world->addr.port = 0;
    world->sink_addr = addr_v4(0);
    world->sink = peer_bind(&world->sink_addr);
    world->group = addr_v4(0);
    memcpy(world->group.bytes, (uint8_t[4]){239, 255, 77, 77}, 4);
    world->group.scope = if_nametoindex("lo");
    world->call = (quoit_call){.struct_size = sizeof world->call,
                               .nargs = 1,
                               .entry = (uintptr_t)call_me,
                               .types = (uintptr_t)types,
                               .args = (uintptr_t)args,
                               .return_type = QUOIT_TYPE_U64};
}

void world_close(struct world *world) {
    close(world->link.fd);
    close(world->sink);
    if (world->spare >= 0)
        close(world->spare);
    unlink(world->path);
    pump_close(&world->pump);
}

quoit_handle world_object(const struct world *world, uint32_t type) {
    switch (type) {
    case QUOIT_HANDLE_WORKER:
        return world->pump.handle;
    case QUOIT_HANDLE_LISTENER:
        return world->pump.listener;
    case QUOIT_HANDLE_STREAM:
        return world->link.stream;
    case QUOIT_HANDLE_FILE:
        return world->file;
    case QUOIT_HANDLE_DIRECTORY:
        return world->directory;
    case QUOIT_HANDLE_TIMER:
        return world->timer;
    case QUOIT_HANDLE_DATAGRAM:
        return world->datagram;
    case QUOIT_HANDLE_CHANNEL:
        return world->channel;
    default:
        return 0;
    }
}

uint32_t world_target_type(uint32_t opcode) {
    switch (opcode) {
    case QUOIT_OP_ACCEPT:
        return QUOIT_HANDLE_LISTENER;
    case QUOIT_OP_RECV:
    case QUOIT_OP_RECV_PAUSE:
    case QUOIT_OP_RECV_RESUME:
    case QUOIT_OP_SEND:
    case QUOIT_OP_SENDV:
    case QUOIT_OP_SHUTDOWN:
    case QUOIT_OP_CLOSE:
    case QUOIT_OP_CANCEL:
    case QUOIT_OP_SOCKET_SET:
    case QUOIT_OP_DETACH:
    case QUOIT_OP_MOVE:
    case QUOIT_OP_SEND_FD:
    case QUOIT_OP_RECV_FD:
        return QUOIT_HANDLE_STREAM;
    case QUOIT_OP_POST:
        return QUOIT_HANDLE_WORKER;
    case QUOIT_OP_READ:
    case QUOIT_OP_WRITE:
    case QUOIT_OP_FSYNC:
    case QUOIT_OP_SPLICE:
        return QUOIT_HANDLE_FILE;
    case QUOIT_OP_KEEP:
    case QUOIT_OP_RELEASE:
        return QUOIT_HANDLE_BUFFER;
    case QUOIT_OP_RECVMSG:
    case QUOIT_OP_SENDMSG:
    case QUOIT_OP_MULTICAST:
        return QUOIT_HANDLE_DATAGRAM;
    case QUOIT_OP_CHANNEL_SEND:
    case QUOIT_OP_CHANNEL_RECV:
        return QUOIT_HANDLE_CHANNEL;
    default:
        return 0;
    }
}

void world_spent(struct world *world, const quoit_event *event) {
    if (event->kind == QUOIT_OP_ADOPT && event->result >= 0)
        world->spare = -1;
}

quoit_op *world_op(struct world *world, uint32_t opcode) {
    static const quoit_iov slices[1] = {{.addr = 0, .len = 0}};
    quoit_op *op = op_new(&world->pump, opcode, world_object(world, world_target_type(opcode)));
    switch (opcode) {
    case QUOIT_OP_LISTEN:
    case QUOIT_OP_CONNECT:
    case QUOIT_OP_BIND:
        op->addr = (uintptr_t)&world->addr;
        op->len = sizeof world->addr;
        break;
    case QUOIT_OP_SEND:
    case QUOIT_OP_WRITE:
        op->addr = (uintptr_t)world->payload;
        op->len = sizeof world->payload;
        break;
    case QUOIT_OP_SENDMSG:
        op->addr = (uintptr_t)world->payload;
        op->len = sizeof world->payload;
        op->arg2 = (uintptr_t)&world->sink_addr;
        break;
    case QUOIT_OP_MULTICAST:
        op->addr = (uintptr_t)&world->group;
        op->len = sizeof world->group;
        op->arg = QUOIT_MULTICAST_JOIN;
        break;
    case QUOIT_OP_SENDV:
        op->flags = QUOIT_OPF_IOV;
        op->addr = (uintptr_t)slices;
        op->len = 1;
        break;
    case QUOIT_OP_SHUTDOWN:
        op->arg = QUOIT_SHUTDOWN_SEND;
        break;
    case QUOIT_OP_SOCKET_SET:
        op->arg = QUOIT_SOCKET_NODELAY;
        break;
    case QUOIT_OP_MOVE:
        op->arg2 = world->pump.handle; /* there is no other: move.c */
        break;
    case QUOIT_OP_ADOPT:
        if (world->spare < 0)
            world->spare = dup(world->link.fd);
        op->offset = world->spare;
        break;
    case QUOIT_OP_SEND_FD:
        op->addr = (uintptr_t)world->payload;
        op->len = sizeof world->payload;
        op->offset = world->link.fd;
        break;
    case QUOIT_OP_TIMER:
        op->offset = 1000000;
        break;
    case QUOIT_OP_POLL:
        op->offset = world->link.fd;
        op->arg = QUOIT_POLL_OUT;
        break;
    case QUOIT_OP_OPEN:
        op->addr = (uintptr_t)world->path;
        op->len = (uint32_t)strlen(world->path);
        op->arg = QUOIT_OPEN_READ;
        break;
    case QUOIT_OP_READ:
        op->len = 16;
        break;
    case QUOIT_OP_SPLICE: /* from behind the end: nothing goes, whatever was written or shut down */
        op->offset = 1 << 30;
        op->arg2 = world->link.stream;
        break;
    case QUOIT_OP_CHANNEL:
        op->len = 1;
        break;
    case QUOIT_OP_OFFLOAD:
        op->flags = QUOIT_OPF_ARGS;
        op->addr = (uintptr_t)&world->call;
        op->len = sizeof world->call;
        break;
    default:
        break;
    }
    return op;
}
