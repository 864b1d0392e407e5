/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* post.c: ops and messages from other threads and other workers. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "pattern.h"
#include "peer.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* An op that is posted, followed like any other. */
static quoit_op posted_op(struct pump *pump, uint32_t opcode, quoit_handle target, uint32_t flags) {
    quoit_op op = {.opcode = opcode, .flags = flags, .target = target};
    op.user_data = op_expect(pump, opcode, flags, target);
    return op;
}

static void before_the_first_turn(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    quoit_op ops[3];
    for (int i = 0; i < 3; i++)
        ops[i] = posted_op(&pump, QUOIT_OP_NOP, 0, 0);
    CHECK_EQ(quoit_post(pump.handle, ops, 3), 3);
    CHECK_EQ(quoit_post(pump.handle, ops, 0), 0);
    for (int i = 0; i < 3; i++)
        op_must(&pump, ops[i].user_data, 0);
    CHECK_EQ(stats_of(&pump).posts_in, 3);
    pump_close(&pump);
}

struct sender {
    quoit_handle worker;
    quoit_op op;
    atomic_int go;
};

static void *post_one(void *arg) {
    struct sender *sender = arg;
    CHECK_EQ(quoit_post(sender->worker, &sender->op, 1), 1);
    return NULL;
}

/* A turn that would sleep for ever is woken, and the same turn does the work. */
static void wakes_a_sleeper(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (int i = 0; i < 200; i++) {
        struct sender sender = {.worker = pump.handle, .op = posted_op(&pump, QUOIT_OP_NOP, 0, 0)};
        pthread_t thread = thread_start(post_one, &sender);
        op_must(&pump, sender.op.user_data, 0);
        thread_join(thread);
    }
    CHECK(stats_of(&pump).wakes <= 400);
    pump_close(&pump);
}

/* Everything that an op points at is copied, payload too. */
static void all_is_copied(void) {
    struct pump pump;
    static char data[50000];
    pump_open(&pump, NULL);
    quoit_addr addr = addr_v4(0);
    quoit_listen_options options = {.struct_size = sizeof options};
    quoit_op op = posted_op(&pump, QUOIT_OP_LISTEN, 0, 0);
    op.addr = (uintptr_t)&addr;
    op.len = sizeof addr;
    op.arg2 = (uintptr_t)&options;
    CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
    memset(&addr, 0xEE, sizeof addr);
    memset(&options, 0xEE, sizeof options);
    quoit_event event = op_must(&pump, op.user_data, 0);
    addr = addr_v4((uint16_t)event.aux);
    op = posted_op(&pump, QUOIT_OP_ACCEPT, event.value, 0);
    CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
    int fd = peer_connect(&addr);
    quoit_handle stream = op_must(&pump, op.user_data, 0).value;
    pattern_fill(data, 1, 0, sizeof data);
    op = posted_op(&pump, QUOIT_OP_SEND, stream, 0);
    op.addr = (uintptr_t)data;
    op.len = sizeof data;
    CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
    memset(data, 0, sizeof data);
    peer_recv_pattern(&pump, fd, 1, 0, sizeof data);
    op_must(&pump, op.user_data, sizeof data);
    quoit_iov slices[2] = {{.addr = (uintptr_t)data, .len = 3}, {.addr = (uintptr_t)data + 100, .len = 4}};
    memcpy(data, "abc", 3);
    memcpy(data + 100, "defg", 4);
    op = posted_op(&pump, QUOIT_OP_SENDV, stream, QUOIT_OPF_IOV);
    op.addr = (uintptr_t)slices;
    op.len = 2;
    CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
    memset(data, 0, sizeof data);
    memset(slices, 0xEE, sizeof slices);
    char text[8] = "";
    peer_recv(&pump, fd, text, 7);
    CHECK(!strcmp(text, "abcdefg"));
    char path[] = "/proc/self/status";
    op = posted_op(&pump, QUOIT_OP_OPEN, 0, 0);
    op.addr = (uintptr_t)path;
    op.len = sizeof path - 1;
    op.arg = QUOIT_OPEN_READ;
    CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
    memset(path, 'x', sizeof path - 1);
    op_must(&pump, op.user_data, 0);
    close(fd);
    pump_close(&pump);
}

