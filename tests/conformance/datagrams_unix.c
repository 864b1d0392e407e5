/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* datagrams_unix.c: Unix datagrams, which wait for a peer that does not read: order, cancels, deadlines, closes. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SOON 30000000u
/* More than any queue of a Unix datagram socket holds (net.unix.max_dgram_qlen). */
#define MANY 4096

static quoit_addr own_addr(const char *form, int number) {
    char path[100];
    snprintf(path, sizeof path, form, (int)getpid(), number);
    return addr_unix(path);
}

/* A socket of the worker that is connected to one of the test's. */
struct pair {
    struct pump pump;
    quoit_handle socket;
    quoit_addr here, there;
    int fd;
};

static void pair_open(struct pair *pair, bool connected) {
    pump_open(&pair->pump, NULL);
    pair->here = own_addr("@quoit-here-%d-%d", 1);
    pair->there = own_addr("@quoit-there-%d-%d", 1);
    pair->fd = peer_bind(&pair->there);
    quoit_bind_options options = {.struct_size = sizeof options};
    if (connected)
        options.peer = pair->there;
    quoit_op *op = op_new(&pair->pump, QUOIT_OP_BIND, 0);
    op->addr = (uintptr_t)&pair->here;
    op->len = sizeof pair->here;
    op->arg2 = (uintptr_t)&options;
    quoit_event event = op_must(&pair->pump, op->user_data, 0);
    CHECK_EQ(event.aux, 0);
    pair->socket = event.value;
}

static void pair_close(struct pair *pair) {
    close(pair->fd);
    op_must(&pair->pump, op_close(&pair->pump, pair->socket, QUOIT_OPF_ABORT), 0);
    pump_close(&pair->pump);
}

/* The peer reads everything there is, which must be the numbers from `next`; returns what follows. */
static uint32_t read_all(struct pair *pair, uint32_t next) {
    uint32_t number;
    while (recv(pair->fd, &number, sizeof number, MSG_DONTWAIT) == sizeof number)
        CHECK_EQ(number, next++);
    return next;
}

/* Sends numbers until one waits; its op, and how many went before it. */
static uint64_t fill(struct pair *pair, const quoit_addr *to, uint32_t *count) {
    for (*count = 0; *count < MANY; ++*count) {
        uint64_t send = op_sendmsg(&pair->pump, pair->socket, to, count, sizeof *count, 0);
        for (int i = 0; i < 3 && !op_ended(&pair->pump, send); i++)
            pump_turn(&pair->pump, 1000000);
        if (!op_ended(&pair->pump, send))
            return send;
        op_must(&pair->pump, send, sizeof *count);
    }
    FAIL("the peer's queue takes %d datagrams", MANY);
}

static void to_and_fro(void) {
    for (int connected = 0; connected < 2; connected++) {
        struct pair pair;
        quoit_addr seen;
        char text[16];
        pair_open(&pair, connected);
        CHECK_EQ(quoit_local_addr(pair.pump.worker, pair.socket, &seen), QUOIT_OK);
        CHECK(!memcmp(&seen, &pair.here, sizeof seen));
        op_must(&pair.pump,
                op_sendmsg(&pair.pump, pair.socket, connected ? NULL : &pair.there, "hello", 5, 0), 5);
        CHECK_EQ(peer_recv_from(&pair.pump, pair.fd, text, sizeof text, &seen), 5);
        CHECK(!memcmp(&seen, &pair.here, sizeof seen));
        peer_send_to(pair.fd, &pair.here, "well", 4);
        quoit_event event = op_must(&pair.pump, op_recvmsg(&pair.pump, pair.socket, 0, 0), 4);
        const quoit_addr *from = (const void *)(uintptr_t)(pair.pump.batch->recv_base + event.value);
        CHECK(!memcmp(from, &pair.there, sizeof *from));
        pair_close(&pair);
    }
}

/* Who has no name is told as such, and cannot be answered. */
static void nameless(void) {
    struct pair pair;
    pair_open(&pair, false);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    for (int i = 0; i < 2; i++) {
        peer_send_to(fd, &pair.here, "boo", 3);
        uint64_t recv = op_recvmsg(&pair.pump, pair.socket, i ? QUOIT_OPF_MULTI : 0, 0);
        PUMP_UNTIL(&pair.pump, op_record(&pair.pump, recv)->events == 1);
        quoit_event event = op_record(&pair.pump, recv)->last;
        const quoit_addr *from = (const void *)(uintptr_t)(pair.pump.batch->recv_base + event.value);
        CHECK_EQ(from->family, QUOIT_FAMILY_UNIX);
        CHECK_EQ(from->len, 0);
        quoit_op *op = op_new(&pair.pump, QUOIT_OP_SENDMSG, pair.socket);
        op->flags = QUOIT_OPF_ARENA_RECV;
        op->addr = event.offset;
        op->len = event.len;
        op->arg2 = event.buffer;
        op_must(&pair.pump, op->user_data, -ENOTCONN);
    }
    close(fd);
    pair_close(&pair);
}

