/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fds.c: descriptors over Unix streams: in order, told with their sender's credentials, none lost or left open. */
#define _GNU_SOURCE
#include "check.h"
#include "descriptors.h"
#include "groups.h"
#include "ops.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BIG (4u << 20)
static char big[BIG];

/* A Unix stream of the worker's and its peer. */
static struct link pair_open(struct pump *pump) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    quoit_op *op = op_new(pump, QUOIT_OP_ADOPT, 0);
    op->offset = ends[0];
    return (struct link){.stream = op_must(pump, op->user_data, 0).value, .fd = ends[1]};
}

static uint64_t limited(struct pump *pump, uint64_t id, uint64_t timeout_ns) {
    ((quoit_op *)(uintptr_t)pump->batch->ops)[pump->nops - 1].timeout_ns = timeout_ns;

    return id;
}

#define MANY 60
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(MANY * sizeof(int))];
};

/* The peer's side: bytes with count descriptors. */
static void peer_send_fds(int socket, const char *text, const int *fds, size_t count) {
    union control control;
    struct iovec slice = {(void *)(uintptr_t)text, strlen(text)};
    struct msghdr message = {.msg_iov = &slice,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    memset(&control, 0, sizeof control);
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    CHECK_EQ(sendmsg(socket, &message, MSG_NOSIGNAL), (ssize_t)slice.iov_len);
}

/* What comes next: up to room bytes, and the one descriptor that came with them, or -1. -1 when nothing is there. */
static ssize_t peer_recv_fd(int socket, char *text, size_t room, int *fd) {
    union control control;
    struct iovec slice = {text, room};
    struct msghdr message = {
        .msg_iov = &slice, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *fd = -1;
    if (c != NULL) {
        CHECK_EQ(c->cmsg_len, CMSG_LEN(sizeof *fd));
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    }
    return n;
}

/* Between other sends: the descriptor comes with its own bytes, and those come where they were given. */
static void in_order_with_sends(void) {
    struct pump pump;
    char text[64];
    size_t used = 0;
    int pipes[2], came = -1, fd;
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    uint64_t first = op_send(&pump, link.stream, "before", 6, 0);
    uint64_t with = op_send_fd(&pump, link.stream, pipes[1], "with");
    uint64_t last = op_send(&pump, link.stream, "after", 5, 0);
    op_must(&pump, last, 5);
    op_must(&pump, first, 6);
    op_must(&pump, with, 4);
    while (used < 15) {
        ssize_t n = peer_recv_fd(link.fd, text + used, sizeof text - used, &fd);
        CHECK(n > 0);
        if (fd >= 0) {
            CHECK(came < 0 && used <= 6 && used + (size_t)n >= 10);
            came = fd;
        }
        used += (size_t)n;
    }
    CHECK(!memcmp(text, "beforewithafter", 15));
    CHECK(came >= 0 && came != pipes[1]);
    CHECK_EQ(write(came, "x", 1), 1);
    CHECK_EQ(write(pipes[1], "y", 1), 1); /* the program's own is still open */
    CHECK_EQ(read(pipes[0], text, 8), 2);
    close(came);
    close(pipes[0]);
    close(pipes[1]);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* The descriptor may be closed when the op is taken. */
static void closed_at_once(void) {
    struct pump pump;
    char text[8];
    int pipes[2], came;
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    quoit_op *op = op_new(&pump, QUOIT_OP_SEND_FD, link.stream);
    op->flags = QUOIT_OPF_ARENA_SEND;
    op->offset = pipes[1];
    op->addr = pump.batch->scratch_off;
    op->len = 5;
    memcpy((char *)(uintptr_t)(pump.batch->send_base + pump.batch->scratch_off), "arena", 5);
    uint64_t id = op->user_data;
    pump_submit(&pump);
    close(pipes[1]);
    op_must(&pump, id, 5);
    CHECK_EQ(peer_recv_fd(link.fd, text, sizeof text, &came), 5);
    CHECK(came >= 0 && !memcmp(text, "arena", 5));
    close(came);
    CHECK_EQ(read(pipes[0], text, 1), 0); /* nobody holds the other end any more */
    close(pipes[0]);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void receives(void) {
    struct pump pump;
    int pipes[2];
    char byte;
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump);
    CHECK_EQ(pipe2(pipes, 0), 0);
    for (int round = 0; round < 2; round++) { /* before it is armed, and after */
        uint64_t id = 0;
        if (round)
            id = op_recv_fd(&pump, link.stream, 100), pump_turn_nb(&pump);
        peer_send_fds(link.fd, "here", pipes, 2);
        if (!round)
            id = op_recv_fd(&pump, link.stream, 0);
        quoit_event event = op_must(&pump, id, 4);
        CHECK_EQ(event.flags, QUOIT_EVF_LENT);
        CHECK_EQ(event.aux, 2);
        CHECK(!memcmp(event_data(&pump, &event), "here", 4));
        const int32_t *words = fd_words(&pump, &event);
        CHECK_EQ(words[0], getpid());
        CHECK_EQ(words[1], getuid());
        CHECK_EQ(words[2], getgid());
        int in = words[3], out = words[4];
        CHECK_EQ(fcntl(in, F_GETFD), FD_CLOEXEC);
        CHECK_EQ(fcntl(out, F_GETFD), FD_CLOEXEC);
        CHECK_EQ(write(out, "z", 1), 1);
        CHECK_EQ(read(pipes[0], &byte, 1), 1);
        close(in);
        close(out);
    }
    /* Bytes alone, and more than were asked for; then the end. */
    peer_send(&pump, link.fd, "plain", 5);
    quoit_event event = op_must(&pump, op_recv_fd(&pump, link.stream, 2), 2);
    CHECK(event.aux == 0 && !memcmp(event_data(&pump, &event), "pl", 2));
    event = op_must(&pump, op_recv_fd(&pump, link.stream, 65536), 3);
    CHECK(!memcmp(event_data(&pump, &event), "ain", 3));
    CHECK_EQ(shutdown(link.fd, SHUT_WR), 0);
    event = op_must(&pump, op_recv_fd(&pump, link.stream, 0), 0);
    CHECK_EQ(event.flags, QUOIT_EVF_EOF);
    CHECK(event.buffer == 0 && event.value == 0);
    close(pipes[0]);
    close(pipes[1]);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* What is too many is closed, and a recv keeps none. */
static void too_many(void) {
    struct pump pump;
    int many[MANY];
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump);
    for (int i = 0; i < MANY; i++)
        many[i] = link.fd;
    int before = open_fds();
    peer_send_fds(link.fd, "many", many, MANY);
    quoit_event event = op_must(&pump, op_recv_fd(&pump, link.stream, 0), 4);
    CHECK_EQ(event.flags, QUOIT_EVF_LENT | QUOIT_EVF_TRUNC);
    CHECK_EQ(event.aux, QUOIT_FDS_MAX);
    CHECK_EQ(open_fds(), before + QUOIT_FDS_MAX);
    for (uint32_t i = 0; i < event.aux; i++)
        close(fd_words(&pump, &event)[3 + i]);
    CHECK_EQ(open_fds(), before);
    peer_send_fds(link.fd, "exact", many, QUOIT_FDS_MAX);
    event = op_must(&pump, op_recv_fd(&pump, link.stream, 0), 5);
    CHECK_EQ(event.flags, QUOIT_EVF_LENT);
    CHECK_EQ(event.aux, QUOIT_FDS_MAX);
    for (uint32_t i = 0; i < event.aux; i++)
        close(fd_words(&pump, &event)[3 + i]);
    peer_send_fds(link.fd, "dropped", many, 3);
    op_must(&pump, op_recv(&pump, link.stream, 0, 0), 7);
    CHECK_EQ(open_fds(), before);
    link_close(&pump, &link);
    pump_close(&pump);
}

static void refused(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link tcp = link_open(&pump), link = pair_open(&pump);
    CHECK_EQ(op_must(&pump, op_send_fd(&pump, tcp.stream, 0, "x"), -EOPNOTSUPP).aux, QUOIT_FIELD_TARGET);
    CHECK_EQ(op_must(&pump, op_recv_fd(&pump, tcp.stream, 0), -EOPNOTSUPP).aux, QUOIT_FIELD_TARGET);
    CHECK_EQ(op_must(&pump, op_send_fd(&pump, link.stream, 0, ""), QUOIT_E_FIELD).aux, QUOIT_FIELD_LEN);
    CHECK_EQ(op_must(&pump, op_send_fd(&pump, link.stream, -1, "x"), -EBADF).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ(op_must(&pump, op_send_fd(&pump, link.stream, 1000000, "x"), -EBADF).aux, QUOIT_FIELD_OFFSET);
    CHECK_EQ(op_must(&pump, op_recv_fd(&pump, link.stream, 65537), QUOIT_E_FIELD).aux, QUOIT_FIELD_LEN);
    quoit_op *op = op_new(&pump, QUOIT_OP_SEND_FD, link.stream);
    op->len = 5; /* of nothing */
    op->offset = link.fd;
    CHECK_EQ(op_must(&pump, op->user_data, QUOIT_E_FIELD).aux, QUOIT_FIELD_ADDR);
    /* One receive of either sort. */
    uint64_t recv = op_recv(&pump, link.stream, 0, 0);
    op_must(&pump, op_recv_fd(&pump, link.stream, 0), QUOIT_E_BUSY);
    peer_send(&pump, link.fd, "a", 1);
    op_must(&pump, recv, 1);
    recv = op_recv_fd(&pump, link.stream, 0);
    op_must(&pump, op_recv(&pump, link.stream, 0, 0), QUOIT_E_BUSY);
    op_must(&pump, op_recv_fd(&pump, link.stream, 0), QUOIT_E_BUSY);
    op_must(&pump, op_simple(&pump, QUOIT_OP_DETACH, link.stream), QUOIT_E_BUSY);
    peer_send(&pump, link.fd, "b", 1);
    op_must(&pump, recv, 1);
    link_close(&pump, &link);
    link_close(&pump, &tcp);
    pump_close(&pump);
}

/* A receive that waits: each way to end it, and nothing is lost by any. */
static void recv_that_waits(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump);
    for (int how = 0; how < 4; how++) {
        uint64_t recv = op_recv_fd(&pump, link.stream, 0);
        if (how == 2)
            limited(&pump, recv, 30000000);
        if (how == 3)
            limited(&pump, recv, 5000000000);
        if (how)
            pump_turn_nb(&pump);
        if (how < 2) /* in its own batch, and later */
            op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECV_FD, 0), 1);
        if (how == 3)
            peer_send_fds(link.fd, "won", &link.fd, 1);
        quoit_event event = op_must(&pump, recv, how == 3 ? 3 : how == 2 ? -ETIMEDOUT : -ECANCELED);
        CHECK(how == 3 || (event.value == 0 && event.aux == 0 && event.buffer == 0));
        if (how == 3)
            close(fd_words(&pump, &event)[3]);
        op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_RECV_FD, 0), -ENOENT);
    }
    for (uint32_t flags = 0; flags <= QUOIT_OPF_ABORT; flags += QUOIT_OPF_ABORT) {
        uint64_t recv = op_recv_fd(&pump, link.stream, 0);
        pump_turn_nb(&pump);
        uint64_t closed = op_close(&pump, link.stream, flags);
        op_must(&pump, recv, -ECANCELED);
        close(link.fd);
        op_must(&pump, closed, 0);
        link = pair_open(&pump);
    }
    link_close(&pump, &link);
    pump_close(&pump);
}

