/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* zerocopy.c: sends from the program's memory: when they end, whatever becomes of them; where the kernel copies after all. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS (QUOIT_OPF_BORROW | QUOIT_OPF_ZEROCOPY)
#define MIB (1u << 20)

static bool on_ring(struct pump *pump) {
    return stats_of(pump).driver != QUOIT_DRIVER_EPOLL;
}

/* A kernel that cannot do it refuses the first and is not asked again. */
static void need_zerocopy(struct pump *pump) {
    static const char byte = 'x';
    struct link link = link_open(pump);
    op_must(pump, op_send(pump, link.stream, &byte, 1, FLAGS), 1);
    link_close(pump, &link);
    if (on_ring(pump) && stats_of(pump).zerocopy_refused > 0)
        test_skip("this kernel has no zero-copy sends that report their use (Linux 6.2)");
}

/* A stream whose socket takes much more than its peer's window: what it took stays unsent until the peer reads. */
static struct link link_open_stuck(struct pump *pump) {
    struct link link = link_open(pump);
    quoit_op *op = op_new(pump, QUOIT_OP_SOCKET_SET, link.stream);
    op->arg = QUOIT_SOCKET_SEND_BUFFER;
    op->offset = MIB;
    op_must(pump, op->user_data, 0);
    return link;
}

/* The socket has all that the stream owed. */
static void wait_taken(struct pump *pump) {
    pump_turn_nb(pump);
    PUMP_UNTIL(pump, stats_of(pump).send_bytes_queued == 0);
}

/* The peer reads what there is until the op has ended; returns how much that was in all. */
static size_t read_until_ended(struct pump *pump, int fd, uint64_t id) {
    size_t total = 0;
    while (!op_ended(pump, id)) {
        size_t there = peer_queued(fd);
        peer_recv_pattern(pump, fd, 1, total, there);
        total += there;
        pump_turn(pump, there ? 0 : 1000000);
        pump_check_time(pump, "the op to end", __FILE__, __LINE__);
    }
    return total;
}

