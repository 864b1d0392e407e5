/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* buffers.c: lent and kept buffers: their bounds, and that nobody starves when they are scarce. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Sixteen buffers for 64 streams that all have bytes: everything arrives, and the shortage did happen. */
static void exhausted_pool(void) {
    enum { PEERS = 64, SIZE = 100000 };
    struct pump pump;
    quoit_worker_options options = {.recv_buffers = 16, .events_max = 256};
    quoit_addr addr = addr_v4(0);
    int fds[PEERS];
    pump_open(&pump, &options);
    pump.collect = true;
    quoit_handle listener = listen_on(&pump, &addr);
    op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_connect(&addr);
    for (size_t at = 0; at < SIZE; at += 10000)
        for (int i = 0; i < PEERS; i++)
            peer_send_pattern(&pump, fds[i], 1, at, 10000);
    PUMP_UNTIL(&pump, stats_of(&pump).bytes_received == (uint64_t)PEERS * SIZE);
    CHECK_EQ(pump.nstreams, PEERS);
    for (int i = 0; i < PEERS; i++) {
        CHECK_EQ(pump.streams[i]->len, SIZE);
        CHECK_PATTERN(pump.streams[i]->data, 1, 0, SIZE);
        close(fds[i]);
    }
    CHECK(stats_of(&pump).recv_nobufs > 0);
    CHECK(stats_of(&pump).recv_rearms > 0);
    pump_close(&pump);
}

/* The worker looks after all of them came: no stream waits for ever while others are served. */
static void none_is_forgotten(void) {
    enum { PEERS = 64 };
    struct pump pump;
    quoit_worker_options options = {.recv_buffers = 2, .recv_buffer_size = 64, .events_max = 1, .ops_max = 4};
    quoit_addr addr = addr_v4(0);
    int fds[PEERS];
    pump_open(&pump, &options);
    serve_echo(&pump, &addr);
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_connect(&addr);
    for (uint64_t round = 0; round < 20; round++) {
        for (int i = 0; i < PEERS; i++)
            peer_send_pattern(NULL, fds[i], (uint64_t)i, round * 500, 500);
        for (int i = 0; i < PEERS; i++)
            peer_recv_pattern(&pump, fds[i], (uint64_t)i, round * 500, 500);
    }
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    pump_close(&pump);
}

static quoit_handle kept[4096];
static uint32_t kept_count, copied_count;
static uint64_t kept_bytes;

static void note_kept(struct pump *pump, const quoit_event *event) {
    if (event->kind != QUOIT_OP_RECV || !event->len ||
        !(op_record(pump, event->user_data)->flags & QUOIT_OPF_KEEP))
        return;
    if (event->flags & QUOIT_EVF_KEPT) {
        CHECK(kept_count < 4096);
        kept[kept_count++] = event->buffer;
        kept_bytes += event->len;
    } else {
        CHECK(event->flags & QUOIT_EVF_COPIED); /* KEEP was asked: never only lent */
        copied_count++;
    }
}

/* A handle may be kept several times: each is one release. */
static void release_all(struct pump *pump) {
    for (uint32_t i = 0; i < kept_count; i++)
        op_release(pump, kept[i]);
    kept_count = 0;
    kept_bytes = 0;
}

/* Kept bytes stay as they are for as long as the program likes. */
static void kept_until_released(void) {
    struct pump pump;
    quoit_event events[20];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump), other = link_open(&pump);
    for (uint64_t i = 0; i < 20; i++) {
        peer_send_pattern(&pump, link.fd, 1, i * 100, 100);
        events[i] = op_must(&pump, op_recv(&pump, link.stream, QUOIT_OPF_KEEP, 0), 100);
        CHECK(events[i].flags & QUOIT_EVF_KEPT);
    }
    for (int i = 0; i < 300; i++) { /* the ring's buffers go round */
        peer_send_pattern(&pump, other.fd, 2, 0, 2000);
        op_finish(&pump, op_recv(&pump, other.stream, 0, 0));
    }
    for (uint64_t i = 0; i < 20; i++)
        CHECK_PATTERN(event_data(&pump, &events[i]), 1, i * 100, 100);
    CHECK(stats_of(&pump).buffers_kept > 0);
    for (int i = 0; i < 20; i++)
        op_release(&pump, events[i].buffer);
    op_must(&pump, op_simple(&pump, QUOIT_OP_NOP, 0), 0);
    CHECK_EQ(stats_of(&pump).buffers_kept, 0);
    op_must(&pump, op_release(&pump, events[19].buffer), QUOIT_E_STALE); /* twice */
    link_close(&pump, &link);
    link_close(&pump, &other);
    pump_close(&pump);
}

/* KEEP on an accept with AUTO_RECV is that of each stream's receive. */
static void kept_by_auto_recv(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV | QUOIT_OPF_KEEP);
    pump.on_event = note_kept;
    pump.collect = true;
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = peer_connect(&addr);
        peer_send_pattern(&pump, fds[i], 1, 0, 700);
    }
    PUMP_UNTIL(&pump, kept_bytes == 2100);
    CHECK_EQ(copied_count, 0);
    release_all(&pump);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    pump_close(&pump);
}

