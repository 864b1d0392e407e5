/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* run.c: the push loop: quoit_run, its callback, and workers on threads of the library. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct runner {
    struct pump *pump;
    uint64_t events;
    int calls;
    int stop_after;
    quoit_status answer;
};

static quoit_status count_calls(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    struct runner *runner = ctx;
    CHECK(worker == runner->pump->worker && batch == runner->pump->batch);
    CHECK(batch->nevents > 0 || batch->flags);
    runner->events += batch->nevents;
    runner->calls++;
    /* Turns without events may lie between two callbacks. */
    runner->pump->tick = batch->tick - 1;
    pump_take(runner->pump, (int)batch->nevents);
    if (runner->calls == runner->stop_after)
        return runner->answer;
    op_timer(runner->pump, 1000000, 0, 0);
    batch->nops = pump_give(runner->pump);
    return 0;
}

static void run_until_the_callback_stops(void) {
    struct pump pump;
    struct runner runner = {.pump = &pump, .stop_after = 20, .answer = QUOIT_RUN_STOP};
    pump_open(&pump, NULL);
    op_simple(&pump, QUOIT_OP_NOP, 0);
    pump.batch->nops = pump_give(&pump); /* ops that are there before it runs */
    CHECK_EQ(quoit_run(pump.worker, count_calls, &runner), QUOIT_OK);
    CHECK_EQ(runner.calls, 20);
    op_simple(&pump, QUOIT_OP_NOP, 0);
    pump.batch->nops = pump_give(&pump);
    runner.stop_after = 25; /* it may be run again */
    runner.answer = -EBADMSG;
    CHECK_EQ(quoit_run(pump.worker, count_calls, &runner), -EBADMSG);
    CHECK_EQ(runner.calls, 25);
    pump.tick = pump.batch->tick;
    pump_close(&pump);
}

struct echo {
    struct pump pump;
    uint64_t messages;
};

/* Answers more events than the op array holds: submits in mid-batch. */
static quoit_status echo_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    struct echo *echo = ctx;
    uint32_t nevents = batch->nevents;
    (void)worker;
    echo->pump.tick = batch->tick - 1;
    pump_take(&echo->pump, (int)nevents);
    echo->messages += nevents;
    batch->nops = pump_give(&echo->pump);
    return 0;
}

