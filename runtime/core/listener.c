/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Listeners and the streams that they accept. */
#include "../base/options.h"
#include "object.h"
#include "status.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A listener that ran out of descriptors or memory tries again then, or when one of ours is closed. */
#define RETRY_NS 100000000

static void accept_done(qt_req *req, const qt_completion *c);
static void retry_due(qt_timer *timer);
static void tell_held(qt_listener *l);

int qt_set_option(qt_worker *w, int fd, int level, int name, int value) {
    QT_COUNT(w, system_calls, 1);
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : -errno;
}

/* Never another kind of file: a wrong path must not cost somebody's data. */
void qt_remove_socket(qt_worker *w, const char *path) {
    struct stat found;
    QT_COUNT(w, system_calls, 1);
    if (lstat(path, &found) != 0 || !S_ISSOCK(found.st_mode))
        return;
    QT_COUNT(w, system_calls, 1);
    unlink(path);
}

/* Options before bind. TCP_NODELAY on a listener is inherited by what it accepts. */
static int prepare(qt_worker *w, int fd, const struct sockaddr_storage *addr, uint32_t flags) {
    int error = 0;
    if (addr->ss_family == AF_UNIX) {
        if (flags & QUOIT_LISTEN_UNLINK)
            qt_remove_socket(w, ((const struct sockaddr_un *)addr)->sun_path);
        return 0;
    }
    error = qt_set_option(w, fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (!error && flags & QUOIT_LISTEN_FREEBIND)
        error = qt_set_option(w, fd, IPPROTO_IP, IP_FREEBIND, 1);
    if (!error && flags & QUOIT_LISTEN_DEFER_ACCEPT) /* 1: the shortest time there is */
        error = qt_set_option(w, fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 1);
    if (!error && flags & QUOIT_LISTEN_REUSEPORT)
        error = qt_set_option(w, fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!error && addr->ss_family == AF_INET6)
        error = qt_set_option(w, fd, IPPROTO_IPV6, IPV6_V6ONLY, flags & QUOIT_LISTEN_V6ONLY ? 1 : 0);
    if (!error && !(flags & QUOIT_LISTEN_DELAY))
        error = qt_set_option(w, fd, IPPROTO_TCP, TCP_NODELAY, 1);
    return error;
}

static int open_listener(qt_worker *w, const struct sockaddr_storage *addr, socklen_t len, uint32_t backlog,
                         uint32_t flags, quoit_addr *bound) {
    QT_COUNT(w, system_calls, 4);
    int type = flags & QUOIT_LISTEN_SEQPACKET ? SOCK_SEQPACKET : SOCK_STREAM;
    int fd = socket(addr->ss_family, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct sockaddr_storage name;
    socklen_t name_len = sizeof name;
    int error = prepare(w, fd, addr, flags);
    if (!error && (bind(fd, (const struct sockaddr *)addr, len) != 0 || listen(fd, (int)backlog) != 0 ||
                   getsockname(fd, (struct sockaddr *)&name, &name_len) != 0))
        error = -errno;
    if (!error)
        error = qt_addr_from_sockaddr(&name, name_len, bound);
    if (error) {
        close(fd);
        return error;
    }
    return fd;
}

quoit_status qt_op_options(qt_worker *w, const quoit_op *op, void *out, uint32_t size, uint32_t v1_size,
                           uint32_t known) {
    uint32_t head[2]; /* every options struct begins with struct_size and flags */
    memset(out, 0, size);
    if (op->arg2 == 0) /* none, also of a scratch region: they do not hold offset 0 */
        return 0;
    const void *memory;
    uint32_t struct_size = sizeof struct_size;
    quoit_status status = qt_op_memory(w, op, op->arg2, struct_size, &memory);
    if (status == 0) {
        memcpy(&struct_size, memory, sizeof struct_size);
        status = qt_op_memory(w, op, op->arg2, struct_size, &memory);
    }
    if (status == 0)
        status = qt_options_read(out, size, v1_size, memory);
    if (status != 0)
        return status;
    memcpy(head, out, sizeof head);
    return head[1] & ~known ? QUOIT_E_FLAGS : 0;
}

static quoit_status read_options(qt_worker *w, const quoit_op *op, quoit_listen_options *out) {
    uint32_t known = QUOIT_LISTEN_REUSEPORT | QUOIT_LISTEN_V6ONLY | QUOIT_LISTEN_DELAY | QUOIT_LISTEN_UNLINK |
                     QUOIT_LISTEN_FREEBIND | QUOIT_LISTEN_DEFER_ACCEPT | QUOIT_LISTEN_SEQPACKET;
    quoit_status status = qt_op_options(w, op, out, sizeof *out, QT_LISTEN_OPTIONS_V1, known);
    if (status != 0)
        return status;
    if (out->skew_percent != 0 && !(out->flags & QUOIT_LISTEN_REUSEPORT))
        return QUOIT_E_FIELD;
    return out->reserved != 0 ? QUOIT_E_FIELD : 0;
}

qt_listener *qt_listener_new(qt_worker *w, int fd, uint32_t backlog, int *error) {
    qt_listener *l = qt_slab_alloc(&w->objects);
    *error = l ? qt_handle_new(w, &l->object, QUOIT_HANDLE_LISTENER, fd) : -ENOMEM;
    if (*error) {
        if (l != NULL)
            qt_slab_free(&w->objects, l);
        return NULL;
    }
    qt_list_init(&l->stalled_link);
    qt_timer_init(&l->retry, retry_due);
    l->backlog = backlog;
    return l;
}

/* The listener of a socket that listens; a status, and the socket is closed. */
static quoit_status make_listener(qt_worker *w, int fd, uint32_t backlog, const quoit_listen_options *options,
                                  const quoit_addr *bound, qt_listener **out) {
    int error;
    qt_listener *l = qt_listener_new(w, fd, backlog, &error);
    if (l != NULL) {
        l->streams_max = options->streams_max;
        l->skew_percent = options->skew_percent;
        l->sequenced = options->flags & QUOIT_LISTEN_SEQPACKET;
        if (l->skew_percent != 0 && (error = qt_balance_join(l, bound)) != 0) {
            qt_handle_free(w, &l->object);
            qt_slab_free(&w->objects, l);
        }
    }
    if (error)
        close(fd);
    *out = l;
    return error;
}

void qt_op_listen(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    struct sockaddr_storage addr;
    socklen_t len;
    quoit_listen_options options;
    quoit_addr bound = {0};
    quoit_status status = qt_op_addr(w, op, op->addr, op->len, &addr, &len);
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_ADDR);
        return;
    }
    status = read_options(w, op, &options);
    if (status == 0 && options.flags & QUOIT_LISTEN_SEQPACKET && addr.ss_family != AF_UNIX)
        status = QUOIT_E_FLAGS;
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_ARG2);
        return;
    }
    uint32_t backlog = op->arg ? op->arg : 1024;
    int fd = open_listener(w, &addr, len, backlog, options.flags, &bound);
    if (fd < 0) {
        qt_refuse(w, op, fd, QUOIT_FIELD_ADDR);
        return;
    }
    qt_listener *l;
    status = make_listener(w, fd, backlog, &options, &bound, &l);
    if (status != 0) {
        qt_refuse(w, op, status, 0);
        return;
    }
    quoit_event *event = qt_event(w, op->opcode, 0, op->user_data, 0);
    event->value = l->object.handle;
    event->aux = bound.port;
}

