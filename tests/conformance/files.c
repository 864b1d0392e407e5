/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* files.c: open, read, write and fsync of files; pipes as files. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void begin(struct pump *pump) {
    strcpy(folder, "/tmp/quoit-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    pump_open(pump, NULL);
}

static void end(struct pump *pump, const char *name) {
    pump_close(pump);
    if (name)
        CHECK_EQ(unlink(path_of(name)), 0);
    CHECK_EQ(rmdir(folder), 0);
}

static quoit_event open_at(struct pump *pump, quoit_handle directory, const char *path, uint32_t how,
                           int64_t mode) {
    quoit_op *op = op_new(pump, QUOIT_OP_OPEN, directory);
    op->addr = (uintptr_t)path;
    op->len = (uint32_t)strlen(path);
    op->arg = how;
    op->offset = mode;
    return op_finish(pump, op->user_data);
}

static quoit_handle create(struct pump *pump, const char *name) {
    quoit_event event =
        open_at(pump, 0, path_of(name), QUOIT_OPEN_READ | QUOIT_OPEN_WRITE | QUOIT_OPEN_CREATE, 0600);
    CHECK_EQ(event.result, 0);
    CHECK_EQ(quoit_handle_kind(event.value), QUOIT_HANDLE_FILE);
    return event.value;
}

static uint64_t op_write(struct pump *pump, quoit_handle file, const void *data, size_t len, int64_t at,
                         uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_WRITE, file);
    op->flags = flags;
    op->addr = (uintptr_t)data;
    op->len = (uint32_t)len;
    op->offset = at;
    return op->user_data;
}

static uint64_t op_read(struct pump *pump, quoit_handle file, uint32_t len, int64_t at) {
    quoit_op *op = op_new(pump, QUOIT_OP_READ, file);
    op->len = len;
    op->offset = at;
    return op->user_data;
}

static void write_then_read(void) {
    static const uint32_t sizes[] = {1, 100, 2048, 4096, 65536, 262144, QUOIT_READ_MAX};
    static char data[QUOIT_READ_MAX];
    struct pump pump;
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    int64_t at = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pattern_fill(data, 1, (uint64_t)at, sizes[i]);
        uint64_t id = op_write(&pump, file, data, sizes[i], at, i % 2 ? QUOIT_OPF_BORROW : 0);
        if (!(i % 2)) {
            pump_submit(&pump);
            memset(data, 0, sizeof data); /* it was copied */
        }
        op_must(&pump, id, sizes[i]);
        at += sizes[i];
        CHECK_EQ(quoit_file_size(pump.worker, file), at);
    }
    op_must(&pump, op_simple(&pump, QUOIT_OP_FSYNC, file), 0);
    quoit_op *op = op_new(&pump, QUOIT_OP_FSYNC, file);
    op->arg = 1;
    op_must(&pump, op->user_data, 0);
    /* Lent buffers up to the most, in one piece where the file has it. */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        quoit_event event = op_must(&pump, op_read(&pump, file, sizes[i], (int64_t)i * 7), sizes[i]);
        CHECK_EQ(event.flags, QUOIT_EVF_LENT);
        CHECK_EQ(event.len, sizes[i]);
        CHECK_PATTERN(event_data(&pump, &event), 1, i * 7, event.len);
    }
    end(&pump, "data");
}

static void end_of_file(void) {
    struct pump pump;
    char data[1000], own[2000];
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    pattern_fill(data, 1, 0, sizeof data);
    op_must(&pump, op_write(&pump, file, data, sizeof data, 0, 0), sizeof data);
    quoit_event event = op_must(&pump, op_read(&pump, file, 100, 1000), 0);
    CHECK_EQ(event.flags, QUOIT_EVF_EOF);
    CHECK_EQ(event.len, 0);
    event = op_must(&pump, op_read(&pump, file, 100, 999), 1); /* fewer than asked */
    CHECK_PATTERN(event_data(&pump, &event), 1, 999, 1);
    event = op_must(&pump, op_read(&pump, file, 100, 1ll << 40), 0);
    CHECK(event.flags & QUOIT_EVF_EOF);
    event = op_must(&pump, op_read(&pump, file, 100, 900), 100); /* the last ones, all that was asked */
    CHECK(!(event.flags & QUOIT_EVF_MORE));
    /* Into the program's memory. */
    quoit_op *op = op_new(&pump, QUOIT_OP_READ, file);
    op->flags = QUOIT_OPF_BORROW;
    op->addr = (uintptr_t)own;
    op->len = sizeof own;
    op->offset = 10;
    event = op_must(&pump, op->user_data, 990);
    CHECK_EQ(event.buffer, 0);
    CHECK_PATTERN(own, 1, 10, 990);
    end(&pump, "data");
}