static double half(double value) {
    return value / 2;
}

static void posted_offload(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    uint8_t types[1] = {QUOIT_TYPE_DOUBLE};
    double argument = 9.0, result;
    uint64_t args[1];
    memcpy(args, &argument, 8);
    quoit_call call = {.struct_size = sizeof call,
                       .nargs = 1,
                       .entry = (uintptr_t)half,
                       .types = (uintptr_t)types,
                       .args = (uintptr_t)args,
                       .return_type = QUOIT_TYPE_DOUBLE};
    quoit_op op = posted_op(&pump, QUOIT_OP_OFFLOAD, 0, QUOIT_OPF_ARGS);
    op.addr = (uintptr_t)&call;
    op.len = sizeof call;
    CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
    memset(&call, 0xEE, sizeof call);
    memset(types, 0xEE, sizeof types);
    memset(args, 0xEE, sizeof args);
    uint64_t value = op_must(&pump, op.user_data, 0).value;
    memcpy(&result, &value, 8);
    CHECK(result == 4.5);
    pump_close(&pump);
}

static void what_cannot_be_posted(void) {
    struct pump pump;
    static char data[16];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    static const struct {
        uint32_t opcode, flags;
    } local[] = {
        {QUOIT_OP_SEND, QUOIT_OPF_ARENA_SEND},
        {QUOIT_OP_SEND, QUOIT_OPF_ARENA_RECV},
        {QUOIT_OP_SEND, QUOIT_OPF_BORROW},
        {QUOIT_OP_RECV, QUOIT_OPF_KEEP},
        {QUOIT_OP_KEEP, 0},
        {QUOIT_OP_RELEASE, 0},
    };
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        quoit_op op = posted_op(&pump, local[i].opcode, link.stream, local[i].flags);
        if (local[i].opcode == QUOIT_OP_SEND) {
            op.addr = (uintptr_t)data;
            op.len = sizeof data;
        }
        CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
        op_must(&pump, op.user_data, -EINVAL);
    }
    quoit_op bad = posted_op(&pump, 0x4000, 0, 0);
    CHECK_EQ(quoit_post(pump.handle, &bad, 1), 1);
    op_must(&pump, bad.user_data, QUOIT_E_OPCODE);
    bad = posted_op(&pump, QUOIT_KIND_MESSAGE, 0, 0); /* no op forges a message */
    CHECK_EQ(quoit_post(pump.handle, &bad, 1), 1);
    op_must(&pump, bad.user_data, QUOIT_E_OPCODE);
    CHECK_EQ(pump.messages, 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void wrong_workers(void) {
    struct pump pump;
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    CHECK_EQ(quoit_post(0, &op, 1), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_post(200, &op, 1), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_post(UINT64_MAX, &op, 1), QUOIT_E_HANDLE);
    quoit_status of_stream = quoit_post(link.stream, &op, 1);
    CHECK(of_stream == QUOIT_E_HANDLE || of_stream == QUOIT_E_KIND);
    CHECK_EQ(quoit_post(pump.handle + (1ull << 24), &op, 1), QUOIT_E_STALE);
    CHECK_EQ(quoit_stop(0), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_stop(pump.handle + (1ull << 24)), QUOIT_E_STALE);
    CHECK_EQ(pump_turn_nb(&pump), 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* More than the mailbox holds: the count says how many were taken, in order, and the rest may be posted again. */
static void full_mailbox(void) {
    struct pump pump;
    quoit_worker_options options = {.mailbox_ops = 8};
    pump_open(&pump, &options);
    quoit_op ops[20];
    for (int i = 0; i < 20; i++)
        ops[i] = posted_op(&pump, QUOIT_OP_NOP, 0, 0);
    for (uint32_t done = 0, taken; done < 20;) {
        for (taken = 0; done < 20;) {
            quoit_status more = quoit_post(pump.handle, ops + done, 20 - done);
            CHECK(more >= 0);
            if (!more)
                break; /* not even one fits */
            taken += (uint32_t)more;
            done += (uint32_t)more;
        }
        CHECK(taken <= 8 && (taken == 8 || done == 20));
        pump_turn_nb(&pump);
    }
    for (int i = 0; i < 20; i++)
        op_must(&pump, ops[i].user_data, 0);
    CHECK(stats_of(&pump).posts_refused > 0);
    CHECK_EQ(stats_of(&pump).posts_in, 20);
    pump_close(&pump);
}

static void *post_nothing(void *arg) {
    struct sender *sender = arg;
    CHECK_EQ(quoit_post(sender->worker, NULL, 0), 0);
    return NULL;
}

/* A post without ops ends a turn that would sleep for ever, or the next one. A mailbox that is full refuses it no more. */
static void nudges_a_sleeper(void) {
    struct pump pump;
    quoit_worker_options options = {.mailbox_ops = 1};
    pump_open(&pump, &options);
    pump_turn_nb(&pump);
    for (int i = 0; i < 200; i++) {
        struct sender sender = {.worker = pump.handle};
        quoit_op op = posted_op(&pump, QUOIT_OP_NOP, 0, QUOIT_OPF_QUIET);
        if (i % 2)
            CHECK_EQ(quoit_post(pump.handle, &op, 1), 1);
        pthread_t thread = thread_start(post_nothing, &sender);
        pump_turn(&pump, -1); /* a quiet op has no event that could end it */
        thread_join(thread);
    }
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
    CHECK_EQ(quoit_post(pump.handle, NULL, 0), QUOIT_E_CLOSED);
    pump_close(&pump);
}

static void full_of_bytes(void) {
    struct pump pump;
    quoit_worker_options options = {.mailbox_bytes = 100000};
    static char data[30000];
    pump_open(&pump, &options);
    struct link link = link_open(&pump);
    quoit_op ops[10];
    for (int i = 0; i < 10; i++) {
        ops[i] = posted_op(&pump, QUOIT_OP_SEND, link.stream, 0);
        ops[i].addr = (uintptr_t)data;
        ops[i].len = sizeof data;
    }
    uint32_t done = 0;
    quoit_status taken = quoit_post(pump.handle, ops, 10);
    CHECK(taken > 0 && taken <= 3);
    for (done = (uint32_t)taken; done < 10; done += (uint32_t)taken) {
        pump_turn_nb(&pump);
        taken = quoit_post(pump.handle, ops + done, 10 - done);
        CHECK(taken > 0 && taken <= 3);
    }
    static char sink[10 * sizeof data];
    peer_recv(&pump, link.fd, sink, sizeof sink);
    for (int i = 0; i < 10; i++)
        op_must(&pump, ops[i].user_data, sizeof data);
    link_close(&pump, &link);
    pump_close(&pump);
}

enum { SENDERS = 8, EACH = 3000 };

struct fifo {
    quoit_handle worker;
    uint64_t base;
    uint32_t sender;
};

/* Words: the sender and its count. Waits when the mailbox is full by trying again. */
static void *send_messages(void *arg) {
    struct fifo *fifo = arg;
    for (uint32_t i = 0; i < EACH;) {
        quoit_op op = {.opcode = QUOIT_OP_NOP, .user_data = fifo->base + i};
        quoit_status taken = quoit_post(fifo->worker, &op, 1);
        CHECK(taken == 0 || taken == 1);
        CHECK(test_now_ns() < test_deadline_ns());
        i += (uint32_t)taken;
        if (!taken)
            sched_yield();
    }
    return NULL;
}

static uint64_t fifo_base;
static uint32_t fifo_next[SENDERS], fifo_total;

static void check_fifo(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind != QUOIT_OP_NOP)
        return;
    uint64_t index = event->user_data - fifo_base;
    CHECK_EQ(index % EACH, fifo_next[index / EACH]);
    fifo_next[index / EACH]++;
    fifo_total++;
}

/* Per sender first in, first out, under a mailbox that is full most of the time. */
static void first_in_first_out(void) {
    struct pump pump;
    quoit_worker_options options = {.mailbox_ops = 64};
    struct fifo senders[SENDERS];
    pthread_t threads[SENDERS];
    pump_open(&pump, &options);
    for (int i = 0; i < SENDERS * EACH; i++) {
        uint64_t id = op_expect(&pump, QUOIT_OP_NOP, 0, 0);
        if (i == 0)
            fifo_base = id;
    }
    pump.on_event = check_fifo;
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct fifo){pump.handle, fifo_base + (uint64_t)i * EACH, i};
        threads[i] = thread_start(send_messages, &senders[i]);
    }
    PUMP_UNTIL(&pump, fifo_total == SENDERS * EACH);
    for (int i = 0; i < SENDERS; i++)
        thread_join(threads[i]);
    pump_close(&pump);
}

