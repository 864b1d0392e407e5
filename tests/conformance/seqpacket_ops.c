/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* seqpacket_ops.c: connections of messages: sends that wait, half-closes, closes, descriptors, adopting, what is refused. */
#define _GNU_SOURCE
#include "check.h"
#include "descriptors.h"
#include "groups.h"
#include "peer.h"
#include "sequenced.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SOON 30000000u
#define MANY 4096

static uint64_t limited(struct pump *pump, uint64_t id, uint64_t timeout_ns) {
    ((quoit_op *)(uintptr_t)pump->batch->ops)[pump->nops - 1].timeout_ns = timeout_ns;
    return id;
}

/* The peer reads what there is, numbers from `next`; returns what follows. */
static uint32_t read_all(int fd, uint32_t next) {
    char message[4096];
    uint32_t number;
    while (recv(fd, message, sizeof message, MSG_DONTWAIT) == sizeof message) {
        memcpy(&number, message, sizeof number);
        CHECK_EQ(number, next++);
    }
    return next;
}

static uint64_t send_number(struct pump *pump, quoit_handle stream, uint32_t number) {
    static char messages[4][4096];
    char *message = messages[number % 4]; /* as it is until the turn that copies it */
    memcpy(message, &number, sizeof number);
    return op_sendmsg(pump, stream, NULL, message, sizeof messages[0], 0);
}

/* Sends numbers until one waits; its op, and how many went before it. */
static uint64_t fill(struct pump *pump, quoit_handle stream, uint32_t *count) {
    for (*count = 0; *count < MANY; ++*count) {
        uint64_t send = send_number(pump, stream, *count);
        for (int i = 0; i < 3 && !op_ended(pump, send); i++)
            pump_turn(pump, 1000000);
        if (!op_ended(pump, send))
            return send;
        op_must(pump, send, 4096);
    }
    FAIL("the peer's queue takes %d messages", MANY);
}

static void expect(struct pump *pump, int fd, const char *text) {
    char got[64];
    size_t len = strlen(text);
    CHECK_EQ(peer_recv_from(pump, fd, got, sizeof got, NULL), len);
    CHECK(!memcmp(got, text, len));
}

/* Those that wait keep their order; a half-close waits for them; the peer still sends. */
static void half_close(void) {
    struct pump pump;
    uint32_t count, next = 0;
    pump_open(&pump, NULL);
    struct link link = sequenced_open(&pump, 1);
    uint64_t recv = op_recvmsg(&pump, link.stream, QUOIT_OPF_MULTI, 0);
    uint64_t waits = fill(&pump, link.stream, &count);
    uint64_t behind = send_number(&pump, link.stream, count + 1);
    uint64_t shut = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
    uint64_t after = send_number(&pump, link.stream, count + 2);
    pump_turn_nb(&pump);
    CHECK(!op_ended(&pump, shut));
    while (next < count + 2) {
        pump_check_time(&pump, "what waited", __FILE__, __LINE__);
        pump_turn(&pump, 1000000);
        next = read_all(link.fd, next);
    }
    op_must(&pump, waits, 4096);
    op_must(&pump, behind, 4096);
    op_must(&pump, shut, 0);
    op_must(&pump, after, -EPIPE);
    peer_expect_end(&pump, link.fd);
    CHECK_EQ(send(link.fd, "still", 5, MSG_NOSIGNAL), 5);
    PUMP_UNTIL(&pump, op_record(&pump, recv)->events == 1);
    op_must(&pump, op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_RECV), 0);
    CHECK_EQ(op_must(&pump, recv, 0).flags, QUOIT_EVF_EOF);
    quoit_op *op = op_new(&pump, QUOIT_OP_SHUTDOWN, link.stream);
    op->flags = QUOIT_OPF_QUIET;
    op->arg = QUOIT_SHUTDOWN_BOTH;
    uint64_t quiet = op->user_data;
    CHECK_EQ(op_must(&pump, op_shutdown(&pump, link.stream, 4), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    CHECK(!op_ended(&pump, quiet));
    sequenced_close(&pump, &link);
    pump_close(&pump);
}

static void ended_while_they_wait(void) {
    struct pump pump;
    uint32_t count;
    pump_open(&pump, NULL);
    struct link link = sequenced_open(&pump, 0);
    uint64_t waits = fill(&pump, link.stream, &count);
    uint64_t late = limited(&pump, send_number(&pump, link.stream, 1), SOON);
    uint64_t shut = limited(&pump, op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND), SOON);
    op_must(&pump, late, -ETIMEDOUT);
    op_must(&pump, shut, -ETIMEDOUT);
    shut = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
    pump_turn_nb(&pump);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SHUTDOWN, 0), 1);
    op_must(&pump, shut, -ECANCELED);
    CHECK(!op_ended(&pump, waits));
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SENDMSG, 0), 1);
    op_must(&pump, waits, -ECANCELED);
    CHECK_EQ(read_all(link.fd, 0), count);
    op_must(&pump, limited(&pump, op_sendmsg(&pump, link.stream, NULL, "now", 3, 0), 10000000000u), 3);
    expect(&pump, link.fd, "now");
    close(link.fd); /* who has gone takes none */
    op_must(&pump, op_sendmsg(&pump, link.stream, NULL, "gone", 4, 0), -EPIPE);
    op_must(&pump, op_close(&pump, link.stream, 0), 0);
    pump_close(&pump);
}

