/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* splices.c: bytes that go from one stream or file to another; every pair of them, what comes before, and what is refused. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "pattern.h"
#include "peer.h"
#include "splice_ends.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 65536u

enum { STREAM, FILE_, PIPE, SORTS };

uint64_t op_splice(struct pump *pump, quoit_handle from, quoit_handle to, uint64_t len) {
    quoit_op *op = op_new(pump, QUOIT_OP_SPLICE, from);
    op->len = (uint32_t)len;
    op->arg = (uint32_t)(len >> 32);
    op->arg2 = to;
    return op->user_data;
}

quoit_op *newest_op(struct pump *pump) {
    return (quoit_op *)(uintptr_t)pump->batch->ops + pump->nops - 1;
}

quoit_handle adopt(struct pump *pump, int fd) {
    quoit_op *op = op_new(pump, QUOIT_OP_ADOPT, 0);
    op->offset = fd;
    return op_must(pump, op->user_data, 0).value;
}

int file_of_pattern(size_t len) {
    static char data[CHUNK];
    char path[] = "/tmp/quoit-test-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(unlink(path), 0);
    for (size_t at = 0; at < len; at += CHUNK) {
        size_t part = len - at < CHUNK ? len - at : CHUNK;
        pattern_fill(data, 1, at, part);
        CHECK_EQ(write(fd, data, part), (ssize_t)part);
    }
    return fd;
}

void check_file(int fd, uint64_t at, size_t len) {
    static char data[CHUNK];
    for (size_t done = 0; done < len; done += CHUNK) {
        size_t part = len - done < CHUNK ? len - done : CHUNK;
        CHECK_EQ(pread(fd, data, part, (off_t)(at + done)), (ssize_t)part);
        CHECK_PATTERN(data, 1, done, part);
    }
}

/* One side of a splice: the object, and the test's end of it. */
struct side {
    int sort;
    quoit_handle object;
    int fd; /* peer, a descriptor of the same file, or the other end of the pipe */
};

static struct side side_open(struct pump *pump, int sort, bool source, size_t len) {
    struct side side = {.sort = sort};
    int ends[2];
    switch (sort) {
    case STREAM: {
        struct link link = link_open(pump);
        side.object = link.stream;
        side.fd = link.fd;
        break;
    }
    case FILE_:
        side.fd = file_of_pattern(source ? len : 0);
        side.object = adopt(pump, dup(side.fd));
        break;
    default:
        CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
        side.fd = ends[source];
        side.object = adopt(pump, ends[!source]);
        CHECK_EQ(fcntl(side.fd, F_SETFL, O_NONBLOCK), 0);
    }
    return side;
}

/* As much as it takes of a pattern's next bytes. */
static size_t feed(struct side *side, size_t at, size_t len) {
    static char data[CHUNK];
    size_t part = len - at < CHUNK ? len - at : CHUNK;
    if (side->sort == FILE_ || part == 0)
        return len - at;
    pattern_fill(data, 1, at, part);
    ssize_t done = write(side->fd, data, part);
    CHECK(done > 0 || errno == EAGAIN);
    return done > 0 ? (size_t)done : 0;
}

static size_t drink(struct side *side, size_t at) {
    static char data[CHUNK];
    if (side->sort == FILE_)
        return 0;
    ssize_t done = read(side->fd, data, CHUNK);
    CHECK(done > 0 || (done < 0 && errno == EAGAIN));
    if (done < 0)
        return 0;
    CHECK_PATTERN(data, 1, at, (size_t)done);
    return (size_t)done;
}

