/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "peer.h"

#include "check.h"
#include "pattern.h"
#include "runner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

#define CHUNK 65536

socklen_t peer_sockaddr(const quoit_addr *addr, struct sockaddr_storage *out) {
    memset(out, 0, sizeof *out);
    if (addr->family == QUOIT_FAMILY_V4) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(addr->port);
        memcpy(&in->sin_addr, addr->bytes, 4);
        return sizeof *in;
    }
    if (addr->family == QUOIT_FAMILY_V6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(addr->port);
        memcpy(&in->sin6_addr, addr->bytes, 16);
        return sizeof *in;
    }
    struct sockaddr_un *un = (struct sockaddr_un *)out;
    un->sun_family = AF_UNIX;
    CHECK(addr->len < sizeof un->sun_path);
    memcpy(un->sun_path, addr->bytes, addr->len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + addr->len + (addr->bytes[0] ? 1 : 0));
}

static int new_socket(const struct sockaddr_storage *name) {
    int fd = socket(name->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    CHECK(fd >= 0);
    if (name->ss_family != AF_UNIX) {
        CHECK_EQ(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
        CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    }
    return fd;
}

static int non_blocking(int fd) {
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

int peer_connect(const quoit_addr *addr) {
    struct sockaddr_storage name;
    socklen_t len = peer_sockaddr(addr, &name);
    int fd = new_socket(&name);
    if (connect(fd, (struct sockaddr *)&name, len))
        FAIL("connect: %s", strerror(errno));
    return non_blocking(fd);
}

int peer_listen(quoit_addr *addr, int backlog) {
    struct sockaddr_storage name;
    socklen_t len = peer_sockaddr(addr, &name);
    int fd = new_socket(&name);
    if (bind(fd, (struct sockaddr *)&name, len) || listen(fd, backlog))
        FAIL("bind, listen: %s", strerror(errno));
    len = sizeof name;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    if (name.ss_family != AF_UNIX)
        addr->port = ntohs(((struct sockaddr_in *)&name)->sin_port); /* at the same place in both families */
    return non_blocking(fd);
}

/* Lets time pass until the socket may have become ready. */
static void wait_for(struct pump *pump, int fd, short events, const char *what) {
    struct pollfd item = {.fd = fd, .events = events};
    if (pump) {
        pump_check_time(pump, what, __FILE__, __LINE__);
        pump_turn(pump, 1000000);
        return;
    }
    if (test_now_ns() > test_deadline_ns())
        FAIL("time is up, the peer waits to %s", what);
    poll(&item, 1, 100);
}

static void from_sockaddr(const struct sockaddr_storage *name, socklen_t len, quoit_addr *out) {
    memset(out, 0, sizeof *out);
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)name;
        *out = (quoit_addr){.family = QUOIT_FAMILY_V4, .port = ntohs(in->sin_port), .len = 4};
        memcpy(out->bytes, &in->sin_addr, 4);
    } else if (name->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)name;
        *out = (quoit_addr){.family = QUOIT_FAMILY_V6, .port = ntohs(in->sin6_port), .len = 16};
        out->scope = in->sin6_scope_id;
        memcpy(out->bytes, &in->sin6_addr, 16);
    } else {
        const struct sockaddr_un *un = (const struct sockaddr_un *)name;
        size_t used =
            len > offsetof(struct sockaddr_un, sun_path) ? len - offsetof(struct sockaddr_un, sun_path) : 0;
        out->family = QUOIT_FAMILY_UNIX;
        out->len = (uint32_t)(used && un->sun_path[0] ? strnlen(un->sun_path, used) : used);
        memcpy(out->bytes, un->sun_path, out->len);
    }
}

int peer_bind(quoit_addr *addr) {
    struct sockaddr_storage name;
    socklen_t len = peer_sockaddr(addr, &name);
    int fd = socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), room = 1 << 20;
    /* As much as the system lets: what a batch brings must not be dropped before the test looks. */
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, len))
        FAIL("socket, bind: %s", strerror(errno));
    len = sizeof name;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    if (name.ss_family != AF_UNIX)
        addr->port = ntohs(((struct sockaddr_in *)&name)->sin_port);
    return non_blocking(fd);
}

void peer_send_to(int fd, const quoit_addr *to, const void *data, size_t len) {
    struct sockaddr_storage name;
    socklen_t name_len = peer_sockaddr(to, &name);
    if (sendto(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&name, name_len) !=
        (ssize_t)len)
        FAIL("sendto: %s", strerror(errno));
}

