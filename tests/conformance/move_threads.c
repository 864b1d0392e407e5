/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * move_threads.c: two workers on threads of their own echo, and give the connections to each other at random while bytes go both
 * ways. What a worker knows of a connection goes along without a lock: MOVED is told when the other has had all before it.
 */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "movers.h"
#include "pattern.h"
#include "peer.h"
#include "runner.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNECTIONS = 12, CHUNK = 3000, WINDOW = 40000, SLOTS = 1024 };

struct connection {
    quoit_handle stream;
    bool receiving, moving, ended;
    uint8_t *owed; /* what came while it was on its way, to be sent there */
    size_t owed_len;
};

struct echoer {
    struct pump pump;
    quoit_handle other;
    quoit_addr addr;
    struct connection *slots[SLOTS];
    struct connection *all; /* of the one that accepts */
    uint32_t accepted;
    uint64_t random;
    atomic_uint moves, cancelled; /* read by the clients */
};

static struct connection **slot_of(struct echoer *e, quoit_handle stream) {
    CHECK((stream & 0xFFFFFF) < SLOTS);
    return &e->slots[stream & 0xFFFFFF];
}

/* Its own from now on, or again: what is owed leaves, and what follows is received. */
static void go_on(struct echoer *e, struct connection *c) {
    c->moving = false;
    if (c->owed_len > 0)
        op_send(&e->pump, c->stream, c->owed, c->owed_len, 0);
    pump_submit(&e->pump); /* copies it: there may be more to come in this batch */
    c->owed_len = 0;
    if (c->ended) {
        op_close(&e->pump, c->stream, 0);
    } else if (!c->receiving) {
        c->receiving = true;
        op_recv(&e->pump, c->stream, pattern_random(&e->random) % 3 ? QUOIT_OPF_MULTI : 0, 0);
    }
}

static void maybe_move(struct echoer *e, struct connection *c) {
    if (pattern_random(&e->random) % 4)
        return;
    c->moving = true;
    op_move(&e->pump, c->stream, e->other, (uintptr_t)c);
    if (pattern_random(&e->random) % 5 == 0) {
        if (pattern_random(&e->random) % 2)
            pump_submit(&e->pump);
        op_cancel(&e->pump, c->stream, QUOIT_OP_MOVE, 0);
    }
}

static void take_bytes(struct echoer *e, struct connection *c, const quoit_event *event) {
    if (!c->moving) {
        op_echo(&e->pump, event);
        maybe_move(e, c);
        return;
    }
    c->owed = realloc(c->owed, c->owed_len + event->len);
    CHECK(c->owed != NULL);
    memcpy(c->owed + c->owed_len, event_data(&e->pump, event), event->len);
    c->owed_len += event->len;
}

static void take_recv(struct echoer *e, const quoit_event *event) {
    struct connection *c = *slot_of(e, event->source);
    CHECK(c != NULL && c->stream == event->source);
    if (event->result < 0 && event->result != -ECANCELED)
        FAIL("a receive ended with %lld", (long long)event->result);
    if (event->len)
        take_bytes(e, c, event);
    if (event->flags & QUOIT_EVF_MORE)
        return;
    c->receiving = false;
    c->ended |= event->flags & QUOIT_EVF_EOF;
    if (!c->moving)
        go_on(e, c);
}

static void take_move(struct echoer *e, const quoit_event *event) {
    struct connection *c = *slot_of(e, event->source);
    if (event->result == 0) {
        *slot_of(e, event->source) = NULL; /* the other's: not looked at here */
        return;
    }
    CHECK_EQ(event->result, -ECANCELED);
    e->cancelled++;
    go_on(e, c);
}

static void on_event(struct pump *pump, const quoit_event *event) {
    struct echoer *e = pump->ctx;
    struct connection *c;
    switch (event->kind) {
    case QUOIT_OP_ACCEPT:
    case QUOIT_KIND_MOVED:
        if (event->result < 0)
            return;
        e->moves += event->kind == QUOIT_KIND_MOVED;
        c = event->kind == QUOIT_KIND_MOVED ? (struct connection *)(uintptr_t)event->user_data
                                            : &e->all[e->accepted++];
        c->stream = event->value;
        *slot_of(e, c->stream) = c;
        go_on(e, c);
        break;
    case QUOIT_OP_RECV:
        take_recv(e, event);
        break;
    case QUOIT_OP_MOVE:
        take_move(e, event);
        break;
    case QUOIT_OP_SEND:
    case QUOIT_OP_CLOSE:
        CHECK(event->result >= 0);
        break;
    default:
        break;
    }
}

static pthread_barrier_t ready;

static void *echo(void *arg) {
    struct echoer *e = arg;
    if (e->all != NULL) {
        op_accept(&e->pump, listen_on(&e->pump, &e->addr), QUOIT_OPF_MULTI);
        pthread_barrier_wait(&ready);
    }
    do
        pump_turn(&e->pump, 1000000000);
    while (!(e->pump.batch->flags & QUOIT_BATCH_DRAINED));
    pump_check_ended(&e->pump);
    return NULL;
}