static void at_a_path(void) {
    struct pump pump;
    quoit_addr addr = own_addr("/tmp/quoit-datagram-%d-%d", 1);
    pump_open(&pump, NULL);
    for (int i = 0; i < 2; i++) {
        quoit_handle socket = bind_on(&pump, &addr, QUOIT_BIND_UNLINK);
        op_must(&pump, op_close(&pump, socket, 0), 0);
    }
    quoit_bind_options options = {.struct_size = sizeof options, .flags = QUOIT_BIND_REUSEPORT};
    quoit_op *op = op_new(&pump, QUOIT_OP_BIND, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg2 = (uintptr_t)&options;
    CHECK_EQ(op_must(&pump, op->user_data, QUOIT_E_FLAGS).aux, QUOIT_FIELD_ARG2);
    op = op_new(&pump, QUOIT_OP_BIND, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op_must(&pump, op->user_data, -EADDRINUSE); /* its file is there still */
    CHECK_EQ(unlink((const char *)addr.bytes), 0);
    pump_close(&pump);
}

/* All arrive in the order they were given, however often they wait. */
static void order_is_kept(void) {
    for (int connected = 0; connected < 2; connected++) {
        struct pair pair;
        uint64_t sends[400];
        uint32_t next = 0, numbers[400];
        pair_open(&pair, connected);
        for (uint32_t n = 0; n < 400; n++) {
            numbers[n] = n;
            sends[n] = op_sendmsg(&pair.pump, pair.socket, connected ? NULL : &pair.there, &numbers[n], 4, 0);
        }
        while (next < 400) {
            pump_check_time(&pair.pump, "400 datagrams", __FILE__, __LINE__);
            pump_turn(&pair.pump, 1000000);
            next = read_all(&pair, next);
        }
        for (int n = 0; n < 400; n++)
            op_must(&pair.pump, sends[n], sizeof(uint32_t));
        pair_close(&pair);
    }
}

static void cancelled(void) {
    for (int connected = 0; connected < 2; connected++) {
        struct pair pair;
        uint32_t count;
        const quoit_addr *to;
        pair_open(&pair, connected);
        to = connected ? NULL : &pair.there;
        uint64_t waits = fill(&pair, to, &count);
        uint64_t behind = op_sendmsg(&pair.pump, pair.socket, to, "behind", 6, 0);
        uint64_t stays = op_sendmsg(&pair.pump, pair.socket, to, &count, sizeof count, 0);
        uint64_t never = op_sendmsg(&pair.pump, pair.socket, to, "never", 5, 0);
        op_must(&pair.pump, op_cancel(&pair.pump, pair.socket, QUOIT_OP_SENDMSG, never),
                1); /* in its own batch */
        op_must(&pair.pump, never, -ECANCELED);
        op_must(&pair.pump, op_cancel(&pair.pump, pair.socket, QUOIT_OP_SENDMSG, behind), 1);
        CHECK_EQ(op_must(&pair.pump, behind, -ECANCELED).value, 0);
        op_must(&pair.pump, op_cancel(&pair.pump, pair.socket, QUOIT_OP_SENDMSG, waits), 1);
        CHECK_EQ(op_must(&pair.pump, waits, -ECANCELED).value, 0);
        CHECK(!op_ended(&pair.pump, stays));
        uint32_t next = read_all(&pair, 0);
        op_must(&pair.pump, stays, sizeof count);
        CHECK_EQ(read_all(&pair, next), count + 1);
        op_must(&pair.pump, op_cancel(&pair.pump, pair.socket, QUOIT_OP_SENDMSG, 0), -ENOENT);
        pair_close(&pair);
    }
}

static void times_out(void) {
    struct pair pair;
    uint32_t count;
    pair_open(&pair, true);
    uint64_t waits = fill(&pair, NULL, &count);
    uint64_t behind = op_sendmsg(&pair.pump, pair.socket, NULL, "late", 4, 0);
    ((quoit_op *)(uintptr_t)pair.pump.batch->ops)[pair.pump.nops - 1].timeout_ns = SOON;
    op_must(&pair.pump, behind, -ETIMEDOUT);
    CHECK(!op_ended(&pair.pump, waits));
    uint32_t next = read_all(&pair, 0);
    op_must(&pair.pump, waits, sizeof count);
    CHECK_EQ(read_all(&pair, next), count + 1);
    fill(&pair, NULL, &count);
    op_must(&pair.pump, op_cancel(&pair.pump, pair.socket, QUOIT_OP_SENDMSG, 0), 1);
    uint64_t late = op_sendmsg(&pair.pump, pair.socket, NULL, "late", 4, 0);
    ((quoit_op *)(uintptr_t)pair.pump.batch->ops)[pair.pump.nops - 1].timeout_ns = SOON;
    op_must(&pair.pump, late, -ETIMEDOUT);
    read_all(&pair, 0);
    uint64_t in_time = op_sendmsg(&pair.pump, pair.socket, NULL, "now", 3, 0);
    ((quoit_op *)(uintptr_t)pair.pump.batch->ops)[pair.pump.nops - 1].timeout_ns = 10000000000u;
    op_must(&pair.pump, in_time, 3);
    pair_close(&pair);
}

/* A close sends what is queued first; one that will not wait drops it, and says how much. */
static void closes(void) {
    for (int forced = 0; forced < 3; forced++) {
        struct pair pair;
        uint32_t count;
        pair_open(&pair, true);
        uint64_t waits = fill(&pair, NULL, &count);
        uint32_t after = count + 1;
        uint64_t behind = op_sendmsg(&pair.pump, pair.socket, NULL, &after, sizeof after, 0);
        uint64_t closing = op_close(&pair.pump, pair.socket, forced == 1 ? QUOIT_OPF_ABORT : 0);
        if (forced == 2) /* its patience ends */
            ((quoit_op *)(uintptr_t)pair.pump.batch->ops)[pair.pump.nops - 1].timeout_ns = SOON;
        if (forced) {
            CHECK_EQ(op_must(&pair.pump, closing, 0).value, 8);
            op_must(&pair.pump, waits, -ECANCELED);
            op_must(&pair.pump, behind, -ECANCELED);
            CHECK_EQ(read_all(&pair, 0), count);
        } else {
            uint32_t next = 0;
            pump_turn_nb(&pair.pump);
            CHECK(!op_ended(&pair.pump, closing));
            while (next < count + 2) {
                pump_check_time(&pair.pump, "what was queued", __FILE__, __LINE__);
                pump_turn(&pair.pump, 1000000);
                next = read_all(&pair, next);
            }
            CHECK_EQ(op_must(&pair.pump, closing, 0).value, 0);
            op_must(&pair.pump, waits, 4);
            op_must(&pair.pump, behind, 4);
        }
        close(pair.fd);
        pump_close(&pair.pump);
    }
}

/* A stop ends what waits; a worker that is destroyed frees it. */
static void left_behind(void) {
    struct pair pair;
    uint32_t count;
    static char big[30000];
    quoit_iov slices[8];
    pair_open(&pair, true);
    for (int i = 0; i < 8; i++)
        slices[i] = (quoit_iov){.addr = (uintptr_t)big, .len = 100};
    fill(&pair, NULL, &count);
    for (int i = 0; i < 4; i++) {
        op_sendmsg(&pair.pump, pair.socket, NULL, big, sizeof big, 0);
        op_sendmsg(&pair.pump, pair.socket, NULL, slices, 8, QUOIT_OPF_IOV | QUOIT_OPF_BORROW);
    }
    op_recvmsg(&pair.pump, pair.socket, QUOIT_OPF_MULTI, 60000);
    pump_turn_nb(&pair.pump);
    close(pair.fd);
    pump_abandon(&pair.pump);
    pair_open(&pair, true);
    fill(&pair, NULL, &count);
    uint64_t behind = op_sendmsg(&pair.pump, pair.socket, NULL, big, sizeof big, 0);
    pump_turn_nb(&pair.pump);
    close(pair.fd);
    CHECK(!op_ended(&pair.pump, behind));
    pump_close(&pair.pump);
}

static const struct test_case cases[] = {
    {"to_and_fro", to_and_fro}, {"nameless", nameless},
    {"at_a_path", at_a_path},   {"order_is_kept", order_is_kept},
    {"cancelled", cancelled},   {"times_out", times_out},
    {"closes", closes},         {"left_behind", left_behind},
};
TEST_GROUP(datagrams_unix, cases);