/* KEEP of what was lent: counted, each with its own release. */
static void keep_by_op(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 500);
    quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 500);
    uint64_t first = op_simple(&pump, QUOIT_OP_KEEP, event.buffer),
             second = op_simple(&pump, QUOIT_OP_KEEP, event.buffer);
    CHECK_EQ(op_must(&pump, first, 0).buffer, event.buffer);
    op_must(&pump, second, 0);
    for (int i = 0; i < 5; i++)
        pump_turn_nb(&pump);
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 500);
    op_release(&pump, event.buffer);
    for (int i = 0; i < 3; i++)
        pump_turn_nb(&pump);
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 500); /* one is left */
    op_must(&pump, op_simple(&pump, QUOIT_OP_KEEP, event.buffer), 0);
    op_release(&pump, event.buffer);
    op_release(&pump, event.buffer);
    op_must(&pump, op_release(&pump, event.buffer), QUOIT_E_STALE);
    op_must(&pump, op_simple(&pump, QUOIT_OP_KEEP, event.buffer), QUOIT_E_STALE);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void loan_ends_with_the_next_turn(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 500);
    quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 500);
    pump_submit(&pump);
    CHECK_EQ(quoit_turn(pump.worker, 0, -5), QUOIT_E_ARGUMENT); /* a failed call ends no loan */
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 500);
    uint64_t keep = op_simple(&pump, QUOIT_OP_KEEP, event.buffer); /* in the very turn that would end it */
    op_must(&pump, keep, 0);
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 500);
    op_release(&pump, event.buffer);
    peer_send_pattern(&pump, link.fd, 1, 0, 500);
    event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 500);
    pump_turn_nb(&pump); /* brings nothing, and ends it all the same */
    op_must(&pump, op_simple(&pump, QUOIT_OP_KEEP, event.buffer), QUOIT_E_STALE);
    op_must(&pump, op_release(&pump, event.buffer), QUOIT_E_STALE);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Over its own cap a stream pauses; its neighbour does not notice; a release lets it go on. */
static void cap_of_a_stream(void) {
    struct pump pump;
    quoit_worker_options options = {.kept_stream_max = 16384, .recv_buffers = 64};
    const uint64_t most =
        16384 + 64 * 2048; /* what the kernel had taken before it heard of the pause comes too */
    pump_open(&pump, &options);
    pump.collect = true;
    struct link greedy = link_open(&pump), other = link_open(&pump);
    pump.on_event = note_kept;
    uint64_t recv = op_recv(&pump, greedy.stream, QUOIT_OPF_MULTI | QUOIT_OPF_KEEP, 0);
    peer_send_pattern(&pump, greedy.fd, 1, 0, 400000);
    for (int i = 0; i < 20; i++)
        pump_turn(&pump, 1000000);
    if (kept_bytes < 16384 || kept_bytes > most)
        FAIL("%llu bytes are kept under a cap of 16384", (unsigned long long)kept_bytes);
    CHECK_EQ(copied_count, 0);
    CHECK(!op_ended(&pump, recv));
    for (uint64_t i = 0; i < 50; i++) {
        peer_send_pattern(&pump, other.fd, 2, i * 2000, 2000);
        for (size_t got = 0; got < 2000;)
            got += op_finish(&pump, op_recv(&pump, other.stream, 0, 0)).len;
    }
    CHECK_EQ(stream_of(&pump, other.stream)->len, 100000);
    struct stream *stream = stream_of(&pump, greedy.stream);
    while (stream->len < 400000) {
        size_t before = stream->len;
        release_all(&pump);
        PUMP_UNTIL(&pump, stream->len > before);
        CHECK(kept_bytes <= most);
    }
    CHECK_PATTERN(stream->data, 1, 0, 400000);
    CHECK(stats_of(&pump).recv_paused > 0);
    release_all(&pump);
    link_close(&pump, &greedy);
    link_close(&pump, &other);
    pump_close(&pump);
}

/* Over the arena's cap the bytes come COPIED: nothing pauses, nothing is lost. */
static void cap_of_the_arena(void) {
    enum { STREAMS = 8 };
    struct pump pump;
    quoit_worker_options options = {.kept_stream_max = 1 << 20, .kept_max = 32768, .recv_buffers = 32};
    struct link links[STREAMS];
    pump_open(&pump, &options);
    pump.collect = true;
    for (int i = 0; i < STREAMS; i++)
        links[i] = link_open(&pump);
    pump.on_event = note_kept;
    for (int i = 0; i < STREAMS; i++)
        op_recv(&pump, links[i].stream, QUOIT_OPF_MULTI | QUOIT_OPF_KEEP, 0);
    for (uint64_t at = 0; at < 50000; at += 10000)
        for (int i = 0; i < STREAMS; i++)
            peer_send_pattern(&pump, links[i].fd, (uint64_t)i, at, 10000);
    for (int i = 0; i < STREAMS; i++) {
        struct stream *stream = stream_of(&pump, links[i].stream);
        PUMP_UNTIL(&pump, stream->len == 50000);
        CHECK_PATTERN(stream->data, (uint64_t)i, 0, 50000);
    }
    CHECK(kept_bytes > 0 && kept_bytes <= 32768);
    CHECK(copied_count > 0);
    /* With room again they are kept again. */
    uint32_t copied = copied_count;
    release_all(&pump);
    op_must(&pump, op_simple(&pump, QUOIT_OP_NOP, 0), 0);
    peer_send_pattern(&pump, links[0].fd, 0, 50000, 100);
    PUMP_UNTIL(&pump, stream_of(&pump, links[0].stream)->len == 50100);
    CHECK_EQ(copied_count, copied);
    CHECK(kept_count > 0);
    release_all(&pump);
    for (int i = 0; i < STREAMS; i++)
        link_close(&pump, &links[i]);
    pump_close(&pump);
}