/* A close sends what is queued, then the end, throws away what comes, and ends with the peer. The peer sees no reset. */
static void closes(void) {
    for (int how = 0; how < 4; how++) {
        struct pump pump;
        uint32_t count, next = 0;
        pump_open(&pump, NULL);
        struct link link = sequenced_open(&pump, how);
        uint64_t recv = how ? op_recvmsg(&pump, link.stream, QUOIT_OPF_MULTI, 0) : 0;
        uint64_t waits = fill(&pump, link.stream, &count);
        uint64_t shut = op_close(&pump, link.stream, how == 3 ? QUOIT_OPF_ABORT : 0);
        if (how == 2)
            limited(&pump, shut, SOON);
        if (how < 2) {
            while (next < count + 1) {
                pump_check_time(&pump, "what was queued", __FILE__, __LINE__);
                pump_turn(&pump, 1000000);
                next = read_all(link.fd, next);
            }
            op_must(&pump, waits, 4096);
            peer_expect_end(&pump, link.fd);
            for (int n = 0; n < 5; n++) { /* empty ones are no end to wait for */
                CHECK_EQ(send(link.fd, "late", n % 2 ? 0 : 4, MSG_NOSIGNAL), n % 2 ? 0 : 4);
                pump_turn_nb(&pump);
            }
            for (int n = 0; n < 3; n++)
                pump_turn_nb(&pump);
            CHECK(!op_ended(&pump, shut));
            peer_expect_end(&pump, link.fd); /* and not a reset */
            close(link.fd);
            CHECK_EQ(op_must(&pump, shut, 0).value, 0);
        } else {
            CHECK_EQ(op_must(&pump, shut, 0).value, 4096);
            op_must(&pump, waits, -ECANCELED);
            CHECK_EQ(read_all(link.fd, 0), count);
            close(link.fd);
        }
        if (how)
            op_must(&pump, recv, -ECANCELED);
        pump_close(&pump);
    }
}