struct flood {
    quoit_handle worker;
    uint64_t base;
    uint32_t taken, refused;
    quoit_status last;
};

static void *flood_until_closed(void *arg) {
    struct flood *flood = arg;
    for (uint32_t i = 0; i < EACH * 4; i++) {
        quoit_op op = {.opcode = QUOIT_OP_NOP, .user_data = flood->base + flood->taken};
        flood->last = quoit_post(flood->worker, &op, 1);
        if (flood->last < 0)
            break;
        flood->taken += (uint32_t)flood->last;
        flood->refused += flood->last == 0;
    }
    return NULL;
}

/* Eight threads post while the worker stops: what was taken ends once, what was not was told so. */
static void posts_while_the_worker_stops(void) {
    struct pump pump;
    struct flood floods[SENDERS] = {0};
    pthread_t threads[SENDERS];
    quoit_worker_options options = {.mailbox_ops = 256};
    pump_open(&pump, &options);
    uint64_t base = 0;
    for (int i = 0; i < SENDERS * EACH * 4; i++) {
        uint64_t id = op_expect(&pump, QUOIT_OP_NOP, 0, 0);
        base = i ? base : id;
    }
    for (uint32_t i = 0; i < SENDERS; i++) {
        floods[i].worker = pump.handle;
        floods[i].base = base + (uint64_t)i * EACH * 4;
        threads[i] = thread_start(flood_until_closed, &floods[i]);
    }
    for (int i = 0; i < 20; i++)
        pump_turn(&pump, 1000000);
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
    do
        pump_turn(&pump, 200000000);
    while (!(pump.batch->flags & QUOIT_BATCH_DRAINED));
    uint32_t stopped = 0, unended = 0;
    for (int i = 0; i < SENDERS; i++) {
        thread_join(threads[i]);
        if (floods[i].last < 0) {
            CHECK(floods[i].last == QUOIT_E_CLOSED || floods[i].last == QUOIT_E_STALE);
            stopped++;
        }
        for (uint32_t k = 0; k < EACH * 4; k++) {
            const struct op_record *record = op_record(&pump, floods[i].base + k);
            if (k >= floods[i].taken)
                CHECK(!record->ended); /* it was refused, or never posted */
            else if (!record->ended)
                unended++;
            else
                CHECK(record->last.result == 0 || record->last.result == QUOIT_E_CLOSING ||
                      record->last.result == -ECANCELED);
        }
    }
    CHECK_EQ(unended, 0);
    (void)stopped;
    CHECK_EQ(quoit_turn(pump.worker, 0, 0), QUOIT_E_CLOSED);
    pump_abandon(&pump);
}

