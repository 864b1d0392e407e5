/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Options of sockets: from our numbers and units to the kernel's. */
#include "object.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define STREAM QT_KIND(QUOIT_HANDLE_STREAM)
#define LISTENER QT_KIND(QUOIT_HANDLE_LISTENER)
#define BOTH (STREAM | LISTENER)
#define ALL QT_SOCKETS
#define SECOND 1000000000
#define MILLISECOND 1000000
#define MICROSECOND 1000

#ifndef SO_INCOMING_CPU
#define SO_INCOMING_CPU 49
#endif

typedef struct qt_option {
    int level;
    int name;
    uint32_t kinds; /* of the objects that have it; 0: no such option */
    int64_t least;  /* in our unit */
    int64_t most;
    int64_t unit; /* ours in one of the kernel's */
    bool fixed;   /* once the socket is bound */
} qt_option;

#define SWITCH(level, name)                                                                                  \
    { level, name, BOTH, 0, 1, 1, .fixed = false }
#define NUMBER(level, name, kinds, least, most)                                                              \
    { level, name, kinds, least, most, 1, .fixed = false }
#define TIME(level, name, kinds, least, unit)                                                                \
    { level, name, kinds, least, (int64_t)INT32_MAX *unit, unit, .fixed = false }
#define FIXED(level, name)                                                                                   \
    { level, name, ALL, 0, 1, 1, .fixed = true }

/* clang-format off */
static const qt_option options[] = {
    [QUOIT_SOCKET_NODELAY] = SWITCH(IPPROTO_TCP, TCP_NODELAY),
    [QUOIT_SOCKET_KEEPALIVE] = SWITCH(SOL_SOCKET, SO_KEEPALIVE),
    [QUOIT_SOCKET_KEEPALIVE_IDLE] = TIME(IPPROTO_TCP, TCP_KEEPIDLE, BOTH, 1, SECOND),
    [QUOIT_SOCKET_KEEPALIVE_INTERVAL] = TIME(IPPROTO_TCP, TCP_KEEPINTVL, BOTH, 1, SECOND),
    [QUOIT_SOCKET_KEEPALIVE_COUNT] = NUMBER(IPPROTO_TCP, TCP_KEEPCNT, BOTH, 1, INT32_MAX),
    [QUOIT_SOCKET_LINGER] = {SOL_SOCKET, SO_LINGER, STREAM, -1, 0, 1, .fixed = false},
    [QUOIT_SOCKET_DEFER_ACCEPT] = TIME(IPPROTO_TCP, TCP_DEFER_ACCEPT, LISTENER, 0, SECOND),
    [QUOIT_SOCKET_SEND_BUFFER] = NUMBER(SOL_SOCKET, SO_SNDBUF, ALL, 1, INT32_MAX),
    [QUOIT_SOCKET_RECV_BUFFER] = NUMBER(SOL_SOCKET, SO_RCVBUF, ALL, 1, INT32_MAX),
    [QUOIT_SOCKET_TOS] = NUMBER(IPPROTO_IP, IP_TOS, ALL, 0, 255),
    [QUOIT_SOCKET_INCOMING_CPU] = NUMBER(SOL_SOCKET, SO_INCOMING_CPU, ALL, -1, INT32_MAX),
    [QUOIT_SOCKET_BUSY_POLL] = TIME(SOL_SOCKET, SO_BUSY_POLL, ALL, 0, MICROSECOND),
    [QUOIT_SOCKET_USER_TIMEOUT] = TIME(IPPROTO_TCP, TCP_USER_TIMEOUT, BOTH, 0, MILLISECOND),
    [QUOIT_SOCKET_PRIORITY] = NUMBER(SOL_SOCKET, SO_PRIORITY, ALL, 0, INT32_MAX),
    [QUOIT_SOCKET_MARK] = NUMBER(SOL_SOCKET, SO_MARK, ALL, 0, UINT32_MAX),
    [QUOIT_SOCKET_CREDENTIALS] = NUMBER(SOL_SOCKET, SO_PASSCRED, ALL, 0, 1),
    [QUOIT_SOCKET_FREEBIND] = FIXED(IPPROTO_IP, IP_FREEBIND),
    [QUOIT_SOCKET_V6ONLY] = FIXED(IPPROTO_IPV6, IPV6_V6ONLY),
    [QUOIT_SOCKET_REUSEPORT] = FIXED(SOL_SOCKET, SO_REUSEPORT),
};
/* clang-format on */

/* Null: there is none of that number, or objects of that type do not have it. */
static const qt_option *find(uint32_t number, const qt_object *object) {
    bool known = number < sizeof options / sizeof options[0];
    return known && options[number].kinds & QT_KIND(object->kind) ? &options[number] : NULL;
}