/* There is no cursor: many at a time, each at its place. */
static void many_at_a_time(void) {
    enum { PIECES = 64, SIZE = 20000 };
    static char data[PIECES][SIZE];
    struct pump pump;
    uint64_t ids[PIECES];
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    for (int64_t i = PIECES - 1; i >= 0; i--) {
        pattern_fill(data[i], 1, (uint64_t)i * SIZE, SIZE);
        ids[i] = op_write(&pump, file, data[i], SIZE, i * SIZE, QUOIT_OPF_BORROW);
    }
    for (int i = 0; i < PIECES; i++)
        op_must(&pump, ids[i], SIZE);
    memset(data, 0, sizeof data);
    for (int64_t i = 0; i < PIECES; i++) {
        quoit_op *op = op_new(&pump, QUOIT_OP_READ, file);
        op->flags = QUOIT_OPF_BORROW;
        op->addr = (uintptr_t)data[i];
        op->len = SIZE;
        op->offset = i * SIZE;
        ids[i] = op->user_data;
    }
    for (int i = 0; i < PIECES; i++)
        op_must(&pump, ids[i], SIZE);
    CHECK_PATTERN(data, 1, 0, sizeof data);
    end(&pump, "data");
}

static void vectored_write(void) {
    enum { SLICES = 300 };
    static char data[SLICES * 100];
    static quoit_iov slices[SLICES];
    struct pump pump;
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    for (int borrow = 0; borrow < 2; borrow++) {
        pattern_fill(data, (uint64_t)borrow, 0, sizeof data);
        for (uint32_t i = 0; i < SLICES; i++)
            slices[i] = (quoit_iov){.addr = (uintptr_t)data + (size_t)i * 100, .len = 100};
        quoit_op *op = op_new(&pump, QUOIT_OP_WRITE, file);
        op->flags = QUOIT_OPF_IOV | (borrow ? QUOIT_OPF_BORROW : 0);
        op->addr = (uintptr_t)slices;
        op->len = SLICES;
        uint64_t id = op->user_data;
        pump_submit(&pump);
        memset(slices, 0xEE, sizeof slices);
        op_must(&pump, id, sizeof data);
        quoit_event event = op_must(&pump, op_read(&pump, file, sizeof data, 0), sizeof data);
        CHECK_PATTERN(event_data(&pump, &event), (uint64_t)borrow, 0, sizeof data);
    }
    end(&pump, "data");
}

static void appending(void) {
    struct pump pump;
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    char data[50];
    for (uint64_t i = 0; i < 20; i++) {
        pattern_fill(data, 1, i * 50, 50);
        op_must(&pump, op_write(&pump, file, data, 50, -1, 0), 50);
    }
    CHECK_EQ(quoit_file_size(pump.worker, file), 1000);
    quoit_handle other = open_at(&pump, 0, path_of("data"), QUOIT_OPEN_WRITE | QUOIT_OPEN_APPEND, 0).value;
    pattern_fill(data, 1, 1000, 50);
    op_must(&pump, op_write(&pump, other, data, 50, -1, 0), 50);
    quoit_event event = op_must(&pump, op_read(&pump, file, 1050, 0), 1050);
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 1050);
    end(&pump, "data");
}