/* One that will not end is waited for as long as the close says; the worker's stop waits for none. */
static void closes_that_do_not_end(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = sequenced_open(&pump, 0);
    op_must(&pump, limited(&pump, op_close(&pump, link.stream, 0), SOON), 0);
    close(link.fd);
    link = sequenced_open(&pump, 1);
    uint64_t shut = op_close(&pump, link.stream, 0);
    pump_turn_nb(&pump);
    op_must(&pump, op_close(&pump, link.stream, QUOIT_OPF_ABORT), QUOIT_E_CLOSING);
    op_must(&pump, shut, 0);
    close(link.fd);
    link = sequenced_open(&pump, 2);
    op_close(&pump, link.stream, 0);
    pump_turn_nb(&pump);
    close(link.fd);
    link = sequenced_open(&pump, 2);
    shut = op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_SEND);
    uint64_t closing = op_close(&pump, link.stream, 0);
    close(link.fd);
    op_must(&pump, shut, 0);
    op_must(&pump, closing, 0);
    pump_close(&pump);
}

/* The peer's message with one descriptor. */
static void peer_send_fd(int socket, const char *text, int fd) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec slice = {(void *)(uintptr_t)text, strlen(text)};
    struct msghdr message = {
        .msg_iov = &slice, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memset(&control, 0, sizeof control);
    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
    CHECK_EQ(sendmsg(socket, &message, MSG_NOSIGNAL), (ssize_t)slice.iov_len);
}