static void start_echo(struct echo *echo, quoit_runtime *runtime, quoit_addr *addr,
                       const quoit_worker_options *options) {
    memset(echo, 0, sizeof *echo);
    pump_open_in(&echo->pump, runtime, options);
    quoit_op *op = op_new(&echo->pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    uint64_t id = op->user_data;
    quoit_op posted = *op;
    pump_give(&echo->pump);
    /* Posted before the first turn: it waits in the mailbox until the thread runs. */
    CHECK_EQ(quoit_post(echo->pump.handle, &posted, 1), 1);
    (void)id;
    echo->pump.on_event = on_event_echo;
}

static void listen_then_accept(struct pump *pump, const quoit_event *event) {
    if (event->kind == QUOIT_OP_LISTEN) {
        CHECK_EQ(event->result, 0);
        op_accept(pump, event->value, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    }
    on_event_echo(pump, event);
}

static void echo_rounds(const quoit_addr *addr, int rounds) {
    char data[3000], back[3000];
    int fd = peer_connect(addr);
    for (int i = 0; i < rounds; i++) {
        memset(data, i, sizeof data);
        peer_send(NULL, fd, data, sizeof data);
        peer_recv(NULL, fd, back, sizeof back);
        CHECK(!memcmp(data, back, sizeof data));
    }
    close(fd);
}

static void *peer_thread(void *arg) {
    echo_rounds(arg, 50);
    return NULL;
}

static void started_worker_serves(const quoit_worker_options *options) {
    quoit_runtime *runtime = runtime_open(NULL);
    static struct echo echo;
    quoit_addr addr = addr_unix("@quoit-test-run"), tagged = addr;
    pthread_t peers[4];
    tagged.len += (uint32_t)snprintf((char *)tagged.bytes + addr.len, 20, "%d", (int)getpid());
    start_echo(&echo, runtime, &tagged, options);
    echo.pump.on_event = listen_then_accept;
    CHECK_EQ(quoit_worker_start(echo.pump.worker, echo_batch, &echo), QUOIT_OK);
    while (stats_of(&echo.pump).objects_live == 0) /* the listener */
        pump_check_time(&echo.pump, "the worker listens", __FILE__, __LINE__);
    for (int i = 0; i < 4; i++)
        peers[i] = thread_start(peer_thread, &tagged);
    for (int i = 0; i < 4; i++)
        thread_join(peers[i]);
    CHECK_EQ(quoit_worker_destroy(echo.pump.worker), QUOIT_E_BUSY);
    CHECK_EQ(quoit_stop(echo.pump.handle), QUOIT_OK);
    CHECK_EQ(quoit_worker_join(echo.pump.worker), QUOIT_OK);
    CHECK(echo.messages >= 200);
    pump_check_ended(&echo.pump);
    pump_abandon(&echo.pump);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void worker_on_its_own_thread(void) {
    started_worker_serves(NULL);
}

static void worker_on_a_pinned_thread(void) {
    quoit_worker_options options = {.cpu = 1};
    started_worker_serves(&options);
}

static void worker_with_one_event(void) {
    quoit_worker_options options = {.events_max = 1, .ops_max = 1};
    started_worker_serves(&options);
}

/* Run by itself under a small RLIMIT_MEMLOCK too, where rings are charged for: tests/launch/droplock.c. */
static void four_workers_serve(void) {
    enum { WORKERS = 4 };
    quoit_runtime *runtime = runtime_open(NULL);
    static struct echo echoes[WORKERS];
    quoit_addr addrs[WORKERS];
    pthread_t peers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "@quoit-test-%d-%d", (int)getpid(), i);
        addrs[i] = addr_unix(name);
        start_echo(&echoes[i], runtime, &addrs[i], NULL);
        echoes[i].pump.on_event = listen_then_accept;
        CHECK_EQ(quoit_worker_start(echoes[i].pump.worker, echo_batch, &echoes[i]), QUOIT_OK);
    }
    for (int i = 0; i < WORKERS; i++) {
        while (stats_of(&echoes[i].pump).objects_live == 0)
            pump_check_time(&echoes[i].pump, "the worker listens", __FILE__, __LINE__);
        peers[i] = thread_start(peer_thread, &addrs[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        thread_join(peers[i]);
        CHECK_EQ(quoit_stop(echoes[i].pump.handle), QUOIT_OK);
        CHECK_EQ(quoit_worker_join(echoes[i].pump.worker), QUOIT_OK);
        CHECK(echoes[i].messages >= 50);
        pump_check_ended(&echoes[i].pump);
        pump_abandon(&echoes[i].pump);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static quoit_status note_thread(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    struct {
        sigset_t blocked;
        char name[32];
        int calls;
    } *note = ctx;
    (void)worker, (void)batch;
    pthread_sigmask(SIG_SETMASK, NULL, &note->blocked);
    pthread_getname_np(pthread_self(), note->name, sizeof note->name);
    __atomic_add_fetch(&note->calls, 1, __ATOMIC_RELEASE);
    return 0;
}

static void library_threads_block_signals(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    struct {
        sigset_t blocked;
        char name[32];
        int calls;
    } note = {.calls = 0};
    quoit_worker *worker;
    quoit_op op = {.opcode = QUOIT_OP_NOP};
    char own[32];
    CHECK_EQ(quoit_worker_create(runtime, NULL, &worker), QUOIT_OK);
    quoit_handle handle = quoit_worker_handle(worker);
    CHECK_EQ(quoit_worker_start(worker, note_thread, &note), QUOIT_OK);
    CHECK(quoit_worker_start(worker, note_thread, &note) < 0);
    CHECK_EQ(quoit_post(handle, &op, 1), 1);
    while (!__atomic_load_n(&note.calls, __ATOMIC_ACQUIRE))
        CHECK(test_now_ns() < test_deadline_ns());
    CHECK_EQ(quoit_stop(handle), QUOIT_OK);
    CHECK_EQ(quoit_worker_join(worker), QUOIT_OK);
    CHECK_EQ(sigismember(&note.blocked, SIGINT), 1);
    CHECK_EQ(sigismember(&note.blocked, SIGTERM), 1);
    CHECK_EQ(sigismember(&note.blocked, SIGCHLD), 1);
    pthread_getname_np(pthread_self(), own, sizeof own);
    CHECK(note.name[0] && strcmp(note.name, own));
    CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void start_that_fails(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    quoit_worker_options options = {.struct_size = sizeof options, .cpu = 1000};
    quoit_worker *worker;
    CHECK_EQ(quoit_worker_create(runtime, &options, &worker), QUOIT_OK);
    CHECK_EQ(quoit_worker_start(worker, note_thread, NULL), -EINVAL); /* there is no such CPU */
    CHECK_EQ(quoit_turn_nb(worker, 0), 0);                            /* it can still be driven */
    CHECK_EQ(quoit_worker_destroy(worker), QUOIT_OK);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
}

static void runtime_destroy_stops_and_joins(void) {
    quoit_runtime *runtime = runtime_open(NULL);
    struct {
        sigset_t blocked;
        char name[32];
        int calls;
    } notes[3] = {{.calls = 0}};
    quoit_worker *workers[3];
    for (int i = 0; i < 3; i++) {
        quoit_op op = {.opcode = QUOIT_OP_TIMER, .offset = 3600000000000ll, .flags = QUOIT_OPF_ARMED};
        CHECK_EQ(quoit_worker_create(runtime, NULL, &workers[i]), QUOIT_OK);
        CHECK_EQ(quoit_worker_start(workers[i], note_thread, &notes[i]), QUOIT_OK);
        CHECK_EQ(quoit_post(quoit_worker_handle(workers[i]), &op, 1), 1);
    }
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(quoit_turn(workers[i], 0, 0), QUOIT_E_CLOSED);
}

static quoit_status stop_self(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    struct runner *runner = ctx;
    (void)worker;
    runner->pump->tick = batch->tick - 1;
    pump_take(runner->pump, (int)batch->nevents);
    if (!runner->calls++)
        CHECK_EQ(quoit_stop(runner->pump->handle), QUOIT_OK);
    return 0;
}

/* After quoit_stop the loop goes on until the last event was told. */
static void stop_drains_the_loop(void) {
    struct pump pump;
    struct runner runner = {.pump = &pump};
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t recv = op_recv(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    uint64_t timer = op_timer(&pump, 3600000000000ull, 0, 0);
    op_simple(&pump, QUOIT_OP_NOP, 0);
    pump.batch->nops = pump_give(&pump);
    CHECK_EQ(quoit_run(pump.worker, stop_self, &runner), QUOIT_OK);
    CHECK_EQ(op_record(&pump, recv)->last.result, -ECANCELED);
    CHECK_EQ(op_record(&pump, timer)->last.result, -ECANCELED);
    CHECK_EQ(quoit_run(pump.worker, stop_self, &runner), QUOIT_E_CLOSED);
    pump_check_ended(&pump);
    pump_abandon(&pump);
    close(link.fd);
}

static const struct test_case cases[] = {
    {"run_until_the_callback_stops", run_until_the_callback_stops},
    {"worker_on_its_own_thread", worker_on_its_own_thread},
    {"worker_on_a_pinned_thread", worker_on_a_pinned_thread},
    {"worker_with_one_event", worker_with_one_event},
    {"four_workers_serve", four_workers_serve},
    {"library_threads_block_signals", library_threads_block_signals},
    {"start_that_fails", start_that_fails},
    {"runtime_destroy_stops_and_joins", runtime_destroy_stops_and_joins},
    {"stop_drains_the_loop", stop_drains_the_loop},
};
TEST_GROUP(run, cases);