size_t peer_recv_from(struct pump *pump, int fd, void *data, size_t room, quoit_addr *from) {
    struct sockaddr_storage name = {.ss_family = AF_UNIX};
    for (;;) {
        socklen_t len = sizeof name;
        ssize_t got = recvfrom(fd, data, room, MSG_DONTWAIT, (struct sockaddr *)&name, &len);
        if (got >= 0) {
            if (from)
                from_sockaddr(&name, len, from);
            return (size_t)got;
        }
        if (errno != EAGAIN)
            FAIL("recvfrom: %s", strerror(errno));
        wait_for(pump, fd, POLLIN, "receive a datagram");
    }
}

int peer_accept(struct pump *pump, int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            return fd;
        if (errno != EAGAIN)
            FAIL("accept: %s", strerror(errno));
        wait_for(pump, listener, POLLIN, "accept");
    }
}

void peer_send(struct pump *pump, int fd, const void *data, size_t len) {
    for (const char *from = data; len;) {
        ssize_t done = send(fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && errno == EAGAIN) {
            wait_for(pump, fd, POLLOUT, "send");
            continue;
        }
        if (done < 0)
            FAIL("the peer's send: %s", strerror(errno));
        from += done;
        len -= (size_t)done;
    }
}

/* Up to len bytes, waited for; 0 at the end, -1 at a reset. */
static ssize_t recv_some(struct pump *pump, int fd, void *data, size_t len) {
    for (;;) {
        ssize_t done = recv(fd, data, len, MSG_DONTWAIT);
        if (done >= 0)
            return done;
        if (errno == ECONNRESET || errno == EPIPE)
            return -1;
        if (errno != EAGAIN)
            FAIL("the peer's recv: %s", strerror(errno));
        wait_for(pump, fd, POLLIN, "receive");
    }
}

void peer_recv(struct pump *pump, int fd, void *data, size_t len) {
    for (char *to = data; len;) {
        ssize_t done = recv_some(pump, fd, to, len);
        if (done <= 0)
            FAIL("the stream %s with %zu bytes missing", done ? "was reset" : "ended", len);
        to += done;
        len -= (size_t)done;
    }
}

void peer_send_pattern(struct pump *pump, int fd, uint64_t seed, uint64_t position, size_t len) {
    char chunk[CHUNK];
    while (len) {
        size_t part = len < sizeof chunk ? len : sizeof chunk;
        pattern_fill(chunk, seed, position, part);
        peer_send(pump, fd, chunk, part);
        position += part;
        len -= part;
    }
}

void peer_recv_pattern(struct pump *pump, int fd, uint64_t seed, uint64_t position, size_t len) {
    char chunk[CHUNK];
    while (len) {
        size_t part = len < sizeof chunk ? len : sizeof chunk;
        peer_recv(pump, fd, chunk, part);
        CHECK_PATTERN(chunk, seed, position, part);
        position += part;
        len -= part;
    }
}

size_t peer_recv_to_end(struct pump *pump, int fd, uint64_t seed) {
    char chunk[CHUNK];
    size_t total = 0;
    for (;;) {
        ssize_t done = recv_some(pump, fd, chunk, sizeof chunk);
        if (done < 0)
            FAIL("the stream was reset after %zu bytes", total);
        if (!done)
            return total;
        CHECK_PATTERN(chunk, seed, total, (size_t)done);
        total += (size_t)done;
    }
}

void peer_expect_end(struct pump *pump, int fd) {
    char byte;
    CHECK_EQ(recv_some(pump, fd, &byte, 1), 0);
}

void peer_expect_reset(struct pump *pump, int fd) {
    char chunk[CHUNK];
    ssize_t done;
    while ((done = recv_some(pump, fd, chunk, sizeof chunk)) > 0)
        ;
    CHECK_EQ(done, -1);
}

size_t peer_fill(int fd, uint64_t seed) {
    char chunk[CHUNK];
    size_t total = 0;
    for (;;) {
        pattern_fill(chunk, seed, total, sizeof chunk);
        ssize_t done = send(fd, chunk, sizeof chunk, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0) {
            CHECK_EQ(errno, EAGAIN);
            return total;
        }
        total += (size_t)done;
    }
}

size_t peer_queued(int fd) {
    int bytes = 0;
    CHECK_EQ(ioctl(fd, FIONREAD, &bytes), 0);
    return (size_t)bytes;
}

void peer_reset(int fd) {
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close(fd);
}

void peer_small_buffers(int fd, int bytes) {
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
}

pthread_t thread_start(void *(*function)(void *), void *arg) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, function, arg), 0);
    return thread;
}

void *thread_join(pthread_t thread) {
    void *result;
    CHECK_EQ(pthread_join(thread, &result), 0);
    return result;
}
