/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* drain.c: quoit_drain, the end of a worker in order, and the signals that ask for it. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"
#include "runner.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define MS 1000000ull
#define LONG (60000 * MS)

/* What the worker said of its drain. */
struct told {
    uint32_t begins, ends;
    uint64_t streams; /* at its begin */
    uint64_t cut;
    int64_t result;
    void (*then)(struct pump *, const quoit_event *);
};

static void on_event(struct pump *pump, const quoit_event *event) {
    struct told *told = pump->ctx;
    if (event->kind == QUOIT_KIND_DRAIN) {
        CHECK_EQ(event->source, 0);
        if (event->flags & QUOIT_EVF_MORE) {
            CHECK_EQ(event->result, 0);
            told->begins++;
            told->streams = event->value;
        } else {
            CHECK_EQ(told->begins, 1);
            told->ends++;
            told->result = event->result;
            told->cut = event->value;
        }
    } else if (told->then) {
        told->then(pump, event);
    }
}

static void open_told(struct pump *pump, struct told *told, const quoit_worker_options *options) {
    *told = (struct told){0};
    pump_open(pump, options);
    pump->on_event = on_event;
    pump->ctx = told;
}

/* The worker has ended by itself. */
static void close_drained(struct pump *pump, const struct told *told, int64_t result, uint64_t cut) {
    PUMP_UNTIL(pump, pump->batch->flags & QUOIT_BATCH_DRAINED);
    CHECK_EQ(told->begins, 1);
    CHECK_EQ(told->ends, 1);
    CHECK_EQ(told->result, result);
    CHECK_EQ(told->cut, cut);
    CHECK_EQ(quoit_turn(pump->worker, 0, 0), QUOIT_E_CLOSED);
    pump_check_ended(pump);
    pump_abandon(pump);
}

static void idle_worker(void) {
    struct pump pump;
    struct told told;
    open_told(&pump, &told, NULL);
    uint64_t timer = op_timer(&pump, LONG, 0, 0);
    CHECK_EQ(quoit_drain(pump.handle, LONG), QUOIT_OK);
    close_drained(&pump, &told, 0, 0); /* nothing was accepted, so nothing is waited for */
    CHECK_EQ(told.streams, 0);
    (void)timer;
}

/* What was accepted goes on as ever; what was connected is not waited for. */
static void accepted_streams_finish(void) {
    struct pump pump;
    struct told told;
    quoit_addr addr = addr_v4(0);
    char byte;
    open_told(&pump, &told, NULL);
    quoit_handle listener = listen_on(&pump, &addr);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI);
    int fds[3];
    quoit_handle streams[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = peer_connect(&addr);
        PUMP_UNTIL(&pump, op_record(&pump, accept)->events == (uint32_t)i + 1);
        streams[i] = op_record(&pump, accept)->last.value;
    }
    CHECK_EQ(quoit_drain(pump.handle, LONG), QUOIT_OK);
    PUMP_UNTIL(&pump, told.begins);
    CHECK_EQ(told.streams, 3);
    op_must(&pump, accept, -ECANCELED);
    op_must(&pump, op_accept(&pump, listener, 0), QUOIT_E_CLOSING);
    quoit_op *listen = op_new(&pump, QUOIT_OP_LISTEN, 0);
    listen->addr = (uintptr_t)&addr;
    listen->len = sizeof addr;
    op_must(&pump, listen->user_data, QUOIT_E_CLOSING);
    op_must(&pump, op_timer(&pump, MS, 0, 0), 1); /* all else is done as ever */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(told.ends, 0);
        op_must(&pump, op_send(&pump, streams[i], "x", 1, 0), 1);
        peer_recv(&pump, fds[i], &byte, 1);
        uint64_t closed = op_close(&pump, streams[i], 0);
        peer_expect_end(&pump, fds[i]);
        close(fds[i]);
        op_must(&pump, closed, 0);
    }
    close_drained(&pump, &told, 0, 0);
}

