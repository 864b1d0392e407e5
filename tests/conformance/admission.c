/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* admission.c: how many connections a listener lets in, and which worker has them. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"
#include "runner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t op_listen(struct pump *pump, const quoit_addr *addr, const quoit_listen_options *options) {
    quoit_op *op = op_new(pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)addr;
    op->len = sizeof *addr;
    op->arg2 = (uintptr_t)options;
    return op->user_data;
}

static quoit_handle listen_with(struct pump *pump, quoit_addr *addr, const quoit_listen_options *options) {
    quoit_event event = op_must(pump, op_listen(pump, addr, options), 0);
    addr->port = (uint16_t)event.aux;
    return event.value;
}

enum { BOUND = 5, PEERS = 40 };

/* A client's place is free when its stream is gone, and the next has it then. Never are more streams there than allowed. */
static void bound_of_a_listener(void) {
    for (int multi = 0; multi < 2; multi++) {
        struct pump pump;
        quoit_addr addr = addr_v4(0);
        quoit_listen_options options = {.struct_size = sizeof options, .streams_max = BOUND};
        int fds[PEERS];
        pump_open(&pump, NULL);
        quoit_handle listener = listen_with(&pump, &addr, &options);
        uint64_t accept = op_accept(&pump, listener, multi ? QUOIT_OPF_MULTI : 0);
        for (int i = 0; i < PEERS; i++)
            fds[i] = peer_connect(&addr);
        for (uint32_t closed = 0; closed < PEERS; closed++) {
            uint32_t want = closed + BOUND < PEERS ? closed + BOUND : PEERS;
            for (int more = 0; pump.nstreams < want || more < 3; more += pump.nstreams >= want) {
                if (op_ended(&pump, accept))
                    accept = op_accept(&pump, listener, 0);
                pump_check_time(&pump, "the streams that the bound allows", __FILE__, __LINE__);
                pump_turn(&pump, 1000000);
            }
            CHECK_EQ(pump.nstreams, want);
            op_must(&pump, op_close(&pump, pump.streams[closed]->handle, QUOIT_OPF_ABORT), 0);
        }
        for (int i = 0; i < PEERS; i++)
            close(fds[i]);
        op_must(&pump, op_close(&pump, listener, 0), 0);
        pump_close(&pump);
    }
}

/* What the kernel accepted beyond the bound is closed with the listener, not leaked and not forgotten. */
static void listener_closed_at_its_bound(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    quoit_listen_options options = {.struct_size = sizeof options, .streams_max = 1};
    int fds[PEERS];
    pump_open(&pump, NULL);
    quoit_handle listener = listen_with(&pump, &addr, &options);
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI);
    for (int i = 0; i < PEERS; i++)
        fds[i] = peer_connect(&addr);
    PUMP_UNTIL(&pump, op_record(&pump, accept)->events == 1);
    op_must(&pump, op_close(&pump, listener, 0), 0);
    op_must(&pump, accept, -ECANCELED);
    CHECK_EQ(pump.nstreams, 1);
    for (int i = 1; i < PEERS; i++) {
        char byte;
        ssize_t n;
        while ((n = recv(fds[i], &byte, 1, 0)) < 0 && errno == EAGAIN)
            pump_turn(&pump, 1000000);
        CHECK(n == 0 || (n < 0 && errno == ECONNRESET));
    }
    for (int i = 0; i < PEERS; i++)
        close(fds[i]);
    pump_close(&pump);
}

/* A listener may go while its streams live on, and the other way round. */
static void streams_outlive_their_listener(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    quoit_listen_options options = {.struct_size = sizeof options, .streams_max = 3};
    pump_open(&pump, NULL);
    for (int i = 0; i < 20; i++) {
        addr.port = 0;
        quoit_handle listener = listen_with(&pump, &addr, &options);
        uint64_t accept = op_accept(&pump, listener, 0);
        int fd = peer_connect(&addr);
        quoit_handle stream = op_must(&pump, accept, 0).value;
        op_must(&pump, op_close(&pump, listener, 0), 0);
        op_must(&pump, op_send(&pump, stream, "x", 1, 0), 1);
        op_must(&pump, op_close(&pump, stream, QUOIT_OPF_ABORT), 0);
        close(fd);
    }
    pump_close(&pump);
}

enum { CLIENTS = 120 };

/* A connection from the given port of 127.0.0.2, or from any; *port gets it. */
static int connect_from(const quoit_addr *addr, uint16_t *port) {
    struct sockaddr_in from = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(0x7F000002)};
    struct sockaddr_storage to;
    socklen_t len = peer_sockaddr(addr, &to), from_len = sizeof from;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    CHECK(fd >= 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, len), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&from, &from_len), 0);
    *port = ntohs(from.sin_port);
    return fd;
}

struct pair {
    quoit_runtime *runtime;
    struct pump pumps[2];
    uint64_t accepts[2];
};