bool qt_listener_full(const qt_listener *l) {
    return l->streams_max != 0 && l->streams_live >= l->streams_max;
}

bool qt_listener_takes(const qt_listener *l) {
    return l->accept != NULL && !l->accept->verdict && !l->object.closing && l->held_count == 0 &&
           !qt_listener_full(l) && qt_list_empty(&l->stalled_link);
}

void qt_listener_arm(qt_listener *l) {
    qt_worker *w = l->object.worker;
    qt_req *req = qt_request(w, QT_REQ_ACCEPT, l->object.fd, l, accept_done);
    if (req == NULL) {
        qt_timer_arm(&w->wheel, &l->retry, qt_now(w) + RETRY_NS);
        return;
    }
    req->flags = l->accept->flags & QUOIT_OPF_MULTI ? QT_REQ_MULTISHOT : 0;
    l->accept_req = req;
    l->object.reqs++;
    qt_submit(w, req);
}

/* A drain arms by itself, as long as the backlog has some. */
static void arm(qt_listener *l) {
    if (l->accept_req == NULL && qt_listener_takes(l) && !l->object.worker->drain.listening)
        qt_listener_arm(l);
}

void qt_op_accept(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_listener *l = (qt_listener *)object;
    if (l->accept != NULL) {
        qt_refuse(w, op, QUOIT_E_BUSY, QUOIT_FIELD_TARGET);
        return;
    }
    if (op->flags & QUOIT_OPF_KEEP && !(op->flags & QUOIT_OPF_AUTO_RECV)) {
        qt_refuse(w, op, QUOIT_E_FLAGS, QUOIT_FIELD_FLAGS);
        return;
    }
    l->accept = qt_pending_new(w, op, object);
    tell_held(l);
    arm(l);
}

