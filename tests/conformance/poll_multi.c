/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* poll_multi.c: MULTI polls, by which other libraries' descriptors live on a worker. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS 1000000ll

static uint64_t op_poll_multi(struct pump *pump, int fd, uint32_t mask, uint32_t flags) {
    quoit_op *op = op_new(pump, QUOIT_OP_POLL, 0);
    op->flags = QUOIT_OPF_MULTI | flags;
    op->offset = fd;
    op->arg = mask;
    return op->user_data;
}

static quoit_handle armed(struct pump *pump, uint64_t poll) {
    PUMP_UNTIL(pump, op_record(pump, poll)->events);
    quoit_handle handle = op_record(pump, poll)->last.value;
    CHECK_EQ(quoit_handle_kind(handle), QUOIT_HANDLE_POLL);
    return handle;
}

static int counter_new(uint64_t value) {
    int fd = eventfd((unsigned)value, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(fd >= 0);
    return fd;
}

static void counter_add(int fd) {
    uint64_t one = 1;
    CHECK_EQ(write(fd, &one, 8), 8);
}

static void counter_take(int fd) {
    uint64_t value;
    CHECK_EQ(read(fd, &value, 8), 8);
}

/* As long as nobody reads, each turn tells it once; when it was read, none does. */
static void once_a_turn_while_ready(void) {
    struct pump pump;
    int fd = counter_new(1);
    pump_open(&pump, NULL);
    uint64_t poll = op_poll_multi(&pump, fd, QUOIT_POLL_IN, 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 5; i++) {
            uint32_t events = op_record(&pump, poll)->events;
            PUMP_UNTIL(&pump, op_record(&pump, poll)->events > events);
            CHECK_EQ(op_record(&pump, poll)->events, events + 1);
            CHECK_EQ(op_record(&pump, poll)->last.result, QUOIT_POLL_IN);
            CHECK_EQ(op_record(&pump, poll)->last.flags, QUOIT_EVF_MORE);
        }
        counter_take(fd);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(pump_turn(&pump, MS), 0);
        counter_add(fd);
    }
    CHECK_EQ(stats_of(&pump).objects_live, 1);
    op_must(&pump, op_cancel(&pump, 0, QUOIT_OP_POLL, poll), 1);
    op_must(&pump, poll, -ECANCELED);
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    close(fd);
    pump_close(&pump);
}

/* Each way to end one: a last event, then the handle is gone. */
static void ends(void) {
    struct pump pump;
    int fd = counter_new(0);
    pump_open(&pump, NULL);
    for (int i = 0; i < 40; i++) {
        uint64_t poll = op_poll_multi(&pump, fd, QUOIT_POLL_IN, QUOIT_OPF_ARMED);
        if (i % 8 == 7)
            ((quoit_op *)(uintptr_t)pump.batch->ops)[pump.nops - 1].timeout_ns = 20 * MS;
        quoit_handle handle = armed(&pump, poll);
        CHECK_EQ(op_record(&pump, poll)->last.result, 0);
        if (i % 2 && i % 8 != 7) { /* told before, told again */
            counter_add(fd);
            PUMP_UNTIL(&pump, op_record(&pump, poll)->events >= 2);
            counter_take(fd);
        }
        int64_t result = -ECANCELED;
        switch (i % 8) {
        case 0:
        case 1:
            op_must(&pump, op_cancel(&pump, handle, 0, 0), 1);
            break;
        case 2:
        case 3:
            op_must(&pump, op_cancel(&pump, handle, QUOIT_OP_POLL, poll), 1);
            break;
        case 4:
        case 5:
            op_must(&pump, op_close(&pump, handle, 0), 0);
            CHECK(op_ended(&pump, poll)); /* the close's event is the handle's last */
            break;
        case 6:
            op_must(&pump, op_close(&pump, handle, QUOIT_OPF_ABORT), 0);
            break;
        default:
            result = -ETIMEDOUT;
        }
        CHECK_EQ(op_must(&pump, poll, result).value, handle);
        op_must(&pump, op_cancel(&pump, handle, 0, 0), QUOIT_E_STALE);
        op_must(&pump, op_close(&pump, handle, 0), QUOIT_E_STALE);
    }
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    close(fd);
    pump_close(&pump);
}

