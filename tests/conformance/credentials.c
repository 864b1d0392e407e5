/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* credentials.c: who sent each message of a Unix socket: this process or a child, told by recvmsg and recv fd where it was asked for. */
#define _GNU_SOURCE
#include "check.h"
#include "descriptors.h"
#include "groups.h"
#include "peer.h"
#include "sequenced.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

static uint64_t op_set(struct pump *pump, quoit_handle socket, int64_t value) {
    quoit_op *op = op_new(pump, QUOIT_OP_SOCKET_SET, socket);
    op->arg = QUOIT_SOCKET_CREDENTIALS;
    op->offset = value;
    return op->user_data;
}

/* A child sends the bytes and is gone; its number. */
static pid_t child_sends(int fd, const quoit_addr *to, const char *text, size_t len) {
    struct sockaddr_storage name;
    socklen_t name_len = to ? peer_sockaddr(to, &name) : 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(sendto(fd, text, len, MSG_NOSIGNAL, to ? (struct sockaddr *)&name : NULL, name_len) !=
              (ssize_t)len);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return child;
}

static quoit_addr own_addr(int number) {
    char name[64];
    snprintf(name, sizeof name, "@quoit-credentials-%d-%d", (int)getpid(), number);
    return addr_unix(name);
}

/* The words of an event: of this sender, or none at all. */
static void check_sender(const struct pump *pump, const quoit_event *event, uint32_t after, pid_t pid) {
    int32_t words[3];
    memcpy(words, (const uint8_t *)(uintptr_t)(pump->batch->recv_base + event->value + after), sizeof words);
    CHECK(event->flags & QUOIT_EVF_CREDENTIALS);
    CHECK_EQ(words[0], pid);
    CHECK_EQ(words[1], getuid());
    CHECK_EQ(words[2], getgid());
}

static const uint32_t caps[] = {0, 100, 5000};

static void datagrams(void) {
    struct pump pump;
    quoit_addr here = own_addr(1), there = own_addr(2);
    pump_open(&pump, NULL);
    int fd = peer_bind(&there);
    for (int i = 0; i < 6; i++) {
        quoit_handle socket = bind_on(&pump, &here, 0);
        op_must(&pump, op_set(&pump, socket, 1), 0);
        uint32_t keep = i == 4 ? QUOIT_OPF_KEEP : 0;
        uint64_t recv = op_recvmsg(&pump, socket, (i % 2 ? QUOIT_OPF_MULTI : 0) | keep, caps[i / 2]);
        for (uint32_t n = 0; n < 4; n++) {
            size_t len = n == 2 ? 0 : n == 3 ? 3000 : 5;
            static char text[3000];
            memset(text, 'a' + (int)n, len);
            pid_t pid = getpid();
            if (n % 2)
                pid = child_sends(fd, &here, text, len);
            else
                peer_send_to(fd, &here, text, len);
            if (op_record(&pump, recv)->ended)
                recv = op_recvmsg(&pump, socket, keep, caps[i / 2]);
            uint32_t seen = op_record(&pump, recv)->events + 1;
            PUMP_UNTIL(&pump, op_record(&pump, recv)->events >= seen);
            quoit_event event = op_record(&pump, recv)->last;
            CHECK_EQ(event.result, (int64_t)len);
            check_sender(&pump, &event, sizeof(quoit_addr), pid);
            CHECK(!memcmp(event_data(&pump, &event), text, event.len));
            const quoit_addr *from = (const void *)(uintptr_t)(pump.batch->recv_base + event.value);
            CHECK(!memcmp(from, &there, sizeof there));
            if (event.flags & QUOIT_EVF_KEPT)
                op_release(&pump, event.buffer);
        }
        op_must(&pump, op_close(&pump, socket, 0), 0);
    }
    close(fd);
    pump_close(&pump);
}

