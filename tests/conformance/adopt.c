/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* adopt.c: descriptors of the program that become the library's, and its own that become the program's. */
#define _GNU_SOURCE
#include "check.h"
#include "groups.h"
#include "pattern.h"
#include "peer.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t op_adopt(struct pump *pump, int fd, uint32_t type) {
    quoit_op *op = op_new(pump, QUOIT_OP_ADOPT, 0);
    op->offset = fd;
    op->arg = type;
    return op->user_data;
}

static uint64_t op_detach(struct pump *pump, quoit_handle object) {
    return op_simple(pump, QUOIT_OP_DETACH, object);
}

static void check_flags(int fd, bool blocking) {
    CHECK_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    CHECK_EQ(!(fcntl(fd, F_GETFL) & O_NONBLOCK), blocking);
}

static void pair(int ends[2], int flags) {
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | flags, 0, ends), 0);
}

static void echo_once(struct pump *pump, quoit_handle stream, int fd, const char *text) {
    char answer[64];
    size_t length = strlen(text);
    peer_send(pump, fd, text, length);
    quoit_event event = op_finish(pump, op_recv(pump, stream, 0, 0));
    CHECK_EQ(event.result, (int64_t)length);
    op_must(pump, op_send(pump, stream, text, length, 0), (int64_t)length);
    peer_recv(pump, fd, answer, length);
    CHECK(!memcmp(answer, text, length));
}

/* Whatever its flags were, and whether its type is told or found out. */
static void streams(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (int i = 0; i < 4; i++) {
        int ends[2];
        pair(ends, i % 2 ? SOCK_NONBLOCK : 0);
        quoit_event event = op_must(&pump, op_adopt(&pump, ends[0], i < 2 ? 0 : QUOIT_HANDLE_STREAM), 0);
        CHECK_EQ(quoit_handle_kind(event.value), QUOIT_HANDLE_STREAM);
        CHECK_EQ(event.source, 0);
        check_flags(ends[0], true);
        echo_once(&pump, event.value, ends[1], "adopted");
        op_must(&pump, op_close(&pump, event.value, QUOIT_OPF_ABORT), 0);
        CHECK_EQ(fcntl(ends[0], F_GETFD), -1); /* closing is the library's */
        close(ends[1]);
    }
    CHECK_EQ(stats_of(&pump).objects_live, 0);
    pump_close(&pump);
}

static void listeners(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0), bound;
    pump_open(&pump, NULL);
    int listening = peer_listen(&addr, 8);
    quoit_handle listener = op_must(&pump, op_adopt(&pump, listening, 0), 0).value;
    CHECK_EQ(quoit_handle_kind(listener), QUOIT_HANDLE_LISTENER);
    CHECK_EQ(quoit_local_addr(pump.worker, listener, &bound), QUOIT_OK);
    CHECK(!memcmp(&bound, &addr, sizeof bound));
    uint64_t accept = op_accept(&pump, listener, QUOIT_OPF_MULTI | QUOIT_OPF_AUTO_RECV);
    pump.on_event = on_event_echo;
    for (int i = 0; i < 3; i++) {
        int fd = peer_connect(&addr);
        peer_send_pattern(&pump, fd, 4, 0, 10000);
        peer_recv_pattern(&pump, fd, 4, 0, 10000);
        close(fd);
    }
    /* Back again, a connection that comes in between is not lost, and the number means what it meant. */
    op_must(&pump, op_detach(&pump, listener), QUOIT_E_BUSY);
    op_must(&pump, op_cancel(&pump, listener, 0, 0), 1);
    op_must(&pump, accept, -ECANCELED);
    CHECK_EQ((int)op_must(&pump, op_detach(&pump, listener), 0).value, listening);
    check_flags(listening, true);
    int fd = peer_connect(&addr);
    int served = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    CHECK(served >= 0);
    close(served);
    close(fd);
    op_must(&pump, op_accept(&pump, listener, 0), QUOIT_E_STALE);
    close(listening);
    pump_close(&pump);
}