/* Each message by itself, with what it brings; a recvmsg drops the descriptors, and none is left open. */
static void descriptors(void) {
    struct pump pump;
    int pipes[2];
    char byte;
    pump_open(&pump, NULL);
    for (int how = 0; how < 3; how++) {
        struct link link = sequenced_open(&pump, how);
        CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
        peer_send_fd(link.fd, "first", pipes[1]);
        peer_send_fd(link.fd, "second", pipes[1]);
        peer_send_fd(link.fd, "", pipes[1]);
        CHECK_EQ(send(link.fd, "", 0, MSG_NOSIGNAL), 0);
        static const struct {
            uint32_t most, whole, count;
        } rows[] = {{0, 5, 1}, {4, 6, 1}, {0, 0, 1}, {16, 0, 0}};
        for (int n = 0; n < 4; n++) {
            quoit_event event = op_must(&pump, op_recv_fd(&pump, link.stream, rows[n].most), rows[n].whole);
            bool cut = rows[n].most && rows[n].whole > rows[n].most;
            CHECK_EQ(event.flags, QUOIT_EVF_LENT | (cut ? QUOIT_EVF_TRUNC : 0));
            CHECK_EQ(event.len, cut ? rows[n].most : rows[n].whole);
            CHECK(!memcmp(event_data(&pump, &event), n ? "second" : "first", event.len));
            CHECK_EQ(event.aux, rows[n].count);
            CHECK(fd_words(&pump, &event)[0] == getpid() && fd_words(&pump, &event)[1] == (int)getuid());
            if (event.aux) {
                int fd = fd_words(&pump, &event)[3];
                CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
                CHECK_EQ(write(fd, "z", 1), 1);
                CHECK_EQ(read(pipes[0], &byte, 1), 1);
                close(fd);
            }
        }
        int before = open_fds();
        for (uint32_t cap = 0; cap < 9000; cap += 3000)
            for (int multi = 0; multi < 2; multi++) {
                uint64_t recv = op_recvmsg(&pump, link.stream, multi ? QUOIT_OPF_MULTI : 0, cap);
                peer_send_fd(link.fd, "drops", pipes[1]);
                PUMP_UNTIL(&pump, op_record(&pump, recv)->events == 1);
                CHECK_EQ(op_record(&pump, recv)->last.result, 5);
                if (multi)
                    op_finish(&pump, op_cancel(&pump, link.stream, 0, 0)), op_finish(&pump, recv);
            }
        CHECK_EQ(open_fds(), before);
        /* To the peer, between other messages; then both ends. */
        op_sendmsg(&pump, link.stream, NULL, "before", 6, 0);
        uint64_t with = op_send_fd(&pump, link.stream, pipes[1], "with");
        op_must(&pump, op_sendmsg(&pump, link.stream, NULL, "after", 5, 0), 5);
        op_must(&pump, with, 4);
        expect(&pump, link.fd, "before");
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        char text[8];
        struct iovec slice = {text, sizeof text};
        struct msghdr message = {
            .msg_iov = &slice, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        CHECK_EQ(recvmsg(link.fd, &message, MSG_CMSG_CLOEXEC), 4);
        CHECK(!memcmp(text, "with", 4) && control.align.cmsg_type == SCM_RIGHTS);
        int came;
        memcpy(&came, CMSG_DATA(&control.align), sizeof came);
        close(came);
        expect(&pump, link.fd, "after");
        close(link.fd);
        CHECK_EQ(op_must(&pump, op_recv_fd(&pump, link.stream, 0), 0).flags, QUOIT_EVF_EOF);
        op_must(&pump, op_send_fd(&pump, link.stream, pipes[1], "gone"), -EPIPE);
        op_must(&pump, op_close(&pump, link.stream, 0), 0);
        close(pipes[0]);
        close(pipes[1]);
    }
    pump_close(&pump);
}

/* A reset is told to a recv fd as to a recvmsg: behind what came before; and once. Ends and cancels meanwhile. */
static void descriptors_at_the_end(void) {
    struct pump pump;
    uint32_t count;
    pump_open(&pump, NULL);
    struct link link = sequenced_open(&pump, 0);
    uint64_t recv = op_recv_fd(&pump, link.stream, 0);
    pump_turn_nb(&pump);
    op_must(&pump, op_recvmsg(&pump, link.stream, 0, 0), QUOIT_E_BUSY);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECV_FD, 0), 1);
    op_must(&pump, recv, -ECANCELED);
    op_must(&pump, limited(&pump, op_recv_fd(&pump, link.stream, 0), SOON), -ETIMEDOUT);
    uint64_t waits = fill(&pump, link.stream, &count);
    uint64_t with = op_send_fd(&pump, link.stream, STDERR_FILENO, "cancelled");
    pump_turn_nb(&pump);
    op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND_FD, 0), 1);
    op_must(&pump, with, -ECANCELED);
    with = op_send_fd(&pump, link.stream, STDERR_FILENO, "unsent"); /* is closed by whatever ends it */
    CHECK_EQ(send(link.fd, "last", 4, MSG_NOSIGNAL), 4);
    close(link.fd);
    op_must(&pump, waits, -ECONNRESET); /* it left without reading */
    op_must(&pump, with, -EPIPE);
    op_must(&pump, op_recv_fd(&pump, link.stream, 0), 4);
    CHECK_EQ(op_must(&pump, op_recv_fd(&pump, link.stream, 0), 0).flags, QUOIT_EVF_EOF);
    op_must(&pump, op_close(&pump, link.stream, 0), 0);
    link = sequenced_open(&pump, 0); /* the same with nobody who sends */
    op_must(&pump, op_sendmsg(&pump, link.stream, NULL, "unread", 6, 0), 6);
    CHECK_EQ(send(link.fd, "last", 4, MSG_NOSIGNAL), 4);
    close(link.fd);
    op_must(&pump, op_recv_fd(&pump, link.stream, 0), 4);
    op_must(&pump, op_recv_fd(&pump, link.stream, 0), -ECONNRESET);
    CHECK_EQ(op_must(&pump, op_recv_fd(&pump, link.stream, 0), 0).flags, QUOIT_EVF_EOF);
    op_must(&pump, op_close(&pump, link.stream, 0), 0);
    link = sequenced_open(&pump, 0); /* a stop, with one queued */
    fill(&pump, link.stream, &count);
    op_send_fd(&pump, link.stream, STDERR_FILENO, "queued");
    op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_BOTH);
    pump_turn_nb(&pump);
    close(link.fd);
    pump_close(&pump);
    pump_open(&pump, NULL);
    link = sequenced_open(&pump, 0); /* nothing but the end of the worker */
    fill(&pump, link.stream, &count);
    op_send_fd(&pump, link.stream, STDERR_FILENO, "queued");
    op_shutdown(&pump, link.stream, QUOIT_SHUTDOWN_BOTH);
    op_recv_fd(&pump, link.stream, 0);
    pump_turn_nb(&pump);
    close(link.fd);
    pump_abandon(&pump);
}