static void open_flags(void) {
    struct pump pump;
    struct stat found;
    begin(&pump);
    const char *path = path_of("data");
    CHECK_EQ(open_at(&pump, 0, path, QUOIT_OPEN_READ, 0).result, -ENOENT);
    CHECK_EQ(
        open_at(&pump, 0, path, QUOIT_OPEN_WRITE | QUOIT_OPEN_CREATE | QUOIT_OPEN_EXCLUSIVE, 0640).result, 0);
    CHECK_EQ(stat(path, &found), 0);
    CHECK_EQ(found.st_mode & 0777, 0640);
    CHECK_EQ(
        open_at(&pump, 0, path, QUOIT_OPEN_WRITE | QUOIT_OPEN_CREATE | QUOIT_OPEN_EXCLUSIVE, 0640).result,
        -EEXIST);
    quoit_handle file = open_at(&pump, 0, path, QUOIT_OPEN_WRITE, 0).value;
    op_must(&pump, op_write(&pump, file, "text", 4, 0, 0), 4);
    CHECK_EQ(op_finish(&pump, op_read(&pump, file, 4, 0)).result, -EBADF); /* not open for that */
    CHECK_EQ(open_at(&pump, 0, path, QUOIT_OPEN_WRITE | QUOIT_OPEN_TRUNCATE, 0).result, 0);
    CHECK_EQ(quoit_file_size(pump.worker, file), 0);
    file = open_at(&pump, 0, path, QUOIT_OPEN_READ, 0).value;
    CHECK_EQ(op_finish(&pump, op_write(&pump, file, "text", 4, 0, 0)).result, -EBADF);
    CHECK_EQ(open_at(&pump, 0, path, QUOIT_OPEN_READ | QUOIT_OPEN_DIRECTORY, 0).result, -ENOTDIR);
    CHECK_EQ(open_at(&pump, 0, folder, QUOIT_OPEN_WRITE, 0).result, -EISDIR);
    CHECK_EQ(symlink("data", path_of("link")), 0);
    CHECK_EQ(open_at(&pump, 0, path_of("link"), QUOIT_OPEN_READ | QUOIT_OPEN_NOFOLLOW, 0).result, -ELOOP);
    CHECK_EQ(open_at(&pump, 0, path_of("link"), QUOIT_OPEN_READ, 0).result, 0);
    CHECK_EQ(unlink(path_of("link")), 0);
    end(&pump, "data");
}

static void relative_to_a_directory(void) {
    struct pump pump;
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    op_must(&pump, op_write(&pump, file, "text", 4, 0, 0), 4);
    quoit_event event = open_at(&pump, 0, folder, QUOIT_OPEN_READ | QUOIT_OPEN_DIRECTORY, 0);
    CHECK_EQ(event.result, 0);
    CHECK_EQ(quoit_handle_kind(event.value), QUOIT_HANDLE_DIRECTORY);
    quoit_handle directory = event.value;
    event = open_at(&pump, directory, "data", QUOIT_OPEN_READ, 0);
    CHECK_EQ(event.result, 0);
    CHECK_EQ(event.source, directory);
    event = op_must(&pump, op_read(&pump, event.value, 10, 0), 4);
    CHECK(!memcmp(event_data(&pump, &event), "text", 4));
    CHECK_EQ(open_at(&pump, directory, "missing", QUOIT_OPEN_READ, 0).result, -ENOENT);
    CHECK_EQ(open_at(&pump, file, "data", QUOIT_OPEN_READ, 0).result, QUOIT_E_KIND);
    CHECK_EQ(op_finish(&pump, op_read(&pump, directory, 10, 0)).result, QUOIT_E_KIND);
    op_must(&pump, op_close(&pump, directory, 0), 0);
    CHECK_EQ(open_at(&pump, directory, "data", QUOIT_OPEN_READ, 0).result, QUOIT_E_STALE);
    end(&pump, "data");
}

/* A file's bytes sent from where they were read, chunk by chunk: no copy of ours in between. */
static void file_to_stream(void) {
    enum { SIZE = 3 << 20, CHUNK = 262144 };
    static char data[SIZE];
    struct pump pump;
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    pattern_fill(data, 1, 0, SIZE);
    op_must(&pump, op_write(&pump, file, data, SIZE, 0, QUOIT_OPF_BORROW), SIZE);
    struct link link = link_open(&pump);
    for (int64_t at = 0; at < SIZE; at += CHUNK) {
        quoit_event event = op_must(&pump, op_read(&pump, file, CHUNK, at), CHUNK);
        quoit_op *op = op_new(&pump, QUOIT_OP_SEND, link.stream);
        op->flags = QUOIT_OPF_ARENA_RECV;
        op->addr = event.offset;
        op->len = event.len;
        op->arg2 = event.buffer;
        uint64_t send = op->user_data;
        peer_recv_pattern(&pump, link.fd, 1, (uint64_t)at, CHUNK);
        op_must(&pump, send, CHUNK);
    }
    link_close(&pump, &link);
    end(&pump, "data");
}

