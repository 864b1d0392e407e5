/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The churn test's client, plain sockets. "churn PORT TOTAL AT_ONCE": opens TOTAL connections in all, so many at once; each sends
 * a message, compares what comes back, and is closed when the newest is AT_ONCE behind it: most by a reset, so that
 * their ports are free at once, some by an orderly close. "hold PORT COUNT": holds that many and has a message
 * echoed on each, twice, while all are open; ends at the end of its input. Prints a line for each step.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE 48
#define SOURCES 8       /* loopback addresses to connect from: each has its own ports */
#define ORDERLY_EACH 16 /* one of so many closes is orderly */

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

struct connection {
    int fd;
    uint32_t number;
};

static uint16_t port;

static void die(const char *what) {
    fprintf(stderr, "churn client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct connection open_one(uint32_t number) {
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number % SOURCES);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct connection conn = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .number = number};
    if (conn.fd < 0)
        die("socket");
    setsockopt(conn.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(conn.fd, (struct sockaddr *)&from, sizeof from) != 0)
        die("bind");
    if (connect(conn.fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("connect");
    return conn;
}

static void message_of(uint32_t number, uint32_t round, uint8_t *out) {
    for (uint32_t i = 0; i < MESSAGE; i++)
        out[i] = (uint8_t)(number * 31 + round * 17 + i * 7 + (number >> 8));
}

static void say(const struct connection *conn, uint32_t round) {
    uint8_t bytes[MESSAGE];
    message_of(conn->number, round, bytes);
    if (send(conn->fd, bytes, MESSAGE, MSG_NOSIGNAL) != MESSAGE)
        die("send");
}

static void hear(const struct connection *conn, uint32_t round) {
    uint8_t want[MESSAGE], got[MESSAGE];
    message_of(conn->number, round, want);
    for (size_t have = 0; have < MESSAGE;) {
        struct pollfd wait = {.fd = conn->fd, .events = POLLIN};
        if (poll(&wait, 1, 60000) <= 0) {
            errno = ETIMEDOUT;
            die("an echo");
        }
        ssize_t part = recv(conn->fd, got + have, MESSAGE - have, 0);
        if (part <= 0)
            die("an echo that did not come");
        have += (size_t)part;
    }
    if (memcmp(want, got, MESSAGE) != 0) {
        errno = EBADMSG;
        die("an echo");
    }
}

static void close_one(const struct connection *conn) {
    struct linger linger = {.l_onoff = 1};
    if (conn->number % ORDERLY_EACH != 0)
        setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(conn->fd);
}

static void churn(uint32_t total, uint32_t at_once) {
    struct connection *open = calloc(at_once, sizeof *open);
    if (open == NULL)
        die("memory");
    for (uint32_t i = 0; i < total; i++) {
        struct connection *conn = &open[i % at_once];
        if (i >= at_once) {
            hear(conn, 0);
            close_one(conn);
        }
        *conn = open_one(i);
        say(conn, 0);
        if ((i + 1) % 1000 == 0 || i + 1 == at_once) {
            printf("opened %u\n", i + 1);
            fflush(stdout);
        }
    }
    for (uint32_t i = 0; i < total && i < at_once; i++) {
        hear(&open[i], 0);
        close_one(&open[i]);
    }
    free(open);
    printf("closed %u\n", total);
}

static void hold(uint32_t count) {
    struct connection *open = calloc(count, sizeof *open);
    char byte;
    if (open == NULL)
        die("memory");
    for (uint32_t i = 0; i < count; i++)
        open[i] = open_one(i);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < count; i++)
            say(&open[i], round);
        for (uint32_t i = 0; i < count; i++)
            hear(&open[i], round);
    }
    printf("served %u\n", count);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    for (uint32_t i = 0; i < count; i++)
        close_one(&open[i]);
    free(open);
}

int main(int argc, char **argv) {
    struct rlimit limit;
    if (argc < 4) {
        fprintf(stderr, "usage: %s churn PORT TOTAL AT_ONCE | hold PORT COUNT\n", argv[0]);
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    port = (uint16_t)atoi(argv[2]);
    if (strcmp(argv[1], "hold") == 0)
        hold((uint32_t)atoi(argv[3]));
    else
        churn((uint32_t)atoi(argv[3]), argc > 4 ? (uint32_t)atoi(argv[4]) : 1);
    return 0;
}