static void pair_open(struct pair *pair, quoit_addr *addr, uint32_t skew_percent) {
    quoit_listen_options options = {
        .struct_size = sizeof options, .flags = QUOIT_LISTEN_REUSEPORT, .skew_percent = skew_percent};
    pair->runtime = runtime_open(NULL);
    for (int i = 0; i < 2; i++) {
        pump_open_in(&pair->pumps[i], pair->runtime, NULL);
        quoit_handle listener = listen_with(&pair->pumps[i], addr, &options);
        pair->accepts[i] = op_accept(&pair->pumps[i], listener, QUOIT_OPF_MULTI);
        pump_turn_nb(&pair->pumps[i]);
    }
}

static uint32_t pair_count(const struct pair *pair) {
    return pair->pumps[0].nstreams + pair->pumps[1].nstreams;
}

static void pair_accept(struct pair *pair, uint32_t count) {
    while (pair_count(pair) < count) {
        pump_check_time(&pair->pumps[0], "connections on two workers", __FILE__, __LINE__);
        pump_turn(&pair->pumps[0], 1000000);
        pump_turn(&pair->pumps[1], 1000000);
    }
}

static void pair_close(struct pair *pair) {
    pump_close(&pair->pumps[0]);
    pump_close(&pair->pumps[1]);
    CHECK_EQ(quoit_runtime_destroy(pair->runtime), QUOIT_OK);
}

/* Connects from each port in turn, and returns how many streams the first worker has. */
static uint32_t connect_all(struct pair *pair, const quoit_addr *addr, uint16_t *ports, uint32_t count,
                            bool *first) {
    int fds[CLIENTS];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = pair->pumps[0].nstreams;
        fds[i] = connect_from(addr, &ports[i]);
        pair_accept(pair, i + 1);
        if (first)
            first[i] = pair->pumps[0].nstreams > before;
    }
    for (uint32_t i = 0; i < count; i++)
        peer_reset(fds[i]); /* so that its port is free at once */
    return pair->pumps[0].nstreams;
}

/*
 * Clients whose addresses the kernel's hash sends to one worker: without a bound that one has them all, with one both have
 * their share.
 */
static void skewed_clients(void) {
    struct pair pair;
    quoit_addr addr = addr_v4(0);
    uint16_t ports[CLIENTS] = {0}, skewed[CLIENTS];
    bool first[CLIENTS];
    uint32_t count = 0;
    pair_open(&pair, &addr, 0);
    connect_all(&pair, &addr, ports, CLIENTS, first);
    pair_close(&pair);
    for (int i = 0; i < CLIENTS; i++)
        if (first[i])
            skewed[count++] = ports[i];
    CHECK(count >= 20); /* of 120, where half are expected */

    pair_open(&pair, &addr, 0);
    uint32_t without = connect_all(&pair, &addr, skewed, count, NULL);
    CHECK_EQ(without, count);
    pair_close(&pair);

    pair_open(&pair, &addr, 20);
    uint32_t with = connect_all(&pair, &addr, skewed, count, NULL);
    uint32_t less = with < count - with ? with : count - with;
    printf("# %u clients: %u and 0 without a bound, %u and %u with one of 20 %%\n", count, without, with,
           count - with);
    CHECK((count - less) * 100 <= (less + 1) * 120 + 100);
    quoit_stats stats = stats_of(&pair.pumps[0]);
    CHECK_EQ(stats.handed_over, count - with);
    pair_close(&pair);
}

/* Handed to a worker that ends just then: every client sees an end, nothing is left over. */
static void handed_to_one_that_ends(void) {
    for (int round = 0; round < 20; round++) {
        struct pair pair;
        quoit_addr addr = addr_v4(0);
        int fds[PEERS];
        uint16_t port;
        pair_open(&pair, &addr, 1);
        for (int i = 0; i < PEERS; i++) {
            port = 0;
            fds[i] = connect_from(&addr, &port);
        }
        for (int i = 0; i < round % 5; i++)
            pump_turn_nb(&pair.pumps[0]);
        if (round % 2)
            pump_turn_nb(&pair.pumps[1]);
        pump_close(&pair.pumps[1]);
        for (int i = 0; i < 3; i++)
            pump_turn_nb(&pair.pumps[0]);
        pump_close(&pair.pumps[0]);
        CHECK_EQ(quoit_runtime_destroy(pair.runtime), QUOIT_OK);
        for (int i = 0; i < PEERS; i++) {
            char byte;
            ssize_t n = recv(fds[i], &byte, 1, 0);
            CHECK(n == 0 || (n < 0 && errno == ECONNRESET));
            close(fds[i]);
        }
    }
}

static void wrong_options(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    quoit_listen_options options = {.struct_size = sizeof options, .skew_percent = 10};
    pump_open(&pump, NULL);
    CHECK_EQ(op_must(&pump, op_listen(&pump, &addr, &options), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG2);
    options = (quoit_listen_options){.struct_size = sizeof options, .reserved = 1};
    CHECK_EQ(op_must(&pump, op_listen(&pump, &addr, &options), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG2);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"bound_of_a_listener", bound_of_a_listener},
    {"listener_closed_at_its_bound", listener_closed_at_its_bound},
    {"streams_outlive_their_listener", streams_outlive_their_listener},
    {"skewed_clients", skewed_clients},
    {"handed_to_one_that_ends", handed_to_one_that_ends},
    {"wrong_options", wrong_options},
};

TEST_GROUP(admission, cases);