/* Out and back, whoever made it: every message is read by one side or the other. What was set for it is taken back. */
static void there_and_back(void) {
    struct pump pump;
    uint32_t sent = 0, next = 0;
    pump_open(&pump, NULL);
    for (int how = 0; how < 3; how++) {
        struct link link = sequenced_open(&pump, how);
        for (int round = 0; round < 20; round++) {
            int on = 1;
            socklen_t size = sizeof on;
            for (int n = 0; n < 3; n++, sent++)
                CHECK_EQ(send(link.fd, &sent, sizeof sent, MSG_NOSIGNAL), sizeof sent);
            quoit_event event = op_must(&pump, op_recvmsg(&pump, link.stream, 0, 0), sizeof sent);
            CHECK(!memcmp(event_data(&pump, &event), &next, sizeof next));
            next++;
            uint64_t recv = op_recvmsg(&pump, link.stream, QUOIT_OPF_MULTI, 0);
            PUMP_UNTIL(&pump, op_record(&pump, recv)->events);
            op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, link.stream), QUOIT_E_BUSY);
            op_finish(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECVMSG, 0));
            op_finish(&pump, recv);
            next += op_record(&pump, recv)->events - 1;
            int own = (int)op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, link.stream), 0).value;
            CHECK_EQ(getsockopt(own, SOL_SOCKET, SO_TIMESTAMP, &on, &size), 0);
            CHECK_EQ(on, 0);
            for (uint32_t number; next < sent; next++) {
                CHECK_EQ(read(own, &number, sizeof number), sizeof number);
                CHECK_EQ(number, next);
            }
            quoit_op *op = op_new(&pump, QUOIT_OP_ADOPT, 0);
            op->offset = own;
            op->arg = QUOIT_HANDLE_DATAGRAM;
            link.stream = op_must(&pump, op->user_data, 0).value;
        }
        sequenced_close(&pump, &link);
    }
    pump_close(&pump);
}

/* An adopted listener's connections; a reset that no receive has told is not given away; what one was set to stays. */
static void adopted(void) {
    struct pump pump;
    quoit_addr addr = sequenced_addr(1);
    int on = 1;
    socklen_t size = sizeof on;
    pump_open(&pump, NULL);
    quoit_handle listener = sequenced_listen(&pump, &addr);
    int listening = (int)op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, listener), 0).value;
    quoit_op *op = op_new(&pump, QUOIT_OP_ADOPT, 0);
    op->offset = listening;
    listener = op_must(&pump, op->user_data, 0).value;
    CHECK_EQ(quoit_handle_kind(listener), QUOIT_HANDLE_LISTENER);
    struct link link = {.fd = sequenced_connect(&addr)};
    link.stream = op_must(&pump, op_accept(&pump, listener, 0), 0).value;
    CHECK_EQ(quoit_handle_kind(link.stream), QUOIT_HANDLE_DATAGRAM);
    op_must(&pump, op_sendmsg(&pump, link.stream, NULL, "unread", 6, 0), 6);
    CHECK_EQ(send(link.fd, "told", 4, MSG_NOSIGNAL), 4);
    close(link.fd);
    op_must(&pump, op_recvmsg(&pump, link.stream, 0, 0), 4);
    op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, link.stream), QUOIT_E_BUSY);
    op_must(&pump, op_recvmsg(&pump, link.stream, 0, 0), -ECONNRESET);
    close((int)op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, link.stream), 0).value);
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on), 0);
    op = op_new(&pump, QUOIT_OP_ADOPT, 0);
    op->offset = ends[0];
    quoit_handle socket = op_must(&pump, op->user_data, 0).value;
    CHECK_EQ(send(ends[1], "", 0, MSG_NOSIGNAL), 0);
    CHECK_EQ(op_must(&pump, op_recvmsg(&pump, socket, 0, 0), 0).flags, QUOIT_EVF_LENT);
    op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, socket), 0);
    CHECK_EQ(getsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMPNS, &on, &size), 0);
    CHECK_EQ(on, 1);
    close(ends[0]);
    close(ends[1]);
    pump_close(&pump);
}