qt_stream *qt_stream_new(qt_worker *w, int fd, int *error) {
    qt_stream *s = qt_slab_alloc(&w->streams);
    *error = s ? qt_handle_new(w, &s->object, QUOIT_HANDLE_STREAM, fd) : -ENOMEM;
    if (*error) {
        if (s != NULL)
            qt_slab_free(&w->streams, s);
        return NULL;
    }
    qt_list_init(&s->dirty_link);
    qt_list_init(&s->starved_link);
    qt_list_init(&s->flights);
    qt_silence_init(s);
    return s;
}

static void end_accept(qt_listener *l, int64_t result, uint64_t value) {
    qt_pending *p = l->accept;
    l->accept = NULL;
    qt_finish(p, result, value);
}

/* A connection that cannot be made a stream is not the end of a MULTI accept. */
static void not_made(qt_listener *l, int error) {
    qt_worker *w = l->object.worker;
    qt_balance_count(l, -1);
    if (!(l->accept->flags & QUOIT_OPF_MULTI)) {
        end_accept(l, error, 0);
        return;
    }
    QT_COUNT(w, accept_stalls, 1);
    qt_log_line(w->runtime, QUOIT_LOG_WARNING, "An accepted connection was closed: %s",
                qt_status_message(error));
}

void qt_listener_stream_came(qt_listener *l, qt_stream *s) {
    s->listener = l->object.handle;
    l->streams_live++;
    if (qt_listener_full(l) && l->accept_req != NULL && !l->accept_req->cancelled)
        qt_cancel_request(l->object.worker, l->accept_req);
}

static void tell(qt_listener *l, int fd) {
    qt_worker *w = l->object.worker;
    qt_pending *p = l->accept;
    int error;
    qt_stream *s = l->sequenced ? (qt_stream *)qt_seqpacket_new(w, fd, &error) : qt_stream_new(w, fd, &error);
    if (s == NULL) {
        close(fd);
        not_made(l, error);
        return;
    }
    QT_COUNT(w, accepts, 1);
    s->accepted = true;
    s->home = l->object.handle;
    w->drain.streams++;
    qt_listener_stream_came(l, s);
    qt_pending copy = *p;
    if (p->flags & QUOIT_OPF_MULTI)
        qt_pending_event(p, 0)->value = s->object.handle;
    else
        end_accept(l, 0, s->object.handle);
    if (copy.flags & QUOIT_OPF_AUTO_RECV)
        qt_recv_auto(s, &copy);
}

static void hold(qt_listener *l, int fd) {
    if (l->held_count == l->held_capacity) {
        uint32_t capacity = l->held_capacity ? l->held_capacity * 2 : 16;
        int *held = realloc(l->held, capacity * sizeof *held);
        if (held == NULL) {
            qt_balance_count(l, -1);
            close(fd);
            return;
        }
        l->held = held;
        l->held_capacity = capacity;
    }
    l->held[l->held_count++] = fd;
}

static void tell_held(qt_listener *l) {
    uint32_t told = 0;
    while (told < l->held_count && l->accept != NULL && !l->accept->verdict && !qt_listener_full(l))
        tell(l, l->held[told++]);
    if (told == 0)
        return;
    l->held_count -= told;
    memmove(l->held, l->held + told, l->held_count * sizeof *l->held);
}