static void grace_is_over(void) {
    for (int impatient = 0; impatient < 2; impatient++) {
        struct pump pump;
        struct told told;
        open_told(&pump, &told, NULL);
        uint64_t recv;
        struct link link = link_open_recv(&pump, &recv);
        if (impatient) {
            CHECK_EQ(quoit_drain(pump.handle, LONG), QUOIT_OK);
            PUMP_UNTIL(&pump, told.begins);
            CHECK_EQ(quoit_drain(pump.handle, 2 * LONG), QUOIT_OK); /* a longer grace changes nothing */
        }
        CHECK_EQ(quoit_drain(pump.handle, impatient ? 0 : 30 * MS), QUOIT_OK);
        PUMP_UNTIL(&pump, told.ends);
        PUMP_UNTIL(&pump, op_ended(&pump, recv));
        CHECK_EQ(op_record(&pump, recv)->last.result, -ECANCELED);
        close_drained(&pump, &told, -ETIMEDOUT, 1);
        CHECK_EQ(told.streams, 1);
        close(link.fd);
    }
}

static void stop_cuts_it_short(void) {
    struct pump pump;
    struct told told;
    open_told(&pump, &told, NULL);
    struct link link = link_open(&pump);
    CHECK_EQ(quoit_drain(pump.handle, LONG), QUOIT_OK);
    PUMP_UNTIL(&pump, told.begins);
    CHECK_EQ(quoit_stop(pump.handle), QUOIT_OK);
    close_drained(&pump, &told, -ECANCELED, 1);
    close(link.fd);
}

enum { WAITING = 50 };

static void answer(struct pump *pump, const quoit_event *event) {
    if (event->kind == QUOIT_OP_ACCEPT && event->result == 0 && event->value)
        op_recv(pump, event->value, 0, 0);
    if (event->kind == QUOIT_OP_RECV && event->result > 0) {
        op_echo(pump, event);
        op_close(pump, event->source, QUOIT_OPF_QUIET);
    }
}

/* Whoever is connected when the drain begins has an answer, also those whom the worker had no turn to accept. */
static void backlog_is_served(void) {
    for (int multi = 0; multi < 2; multi++) {
        struct pump pump;
        struct told told;
        quoit_addr addr = addr_v4(0);
        int fds[WAITING];
        char byte;
        open_told(&pump, &told, NULL);
        told.then = answer;
        quoit_handle listener = listen_on(&pump, &addr);
        if (multi)
            op_accept(&pump, listener, QUOIT_OPF_MULTI);
        pump_turn_nb(&pump);
        for (int i = 0; i < WAITING; i++) {
            fds[i] = peer_connect(&addr);
            peer_send(NULL, fds[i], "x", 1);
        }
        CHECK_EQ(quoit_drain(pump.handle, LONG), QUOIT_OK);
        PUMP_UNTIL(&pump, told.ends);
        for (int i = 0; i < WAITING; i++) {
            if (multi) {
                peer_recv(NULL, fds[i], &byte, 1);
                peer_expect_end(NULL, fds[i]);
            } else {
                peer_expect_reset(NULL, fds[i]); /* nobody accepts: there is none to tell of them */
            }
            close(fds[i]);
        }
        close_drained(&pump, &told, 0, 0);
    }
}

/* The drain goes on where the bound of the listener lets one in at a time. */
static void backlog_under_a_bound(void) {
    struct pump pump;
    struct told told;
    quoit_addr addr = addr_v4(0);
    int fds[WAITING];
    char byte;
    open_told(&pump, &told, NULL);
    told.then = answer;
    quoit_listen_options options = {.struct_size = sizeof options, .streams_max = 2};
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg2 = (uintptr_t)&options;
    quoit_event event = op_must(&pump, op->user_data, 0);
    addr.port = (uint16_t)event.aux;
    op_accept(&pump, event.value, QUOIT_OPF_MULTI);
    pump_turn_nb(&pump);
    for (int i = 0; i < WAITING; i++) {
        fds[i] = peer_connect(&addr);
        peer_send(NULL, fds[i], "x", 1);
        shutdown(fds[i], SHUT_WR);
    }
    CHECK_EQ(quoit_drain(pump.handle, LONG), QUOIT_OK);
    PUMP_UNTIL(&pump, told.ends);
    for (int i = 0; i < WAITING; i++) {
        peer_recv(NULL, fds[i], &byte, 1);
        close(fds[i]);
    }
    close_drained(&pump, &told, 0, 0);
}