static quoit_event message;

static void note_message(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind == QUOIT_KIND_MESSAGE)
        message = *event;
}

static quoit_op *op_message(struct pump *pump, quoit_handle to, uint64_t word1, int64_t word2,
                            uint32_t number) {
    quoit_op *op = op_new(pump, QUOIT_OP_POST, to);
    op->addr = word1;
    op->offset = word2;
    op->arg = number;
    op->arg2 = 0xFEEDFACECAFEBEEFu;
    return op;
}

static void message_to_another_worker(void) {
    struct pump from, to;
    pump_open(&from, NULL);
    pump_open_in(&to, from.runtime, NULL);
    to.on_event = note_message;
    op_must(&from, op_message(&from, to.handle, UINT64_MAX - 5, -77, 0xDEADBEEF)->user_data, 0);
    PUMP_UNTIL(&to, to.messages == 1);
    CHECK_EQ(message.result, -77);
    CHECK_EQ(message.value, UINT64_MAX - 5);
    CHECK_EQ(message.aux, 0xDEADBEEF);
    CHECK_EQ(message.user_data, 0xFEEDFACECAFEBEEFu);
    CHECK_EQ(message.len, 0);
    CHECK_EQ(message.buffer, 0);
    /* To oneself. */
    from.on_event = note_message;
    op_message(&from, from.handle, 1, 2, 3)->flags = QUOIT_OPF_QUIET;
    PUMP_UNTIL(&from, from.messages == 1);
    CHECK_EQ(message.value, 1);
    quoit_handle gone = to.handle;
    pump_close(&to);
    quoit_event event = op_finish(&from, op_message(&from, gone, 1, 2, 3)->user_data);
    CHECK_EQ(event.result, QUOIT_E_STALE);
    op_must(&from, op_message(&from, from.handle + (1ull << 24), 1, 2, 3)->user_data, QUOIT_E_STALE);
    pump_close(&from);
}

