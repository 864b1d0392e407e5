/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * queued.c: ops that are ended while they wait: in the batch that brought them, behind a full socket or pipe, or behind a
 * pool whose only thread is busy (which is where the epoll driver keeps file ops; the ring waits by itself).
 */
#define _GNU_SOURCE
#include "calls.h"
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON 30000000u
#define BIG (8 << 20)

static char big[BIG];

/* A worker whose pool has one thread, and that one waits for a byte; a FIFO that nobody has open. */
struct jam {
    struct pump pump;
    quoit_runtime *runtime;
    int pipes[2];
    uint64_t runs;
    char fifo[64];
};

static void jam_open(struct jam *jam) {
    quoit_runtime_options options = {.struct_size = sizeof options, .pool_threads = 1};
    jam->runtime = runtime_open(&options);
    pump_open_in(&jam->pump, jam->runtime, NULL);
    CHECK_EQ(pipe2(jam->pipes, O_CLOEXEC), 0);
    snprintf(jam->fifo, sizeof jam->fifo, "/tmp/quoit-test-%d.fifo", (int)getpid());
    CHECK_EQ(mkfifo(jam->fifo, 0600), 0);
    jam->runs = op_wait_for_byte(&jam->pump, jam->pipes[0]);
    PUMP_POLL(&jam->pump, waits_begun() == 1);
}

static void jam_close(struct jam *jam) {
    CHECK(!op_ended(&jam->pump, jam->runs));
    CHECK_EQ(write(jam->pipes[1], "x", 1), 1);
    CHECK_EQ(op_must(&jam->pump, jam->runs, 0).value, 7);
    CHECK_EQ(waits_begun(), 1); /* what was cancelled never began */
    close(jam->pipes[0]);
    close(jam->pipes[1]);
    unlink(jam->fifo);
    pump_close(&jam->pump);
    CHECK_EQ(quoit_runtime_destroy(jam->runtime), QUOIT_OK);
}

static uint64_t op_open_path(struct pump *pump, const char *path, uint32_t how) {
    quoit_op *op = op_new(pump, QUOIT_OP_OPEN, 0);
    op->addr = (uintptr_t)path;
    op->len = (uint32_t)strlen(path);
    op->arg = how;
    return op->user_data;
}

static void set_limit(struct pump *pump) {
    ((quoit_op *)(uintptr_t)pump->batch->ops)[pump->nops - 1].timeout_ns = SOON;
}

static uint64_t op_pipe(struct pump *pump, uint32_t opcode, quoit_handle file, size_t len) {
    quoit_op *op = op_new(pump, opcode, file);
    op->offset = -1;
    op->addr = opcode == QUOIT_OP_WRITE ? (uintptr_t)big : 0;
    op->len = (uint32_t)len;
    return op->user_data;
}

/* Behind a busy pool an open can be taken back or be late; the ring has opened before it hears of either. */
static void opens(void) {
    struct jam jam;
    jam_open(&jam);
    struct pump *pump = &jam.pump;
    bool waits = stats_of(pump).driver == QUOIT_DRIVER_EPOLL;
    for (int how = 0; how < 3; how++) {
        uint64_t open = op_open_path(pump, "/", QUOIT_OPEN_READ | QUOIT_OPEN_DIRECTORY);
        if (how == 0)
            set_limit(pump);
        else if (how == 1)
            pump_turn(pump, 1000000);
        if (how > 0)
            op_must(pump, op_cancel(pump, 0, QUOIT_OP_OPEN, open), waits || how == 2 ? 1 : -ENOENT);
        op_must(pump, open, !waits ? 0 : how ? -ECANCELED : -ETIMEDOUT);
    }
    CHECK_EQ(stats_of(pump).objects_live, waits ? 0 : 3);
    jam_close(&jam);
}

static void fifos_open_at_once(void) {
    struct pump pump;
    char path[64];
    pump_open(&pump, NULL);
    snprintf(path, sizeof path, "/tmp/quoit-test-%d.fifo", (int)getpid());
    CHECK_EQ(mkfifo(path, 0600), 0);
    op_must(&pump, op_open_path(&pump, path, QUOIT_OPEN_WRITE), -ENXIO);
    quoit_handle reader = op_must(&pump, op_open_path(&pump, path, QUOIT_OPEN_READ), 0).value;
    quoit_handle writer = op_must(&pump, op_open_path(&pump, path, QUOIT_OPEN_WRITE), 0).value;
    uint64_t read = op_pipe(&pump, QUOIT_OP_READ, reader, 16);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pump, 1000000), 0); /* it waits, as a blocking descriptor does */
    op_must(&pump, op_pipe(&pump, QUOIT_OP_WRITE, writer, 5), 5);
    op_must(&pump, read, 5);
    unlink(path);
    pump_close(&pump);
}