static void files_and_pipes(void) {
    struct pump pump;
    int pipes[2];
    char text[8];
    pump_open(&pump, NULL);
    CHECK_EQ(pipe2(pipes, O_NONBLOCK), 0);
    quoit_handle in = op_must(&pump, op_adopt(&pump, pipes[0], 0), 0).value;
    CHECK_EQ(quoit_handle_kind(in), QUOIT_HANDLE_FILE);
    quoit_op *op = op_new(&pump, QUOIT_OP_READ, in);
    op->len = 16;
    op->offset = -1;
    uint64_t read_op = op->user_data;
    pump_turn_nb(&pump);
    op_must(&pump, op_detach(&pump, in), QUOIT_E_BUSY);
    CHECK_EQ(write(pipes[1], "piped", 5), 5);
    quoit_event event = op_must(&pump, read_op, 5);
    CHECK(!memcmp(event_data(&pump, &event), "piped", 5));
    CHECK_EQ((int)op_must(&pump, op_detach(&pump, in), 0).value, pipes[0]);
    check_flags(pipes[0], true);
    CHECK_EQ(write(pipes[1], "again", 5), 5);
    CHECK_EQ(read(pipes[0], text, 8), 5);
    close(pipes[0]);
    close(pipes[1]);
    pump_close(&pump);
}