static void from_received_bytes(void) {
    struct pump pump;
    begin(&pump);
    quoit_handle file = create(&pump, "data");
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 1500);
    quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 1500);
    quoit_op *op = op_new(&pump, QUOIT_OP_WRITE, file);
    op->flags = QUOIT_OPF_ARENA_RECV;
    op->addr = event.offset;
    op->len = event.len;
    op->arg2 = event.buffer;
    op_must(&pump, op->user_data, 1500);
    memset((char *)(uintptr_t)(pump.batch->send_base + pump.batch->scratch_off), 'x', 100);
    op = op_new(&pump, QUOIT_OP_WRITE, file);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->addr = pump.batch->scratch_off;
    op->len = 100;
    op->offset = 1500;
    op_must(&pump, op->user_data, 100);
    event = op_must(&pump, op_read(&pump, file, 2000, 0), 1600);
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 1500);
    link_close(&pump, &link);
    end(&pump, "data");
}

static void close_while_reading(void) {
    enum { SIZE = 1 << 20 };
    static char data[SIZE];
    struct pump pump;
    begin(&pump);
    for (int i = 0; i < 30; i++) {
        quoit_handle file = create(&pump, "data");
        uint64_t reads[8], writing = op_write(&pump, file, data, SIZE, 0, QUOIT_OPF_BORROW);
        for (int k = 0; k < 8; k++)
            reads[k] = op_read(&pump, file, SIZE, 0);
        if (i % 2)
            pump_turn_nb(&pump);
        op_must(&pump, op_close(&pump, file, i % 4 < 2 ? QUOIT_OPF_ABORT : 0), 0);
        CHECK(op_ended(&pump, writing));
        for (int k = 0; k < 8; k++) {
            CHECK(op_ended(&pump, reads[k]));
            int64_t result = op_record(&pump, reads[k])->last.result;
            CHECK(result >= 0 || result == -ECANCELED);
        }
    }
    end(&pump, "data");
}

static void pipe_as_a_file(void) {
    struct pump pump;
    begin(&pump);
    CHECK_EQ(mkfifo(path_of("fifo"), 0600), 0);
    int fd = open(path_of("fifo"), O_RDWR | O_CLOEXEC);
    quoit_handle reads = open_at(&pump, 0, path_of("fifo"), QUOIT_OPEN_READ, 0).value;
    quoit_handle writes = open_at(&pump, 0, path_of("fifo"), QUOIT_OPEN_WRITE, 0).value;
    CHECK(reads && writes);
    uint64_t read = op_read(&pump, reads, 100, -1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pump_turn(&pump, 1000000), 0);
    op_must(&pump, op_write(&pump, writes, "hello", 5, -1, 0), 5);
    quoit_event event = op_must(&pump, read, 5);
    CHECK(!memcmp(event_data(&pump, &event), "hello", 5));
    CHECK_EQ(quoit_file_size(pump.worker, reads), -ESPIPE);
    /* A read that waits ends with its file. */
    read = op_read(&pump, reads, 100, -1);
    pump_turn_nb(&pump);
    op_must(&pump, op_close(&pump, reads, 0), 0);
    CHECK_EQ(op_record(&pump, read)->last.result, -ECANCELED);
    close(fd);
    end(&pump, "fifo");
}

static void full_device(void) {
    struct pump pump;
    begin(&pump);
    quoit_event event = open_at(&pump, 0, "/dev/full", QUOIT_OPEN_WRITE, 0);
    CHECK_EQ(event.result, 0);
    event = op_must(&pump, op_write(&pump, event.value, "text", 4, 0, 0), -ENOSPC);
    CHECK_EQ(event.value, 0);
    end(&pump, NULL);
}

static const struct test_case cases[] = {
    {"write_then_read", write_then_read},
    {"end_of_file", end_of_file},
    {"many_at_a_time", many_at_a_time},
    {"vectored_write", vectored_write},
    {"appending", appending},
    {"open_flags", open_flags},
    {"relative_to_a_directory", relative_to_a_directory},
    {"file_to_stream", file_to_stream},
    {"from_received_bytes", from_received_bytes},
    {"close_while_reading", close_while_reading},
    {"pipe_as_a_file", pipe_as_a_file},
    {"full_device", full_device},
};
TEST_GROUP(files, cases);