static void keep_op_over_the_cap(void) {
    struct pump pump;
    quoit_worker_options options = {.kept_max = 8192};
    quoit_handle mine[16];
    int count = 0, refused = 0;
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    for (int i = 0; i < 16; i++) {
        peer_send_pattern(&pump, link.fd, 1, 0, 2000);
        quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 2000);
        quoit_event answer = op_finish(&pump, op_simple(&pump, QUOIT_OP_KEEP, event.buffer));
        CHECK(answer.result == 0 || answer.result == -ENOBUFS);
        if (answer.result == 0)
            mine[count++] = event.buffer;
        else
            refused++;
    }
    CHECK(count >= 2 && count <= 4 && refused == 16 - count);
    while (count)
        op_release(&pump, mine[--count]);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* What sends refer to counts against the stream's cap: an echo to a reader that never reads stays bounded. */
static void echo_references_are_bounded(void) {
    struct pump pump;
    quoit_worker_options options = {.kept_stream_max = 65536, .recv_buffers = 64};
    quoit_addr addr = addr_v4(0);
    char byte = 'b';
    pump_open(&pump, &options);
    serve_echo(&pump, &addr);
    int deaf = peer_connect(&addr), good = peer_connect(&addr);
    size_t sent = 0;
    while (!stats_of(&pump).recv_paused) {
        sent += peer_fill(deaf, 1);
        pump_turn(&pump, 1000000);
        CHECK(sent < 100 << 20);
        pump_check_time(&pump, "the stream to pause", __FILE__, __LINE__);
    }
    for (int i = 0; i < 200; i++) {
        peer_send(&pump, good, &byte, 1);
        peer_recv(&pump, good, &byte, 1);
    }
    quoit_stats stats = stats_of(&pump);
    CHECK(stats.buffers_total <= 64 + 65536 / 2048 + 64);
    CHECK(stats.recv_paused > 0);
    close(deaf);
    close(good);
    pump_close(&pump);
}

/* Kept buffers outlive their stream. */
static void kept_after_the_close(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 500);
    quoit_event event = op_must(&pump, op_recv(&pump, link.stream, QUOIT_OPF_KEEP, 0), 500);
    link_close(&pump, &link);
    for (int i = 0; i < 5; i++)
        pump_turn_nb(&pump);
    CHECK_PATTERN(event_data(&pump, &event), 1, 0, 500);
    struct link other = link_open(&pump);
    quoit_op *op = op_new(&pump, QUOIT_OP_SEND, other.stream);
    op->flags = QUOIT_OPF_ARENA_RECV;
    op->addr = event.offset;
    op->len = 500;
    op->arg2 = event.buffer;
    uint64_t send = op->user_data;
    op_release(&pump, event.buffer); /* the send has its own reference */
    op_must(&pump, send, 500);
    peer_recv_pattern(&pump, other.fd, 1, 0, 500);
    link_close(&pump, &other);
    pump_close(&pump);
}

/* What is only lent is not the program's to give back. */
static void lent_is_not_released(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    peer_send_pattern(&pump, link.fd, 1, 0, 100);
    quoit_event event = op_must(&pump, op_recv(&pump, link.stream, 0, 0), 100);
    op_must(&pump, op_release(&pump, event.buffer), QUOIT_E_STALE);
    peer_send_pattern(&pump, link.fd, 1, 100, 100);
    op_must(&pump, op_recv(&pump, link.stream, 0, 0), 100);
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"exhausted_pool", exhausted_pool},
    {"none_is_forgotten", none_is_forgotten},
    {"kept_until_released", kept_until_released},
    {"lent_is_not_released", lent_is_not_released},
    {"kept_by_auto_recv", kept_by_auto_recv},
    {"keep_by_op", keep_by_op},
    {"loan_ends_with_the_next_turn", loan_ends_with_the_next_turn},
    {"cap_of_a_stream", cap_of_a_stream},
    {"cap_of_the_arena", cap_of_the_arena},
    {"keep_op_over_the_cap", keep_op_over_the_cap},
    {"echo_references_are_bounded", echo_references_are_bounded},
    {"kept_after_the_close", kept_after_the_close},
};
TEST_GROUP(buffers, cases);