static void offloads(void) {
    struct jam jam;
    jam_open(&jam);
    uint64_t call = op_new_wait_for_byte(&jam.pump, jam.pipes[0])->user_data;
    op_must(&jam.pump, op_cancel(&jam.pump, 0, QUOIT_OP_OFFLOAD, call), 1);
    op_must(&jam.pump, call, -ECANCELED);
    jam_close(&jam);
}

/* Reading, writing, syncing: taken back in their own batch they leave the file as it was. */
static void file_ops_in_their_batch(void) {
    static const uint32_t opcodes[] = {QUOIT_OP_READ, QUOIT_OP_WRITE, QUOIT_OP_FSYNC};
    struct world world;
    struct stat found;
    world_open(&world);
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        uint64_t id = world_op(&world, opcodes[i])->user_data;
        quoit_event asked = op_finish(&world.pump, op_cancel(&world.pump, world.file, opcodes[i], 0));
        quoit_event event = op_finish(&world.pump, id);
        CHECK_EQ(asked.result, 1);
        CHECK(event.result == -ECANCELED || event.result >= 0);
        if (opcodes[i] == QUOIT_OP_WRITE && event.result == -ECANCELED) {
            CHECK_EQ(stat(world.path, &found), 0);
            CHECK_EQ(found.st_size, 0);
        }
    }
    world_close(&world);
}

/* A FIFO's two ends in one file: read from while it is empty, written to while it is full. */
static quoit_handle open_fifo(struct pump *pump, char *path, size_t room, int *fd) {
    snprintf(path, room, "/tmp/quoit-test-%d.fifo", (int)getpid());
    CHECK_EQ(mkfifo(path, 0600), 0);
    *fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    CHECK(*fd >= 0);
    return op_must(pump, op_open_path(pump, path, QUOIT_OPEN_READ | QUOIT_OPEN_WRITE), 0).value;
}

static void pipes_that_wait(void) {
    struct pump pump;
    char path[64], byte = 'x', back[16];
    int fd;
    size_t full = 0;
    pump_open(&pump, NULL);
    quoit_handle file = open_fifo(&pump, path, sizeof path, &fd);
    uint64_t op = op_pipe(&pump, QUOIT_OP_READ, file, 16);
    for (int i = 0; i < 3; i++)
        pump_turn(&pump, 1000000);
    op_must(&pump, op_cancel(&pump, file, QUOIT_OP_READ, 0), 1);
    op_must(&pump, op, -ECANCELED);
    op = op_pipe(&pump, QUOIT_OP_READ, file, 16);
    op_must(&pump, op_cancel(&pump, file, QUOIT_OP_READ, 0), 1);
    op_must(&pump, op, -ECANCELED);
    while (write(fd, &byte, 1) == 1)
        full++;
    for (int round = 0; round < 2; round++) {
        op = op_pipe(&pump, QUOIT_OP_WRITE, file, 16);
        if (round)
            set_limit(&pump);
        for (int i = 0; i < 3; i++)
            pump_turn(&pump, 1000000);
        if (!round)
            op_must(&pump, op_cancel(&pump, file, QUOIT_OP_WRITE, 0), 1);
        CHECK_EQ(op_must(&pump, op, round ? -ETIMEDOUT : -ECANCELED).value, 0);
    }
    op = op_pipe(&pump, QUOIT_OP_WRITE, file, 16);
    for (int i = 0; i < 3; i++)
        pump_turn(&pump, 1000000);
    op_must(&pump, op_close(&pump, file, 0), 0);
    CHECK_EQ(op_must(&pump, op, -ECANCELED).value, 0);
    while (full) /* nothing of what was taken back is in it */
        for (ssize_t got = read(fd, back, sizeof back); got > 0; got--, full--)
            CHECK_EQ(back[got - 1], 'x');
    CHECK(read(fd, back, 1) < 0 && errno == EAGAIN);
    close(fd);
    unlink(path);
    pump_close(&pump);
}