/* A send behind a peer that does not read: each way to end it, and its duplicate is closed. */
static void send_that_waits(void) {
    struct pump pump;
    char chunk[65536];
    pump_open(&pump, NULL);
    for (int how = 0; how < 5; how++) {
        struct link link = pair_open(&pump);
        uint64_t first = op_send(&pump, link.stream, big, BIG, QUOIT_OPF_BORROW);
        pump_turn_nb(&pump);
        int before = open_fds(), fd;
        uint64_t send = op_send_fd(&pump, link.stream, link.fd, "late");
        if (how == 2)
            limited(&pump, send, 30000000);
        if (how == 3)
            limited(&pump, send, 5000000000);
        if (how) {
            pump_turn_nb(&pump);
            CHECK_EQ(open_fds(), before + 1);
        }
        if (how < 2)
            op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND_FD, 0), 1);
        if (how == 4) {
            op_must(&pump, op_close(&pump, link.stream, QUOIT_OPF_ABORT), 0);
            op_must(&pump, send, -ECANCELED);
            CHECK_EQ(op_record(&pump, first)->last.result, -ECANCELED);
            close(link.fd);
            CHECK_EQ(open_fds(), before - 2);
            continue;
        }
        if (how < 3) {
            op_must(&pump, send, how == 2 ? -ETIMEDOUT : -ECANCELED);
            CHECK_EQ(open_fds(), before);
        }
        for (size_t left = BIG; left > 0; left -= sizeof chunk)
            peer_recv(&pump, link.fd, chunk, sizeof chunk);
        op_must(&pump, first, BIG);
        if (how == 3) {
            op_must(&pump, send, 4);
            CHECK_EQ(peer_recv_fd(link.fd, chunk, sizeof chunk, &fd), 4);
            CHECK(fd >= 0);
            close(fd);
            op_must(&pump, op_cancel(&pump, link.stream, QUOIT_OP_SEND_FD, 0), -ENOENT);
        }
        link_close(&pump, &link);
    }
    pump_close(&pump);
}