/* Switched while a receive is armed: it tells them from then on, and then no more. */
static void while_armed(void) {
    struct pump pump;
    quoit_addr here = own_addr(1), there = own_addr(2);
    pump_open(&pump, NULL);
    int fd = peer_bind(&there);
    quoit_handle socket = bind_on(&pump, &here, 0);
    for (int i = 0; i < 6; i++) {
        uint64_t recv = op_recvmsg(&pump, socket, QUOIT_OPF_MULTI, caps[i / 2]);
        pump_turn_nb(&pump);
        for (uint32_t n = 0; n < 6; n++) {
            if (n % 2) {
                op_must(&pump, op_set(&pump, socket, n % 4 == 1), 0);
                if (i % 2)
                    pump_turn_nb(&pump);
            }
            peer_send_to(fd, &here, &n, sizeof n);
            PUMP_UNTIL(&pump, op_record(&pump, recv)->events == n + 1);
            quoit_event event = op_record(&pump, recv)->last;
            CHECK(!memcmp(event_data(&pump, &event), &n, sizeof n));
            if ((n + 1) % 4 / 2)
                check_sender(&pump, &event, sizeof(quoit_addr), getpid());
            else
                CHECK(!(event.flags & QUOIT_EVF_CREDENTIALS));
        }
        op_finish(&pump, op_cancel(&pump, socket, 0, 0));
        op_must(&pump, recv, -ECANCELED);
        op_must(&pump, op_set(&pump, socket, 0), 0);
    }
    /* A single receive waits on, and what it was asked to tell is told. */
    uint64_t recv = op_recvmsg(&pump, socket, 0, 0);
    pump_turn_nb(&pump);
    op_must(&pump, op_set(&pump, socket, 1), 0);
    peer_send_to(fd, &here, "x", 1);
    quoit_event event = op_must(&pump, recv, 1);
    check_sender(&pump, &event, sizeof(quoit_addr), getpid());
    op_must(&pump, op_close(&pump, socket, 0), 0);
    close(fd);
    pump_close(&pump);
}

/* What a listener was set to holds for what it accepts; an end stays an end, an empty message one. */
static void connections(void) {
    struct pump pump;
    quoit_addr addr = own_addr(3);
    pump_open(&pump, NULL);
    quoit_handle listener = sequenced_listen(&pump, &addr);
    op_must(&pump, op_set(&pump, listener, 1), 0);
    for (int i = 0; i < 7; i++) {
        int fd = sequenced_connect(&addr);
        int64_t value = 0;
        quoit_handle socket = op_must(&pump, op_accept(&pump, listener, 0), 0).value;
        CHECK_EQ(quoit_socket_get(pump.worker, socket, QUOIT_SOCKET_CREDENTIALS, &value), QUOIT_OK);
        CHECK_EQ(value, 1);
        uint64_t recv = 0;
        for (uint32_t n = 0; n < 4; n++) {
            size_t len = n % 2 ? 0 : 4;
            pid_t pid = getpid();
            if (n < 2)
                pid = child_sends(fd, NULL, "from", len);
            else
                CHECK_EQ(send(fd, "from", len, MSG_NOSIGNAL), (ssize_t)len);
            if (!recv || op_record(&pump, recv)->ended)
                recv = i == 6 ? op_recv_fd(&pump, socket, 0)
                              : op_recvmsg(&pump, socket, i % 2 ? QUOIT_OPF_MULTI : 0, caps[i / 2]);
            uint32_t seen = op_record(&pump, recv)->events + 1;
            PUMP_UNTIL(&pump, op_record(&pump, recv)->events >= seen);
            quoit_event event = op_record(&pump, recv)->last;
            CHECK_EQ(event.result, (int64_t)len);
            check_sender(&pump, &event, i == 6 ? 0 : sizeof(quoit_addr), pid);
        }
        close(fd);
        if (op_record(&pump, recv)->ended)
            recv = i == 6 ? op_recv_fd(&pump, socket, 0) : op_recvmsg(&pump, socket, 0, 0);
        CHECK_EQ(op_must(&pump, recv, 0).flags, QUOIT_EVF_EOF);
        op_must(&pump, op_close(&pump, socket, 0), 0);
    }
    pump_close(&pump);
}

/* A stream's recv fd: without the option who made the peer's end, with it who wrote. */
static void streams(void) {
    struct pump pump;
    int ends[2];
    pump_open(&pump, NULL);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    quoit_op *op = op_new(&pump, QUOIT_OP_ADOPT, 0);
    op->offset = ends[0];
    quoit_handle stream = op_must(&pump, op->user_data, 0).value;
    child_sends(ends[1], NULL, "first", 5);
    quoit_event event = op_must(&pump, op_recv_fd(&pump, stream, 0), 5);
    CHECK(!(event.flags & QUOIT_EVF_CREDENTIALS));
    event.flags |= QUOIT_EVF_CREDENTIALS;
    check_sender(&pump, &event, 0, getpid());
    op_must(&pump, op_set(&pump, stream, 1), 0);
    pid_t child = child_sends(ends[1], NULL, "second", 6);
    CHECK_EQ(send(ends[1], "third", 5, MSG_NOSIGNAL), 5);
    event = op_must(&pump, op_recv_fd(&pump, stream, 0), 6); /* no more than one sender's */
    check_sender(&pump, &event, 0, child);
    event = op_must(&pump, op_recv_fd(&pump, stream, 0), 5);
    check_sender(&pump, &event, 0, getpid());
    close(ends[1]);
    op_must(&pump, op_close(&pump, stream, 0), 0);
    pump_close(&pump);
}