static uint64_t op_blocked(struct pump *pump, quoit_handle stream, uint32_t opcode) {
    static const quoit_iov slices[1] = {{.addr = 0, .len = BIG}};
    static quoit_iov whole[1];
    if (opcode == QUOIT_OP_SHUTDOWN)
        return op_shutdown(pump, stream, QUOIT_SHUTDOWN_SEND);
    if (opcode == QUOIT_OP_SEND)
        return op_send(pump, stream, big, BIG, QUOIT_OPF_BORROW);
    whole[0] = slices[0];
    whole[0].addr = (uintptr_t)big;
    quoit_op *op = op_new(pump, QUOIT_OP_SENDV, stream);
    op->flags = QUOIT_OPF_IOV | QUOIT_OPF_BORROW;
    op->addr = (uintptr_t)whole;
    op->len = 1;
    return op->user_data;
}

/* Taken back in their own batch: not a byte of them leaves, and the stream goes on. */
static void sends_in_their_batch(void) {
    static const uint32_t opcodes[] = {QUOIT_OP_SEND, QUOIT_OP_SENDV, QUOIT_OP_SHUTDOWN};
    struct pump pump;
    char byte;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        uint64_t op = op_blocked(&pump, link.stream, opcodes[i]);
        op_must(&pump, op_cancel(&pump, link.stream, opcodes[i], 0), 1);
        CHECK_EQ(op_must(&pump, op, -ECANCELED).value, 0);
        op_must(&pump, op_send(&pump, link.stream, "x", 1, 0), 1);
        peer_recv(&pump, link.fd, &byte, 1);
        CHECK_EQ(byte, 'x');
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

/* A sendv behind a peer that does not read: each way to end it tells what had left. */
static void sendv_that_waits(void) {
    for (int how = 0; how < 3; how++) {
        struct pump pump;
        pump_open(&pump, NULL);
        struct link link = link_open(&pump);
        pattern_fill(big, 1, 0, BIG);
        uint64_t op = op_blocked(&pump, link.stream, QUOIT_OP_SENDV);
        if (how == 0)
            set_limit(&pump);
        pump_turn_nb(&pump);
        if (how == 1)
            op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SENDV, 0), 1);
        if (how == 2)
            op_must(&pump, op_close(&pump, link.stream, QUOIT_OPF_ABORT), 0);
        quoit_event event = op_must(&pump, op, how ? -ECANCELED : -ETIMEDOUT);
        CHECK(event.value < BIG);
        if (how < 2)
            peer_recv_pattern(&pump, link.fd, 1, 0, event.value);
        close(link.fd);
        pump_close(&pump);
    }
}

/* A connect taken back in its own batch, to a listener whose backlog is full: it makes no stream. */
static void connect_in_its_batch(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    uint64_t dials[12];
    uint64_t won = 0;
    pump_open(&pump, NULL);
    int listener = peer_listen(&addr, 0);
    for (int i = 0; i < 12; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_CONNECT, 0);
        op->addr = (uintptr_t)&addr;
        op->len = sizeof addr;
        dials[i] = op->user_data;
        if (i < 8)
            pump_turn(&pump, 2000000); /* these fill it */
        else
            op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_CONNECT, dials[i]), 1);
    }
    for (int i = 8; i < 12; i++)
        CHECK_EQ(op_must(&pump, dials[i], -ECANCELED).value, 0);
    for (int i = 0; i < 8; i++)
        won += op_ended(&pump, dials[i]);
    CHECK(won < 8);
    CHECK_EQ(stats_of(&pump).objects_live, won);
    close(listener);
    pump_close(&pump);
}

/* A keep in time, of a buffer that is lent. */
static void keep_in_time(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t recv = op_recv(&pump, link.stream, 0, 0);
    peer_send(&pump, link.fd, "hello", 5);
    quoit_handle buffer = op_must(&pump, recv, 5).buffer;
    quoit_op *op = op_new(&pump, QUOIT_OP_KEEP, buffer);
    op->timeout_ns = SOON;
    CHECK_EQ(op_must(&pump, op->user_data, 0).buffer, buffer);
    op_release(&pump, buffer);
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"opens", opens},
    {"fifos_open_at_once", fifos_open_at_once},
    {"offloads", offloads},
    {"file_ops_in_their_batch", file_ops_in_their_batch},
    {"pipes_that_wait", pipes_that_wait},
    {"sends_in_their_batch", sends_in_their_batch},
    {"sendv_that_waits", sendv_that_waits},
    {"connect_in_its_batch", connect_in_its_batch},
    {"keep_in_time", keep_in_time},
};
TEST_GROUP(queued, cases);