/* More bytes than the socket takes at a time: the descriptor leaves once, with the first of them. */
static void long_message(void) {
    struct pump pump;
    static char text[2 << 20], chunk[65536];
    int came = -1, fd;
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump);
    memset(text, 'l', sizeof text - 1);
    uint64_t send = op_send_fd(&pump, link.stream, link.fd, text);
    for (size_t used = 0; used < sizeof text - 1;) {
        ssize_t n = peer_recv_fd(link.fd, chunk, sizeof chunk, &fd);
        if (n < 0) {
            CHECK_EQ(errno, EAGAIN);
            pump_check_time(&pump, "the message", __FILE__, __LINE__);
            pump_turn(&pump, 1000000);
            continue;
        }
        CHECK(fd < 0 || (came < 0 && used == 0));
        came = fd >= 0 ? fd : came;
        used += (size_t)n;
    }
    op_must(&pump, send, sizeof text - 1);
    CHECK(came >= 0);
    close(came);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* The kernel bounds what a user without privilege has under way; then that send alone fails. */
static void too_many_under_way(void) {
    struct pump pump;
    struct rlimit limit, low;
    char byte;
    int fd;
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = 200;
    uid_t user = geteuid();
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    CHECK_EQ(user == 0 ? seteuid(65534) : 0, 0);
    uint32_t sent = 0;
    quoit_event event;
    do {
        CHECK(sent <= 1000);
        event = op_finish(&pump, op_send_fd(&pump, link.stream, link.fd, "n"));
        sent++;
    } while (event.result == 1);
    CHECK_EQ(event.result, -ETOOMANYREFS);
    op_must(&pump, op_send(&pump, link.stream, "t", 1, 0), 1);
    while (peer_recv_fd(link.fd, &byte, 1, &fd) == 1)
        if (fd >= 0)
            close(fd);
    CHECK_EQ(byte, 't');
    CHECK_EQ(user == 0 ? seteuid(0) : 0, 0);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    link_close(&pump, &link);
    pump_close(&pump);
}

/* A worker that ends leaves nothing open: neither what waits to be sent nor what nobody was told of. */
static void destroyed(void) {
    struct pump pump;
    pump_open(&pump, NULL);
    struct link link = pair_open(&pump), other = pair_open(&pump);
    op_send(&pump, link.stream, big, BIG, QUOIT_OPF_BORROW);
    op_send_fd(&pump, link.stream, link.fd, "never");
    op_recv_fd(&pump, other.stream, 0);
    pump_turn_nb(&pump);
    pump_abandon(&pump);
    close(link.fd);
    close(other.fd);
}

static const struct test_case cases[] = {
    {"in_order_with_sends", in_order_with_sends},
    {"closed_at_once", closed_at_once},
    {"receives", receives},
    {"too_many", too_many},
    {"refused", refused},
    {"recv_that_waits", recv_that_waits},
    {"send_that_waits", send_that_waits},
    {"long_message", long_message},
    {"too_many_under_way", too_many_under_way},
    {"destroyed", destroyed},
};
TEST_GROUP(fds, cases);