static void refused(void) {
    struct pump pump;
    quoit_addr ip = addr_v4(0), addr = sequenced_addr(2), stream = sequenced_addr(3),
               there = sequenced_addr(4);
    quoit_listen_options options = {.struct_size = sizeof options, .flags = QUOIT_LISTEN_SEQPACKET};
    pump_open(&pump, NULL);
    quoit_op *op = op_new(&pump, QUOIT_OP_LISTEN, 0);
    op->addr = (uintptr_t)&ip;
    op->len = sizeof ip;
    op->arg2 = (uintptr_t)&options;
    CHECK_EQ(op_must(&pump, op->user_data, QUOIT_E_FLAGS).aux, QUOIT_FIELD_ARG2);
    CHECK_EQ(op_must(&pump, sequenced_op_connect(&pump, &ip), QUOIT_E_FIELD).aux, QUOIT_FIELD_ARG);
    op_must(&pump, sequenced_op_connect(&pump, &addr), -ECONNREFUSED);
    listen_on(&pump, &stream);
    op_must(&pump, sequenced_op_connect(&pump, &stream), -ECONNREFUSED);
    struct link link = sequenced_open(&pump, 0);
    op_must(&pump, op_recv(&pump, link.stream, 0, 0), QUOIT_E_KIND);
    op_must(&pump, op_send(&pump, link.stream, "x", 1, 0), QUOIT_E_KIND);
    CHECK_EQ(op_must(&pump, op_sendmsg(&pump, link.stream, &addr, "x", 1, 0), QUOIT_E_FIELD).aux,
             QUOIT_FIELD_ARG2);
    /* What only connections have, of sockets that are none. */
    int fd = peer_bind(&there);
    quoit_handle udp = bind_on(&pump, &ip, 0), local = bind_on(&pump, &addr, 0);
    CHECK_EQ(op_must(&pump, op_shutdown(&pump, udp, QUOIT_SHUTDOWN_SEND), QUOIT_E_KIND).aux,
             QUOIT_FIELD_TARGET);
    op_must(&pump, op_shutdown(&pump, local, QUOIT_SHUTDOWN_SEND), QUOIT_E_KIND);
    CHECK_EQ(op_must(&pump, op_send_fd(&pump, udp, fd, "x"), -EOPNOTSUPP).aux, QUOIT_FIELD_TARGET);
    op_must(&pump, op_recv_fd(&pump, udp, 0), -EOPNOTSUPP);
    op_must(&pump, op_send_fd(&pump, local, fd, "x"), -ENOTCONN);
    /* A Unix datagram carries a descriptor too, and an empty one is one. */
    peer_send_to(fd, &addr, "", 0);
    quoit_event event = op_must(&pump, op_recv_fd(&pump, local, 0), 0);
    CHECK_EQ(event.flags, QUOIT_EVF_LENT);
    CHECK(fd_words(&pump, &event)[0] == 0 && fd_words(&pump, &event)[1] == -1); /* nobody made a peer of it */
    close(fd);
    sequenced_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"half_close", half_close},
    {"ended_while_they_wait", ended_while_they_wait},
    {"closes", closes},
    {"closes_that_do_not_end", closes_that_do_not_end},
    {"descriptors", descriptors},
    {"descriptors_at_the_end", descriptors_at_the_end},
    {"there_and_back", there_and_back},
    {"adopted", adopted},
    {"refused", refused},
};
TEST_GROUP(seqpacket_ops, cases);