void qt_listener_take(qt_listener *l, int fd, bool counted) {
    if (l->object.closing) {
        close(fd);
        return;
    }
    if (!counted && qt_balance_hand_over(l, fd))
        return;
    if (!counted)
        qt_balance_count(l, 1);
    if (l->accept == NULL || l->held_count > 0 || qt_listener_full(l))
        hold(l, fd);
    else
        tell(l, fd);
}

/* Its place is free: for one that waits, or one in the backlog. */
void qt_listener_stream_gone(qt_stream *s) {
    qt_worker *w = s->object.worker;
    qt_object *object;
    w->drain.streams -= s->accepted;
    if (s->listener == 0 || qt_handle_find(w, s->listener, QT_KIND(QUOIT_HANDLE_LISTENER), &object) != 0)
        return;
    qt_listener *l = (qt_listener *)object;
    l->streams_live--;
    qt_balance_count(l, -1);
    if (l->object.closing || w->draining)
        return;
    tell_held(l);
    arm(l);
}

static void stall(qt_listener *l, int32_t res) {
    qt_worker *w = l->object.worker;
    QT_COUNT(w, accept_stalls, 1);
    qt_log_line(w->runtime, QUOIT_LOG_WARNING, "Accepting pauses until a descriptor is free: %s",
                qt_status_message(res));
    if (qt_list_empty(&l->stalled_link))
        qt_list_append(&w->stalled, &l->stalled_link);
    qt_timer_arm(&w->wheel, &l->retry, qt_now(w) + RETRY_NS);
}

static bool is_shortage(int32_t res) {
    return res == -EMFILE || res == -ENFILE || res == -ENOBUFS || res == -ENOMEM;
}

/* Errors of one connection that died in the backlog, not of the listener: accept(2). */
static bool is_passing(int32_t res) {
    switch (-res) {
    case ECONNABORTED:
    case EINTR:
    case EAGAIN:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static void accept_done(qt_req *req, const qt_completion *c) {
    qt_listener *l = req->owner;
    qt_worker *w = l->object.worker;
    bool over = !(c->flags & QT_CQ_MORE);
    if (over) {
        l->accept_req = NULL;
        l->object.reqs--;
        qt_req_free(&w->requests, req);
    }
    if (c->res >= 0)
        qt_listener_take(l, c->res, false);
    if (!over)
        return;
    if (l->object.closing) {
        if (l->accept != NULL)
            end_accept(l, -ECANCELED, 0);
        qt_close_advance(&l->object);
    } else if (l->accept == NULL) {
        return;
    } else if (l->accept->verdict) {
        end_accept(l, l->accept->verdict, 0);
    } else if (is_shortage(c->res)) {
        stall(l, c->res);
    } else if (c->res >= 0 || c->res == -ECANCELED || is_passing(c->res)) {
        arm(l);
    } else {
        end_accept(l, c->res, 0);
    }
}

static void retry(qt_listener *l) {
    if (!qt_list_empty(&l->stalled_link))
        qt_list_remove(&l->stalled_link);
    qt_timer_disarm(&l->object.worker->wheel, &l->retry);
    arm(l);
}

static void retry_due(qt_timer *timer) {
    retry(qt_container(timer, qt_listener, retry));
}

void qt_listeners_retry(qt_worker *w) {
    while (!qt_list_empty(&w->stalled))
        retry(qt_container(w->stalled.next, qt_listener, stalled_link));
}

void qt_accept_end(qt_pending *p) {
    qt_listener *l = (qt_listener *)p->object;
    if (l->accept_req != NULL)
        qt_cancel_request(p->worker, l->accept_req);
    else
        end_accept(l, p->verdict, 0);
}

void qt_listener_free(qt_listener *l) {
    qt_balance_leave(l);
    for (uint32_t i = 0; i < l->held_count; i++)
        close(l->held[i]);
    free(l->held);
    l->held = NULL;
    l->held_count = l->held_capacity = 0;
}

void qt_listener_close(qt_listener *l) {
    qt_listener_free(l);
    if (!qt_list_empty(&l->stalled_link))
        qt_list_remove(&l->stalled_link);
    qt_timer_disarm(&l->object.worker->wheel, &l->retry);
}