/* What fails leaves the descriptor as it was. */
static void refused(void) {
    struct pump pump;
    int ends[2];
    pump_open(&pump, NULL);
    pair(ends, SOCK_NONBLOCK);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, -1, 0), -EBADF).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, 1000000, 0), -EBADF).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, ends[0], QUOIT_HANDLE_LISTENER), QUOIT_E_KIND).aux,
             QUOIT_FIELD_ARG);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, ends[0], QUOIT_HANDLE_FILE), QUOIT_E_KIND).aux, QUOIT_FIELD_ARG);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, ends[0], QUOIT_HANDLE_TIMER), QUOIT_E_FIELD).aux,
             QUOIT_FIELD_ARG);
    int raw = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 0), tmp = open("/tmp", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, raw, 0), QUOIT_E_UNSUPPORTED).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ(op_must(&pump, op_adopt(&pump, tmp, 0), QUOIT_E_UNSUPPORTED).aux, QUOIT_FIELD_OFFSET);
    close(raw);
    close(tmp);
    CHECK_EQ(fcntl(ends[0], F_GETFD) & FD_CLOEXEC, 0);
    CHECK(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    /* Twice is once too often, until it is detached. */
    quoit_handle stream = op_must(&pump, op_adopt(&pump, ends[0], 0), 0).value;
    CHECK_EQ(op_must(&pump, op_adopt(&pump, ends[0], 0), QUOIT_E_BUSY).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ((int)op_must(&pump, op_detach(&pump, stream), 0).value, ends[0]);
    stream = op_must(&pump, op_adopt(&pump, ends[0], 0), 0).value;
    op_must(&pump, op_close(&pump, stream, QUOIT_OPF_ABORT), 0);
    close(ends[1]);
    pair(ends, 0); /* most likely the same number again */
    stream = op_must(&pump, op_adopt(&pump, ends[0], 0), 0).value;
    echo_once(&pump, stream, ends[1], "number");
    op_must(&pump, op_close(&pump, stream, QUOIT_OPF_ABORT), 0);
    close(ends[1]);
    pump_close(&pump);
}

/* A stream goes out and comes back, over and over, each side sending meanwhile: not a byte is lost. */
static void there_and_back(void) {
    struct pump pump;
    char byte;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    for (int round = 0; round < 50; round++) {
        echo_once(&pump, link.stream, link.fd, "ours");
        byte = (char)round;
        peer_send(&pump, link.fd, &byte, 1); /* waits in the socket while nobody receives */
        uint64_t detach = op_detach(&pump, link.stream);
        int fd = (int)op_must(&pump, detach, 0).value;
        check_flags(fd, true);
        char got = 'x';
        CHECK_EQ(read(fd, &got, 1), 1);
        CHECK_EQ(got, byte);
        CHECK_EQ(write(fd, "mine", 4), 4);
        char text[4];
        peer_recv(&pump, link.fd, text, 4);
        quoit_handle was = link.stream;
        link.stream = op_must(&pump, op_adopt(&pump, fd, QUOIT_HANDLE_STREAM), 0).value;
        CHECK(link.stream != was);
        op_must(&pump, op_detach(&pump, was), QUOIT_E_STALE);
        op_must(&pump, op_cancel(&pump, was, QUOIT_OP_DETACH, 0), QUOIT_E_STALE);
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

/* The worker looks after a stream that brought bytes (its end could be missed) no more when it has left: its place may be another's. */
static void forgotten(void) {
    struct pump pump;
    char byte;
    pump_open(&pump, NULL);
    for (int round = 0; round < 3; round++) {
        int ends[2][2];
        quoit_handle streams[2];
        for (int i = 0; i < 2; i++) {
            pair(ends[i], 0);
            streams[i] = op_must(&pump, op_adopt(&pump, ends[i][0], 0), 0).value;
        }
        uint64_t recv = op_recv(&pump, streams[0], QUOIT_OPF_MULTI, 0);
        pump_turn_nb(&pump);
        peer_send(&pump, ends[0][1], "x", 1);
        PUMP_UNTIL(&pump, op_record(&pump, recv)->events == 1);
        op_must(&pump, op_cancel(&pump, streams[0], QUOIT_OP_RECV, 0), 1);
        op_must(&pump, recv, -ECANCELED);
        CHECK_EQ((int)op_must(&pump, op_detach(&pump, streams[0]), 0).value, ends[0][0]);
        streams[0] = op_must(&pump, op_adopt(&pump, ends[0][0], 0), 0).value;
        peer_send(&pump, ends[0][1], "y", 1);
        op_must(&pump, op_timer(&pump, 150000000, 0, 0), 1); /* longer than that look takes to come */
        CHECK_EQ((int)op_must(&pump, op_detach(&pump, streams[0]), 0).value, ends[0][0]);
        CHECK_EQ(read(ends[0][0], &byte, 1), 1);
        CHECK_EQ(byte, 'y');
        echo_once(&pump, streams[1], ends[1][1], "stays");
        op_must(&pump, op_close(&pump, streams[1], QUOIT_OPF_ABORT), 0);
        close(ends[0][0]);
        close(ends[0][1]);
        close(ends[1][1]);
    }
    pump_close(&pump);
}

static void detach_in_time(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    quoit_op *op = op_new(&pump, QUOIT_OP_DETACH, link.stream);
    op->timeout_ns = 5000000000;
    close((int)op_must(&pump, op->user_data, 0).value);
    close(link.fd);
    pump_close(&pump);
}

/*
 * Bytes that the kernel had brought when the pause came are held until a recv may tell them. With one event a turn the second
 * stream's wait behind the first's. On epoll they are still in the socket, and go with the descriptor.
 */
static void not_while_held(void) {
    quoit_worker_options options = {.events_max = 1};
    struct pump pump;
    struct link links[2];
    uint64_t recvs[2];
    pump_open(&pump, &options);
    bool epoll = quoit_runtime_driver(pump.runtime) == QUOIT_DRIVER_EPOLL;
    for (int i = 0; i < 2; i++)
        links[i] = link_open_recv(&pump, &recvs[i]);
    pump_turn_nb(&pump);
    CHECK_EQ(op_must(&pump, op_detach(&pump, links[0].stream), QUOIT_E_BUSY).aux, QUOIT_FIELD_TARGET);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(send(links[i].fd, "held", 4, MSG_NOSIGNAL), 4);
    PUMP_UNTIL(&pump, op_record(&pump, recvs[0])->events || op_record(&pump, recvs[1])->events);
    int other = op_record(&pump, recvs[0])->events ? 1 : 0;
    quoit_handle stream = links[other].stream;
    op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_PAUSE, stream), 0);
    op_must(&pump, op_cancel(&pump, stream, QUOIT_OP_RECV, 0), 1);
    op_must(&pump, recvs[other], -ECANCELED);
    CHECK_EQ(stream_of(&pump, stream)->total, 0);
    quoit_event event = op_must(&pump, op_detach(&pump, stream), epoll ? 0 : QUOIT_E_BUSY);
    int fd = (int)event.value;
    if (!epoll) {
        op_must(&pump, op_simple(&pump, QUOIT_OP_RECV_RESUME, stream), 0);
        event = op_must(&pump, op_recv(&pump, stream, 0, 0), 4);
        CHECK(!memcmp(event_data(&pump, &event), "held", 4));
        CHECK_EQ(send(links[other].fd, "next", 4, MSG_NOSIGNAL), 4);
        fd = (int)op_must(&pump, op_detach(&pump, stream), 0).value;
    }
    char text[5] = "";
    CHECK_EQ(read(fd, text, 4), 4);
    CHECK(!strcmp(text, epoll ? "held" : "next"));
    close(fd);
    for (int i = 0; i < 2; i++)
        close(links[i].fd);
    pump_close(&pump);
}

/* A stream that left counts no more for its listener: the next one has its place. */
static void frees_its_place(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    quoit_listen_options options = {.struct_size = sizeof options, .streams_max = 1};
    int fds[2];
    pump_open(&pump, NULL);
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&addr;
    op->len = sizeof addr;
    op->arg2 = (uintptr_t)&options;
    quoit_event event = op_must(&pump, op->user_data, 0);
    addr.port = (uint16_t)event.aux;
    uint64_t accept = op_accept(&pump, event.value, QUOIT_OPF_MULTI);
    for (int i = 0; i < 2; i++)
        fds[i] = peer_connect(&addr);
    PUMP_UNTIL(&pump, op_record(&pump, accept)->events == 1);
    quoit_handle first = op_record(&pump, accept)->last.value;
    for (int i = 0; i < 3; i++)
        pump_turn_nb(&pump);
    CHECK_EQ(op_record(&pump, accept)->events, 1);
    int fd = (int)op_must(&pump, op_detach(&pump, first), 0).value;
    PUMP_UNTIL(&pump, op_record(&pump, accept)->events == 2);
    close(fd);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    pump_close(&pump);
}

static void not_while_sending(void) {
    struct pump pump;
    static char data[4 << 20];
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    uint64_t send = op_send(&pump, link.stream, data, sizeof data, QUOIT_OPF_BORROW);
    op_must(&pump, op_detach(&pump, link.stream), QUOIT_E_BUSY);
    size_t left = sizeof data;
    while (left > 0) {
        char chunk[65536];
        peer_recv(&pump, link.fd, chunk, sizeof chunk);
        left -= sizeof chunk;
    }
    op_must(&pump, send, sizeof data);
    close((int)op_must(&pump, op_detach(&pump, link.stream), 0).value);
    close(link.fd);
    pump_close(&pump);
}

/* A time to linger would make a close block: it is taken off. No time at all stays, and resets. */
static void linger_of_adopted(void) {
    struct pump pump;
    quoit_addr addr = addr_v4(0);
    pump_open(&pump, NULL);
    int listening = peer_listen(&addr, 8);
    for (int seconds = 0; seconds < 2; seconds++) {
        struct linger linger = {.l_onoff = 1, .l_linger = seconds * 30};
        int64_t value;
        int fd = peer_connect(&addr), other = peer_accept(&pump, listening);
        CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
        quoit_handle stream = op_must(&pump, op_adopt(&pump, fd, 0), 0).value;
        CHECK_EQ(quoit_socket_get(pump.worker, stream, QUOIT_SOCKET_LINGER, &value), QUOIT_OK);
        CHECK_EQ(value, seconds ? -1 : 0);
        op_must(&pump, op_close(&pump, stream, QUOIT_OPF_ABORT), 0);
        if (seconds)
            peer_expect_end(&pump, other);
        else
            peer_expect_reset(&pump, other);
        close(other);
    }
    close(listening);
    pump_close(&pump);
}

/* As a service manager would: the descriptors 3 and 4, whatever lies there meanwhile put aside. */
static void inherited(void) {
    struct pump pump;
    char names[32], pid[16];
    int32_t first = -1;
    int aside[2];
    quoit_addr addr = addr_v4(0);
    CHECK_EQ(quoit_inherited_fds(&first, names, sizeof names), 0); /* nobody passed any */
    CHECK_EQ(names[0], 0);
    for (int i = 0; i < 2; i++)
        aside[i] = fcntl(3 + i, F_DUPFD_CLOEXEC, 100);
    int listening = peer_listen(&addr, 8), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int from[2] = {fcntl(listening, F_DUPFD_CLOEXEC, 100), fcntl(null, F_DUPFD_CLOEXEC, 100)};
    close(listening);
    close(null);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(dup2(from[i], 3 + i), 3 + i);
        close(from[i]);
    }
    snprintf(pid, sizeof pid, "%d", (int)getpid() + 1);
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", "web:null", 1);
    CHECK_EQ(quoit_inherited_fds(&first, NULL, 0), 0); /* another process's */
    CHECK_EQ(fcntl(3, F_GETFD), 0);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    CHECK_EQ(quoit_inherited_fds(NULL, names, sizeof names), QUOIT_E_ARGUMENT);
    CHECK_EQ(quoit_inherited_fds(&first, names, 8), -ENOSPC);
    setenv("LISTEN_FDS", "two", 1);
    CHECK_EQ(quoit_inherited_fds(&first, names, sizeof names), -EINVAL);
    setenv("LISTEN_FDS", "1000", 1);
    CHECK_EQ(quoit_inherited_fds(&first, names, sizeof names), -EBADF);
    setenv("LISTEN_FDS", "2", 1);
    CHECK_EQ(quoit_inherited_fds(&first, names, 9), 2);
    CHECK(!strcmp(names, "web:null"));
    CHECK_EQ(first, 3);
    check_flags(4, true);
    pump_open(&pump, NULL);
    quoit_handle listener = op_must(&pump, op_adopt(&pump, first, QUOIT_HANDLE_LISTENER), 0).value;
    int fd = peer_connect(&addr);
    quoit_handle stream = op_must(&pump, op_accept(&pump, listener, 0), 0).value;
    echo_once(&pump, stream, fd, "inherited");
    close(fd);
    pump_close(&pump);
    close(4);
    for (int i = 0; i < 2; i++)
        if (aside[i] >= 0) {
            CHECK_EQ(dup3(aside[i], 3 + i, O_CLOEXEC), 3 + i);
            close(aside[i]);
        }
}