/* The peer's byte with eight descriptors. */
static void send_with_descriptors(int fd) {
    int sent[8];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof sent)];
    } control = {
        .align = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof sent)}};
    struct iovec slice = {(char[]){'f'}, 1};
    struct msghdr message = {
        .msg_iov = &slice, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    for (int n = 0; n < 8; n++)
        sent[n] = STDERR_FILENO;
    memcpy(CMSG_DATA(&control.align), sent, sizeof sent);
    CHECK_EQ(sendmsg(fd, &message, MSG_NOSIGNAL), 1);
}

static void switch_option(int fd, int option, int on) {
    /* Kernels before 6.5 have no SO_PASSPIDFD: then no such descriptor comes, and the rest is the same. */
    CHECK(setsockopt(fd, SOL_SOCKET, option, &on, sizeof on) == 0 ||
          (option == SO_PASSPIDFD && errno == ENOPROTOOPT));
}

/*
 * The room for them is no room for descriptors: these are dropped as ever, also when another who shares the socket switched the option off
 * behind our back, and a descriptor of the sender (SO_PASSPIDFD) too. An adopted socket keeps what it was set to.
 */
static void descriptors_are_dropped(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    for (int kind = 0; kind < 4; kind++) {
        int ends[2];
        CHECK_EQ(socketpair(AF_UNIX, (kind % 2 ? SOCK_SEQPACKET : SOCK_DGRAM) | SOCK_CLOEXEC, 0, ends), 0);
        switch_option(ends[0], SO_PASSCRED, 1);
        switch_option(ends[0], SO_PASSPIDFD, kind / 2);
        quoit_op *op = op_new(&pump, QUOIT_OP_ADOPT, 0);
        op->offset = ends[0];
        quoit_handle socket = op_must(&pump, op->user_data, 0).value;
        int before = open_fds();
        for (int i = 0; i < 12; i++) {
            uint64_t recv = op_recvmsg(&pump, socket, i % 2 ? QUOIT_OPF_MULTI : 0, caps[i / 2 % 3]);
            pump_turn_nb(&pump);
            switch_option(ends[0], SO_PASSCRED, i < 6);
            send_with_descriptors(ends[1]);
            PUMP_UNTIL(&pump, op_record(&pump, recv)->events == 1);
            quoit_event event = op_record(&pump, recv)->last;
            if (i < 6)
                check_sender(&pump, &event, sizeof(quoit_addr), getpid());
            else
                CHECK(!(event.flags & QUOIT_EVF_CREDENTIALS));
            if (i % 2)
                op_finish(&pump, op_cancel(&pump, socket, 0, 0)), op_must(&pump, recv, -ECANCELED);
        }
        CHECK_EQ(open_fds(), before);
        send_with_descriptors(ends[1]);
        quoit_event event = op_must(&pump, op_recv_fd(&pump, socket, 0), 1);
        CHECK_EQ(event.aux, 8);
        CHECK_EQ(open_fds(), before + 8);
        const int32_t *words = (const int32_t *)(uintptr_t)(pump.batch->recv_base + event.value);
        for (int n = 0; n < 8; n++)
            close(words[3 + n]);
        close(ends[1]);
        op_must(&pump, op_close(&pump, socket, QUOIT_OPF_ABORT), 0);
    }
    pump_close(&pump);
}

static void refused(void) {
    struct pump pump;
    quoit_addr ip = addr_v4(0), local = own_addr(4);
    int64_t value = 5;
    pump_open(&pump, NULL);
    struct link link = link_open(&pump);
    quoit_handle udp = bind_on(&pump, &ip, 0), socket = bind_on(&pump, &local, 0);
    quoit_handle others[] = {link.stream, pump.listener, udp};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(op_must(&pump, op_set(&pump, others[i], 1), -EOPNOTSUPP).aux, QUOIT_FIELD_ARG);
    CHECK_EQ(op_must(&pump, op_set(&pump, socket, 2), QUOIT_E_FIELD).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ(op_must(&pump, op_set(&pump, socket, -1), QUOIT_E_FIELD).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ(quoit_socket_get(pump.worker, socket, QUOIT_SOCKET_CREDENTIALS, &value), QUOIT_OK);
    CHECK_EQ(value, 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

static const struct test_case cases[] = {
    {"datagrams", datagrams},
    {"while_armed", while_armed},
    {"connections", connections},
    {"streams", streams},
    {"descriptors_are_dropped", descriptors_are_dropped},
    {"refused", refused},
};
TEST_GROUP(credentials, cases);