/* The other side of a connection: each byte must come back once, in order. */
struct client {
    int fd;
    uint64_t seed, sent, got, least;
    bool shut, ended;
};

/* Some of each must have happened, or the test shows nothing. */
static bool enough(struct echoer *echoers) {
    return atomic_load(&echoers[0].moves) > 10 && atomic_load(&echoers[1].moves) > 10 &&
           atomic_load(&echoers[0].cancelled) + atomic_load(&echoers[1].cancelled) > 0;
}

static void client_send(struct client *c, bool enough_moves) {
    uint8_t chunk[CHUNK];
    while (!c->shut && c->sent - c->got < WINDOW) {
        pattern_fill(chunk, c->seed, c->sent, sizeof chunk);
        ssize_t n = send(c->fd, chunk, sizeof chunk, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            CHECK_EQ(errno, EAGAIN);
            return;
        }
        c->sent += (uint64_t)n;
        c->shut = c->sent >= c->least && enough_moves;
        if (c->shut)
            CHECK_EQ(shutdown(c->fd, SHUT_WR), 0);
    }
}

static void client_recv(struct client *c) {
    uint8_t chunk[CHUNK];
    ssize_t n;
    while ((n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT)) > 0) {
        CHECK_PATTERN(chunk, c->seed, c->got, (size_t)n);
        c->got += (uint64_t)n;
    }
    c->ended = n == 0;
    if (n < 0)
        CHECK_EQ(errno, EAGAIN);
}

static void clients_run(struct client *clients, struct echoer *echoers) {
    for (uint32_t left = CONNECTIONS; left > 0;) {
        struct pollfd polls[CONNECTIONS];
        left = 0;
        for (int i = 0; i < CONNECTIONS; i++) {
            struct client *c = &clients[i];
            bool sends = !c->shut && c->sent - c->got < WINDOW;
            polls[i] = (struct pollfd){.fd = c->ended ? -1 : c->fd,
                                       .events = (short)(POLLIN | (sends ? POLLOUT : 0))};
            left += !c->ended;
        }
        CHECK(test_now_ns() < test_deadline_ns());
        if (left == 0 || poll(polls, CONNECTIONS, 200) <= 0)
            continue;
        for (int i = 0; i < CONNECTIONS; i++) {
            if (polls[i].revents & POLLOUT)
                client_send(&clients[i], enough(echoers));
            if (polls[i].revents & (POLLIN | POLLHUP | POLLERR))
                client_recv(&clients[i]);
        }
    }
}

static void run(const quoit_worker_options *options) {
    static struct echoer echoers[2];
    static struct connection all[CONNECTIONS];
    struct client clients[CONNECTIONS];
    pthread_t threads[2];
    quoit_runtime *runtime = runtime_open(NULL);
    CHECK_EQ(pthread_barrier_init(&ready, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        echoers[i] = (struct echoer){.random = (uint64_t)i + 1, .all = i ? NULL : all, .addr = addr_v4(0)};
        pump_open_in(&echoers[i].pump, runtime, options);
        echoers[i].pump.on_event = on_event;
        echoers[i].pump.ctx = &echoers[i];
    }
    for (int i = 0; i < 2; i++) {
        echoers[i].other = echoers[1 - i].pump.handle;
        threads[i] = thread_start(echo, &echoers[i]);
    }
    pthread_barrier_wait(&ready);
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        clients[i] = (struct client){
            .fd = peer_connect(&echoers[0].addr), .seed = i, .least = test_is_slow() ? 100000 : 200000};
    clients_run(clients, echoers);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(quoit_stop(echoers[i].pump.handle), QUOIT_OK);
    for (int i = 0; i < 2; i++)
        thread_join(threads[i]);
    for (int i = 0; i < CONNECTIONS; i++) {
        CHECK_EQ(clients[i].got, clients[i].sent);
        close(clients[i].fd);
        free(all[i].owed);
        all[i] = (struct connection){0};
    }
    CHECK(enough(echoers));
    for (int i = 0; i < 2; i++)
        pump_abandon(&echoers[i].pump);
    CHECK_EQ(quoit_runtime_destroy(runtime), QUOIT_OK);
    pthread_barrier_destroy(&ready);
}

static void every_byte_once(void) {
    run(NULL);
}

/* Few buffers and one event a turn: much waits to be told when a move is asked. */
static void in_a_narrow_place(void) {
    quoit_worker_options options = {.events_max = 1, .recv_buffers = 8, .recv_buffer_size = 512};
    run(&options);
}

static const struct test_case cases[] = {
    {"every_byte_once", every_byte_once},
    {"in_a_narrow_place", in_a_narrow_place},
};
TEST_GROUP(move_threads, cases);
