/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Datagram sockets: making them, and the groups they listen to. */
#include "../base/options.h"
#include "object.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

#define FLAGS                                                                                                \
    (QUOIT_BIND_REUSEPORT | QUOIT_BIND_V6ONLY | QUOIT_BIND_BROADCAST | QUOIT_BIND_UNLINK |                   \
     QUOIT_BIND_PKTINFO | QUOIT_BIND_GRO)

/* What a bind asks for, read and checked. */
typedef struct qt_bind {
    struct sockaddr_storage local;
    struct sockaddr_storage peer;
    socklen_t local_len; /* 0: the kernel chooses */
    socklen_t peer_len;  /* 0: not connected */
    uint32_t flags;
} qt_bind;

static int prepare_v6(qt_worker *w, int fd, uint32_t flags) {
    int error = qt_set_option(w, fd, IPPROTO_IPV6, IPV6_V6ONLY, flags & QUOIT_BIND_V6ONLY ? 1 : 0);
    if (!error && flags & QUOIT_BIND_PKTINFO)
        error = qt_set_option(w, fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    return error;
}

static int prepare(qt_worker *w, int fd, uint16_t family, const qt_bind *b) {
    uint32_t flags = b->flags;
    int error = 0;
    if (family == AF_UNIX) {
        if (flags & QUOIT_BIND_UNLINK && b->local_len != 0)
            qt_remove_socket(w, ((const struct sockaddr_un *)&b->local)->sun_path);
        return 0;
    }
    if (flags & QUOIT_BIND_REUSEPORT)
        error = qt_set_option(w, fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!error && flags & QUOIT_BIND_BROADCAST)
        error = qt_set_option(w, fd, SOL_SOCKET, SO_BROADCAST, 1);
    if (!error && flags & QUOIT_BIND_GRO)
        error = qt_set_option(w, fd, SOL_UDP, UDP_GRO, 1);
    if (!error && family == AF_INET6)
        error = prepare_v6(w, fd, flags);
    else if (!error && flags & QUOIT_BIND_PKTINFO)
        error = qt_set_option(w, fd, IPPROTO_IP, IP_PKTINFO, 1);
    return error;
}

/* The descriptor or -errno; *field names what was wrong. */
static int open_datagram(qt_worker *w, const qt_bind *b, quoit_addr *bound, uint32_t *field) {
    uint16_t family = b->local_len != 0 ? b->local.ss_family : b->peer.ss_family;
    struct sockaddr_storage name;
    socklen_t name_len = sizeof name;
    QT_COUNT(w, system_calls, 2);
    *field = QUOIT_FIELD_ADDR;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = prepare(w, fd, family, b);
    if (!error && b->local_len != 0) {
        QT_COUNT(w, system_calls, 1);
        if (bind(fd, (const struct sockaddr *)&b->local, b->local_len) != 0)
            error = -errno;
    }
    if (!error && b->peer_len != 0) {
        QT_COUNT(w, system_calls, 1);
        *field = QUOIT_FIELD_ARG2;
        if (connect(fd, (const struct sockaddr *)&b->peer, b->peer_len) != 0)
            error = -errno;
    }
    if (!error && getsockname(fd, (struct sockaddr *)&name, &name_len) != 0)
        error = -errno;
    if (!error)
        error = qt_addr_from_sockaddr(&name, name_len, bound);
    if (error)
        close(fd);
    return error ? error : fd;
}

static quoit_status read_peer(const quoit_bind_options *options, qt_bind *b) {
    uint32_t only_ip = FLAGS & ~(uint32_t)QUOIT_BIND_UNLINK;
    uint16_t family = b->local.ss_family;
    if (options->peer.family != 0) {
        quoit_status status = qt_addr_to_sockaddr(&options->peer, &b->peer, &b->peer_len);
        if (status != 0)
            return status;
        if (b->local_len == 0)
            family = b->peer.ss_family;
    }
    if (family == AF_UNIX && options->flags & only_ip)
        return QUOIT_E_FLAGS;
    b->flags = options->flags;
    return 0;
}

/* False when the op was refused. */
static bool read_bind(qt_worker *w, const quoit_op *op, qt_bind *b) {
    quoit_bind_options options;
    memset(b, 0, sizeof *b);
    quoit_status status = qt_op_options(w, op, &options, sizeof options, QT_BIND_OPTIONS_V1, FLAGS);
    uint32_t field = QUOIT_FIELD_ARG2;
    if (status == 0 && options.reserved != 0)
        status = QUOIT_E_FIELD;
    if (status == 0 && !(options.peer.family != 0 && op->addr == 0 && op->len == 0)) {
        status = qt_op_addr(w, op, op->addr, op->len, &b->local, &b->local_len);
        field = status != 0 ? QUOIT_FIELD_ADDR : field;
    }
    if (status == 0)
        status = read_peer(&options, b);
    if (status != 0)
        qt_refuse(w, op, status, field);
    return status == 0;
}

qt_datagram *qt_datagram_new(qt_worker *w, int fd, int family, int *error) {
    qt_datagram *d = qt_slab_alloc(&w->datagrams);
    *error = d ? qt_handle_new(w, &d->stream.object, QUOIT_HANDLE_DATAGRAM, fd) : -ENOMEM;
    if (*error) {
        if (d != NULL)
            qt_slab_free(&w->datagrams, d);
        return NULL;
    }
    qt_list_init(&d->stream.dirty_link);
    qt_list_init(&d->stream.starved_link);
    qt_list_init(&d->waiting);
    qt_list_init(&d->flying);
    qt_timer_init(&d->retry, qt_sendmsg_retry);
    qt_silence_init(&d->stream);
    d->family = (uint16_t)family;
    return d;
}

bool qt_option_is_on(qt_worker *w, int fd, int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    QT_COUNT(w, system_calls, 1);
    return getsockopt(fd, level, name, &value, &size) == 0 && value != 0;
}

int qt_datagram_take(qt_worker *w, qt_datagram *d) {
    int fd = d->stream.object.fd;
    bool six = d->family == AF_INET6;
    struct sockaddr_storage name;
    socklen_t len = sizeof name;
    quoit_addr bound;
    QT_COUNT(w, system_calls, 2);
    if (getsockname(fd, (struct sockaddr *)&name, &len) != 0)
        return -errno;
    int error = qt_addr_from_sockaddr(&name, len, &bound);
    if (error)
        return error;
    d->port = bound.port;
    len = sizeof name;
    d->connected = getpeername(fd, (struct sockaddr *)&name, &len) == 0;
    d->connected |= d->sequenced;
    if (d->family == AF_UNIX) {
        d->credentials = qt_option_is_on(w, fd, SOL_SOCKET, SO_PASSCRED);
        return 0;
    }
    if (qt_option_is_on(w, fd, SOL_UDP, UDP_GRO))
        d->options |= QUOIT_BIND_GRO;
    if (qt_option_is_on(w, fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVPKTINFO : IP_PKTINFO))
        d->options |= QUOIT_BIND_PKTINFO;
    return 0;
}

void qt_op_bind(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    qt_bind b;
    quoit_addr bound = {0};
    uint32_t field;
    if (!read_bind(w, op, &b))
        return;
    int fd = open_datagram(w, &b, &bound, &field);
    if (fd < 0) {
        qt_refuse(w, op, fd, field);
        return;
    }
    int error;
    qt_datagram *d = qt_datagram_new(w, fd, b.local_len != 0 ? b.local.ss_family : b.peer.ss_family, &error);
    if (d == NULL) {
        close(fd);
        qt_refuse(w, op, error, 0);
        return;
    }
    d->port = bound.port;
    d->options = b.flags;
    d->connected = b.peer_len != 0;
    quoit_event *event = qt_event(w, op->opcode, 0, op->user_data, 0);
    event->value = d->stream.object.handle;
    event->aux = bound.port;
}

/* Else a socket hears the groups of all others on its port too, also of other programs: ip(7), IP_MULTICAST_ALL. */
static int hear_own_groups(qt_worker *w, int fd, bool six) {
    return qt_set_option(w, fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MULTICAST_ALL : IP_MULTICAST_ALL,
                         0);
}

static int change_group(qt_worker *w, const qt_datagram *d, const struct sockaddr_storage *group,
                        uint32_t interface, bool join) {
    struct group_req request = {.gr_interface = interface, .gr_group = *group};
    bool six = group->ss_family == AF_INET6;
    int fd = d->stream.object.fd;
    QT_COUNT(w, system_calls, 1);
    if (setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &request,
                   sizeof request) != 0)
        return -errno;
    return join ? hear_own_groups(w, fd, six) : 0;
}

void qt_op_multicast(qt_worker *w, const quoit_op *op, qt_object *object) {
    const qt_datagram *d = (const qt_datagram *)object;
    struct sockaddr_storage group;
    socklen_t len;
    const void *memory;
    quoit_addr addr;
    if (op->arg != QUOIT_MULTICAST_JOIN && op->arg != QUOIT_MULTICAST_LEAVE) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_ARG);
        return;
    }
    quoit_status status = qt_op_addr(w, op, op->addr, op->len, &group, &len);
    if (status == 0 && (group.ss_family == AF_UNIX || d->family == AF_UNIX))
        status = QUOIT_E_FIELD;
    if (status == 0)
        status = qt_op_memory(w, op, op->addr, sizeof addr, &memory);
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_ADDR);
        return;
    }
    memcpy(&addr, memory, sizeof addr);
    int error = addr.port != 0 ? QUOIT_E_FIELD
                               : change_group(w, d, &group, addr.scope, op->arg == QUOIT_MULTICAST_JOIN);
    if (error)
        qt_refuse(w, op, error, QUOIT_FIELD_ADDR);
    else
        qt_succeed(w, op, 0);
}