static void wrong_uses(void) {
    struct pump pump;
    int fd = counter_new(0);
    pump_open(&pump, NULL);
    quoit_op *op = op_new(&pump, QUOIT_OP_POLL, 0);
    op->flags = QUOIT_OPF_ARMED;
    op->offset = fd;
    op->arg = QUOIT_POLL_IN;
    op_must(&pump, op->user_data, QUOIT_E_FLAGS);
    op_must(&pump, op_poll_multi(&pump, fd, 0, 0), QUOIT_E_FIELD);
    op_must(&pump, op_poll_multi(&pump, fd, 0x40, 0), QUOIT_E_FIELD);
    op_must(&pump, op_poll_multi(&pump, 999999, QUOIT_POLL_IN, 0), -EBADF);
    op_must(&pump, op_poll_multi(&pump, -1, QUOIT_POLL_IN, 0), -EBADF);
    uint64_t poll = op_poll_multi(&pump, fd, QUOIT_POLL_IN, QUOIT_OPF_ARMED);
    quoit_handle handle = armed(&pump, poll);
    op_must(&pump, op_recv(&pump, handle, 0, 0), QUOIT_E_KIND);
    op_must(&pump, op_cancel(&pump, handle, QUOIT_OP_RECV, 0), -ENOENT);
    op_must(&pump, op_cancel(&pump, handle, QUOIT_OP_POLL, poll + 1), -ENOENT);
    CHECK(!op_ended(&pump, poll));
    close(fd); /* the worker has a duplicate; the stop ends the poll */
    pump_close(&pump);
}

/* Many at once, in batches as small as the settings make them: none starves the others. */
static void many_at_once(void) {
    struct pump pump;
    enum { COUNT = 50 };
    int fds[COUNT];
    uint64_t polls[COUNT];
    uint32_t least = 0;
    pump_open(&pump, NULL);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = counter_new(1);
        polls[i] = op_poll_multi(&pump, fds[i], QUOIT_POLL_IN, 0);
    }
    while (least < 5) {
        pump_check_time(&pump, "each poll to be told five times", __FILE__, __LINE__);
        pump_turn(&pump, 200 * MS);
        least = UINT32_MAX;
        for (int i = 0; i < COUNT; i++)
            if (op_record(&pump, polls[i])->events < least)
                least = op_record(&pump, polls[i])->events;
    }
    for (int i = 0; i < COUNT; i++) {
        counter_take(fds[i]);
        close(fds[i]);
    }
    pump_close(&pump);
}

/* A conversation over a socket that the library does not know: told, read, answered. */
static void foreign_socket(void) {
    struct pump pump;
    int ends[2];
    char text[8];
    pump_open(&pump, NULL);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    uint64_t poll = op_poll_multi(&pump, ends[0], QUOIT_POLL_IN, 0);
    for (int i = 0; i < 100; i++) {
        uint32_t events = op_record(&pump, poll)->events;
        CHECK_EQ(write(ends[1], "ask", 3), 3);
        PUMP_UNTIL(&pump, op_record(&pump, poll)->events > events);
        CHECK_EQ(read(ends[0], text, sizeof text), 3);
        CHECK_EQ(write(ends[0], "answer", 6), 6);
        CHECK_EQ(read(ends[1], text, sizeof text), 6);
    }
    close(ends[1]);
    PUMP_UNTIL(&pump, op_record(&pump, poll)->last.result & QUOIT_POLL_HUP);
    quoit_handle handle = op_record(&pump, poll)->last.value;
    op_must(&pump, op_close(&pump, handle, 0), 0);
    op_must(&pump, poll, -ECANCELED);
    close(ends[0]);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"once_a_turn_while_ready", once_a_turn_while_ready},
    {"ends", ends},
    {"wrong_uses", wrong_uses},
    {"many_at_once", many_at_once},
    {"foreign_socket", foreign_socket},
};
TEST_GROUP(poll_multi, cases);