static void wrong_uses(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    CHECK_EQ(quoit_drain(0, 0), QUOIT_E_HANDLE);
    CHECK_EQ(quoit_drain(pump.handle ^ 1ull << 24, 0), QUOIT_E_STALE);
    struct link link = link_open(&pump);
    CHECK_EQ(quoit_drain(link.stream, 0), QUOIT_E_KIND);
    CHECK_EQ(quoit_drain_on_signals(NULL, QUOIT_SIGNAL_TERM, 0), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_drain_on_signals(pump.runtime, 0, 0), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_drain_on_signals(pump.runtime, 0x100 | QUOIT_SIGNAL_TERM, 0), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_drain_on_signals(pump.runtime, QUOIT_SIGNAL_HUP, 0), QUOIT_OK);
    CHECK_EQ(quoit_drain_on_signals(pump.runtime, QUOIT_SIGNAL_TERM, 0), QUOIT_E_BUSY);
    link_close(&pump, &link);
    pump_close(&pump);
}

static quoit_status finish_streams(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    (void)worker;
    for (uint32_t i = 0; i < batch->nevents; i++) {
        const quoit_event *event = (const quoit_event *)(uintptr_t)batch->events + i;
        if (event->kind == QUOIT_KIND_DRAIN && !(event->flags & QUOIT_EVF_MORE))
            *(int64_t *)ctx = event->result == 0 ? 1 : event->result;
    }
    return 0;
}

/* All workers of the runtime, each on its thread. */
static void signals_drain_the_workers(void) {
    enum { WORKERS = 3 };
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker *workers[WORKERS];
    int64_t results[WORKERS] = {0};
    CHECK_EQ(quoit_drain_on_signals(runtime, QUOIT_SIGNAL_TERM | QUOIT_SIGNAL_INT, LONG), QUOIT_OK);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(quoit_worker_create(runtime, NULL, &workers[i]), QUOIT_OK);
        CHECK_EQ(quoit_worker_start(workers[i], finish_streams, &results[i]), QUOIT_OK);
    }
    CHECK_EQ(kill(getpid(), SIGTERM), 0);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(quoit_worker_join(workers[i]), QUOIT_OK);
        CHECK_EQ(results[i], 1);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void second_signal_is_impatient(void) {
    struct pump pump;
    struct told told;
    open_told(&pump, &told, NULL);
    CHECK_EQ(quoit_drain_on_signals(pump.runtime, QUOIT_SIGNAL_TERM | QUOIT_SIGNAL_INT, LONG), QUOIT_OK);
    struct link link = link_open(&pump);
    CHECK_EQ(kill(getpid(), SIGINT), 0);
    PUMP_UNTIL(&pump, told.begins);
    CHECK_EQ(kill(getpid(), SIGTERM), 0);
    close_drained(&pump, &told, -ETIMEDOUT, 1);
    close(link.fd);
}

static const struct test_case cases[] = {
    {"idle_worker", idle_worker},
    {"accepted_streams_finish", accepted_streams_finish},
    {"grace_is_over", grace_is_over},
    {"stop_cuts_it_short", stop_cuts_it_short},
    {"backlog_is_served", backlog_is_served},
    {"backlog_under_a_bound", backlog_under_a_bound},
    {"wrong_uses", wrong_uses},
    {"signals_drain_the_workers", signals_drain_the_workers},
    {"second_signal_is_impatient", second_signal_is_impatient},
};

TEST_GROUP(drain, cases);