static void move_all(struct pump *pump, struct side *from, struct side *to, size_t len, bool to_the_end) {
    uint64_t id = op_splice(pump, from->object, to->object, to_the_end ? 0 : len);
    if (from->sort == PIPE)
        newest_op(pump)->offset = -1;
    if (to->sort == PIPE)
        newest_op(pump)->addr = (uint64_t)-1;
    size_t fed = 0, got = 0;
    while (!op_ended(pump, id) || (to->sort != FILE_ && got < len)) {
        size_t more = feed(from, fed, len);
        if (to_the_end && fed < len && fed + more == len && from->sort == STREAM)
            CHECK_EQ(shutdown(from->fd, SHUT_WR), 0);
        if (to_the_end && fed < len && fed + more == len && from->sort == PIPE)
            CHECK_EQ(close(from->fd), 0);
        fed += more;
        size_t done = drink(to, got);
        got += done;
        pump_turn(pump, more || done ? 0 : 1000000);
        pump_check_time(pump, "the bytes to come through", __FILE__, __LINE__);
    }
    quoit_event event = op_must(pump, id, (int64_t)len);
    CHECK_EQ(event.value, len);
    CHECK_EQ(event.offset, len);
    CHECK_EQ(event.flags, to_the_end ? QUOIT_EVF_EOF : 0);
    if (to->sort == FILE_)
        check_file(to->fd, 0, len);
}

/* Every pair, by length and to the end, of more than lies anywhere between. */
static void every_pair(void) {
    for (int from = 0; from < SORTS; from++)
        for (int to = 0; to < SORTS; to++)
            for (int to_the_end = 0; to_the_end < 2; to_the_end++) {
                struct pump pump;
                size_t len = (3u << 20) + 12345;
                pump_open(&pump, NULL);
                struct side a = side_open(&pump, from, true, len), b = side_open(&pump, to, false, len);
                move_all(&pump, &a, &b, len, to_the_end);
                if (from != PIPE || !to_the_end)
                    close(a.fd);
                close(b.fd);
                pump_close(&pump);
            }
}

/* From a place in one file to a place in another, and shorter than was asked when the source ends. */
static void places_in_files(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    int in = file_of_pattern(300000), out = file_of_pattern(0);
    quoit_handle from = adopt(&pump, dup(in)), to = adopt(&pump, dup(out));
    for (int i = 0; i < 2; i++) {
        uint64_t id = op_splice(&pump, from, to, 1000000);
        newest_op(&pump)->offset = 100000;
        newest_op(&pump)->addr = i ? (uint64_t)-1 : 5000; /* the second one appends */
        quoit_event event = op_must(&pump, id, 200000);
        CHECK_EQ(event.flags, QUOIT_EVF_EOF);
    }
    static char data[200000];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pread(out, data, sizeof data, 5000 + 200000 * i), (ssize_t)sizeof data);
        CHECK_PATTERN(data, 1, 100000, sizeof data);
    }
    uint64_t id = op_splice(&pump, from, to, 10);
    newest_op(&pump)->offset = 300000;
    CHECK_EQ(op_must(&pump, id, 0).flags, QUOIT_EVF_EOF);
    close(in);
    close(out);
    pump_close(&pump);
}

