/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The peers: plain sockets that never wait. */
#include "torture.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t name_of(const quoit_addr *addr, struct sockaddr_storage *out) {
    memset(out, 0, sizeof *out);
    if (addr->family == QUOIT_FAMILY_UNIX) {
        struct sockaddr_un *un = (struct sockaddr_un *)out;
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, addr->bytes, addr->len);
        return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + addr->len);
    }
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    in->sin_family = AF_INET;
    in->sin_port = htons(addr->port);
    memcpy(&in->sin_addr, addr->bytes, 4);
    return sizeof *in;
}

/* A narrow one makes the other side's kernel hold little: its segments and its window are small. */
static int new_socket(const struct sockaddr_storage *name, bool narrow, int flags) {
    flags |= flags & SOCK_DGRAM ? SOCK_CLOEXEC : SOCK_STREAM | SOCK_CLOEXEC;
    int fd = socket(name->ss_family, flags, 0), size = 4096, segment = 536;
    if (fd < 0)
        torture_fail(NULL, "socket: %s", strerror(errno));
    if (narrow && name->ss_family == AF_INET &&
        (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) != 0 ||
         setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment) != 0))
        torture_fail(NULL, "setsockopt: %s", strerror(errno));
    return fd;
}

static uint16_t port_of(int fd, int (*ask)(int, struct sockaddr *restrict, socklen_t *restrict)) {
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof name;
    if (ask(fd, (struct sockaddr *)&name, &len) != 0 || name.ss_family != AF_INET)
        return 0;
    return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

int plain_connect(const quoit_addr *addr, bool narrow, uint16_t *port) {
    struct sockaddr_storage name;
    socklen_t len = name_of(addr, &name);
    int fd = new_socket(&name, narrow, 0);
    if (connect(fd, (struct sockaddr *)&name, len) != 0) {
        if (errno != ECONNREFUSED && errno != ECONNRESET)
            torture_fail(NULL, "connect: %s", strerror(errno));
        close(fd);
        return -1;
    }
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        torture_fail(NULL, "fcntl: %s", strerror(errno));
    *port = port_of(fd, getsockname);
    return fd;
}

int plain_connect_nb(const quoit_addr *addr) {
    struct sockaddr_storage name;
    socklen_t len = name_of(addr, &name);
    int fd = new_socket(&name, false, SOCK_NONBLOCK);
    if (connect(fd, (struct sockaddr *)&name, len) == 0)
        return fd;
    close(fd);
    return -1;
}

int plain_listen(quoit_addr *addr, int backlog) {
    struct sockaddr_storage name;
    socklen_t len = name_of(addr, &name);
    int fd = new_socket(&name, false, SOCK_NONBLOCK);
    if (bind(fd, (struct sockaddr *)&name, len) != 0 || listen(fd, backlog) != 0)
        torture_fail(NULL, "bind, listen: %s", strerror(errno));
    if (addr->family != QUOIT_FAMILY_UNIX)
        addr->port = port_of(fd, getsockname);
    return fd;
}

/* The next connection that waits, or -1. */
int plain_accept(int listener, uint16_t *port) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        *port = port_of(fd, getpeername);
    else if (errno != EAGAIN && errno != ECONNABORTED)
        torture_fail(NULL, "accept: %s", strerror(errno));
    return fd;
}

/* On a Unix socket it is a close: the other side sees the end, or a reset if it was not read. */
void plain_reset(int fd) {
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

int plain_bind(quoit_addr *addr) {
    struct sockaddr_storage name;
    socklen_t len = name_of(addr, &name);
    int fd = new_socket(&name, false, SOCK_DGRAM | SOCK_NONBLOCK);
    if (bind(fd, (struct sockaddr *)&name, len) != 0)
        torture_fail(NULL, "bind: %s", strerror(errno));
    if (addr->family != QUOIT_FAMILY_UNIX)
        addr->port = port_of(fd, getsockname);
    return fd;
}

bool plain_send_to(int fd, const quoit_addr *to, const void *bytes, uint32_t len) {
    struct sockaddr_storage name;
    socklen_t name_len = name_of(to, &name);
    ssize_t sent = sendto(fd, bytes, len, MSG_DONTWAIT, (struct sockaddr *)&name, name_len);
    if (sent != (ssize_t)len && errno != EAGAIN)
        torture_fail(NULL, "sendto: %s", strerror(errno));
    return sent == (ssize_t)len;
}

int64_t plain_recv_from(int fd, void *bytes, size_t room, uint16_t *port) {
    struct sockaddr_storage name = {0};
    socklen_t len = sizeof name;
    ssize_t got = recvfrom(fd, bytes, room, MSG_DONTWAIT | MSG_TRUNC, (struct sockaddr *)&name, &len);
    if (got < 0 && errno != EAGAIN)
        torture_fail(NULL, "recvfrom: %s", strerror(errno));
    *port = got >= 0 && name.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&name)->sin_port) : 0;
    return got;
}

uint32_t plain_fds(void) {
    uint32_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        torture_fail(NULL, "opendir: %s", strerror(errno));
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count++;
    closedir(dir);
    return count;
}