static int set(qt_worker *w, int fd, int level, int name, const void *value, socklen_t size) {
    QT_COUNT(w, system_calls, 1);
    return setsockopt(fd, level, name, value, size) == 0 ? 0 : -errno;
}

static int get(qt_worker *w, int fd, int level, int name, void *value, socklen_t size) {
    QT_COUNT(w, system_calls, 1);
    return getsockopt(fd, level, name, value, &size) == 0 ? 0 : -errno;
}

static int set_linger(qt_worker *w, qt_stream *s, bool reset) {
    struct linger linger = {.l_onoff = reset, .l_linger = 0};
    int error = set(w, s->object.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    if (!error)
        s->resets = reset;
    return error;
}

/* A time to linger would make a close block: it is taken off. */
int qt_socket_take_linger(qt_worker *w, qt_stream *s) {
    struct linger linger = {0};
    int error = get(w, s->object.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    s->resets = !error && linger.l_onoff && linger.l_linger == 0;
    return error || !linger.l_onoff || s->resets ? error : set_linger(w, s, false);
}

/* A socket of IPv6 has two: the other is for peers whose address is mapped. */
static int set_tos(qt_worker *w, int fd, int tos) {
    int family = 0;
    int error = get(w, fd, SOL_SOCKET, SO_DOMAIN, &family, sizeof family);
    if (!error && family == AF_INET6)
        error = set(w, fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof tos);
    return error ? error : set(w, fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
}

/* Some kernels take it for any socket, where it does nothing. */
static int set_credentials(qt_worker *w, qt_object *object, int on) {
    int family = 0;
    int error = get(w, object->fd, SOL_SOCKET, SO_DOMAIN, &family, sizeof family);
    if (!error && family != AF_UNIX)
        error = -EOPNOTSUPP;
    if (!error)
        error = set(w, object->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    if (!error && object->kind == QUOIT_HANDLE_DATAGRAM) {
        ((qt_datagram *)object)->credentials = on;
        qt_recv_renew(
            (qt_stream *)object); /* the receive in flight has no room for them, or more than it needs */
    }
    return error;
}

static int set_option(qt_worker *w, qt_object *object, uint32_t number, int64_t value) {
    const qt_option *option = &options[number];
    uint32_t bits = (uint32_t)((value + (value > 0 ? option->unit - 1 : 0)) / option->unit);
    int theirs = (int)bits;
    if (number == QUOIT_SOCKET_LINGER)
        return set_linger(w, (qt_stream *)object, value == 0);
    if (number == QUOIT_SOCKET_TOS)
        return set_tos(w, object->fd, theirs);
    if (number == QUOIT_SOCKET_CREDENTIALS)
        return set_credentials(w, object, theirs);
    return set(w, object->fd, option->level, option->name, &theirs, sizeof theirs);
}

void qt_op_socket_set(qt_worker *w, const quoit_op *op, qt_object *object) {
    const qt_option *option = find(op->arg, object);
    uint32_t field = option == NULL || option->fixed                           ? QUOIT_FIELD_ARG
                     : op->offset < option->least || op->offset > option->most ? QUOIT_FIELD_OFFSET
                                                                               : 0;
    if (field) {
        qt_refuse(w, op, QUOIT_E_FIELD, field);
        return;
    }
    int error = set_option(w, object, op->arg, op->offset);
    if (error)
        qt_refuse(w, op, error, QUOIT_FIELD_ARG);
    else
        qt_succeed(w, op, 0);
}

quoit_status qt_socket_get(qt_worker *w, const qt_object *object, uint32_t number, int64_t *out) {
    const qt_option *option = find(number, object);
    int values[2] = {0, 0}; /* struct linger, or one int */
    if (option == NULL)
        return QUOIT_E_ARGUMENT;
    bool linger = number == QUOIT_SOCKET_LINGER;
    int level = option->level;
    int name = option->name;
    int family = 0;
    int error = 0;
    if (number == QUOIT_SOCKET_TOS)
        error = get(w, object->fd, SOL_SOCKET, SO_DOMAIN, &family, sizeof family);
    if (family == AF_INET6) {
        level = IPPROTO_IPV6;
        name = IPV6_TCLASS;
    }
    if (!error)
        error = get(w, object->fd, level, name, values, linger ? sizeof values : sizeof values[0]);
    if (error)
        return error;
    if (linger)
        *out = values[0] ? values[1] : -1;
    else
        *out = number == QUOIT_SOCKET_MARK ? (int64_t)(uint32_t)values[0] : values[0] * option->unit;
    return 0;
}