/* Between the sends of its destination it keeps its place; a shutdown comes after it. */
static void in_the_order_of_sends(void) {
    enum { LEN = 500000 };
    static char data[LEN];
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    int in = file_of_pattern(LEN);
    quoit_handle from = adopt(&pump, in);
    pattern_fill(data, 1, 0, LEN);
    uint64_t head = op_send(&pump, link.stream, data, 1000, 0);
    uint64_t first = op_splice(&pump, from, link.stream, 200000);
    newest_op(&pump)->offset = 1000;
    uint64_t second = op_splice(&pump, from, link.stream, 100000);
    newest_op(&pump)->offset = 201000;
    uint64_t middle = op_send(&pump, link.stream, data + 301000, 10, 0);
    pump_turn_nb(&pump);
    uint64_t third = op_splice(&pump, from, link.stream, 0);
    newest_op(&pump)->offset = 301010;
    uint64_t end = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
    CHECK_EQ(peer_recv_to_end(&pump, link.fd, 1), LEN);
    op_must(&pump, end, 0);
    op_must(&pump, head, 1000);
    op_must(&pump, first, 200000);
    op_must(&pump, second, 100000);
    op_must(&pump, middle, 10);
    op_must(&pump, third, LEN - 301010);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* What came while receiving was paused goes first, also when the splice takes but a part of it; a recv takes the rest. */
static void held_bytes_first(void) {
    struct pump pump;
    uint64_t recv;
    pump_open(&pump, NULL);
    struct link link = link_open_recv(&pump, &recv);
    int out = file_of_pattern(0);
    quoit_handle to = adopt(&pump, dup(out));
    pump_turn_nb(&pump);
    static char data[3000];
    pattern_fill(data, 1, 0, sizeof data);
    CHECK_EQ(write(link.fd, data, sizeof data), (ssize_t)sizeof data);
    op_simple(&pump, QUOIT_OP_RECV_PAUSE, link.stream);
    pump_turn_nb(&pump);
    if (op_record(&pump, recv)->events > 0) { /* told before the pause: nothing is held */
        link_close(&pump, &link);
        close(out);
        pump_close(&pump);
        return;
    }
    op_cancel(&pump, link.stream, QUOIT_OP_RECV, 0);
    op_must(&pump, recv, -ECANCELED);
    op_must(&pump, op_splice(&pump, link.stream, to, 700), 700);
    uint64_t id = op_splice(&pump, link.stream, to, 1300);
    newest_op(&pump)->addr = 700;
    op_must(&pump, id, 1300);
    check_file(out, 0, 2000);
    op_simple(&pump, QUOIT_OP_RECV_RESUME, link.stream);
    for (uint64_t at = 2000; at < sizeof data;) { /* a buffer at a time */
        quoit_event event = op_finish(&pump, op_recv(&pump, link.stream, 0, 0));
        CHECK(event.result > 0);
        CHECK_PATTERN(event_data(&pump, &event), 1, at, event.len);
        at += event.len;
    }
    link_close(&pump, &link);
    close(out);
    pump_close(&pump);
}

/* More at a time than a worker has pipes. */
static void many_at_a_time(void) {
    enum { MANY = 100, LEN = 100000 };
    struct pump pump;
    struct link links[MANY];
    uint64_t ids[MANY];
    pump_open(&pump, NULL);
    int in = file_of_pattern(LEN);
    quoit_handle from = adopt(&pump, in);
    for (int i = 0; i < MANY; i++)
        links[i] = link_open(&pump);
    for (int i = 0; i < MANY; i++)
        ids[i] = op_splice(&pump, from, links[i].stream, LEN);
    for (int i = 0; i < MANY; i++)
        peer_recv_pattern(&pump, links[i].fd, 1, 0, LEN);
    for (int i = 0; i < MANY; i++) {
        op_must(&pump, ids[i], LEN);
        link_close(&pump, &links[i]);
    }
    pump_close(&pump);
}

static void must_refuse(struct pump *pump, quoit_op *op, int64_t status, uint32_t field) {
    CHECK_EQ(op_must(pump, op->user_data, status).aux, field);
}

static quoit_op *spoiled(struct pump *pump, quoit_handle from, quoit_handle to) {
    op_splice(pump, from, to, 10);
    return newest_op(pump);
}

static void what_is_refused(void) {
    struct pump pump, other;
    pump_open(&pump, NULL);
    struct link a = link_open(&pump), b = link_open(&pump);
    quoit_handle file = adopt(&pump, file_of_pattern(10));
    quoit_op *op;
    must_refuse(&pump, spoiled(&pump, a.stream, a.stream), QUOIT_E_FIELD, QUOIT_FIELD_ARG2);
    must_refuse(&pump, spoiled(&pump, file, file), QUOIT_E_FIELD, QUOIT_FIELD_ARG2);
    must_refuse(&pump, spoiled(&pump, a.stream, 0), QUOIT_E_HANDLE, QUOIT_FIELD_ARG2);
    must_refuse(&pump, spoiled(&pump, a.stream, pump.listener), QUOIT_E_KIND, QUOIT_FIELD_ARG2);
    must_refuse(&pump, spoiled(&pump, pump.listener, a.stream), QUOIT_E_KIND, QUOIT_FIELD_TARGET);
    (op = spoiled(&pump, a.stream, b.stream))->offset = 1;
    must_refuse(&pump, op, QUOIT_E_FIELD, QUOIT_FIELD_OFFSET);
    (op = spoiled(&pump, a.stream, b.stream))->addr = 1;
    must_refuse(&pump, op, QUOIT_E_FIELD, QUOIT_FIELD_ADDR);
    (op = spoiled(&pump, file, b.stream))->offset = -2;
    must_refuse(&pump, op, QUOIT_E_FIELD, QUOIT_FIELD_OFFSET);
    (op = spoiled(&pump, a.stream, file))->addr = (uint64_t)-2;
    must_refuse(&pump, op, QUOIT_E_FIELD, QUOIT_FIELD_ADDR);
    (op = spoiled(&pump, a.stream, file))->arg = UINT32_MAX;
    must_refuse(&pump, op, QUOIT_E_FIELD, QUOIT_FIELD_ARG);
    /* One at a time takes from a stream. */
    uint64_t recv = op_recv(&pump, a.stream, QUOIT_OPF_MULTI, 0);
    must_refuse(&pump, spoiled(&pump, a.stream, b.stream), QUOIT_E_BUSY, QUOIT_FIELD_TARGET);
    op_cancel(&pump, a.stream, QUOIT_OP_RECV, 0);
    op_must(&pump, recv, -ECANCELED);
    uint64_t splice = op_splice(&pump, a.stream, b.stream, 0);
    must_refuse(&pump, spoiled(&pump, a.stream, file), QUOIT_E_BUSY, QUOIT_FIELD_TARGET);
    op_must(&pump, op_recv(&pump, a.stream, 0, 0), QUOIT_E_BUSY);
    op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, b.stream), QUOIT_E_BUSY);
    op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, a.stream), QUOIT_E_BUSY);
    uint64_t back = op_splice(&pump, b.stream, a.stream, 0); /* the other way at the same time */
    peer_send_pattern(&pump, a.fd, 1, 0, 100000);
    peer_recv_pattern(&pump, b.fd, 1, 0, 100000);
    peer_send_pattern(&pump, b.fd, 1, 0, 100000);
    peer_recv_pattern(&pump, a.fd, 1, 0, 100000);
    CHECK(!op_ended(&pump, splice) && !op_ended(&pump, back));
    /* A destination that closes, and one of another worker. */
    pump_open(&other, NULL);
    struct link far = link_open(&other);
    must_refuse(&pump, spoiled(&pump, file, far.stream), QUOIT_E_WORKER, QUOIT_FIELD_ARG2);
    pump_close(&other);
    close(far.fd);
    uint64_t closing = op_close(&pump, b.stream, 0);
    must_refuse(&pump, spoiled(&pump, file, b.stream), QUOIT_E_CLOSING, QUOIT_FIELD_ARG2);
    CHECK_EQ(op_must(&pump, splice, -ECANCELED).value, 100000);
    CHECK_EQ(op_must(&pump, back, -ECANCELED).value, 100000);
    link_close(&pump, &a);
    close(b.fd);
    op_must(&pump, closing, 0);
    must_refuse(&pump, spoiled(&pump, file, b.stream), QUOIT_E_STALE, QUOIT_FIELD_ARG2);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"every_pair", every_pair},
    {"places_in_files", places_in_files},
    {"in_the_order_of_sends", in_the_order_of_sends},
    {"held_bytes_first", held_bytes_first},
    {"many_at_a_time", many_at_a_time},
    {"what_is_refused", what_is_refused},
};
TEST_GROUP(splices, cases);