/* Over loopback the kernel copies what it was to send from here: after its first word of that no more is asked of it. */
static void switches_itself_off_where_copies_are_made(void) {
    enum { SENDS = 8 };
    static char data[MIB];
    struct pump pump;
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    struct link link = link_open(&pump);
    quoit_stats before = stats_of(&pump), first = before;
    for (int i = 0; i < SENDS; i++) {
        pattern_fill(data, 1, (uint64_t)i * MIB, MIB);
        uint64_t id = op_send(&pump, link.stream, data, MIB, FLAGS);
        peer_recv_pattern(&pump, link.fd, 1, (uint64_t)i * MIB, MIB);
        quoit_event event = op_must(&pump, id, MIB);
        CHECK_EQ(event.flags, 0);
        memset(data, 0xEE, sizeof data);
        if (i == 0)
            first = stats_of(&pump);
    }
    quoit_stats after = stats_of(&pump);
    CHECK_EQ(first.zerocopy_sends > before.zerocopy_sends, on_ring(&pump));
    CHECK_EQ(first.zerocopy_copied > before.zerocopy_copied, on_ring(&pump));
    CHECK_EQ(after.zerocopy_sends, first.zerocopy_sends);
    CHECK_EQ(after.zerocopy_copied, first.zerocopy_copied);
    CHECK_EQ(after.zerocopy_refused, 0);
    CHECK(after.sends > first.sends);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* What the socket has taken lies in the program's memory still: the op ends when that has left. */
static void ends_when_the_kernel_lets_go(void) {
    static char data[MIB / 4];
    struct pump pump;
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    struct link link = link_open_stuck(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    uint64_t id = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    wait_taken(&pump);
    CHECK_EQ(op_ended(&pump, id), !on_ring(&pump));
    peer_recv_pattern(&pump, link.fd, 1, 0, sizeof data);
    op_must(&pump, id, sizeof data);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Later sends and a shutdown leave meanwhile, and end after it. */
static void those_behind_end_later(void) {
    static char data[MIB / 4], more[1000];
    struct pump pump;
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    struct link link = link_open_stuck(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    pattern_fill(more, 1, sizeof data, sizeof more);
    uint64_t first = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    wait_taken(&pump);
    uint64_t second = op_send(&pump, link.stream, more, sizeof more, 0);
    uint64_t empty = op_send(&pump, link.stream, NULL, 0, 0);
    uint64_t end = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
    wait_taken(&pump);
    pump_turn(&pump, 1000000);
    CHECK_EQ(op_ended(&pump, second), !on_ring(&pump));
    CHECK_EQ(op_ended(&pump, empty), !on_ring(&pump));
    CHECK_EQ(peer_recv_to_end(&pump, link.fd, 1), sizeof data + sizeof more);
    op_must(&pump, end, 0); /* the pump checks the order of all */
    op_must(&pump, first, sizeof data);
    op_must(&pump, second, sizeof more);
    op_must(&pump, empty, 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* All kinds of payload, gathered or not, beside sends that are none; what is the library's is freed only when it has left. */
static void every_kind_of_payload(void) {
    enum { ROUNDS = 40, PART = 30000 };
    static const uint32_t flags[] = {0, QUOIT_OPF_ZEROCOPY, FLAGS, QUOIT_OPF_ZEROCOPY | QUOIT_OPF_QUIET,
                                     QUOIT_OPF_ZEROCOPY | QUOIT_OPF_ARENA_SEND};
    static char data[ROUNDS][PART];
    struct pump pump;
    uint64_t ids[ROUNDS];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t flag = flags[i * 7 % 5];
        char *payload = data[i];
        if (flag & QUOIT_OPF_ARENA_SEND && pump.batch->scratch_len < PART)
            flag = QUOIT_OPF_ZEROCOPY;
        if (flag & QUOIT_OPF_ARENA_SEND)
            payload = (char *)(uintptr_t)(pump.batch->send_base + pump.batch->scratch_off);
        pattern_fill(payload, 1, (uint64_t)i * PART, PART);
        ids[i] = op_send(&pump, link.stream, payload, PART, flag);
        if (flag & QUOIT_OPF_ARENA_SEND)
            ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].addr = pump.batch->scratch_off;
        if (i % 3 == 2 || flag & QUOIT_OPF_ARENA_SEND)
            pump_turn_nb(&pump);
    }
    peer_recv_pattern(&pump, link.fd, 1, 0, (size_t)ROUNDS * PART);
    for (int i = 0; i < ROUNDS; i++)
        if (!(op_record(&pump, ids[i])->flags & QUOIT_OPF_QUIET))
            op_must(&pump, ids[i], PART);
    PUMP_UNTIL(&pump, stats_of(&pump).send_bytes_queued == 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void slices_in_one_send(void) {
    enum { SLICES = 700, SIZE = 5000 };
    static char data[SLICES * SIZE];
    static quoit_iov slices[SLICES];
    struct pump pump;
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    struct link link = link_open(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    for (uint32_t i = 0; i < SLICES; i++)
        slices[i] = (quoit_iov){.addr = (uintptr_t)data + (size_t)i * SIZE, .len = SIZE};
    quoit_stats before = stats_of(&pump);
    uint64_t id = op_send(&pump, link.stream, slices, SLICES, FLAGS | QUOIT_OPF_IOV);
    pump_submit(&pump);
    memset(slices, 0xEE, sizeof slices);
    peer_recv_pattern(&pump, link.fd, 1, 0, sizeof data);
    op_must(&pump, id, sizeof data);
    quoit_stats after = stats_of(&pump);
    CHECK(after.sends_gathered > before.sends_gathered);
    CHECK_EQ(after.zerocopy_sends > before.zerocopy_sends, on_ring(&pump));
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Received bytes go out again from where they lie, and stay there until they have. */
static void received_bytes(void) {
    enum { SIZE = 4 << 20 };
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    int from = peer_connect(&addr);
    struct link to = link_open_stuck(&pump);
    size_t sent = 0, got = 0;
    while (got < SIZE) {
        if (sent < SIZE && sent - got < MIB) {
            peer_send_pattern(&pump, from, 1, sent, 65536);
            sent += 65536;
        }
        int n = pump_turn(&pump, 1000000);
        for (int i = 0; i < n; i++) {
            const quoit_event *event = pump_event(&pump, (uint32_t)i);
            if (event->kind != QUOIT_OP_RECV || event->len == 0)
                continue;
            quoit_op *op = op_new(&pump, QUOIT_OP_SEND, to.stream);
            op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_ZEROCOPY;
            op->addr = event->offset;
            op->len = event->len;
            op->arg2 = event->buffer;
        }
        size_t there = peer_queued(to.fd);
        peer_recv_pattern(&pump, to.fd, 1, got, there);
        got += there;
        pump_check_time(&pump, "the bytes to come through", __FILE__, __LINE__);
    }
    close(from);
    link_close(&pump, &to);
    pump_close(&pump);
}

/* Asked to end when a part has left: it ends when the kernel is done with that, and tells how much it was. */
static void ended_in_mid_send(uint64_t timeout_ns) {
    static char data[16 * MIB];
    struct pump pump;
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    struct link link = link_open_stuck(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    uint64_t id = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns = timeout_ns;
    pump_turn_nb(&pump);
    for (int i = 0; i < 3; i++)
        pump_turn(&pump, 1000000);
    CHECK(stats_of(&pump).send_bytes_queued < sizeof data);
    if (timeout_ns == 0)
        op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND, id), 1);
    wait_taken(&pump); /* nothing is owed any more, and yet the op has not ended */
    CHECK_EQ(op_ended(&pump, id), !on_ring(&pump));
    size_t total = read_until_ended(&pump, link.fd, id);
    quoit_event event = op_must(&pump, id, timeout_ns ? -ETIMEDOUT : -ECANCELED);
    CHECK(event.value > 0 && event.value < sizeof data && total <= event.value);
    memset(data, 0xEE, sizeof data);
    peer_recv_pattern(&pump, link.fd, 1, total, event.value - total);
    op_must(&pump, op_send(&pump, link.stream, "next", 4, 0), 4);
    char text[4];
    peer_recv(&pump, link.fd, text, 4); /* with no byte between */
    CHECK(!memcmp(text, "next", 4));
    link_close(&pump, &link);
    pump_close(&pump);
}

static void cancelled_in_mid_send(void) {
    ended_in_mid_send(0);
}

static void late_in_mid_send(void) {
    ended_in_mid_send(100000000);
}

/* Cancelled when all of it has left: it won, and says so when the kernel has let go. */
static void cancelled_when_all_has_left(void) {
    static char data[MIB / 4];
    struct pump pump;
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    struct link link = link_open_stuck(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    uint64_t id = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    wait_taken(&pump);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND, id), on_ring(&pump) ? 1 : -ENOENT);
    CHECK_EQ(op_ended(&pump, id), !on_ring(&pump));
    peer_recv_pattern(&pump, link.fd, 1, 0, sizeof data);
    op_must(&pump, id, sizeof data);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* Cancelled in the batch that brought it, or behind another: nothing of it leaves. */
static void cancelled_before(void) {
    static char data[16 * MIB];
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t id = op_send(&pump, link.stream, data, 100, FLAGS);
    uint64_t cancel = op_cancel(&pump, link.stream, QUOIT_OP_SEND, id);
    op_must(&pump, cancel, 1);
    CHECK_EQ(op_must(&pump, id, -ECANCELED).value, 0);
    pattern_fill(data, 1, 0, sizeof data);
    uint64_t first = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    pump_turn_nb(&pump);
    id = op_send(&pump, link.stream, data, 100, FLAGS);
    pump_turn_nb(&pump);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND, id), 1);
    CHECK_EQ(op_must(&pump, id, -ECANCELED).value, 0);
    peer_recv_pattern(&pump, link.fd, 1, 0, sizeof data);
    op_must(&pump, first, sizeof data);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* A close sends what is owed, and is told after the ends of what it sent. */
static void close_in_flight(void) {
    static char data[4 * MIB];
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open_stuck(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    uint64_t id = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    pump_turn_nb(&pump);
    uint64_t end = op_close(&pump, link.stream, 0);
    CHECK_EQ(peer_recv_to_end(&pump, link.fd, 1), sizeof data);
    close(link.fd);
    CHECK_EQ(op_must(&pump, end, 0).value, 0);
    CHECK(op_ended(&pump, id));
    op_must(&pump, id, sizeof data);
    pump_close(&pump);
}

/* Nobody reads, so that nothing is acknowledged: a close with ABORT or a deadline ends it all the same, and lets go of the memory. */
static void cut_off(uint32_t flags, uint64_t timeout_ns) {
    static char data[4 * MIB];
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open_stuck(&pump);
    pattern_fill(data, 1, 0, sizeof data);
    uint64_t id = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    uint64_t queued = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    pump_turn_nb(&pump);
    pump_turn(&pump, 1000000);
    uint64_t end = op_close(&pump, link.stream, flags);
    ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns = timeout_ns;
    quoit_event closed = op_must(&pump, end, 0);
    CHECK(op_ended(&pump, id) && op_ended(&pump, queued));
    quoit_event event = op_must(&pump, id, -ECANCELED);
    op_must(&pump, queued, -ECANCELED);
    CHECK_EQ(closed.value, 2 * sizeof data - event.value);
    close(link.fd);
    pump_close(&pump);
}

static void aborted_in_flight(void) {
    cut_off(QUOIT_OPF_ABORT, 0);
}

static void close_without_patience(void) {
    cut_off(0, 50000000);
}

/* A worker that is stopped, or destroyed without that, waits for no peer. */
static void end_of_the_worker(void) {
    static char data[MIB / 4];
    for (int abandoned = 0; abandoned < 2; abandoned++) {
        struct pump pump;
        pump_open(&pump, NULL);
        struct link link = link_open_stuck(&pump);
        uint64_t id = op_send(&pump, link.stream, data, sizeof data, FLAGS);
        wait_taken(&pump);
        uint64_t leaked = stats_of(&pump).leaked;
        CHECK_EQ(leaked, 0);
        if (abandoned) {
            pump_abandon(&pump); /* the runner sees what is not freed */
        } else {
            CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
            op_must(&pump, id, sizeof data);
            pump_close(&pump);
        }
        close(link.fd);
    }
}

static void peer_gone_in_mid_send(void) {
    enum { SENDS = 6 };
    static char data[MIB];
    uint64_t sends[SENDS];
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open_stuck(&pump);
    for (int i = 0; i < SENDS; i++)
        sends[i] = op_send(&pump, link.stream, data, sizeof data, FLAGS);
    pump_turn_nb(&pump);
    pump_turn(&pump, 1000000);
    peer_reset(link.fd);
    bool failed = false;
    for (int i = 0; i < SENDS; i++) {
        quoit_event event = op_finish(&pump, sends[i]);
        if (event.result == sizeof data) {
            CHECK(!failed);
            continue;
        }
        CHECK(event.result == -ECONNRESET || event.result == -EPIPE);
        CHECK(event.value < sizeof data && (!failed || event.value == 0));
        failed = true;
    }
    CHECK(failed);
    op_must(&pump, op_close(&pump, link.stream, 0), 0);
    pump_close(&pump);
}

/* A Unix socket has none: the bytes leave in a plain send, and no more is asked. */
static void sockets_that_refuse(void) {
    static char data[MIB];
    struct pump pump;
    char name[64];
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    snprintf(name, sizeof name, "@quoit-zerocopy-%d", getpid());
    quoit_addr addr = addr_unix(name);
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, 0);
    int fd = peer_connect(&addr);
    quoit_handle stream = op_must(&pump, accept, 0).value;
    quoit_stats before = stats_of(&pump);
    for (uint64_t i = 0; i < 3; i++) {
        pattern_fill(data, 1, i * MIB, MIB);
        uint64_t id = op_send(&pump, stream, data, MIB, FLAGS);
        peer_recv_pattern(&pump, fd, 1, i * MIB, MIB);
        op_must(&pump, id, MIB);
    }
    quoit_stats after = stats_of(&pump);
    CHECK_EQ(after.zerocopy_sends - before.zerocopy_sends, on_ring(&pump) ? 1 : 0);
    CHECK_EQ(after.zerocopy_refused - before.zerocopy_refused, on_ring(&pump) ? 1 : 0);
    close(fd);
    pump_close(&pump);
}

static bool drop_ipc_lock(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
    return syscall(SYS_capset, &header, data) == 0;
}

/* What the kernel may not lock it refuses, -ENOMEM: the same bytes leave in a plain send at once. */
static void no_memory_to_lock(void) {
    static char data[4 * MIB];
    struct rlimit limit;
    struct pump pump;
    CHECK(drop_ipc_lock());
    pump_open(&pump, NULL);
    need_zerocopy(&pump);
    struct link link = link_open(&pump);
    CHECK_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (limit.rlim_cur > 65536)
        limit.rlim_cur = 65536; /* it may be lower, and may then not be raised */
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    quoit_stats before = stats_of(&pump);
    for (uint64_t i = 0; i < 2; i++) {
        pattern_fill(data, 1, i * sizeof data, sizeof data);
        uint64_t id = op_send(&pump, link.stream, data, sizeof data, FLAGS);
        peer_recv_pattern(&pump, link.fd, 1, i * sizeof data, sizeof data);
        op_must(&pump, id, sizeof data);
    }
    quoit_stats after = stats_of(&pump);
    CHECK_EQ(after.zerocopy_sends - before.zerocopy_sends, on_ring(&pump) ? 1 : 0);
    CHECK_EQ(after.zerocopy_refused - before.zerocopy_refused, on_ring(&pump) ? 1 : 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"switches_itself_off_where_copies_are_made", switches_itself_off_where_copies_are_made},
    {"ends_when_the_kernel_lets_go", ends_when_the_kernel_lets_go},
    {"those_behind_end_later", those_behind_end_later},
    {"every_kind_of_payload", every_kind_of_payload},
    {"slices_in_one_send", slices_in_one_send},
    {"received_bytes", received_bytes},
    {"cancelled_in_mid_send", cancelled_in_mid_send},
    {"late_in_mid_send", late_in_mid_send},
    {"cancelled_when_all_has_left", cancelled_when_all_has_left},
    {"cancelled_before", cancelled_before},
    {"close_in_flight", close_in_flight},
    {"aborted_in_flight", aborted_in_flight},
    {"close_without_patience", close_without_patience},
    {"end_of_the_worker", end_of_the_worker},
    {"peer_gone_in_mid_send", peer_gone_in_mid_send},
    {"sockets_that_refuse", sockets_that_refuse},
    {"no_memory_to_lock", no_memory_to_lock},
};
TEST_GROUP(zerocopy, cases);