/* What a program that is started from here holds open, as it lists it itself. */
static void open_in_a_child(char *text, size_t room) {
    int out[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    static char name[] = "ls", where[] = "/proc/self/fd";
    char *const argv[] = {name, where, NULL}, *const env[] = {NULL};
    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
    CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, out[1], 1), 0);
    CHECK_EQ(posix_spawn(&child, "/bin/ls", &actions, NULL, argv, env), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(out[0], text + used, room - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = 0;
    close(out[0]);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(used > 0);
}

/* Every descriptor that the library makes or adopts is close-on-exec. */
static void nothing_leaks_into_programs(void) {
    static char before[4096], after[4096];
    struct world world;
    int ends[2];
    open_in_a_child(before, sizeof before);
    world_open(&world);
    CHECK(quoit_worker_fd(world.pump.worker) >= 0);
    CHECK_EQ(quoit_local_addr(world.pump.worker, world.pump.listener, &world.addr), QUOIT_OK);
    op_must(&world.pump, world_op(&world, QUOIT_OP_CONNECT)->user_data, 0);
    quoit_op *op = world_op(&world, QUOIT_OP_POLL);
    op->flags = QUOIT_OPF_MULTI;
    op->arg = QUOIT_POLL_PRI;
    pump_turn_nb(&world.pump);
    op_must(&world.pump, world_op(&world, QUOIT_OP_OFFLOAD)->user_data, 0);
    pair(ends, 0);
    op_must(&world.pump, op_adopt(&world.pump, ends[0], 0), 0);
    int stays = fcntl(ends[1], F_DUPFD_CLOEXEC, 0); /* the other end is the test's */
    close(ends[1]);
    int detached = (int)op_must(&world.pump, op_detach(&world.pump, world.link.stream), 0).value;
    open_in_a_child(after, sizeof after);
    if (strcmp(before, after))
        FAIL("a program started before sees\n%s, one started after sees\n%s", before, after);
    close(detached);
    close(stays);
    world_close(&world);
}

static const struct test_case cases[] = {
    {"streams", streams},
    {"listeners", listeners},
    {"files_and_pipes", files_and_pipes},
    {"refused", refused},
    {"there_and_back", there_and_back},
    {"forgotten", forgotten},
    {"detach_in_time", detach_in_time},
    {"not_while_held", not_while_held},
    {"frees_its_place", frees_its_place},
    {"not_while_sending", not_while_sending},
    {"linger_of_adopted", linger_of_adopted},
    {"inherited", inherited},
    {"nothing_leaks_into_programs", nothing_leaks_into_programs},
};
TEST_GROUP(adopt, cases);