static uint64_t next_word;

static void check_words(struct pump *pump, const quoit_event *event) {
    (void)pump;
    if (event->kind == QUOIT_KIND_MESSAGE)
        CHECK_EQ(event->value, next_word++);
}

/* A full mailbox is told to the sender; what was taken arrives, in order. */
static void messages_beyond_the_mailbox(void) {
    struct pump from, to;
    quoit_worker_options options = {.mailbox_ops = 100};
    uint64_t word = 0;
    uint64_t ids[300];
    pump_open(&from, NULL);
    pump_open_in(&to, from.runtime, &options);
    to.on_event = check_words;
    int refused = 0;
    for (int i = 0; i < 300; i++) {
        ids[i] = op_message(&from, to.handle, word, 0, 0)->user_data;
        quoit_event event = op_finish(&from, ids[i]);
        CHECK(event.result == 0 || event.result == -EAGAIN);
        event.result == 0 ? word++ : (void)refused++;
        if (i == 200)
            while (pump_turn_nb(&to) > 0)
                ;
    }
    CHECK(refused > 0 && word >= 199);
    PUMP_UNTIL(&to, next_word == word);
    pump_close(&to);
    pump_close(&from);
}

static const struct test_case cases[] = {
    {"before_the_first_turn", before_the_first_turn},
    {"wakes_a_sleeper", wakes_a_sleeper},
    {"all_is_copied", all_is_copied},
    {"posted_offload", posted_offload},
    {"what_cannot_be_posted", what_cannot_be_posted},
    {"wrong_workers", wrong_workers},
    {"full_mailbox", full_mailbox},
    {"nudges_a_sleeper", nudges_a_sleeper},
    {"full_of_bytes", full_of_bytes},
    {"first_in_first_out", first_in_first_out},
    {"posts_while_the_worker_stops", posts_while_the_worker_stops},
    {"message_to_another_worker", message_to_another_worker},
    {"messages_beyond_the_mailbox", messages_beyond_the_mailbox},
};
TEST_GROUP(post, cases);
