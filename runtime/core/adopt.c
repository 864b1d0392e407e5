/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Descriptors that come from the program and become an object's, and that go back to it. */
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Of an adopted listener it is not known: so many may come out of it when the worker drains. */
#define BACKLOG 1024

/* What a socket is. */
typedef struct qt_sort {
    int family;
    int type;
} qt_sort;

/* Of a socket, QUOIT_HANDLE_* or a status. */
static int kind_of_socket(qt_worker *w, int fd, qt_sort *sort) {
    int protocol = 0;
    int listens = 0;
    socklen_t size = sizeof(int);
    QT_COUNT(w, system_calls, 4);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &sort->type, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &sort->family, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0)
        return -errno;
    bool ip = sort->family == AF_INET || sort->family == AF_INET6;
    bool local = sort->family == AF_UNIX;
    if (sort->type == SOCK_DGRAM && (local || (ip && protocol == IPPROTO_UDP)))
        return QUOIT_HANDLE_DATAGRAM;
    if (sort->type == SOCK_SEQPACKET && local)
        return listens ? QUOIT_HANDLE_LISTENER : QUOIT_HANDLE_DATAGRAM;
    if (sort->type != SOCK_STREAM || !(ip || local))
        return QUOIT_E_UNSUPPORTED;
    return listens ? QUOIT_HANDLE_LISTENER : QUOIT_HANDLE_STREAM;
}

/* QUOIT_HANDLE_* of what the descriptor is, or a status. */
static int kind_of(qt_worker *w, int fd, qt_sort *sort) {
    struct stat info;
    QT_COUNT(w, system_calls, 1);
    if (fstat(fd, &info) != 0)
        return -errno;
    if (S_ISDIR(info.st_mode))
        return QUOIT_E_UNSUPPORTED;
    return S_ISSOCK(info.st_mode) ? kind_of_socket(w, fd, sort) : QUOIT_HANDLE_FILE;
}

/* A number adopted twice would be closed twice: each is remembered until it is closed or detached. */
int qt_adopted_add(qt_worker *w, int fd) {
    uint32_t word = (uint32_t)fd / 64;
    uint64_t bit = 1ull << (fd % 64);
    if (word >= w->adopted_words) {
        uint32_t words = word + 16;
        uint64_t *grown = realloc(w->adopted, words * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        for (uint32_t i = w->adopted_words; i < words; i++)
            grown[i] = 0;
        w->adopted = grown;
        w->adopted_words = words;
    }
    if (w->adopted[word] & bit)
        return QUOIT_E_BUSY;
    w->adopted[word] |= bit;
    return 0;
}

void qt_adopted_drop(qt_worker *w, int fd) {
    if ((uint32_t)fd / 64 < w->adopted_words)
        w->adopted[fd / 64] &= ~(1ull << (fd % 64));
}

/* The drivers want descriptors that block: io_uring waits itself, and epoll says at each call that it must not. */
static int make_blocking(qt_worker *w, int fd) {
    QT_COUNT(w, system_calls, 1);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if (!(flags & O_NONBLOCK))
        return 0;
    QT_COUNT(w, system_calls, 1);
    return fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 ? 0 : -errno;
}

static qt_object *new_object(qt_worker *w, int kind, int fd, const qt_sort *sort, int *error) {
    qt_object *object = NULL;
    if (kind == QUOIT_HANDLE_STREAM) {
        object = (qt_object *)qt_stream_new(w, fd, error);
    } else if (kind == QUOIT_HANDLE_DATAGRAM) {
        object = sort->type == SOCK_SEQPACKET ? (qt_object *)qt_seqpacket_new(w, fd, error)
                                              : (qt_object *)qt_datagram_new(w, fd, sort->family, error);
    } else if (kind == QUOIT_HANDLE_LISTENER) {
        object = (qt_object *)qt_listener_new(w, fd, BACKLOG, error);
        if (object != NULL)
            ((qt_listener *)object)->sequenced = sort->type == SOCK_SEQPACKET;
    } else {
        object = qt_slab_alloc(&w->objects);
        *error = object ? qt_handle_new(w, object, QUOIT_HANDLE_FILE, fd) : -ENOMEM;
        if (*error && object != NULL)
            qt_slab_free(&w->objects, object);
        if (*error)
            object = NULL;
    }
    return object;
}

/* Frees the object and leaves its descriptor. */
static void drop_object(qt_object *object) {
    qt_worker *w = object->worker;
    if (object->kind == QUOIT_HANDLE_DATAGRAM)
        qt_seqpacket_leave(w, (const qt_datagram *)object);
    qt_handle_free(w, object);
    if (object->kind == QUOIT_HANDLE_STREAM)
        qt_slab_free(&w->streams, object);
    else if (object->kind == QUOIT_HANDLE_DATAGRAM)
        qt_slab_free(&w->datagrams, object);
    else
        qt_slab_free(&w->objects, object);
}

static int take(qt_worker *w, qt_object *object) {
    int error = object->kind == QUOIT_HANDLE_STREAM     ? qt_socket_take_linger(w, (qt_stream *)object)
                : object->kind == QUOIT_HANDLE_DATAGRAM ? qt_datagram_take(w, (qt_datagram *)object)
                                                        : 0;
    QT_COUNT(w, system_calls, 1);
    if (!error && fcntl(object->fd, F_SETFD, FD_CLOEXEC) != 0)
        error = -errno;
    /* epoll's listeners do not block: another process that shares the socket may take what made it readable. */
    bool shared = object->kind == QUOIT_HANDLE_LISTENER && w->driver->rung == QUOIT_DRIVER_EPOLL;
    return error || shared ? error : make_blocking(w, object->fd);
}

void qt_op_adopt(qt_worker *w, const quoit_op *op, qt_object *object) {
    bool known = op->arg == 0 || op->arg == QUOIT_HANDLE_STREAM || op->arg == QUOIT_HANDLE_LISTENER ||
                 op->arg == QUOIT_HANDLE_FILE || op->arg == QUOIT_HANDLE_DATAGRAM;
    if (!known) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_ARG);
        return;
    }
    bool number = op->offset >= 0 && op->offset <= INT32_MAX;
    int fd = number ? (int)op->offset : -1;
    qt_sort sort = {0};
    int kind = number ? kind_of(w, fd, &sort) : -EBADF;
    if (kind < 0 || (op->arg != 0 && op->arg != (uint32_t)kind)) {
        qt_refuse(w, op, kind < 0 ? kind : QUOIT_E_KIND, kind < 0 ? QUOIT_FIELD_OFFSET : QUOIT_FIELD_ARG);
        return;
    }
    int error = qt_adopted_add(w, fd);
    if (error) {
        qt_refuse(w, op, error, QUOIT_FIELD_OFFSET);
        return;
    }
    object = new_object(w, kind, fd, &sort, &error);
    if (object != NULL)
        error = take(w, object);
    if (object == NULL || error) {
        if (object != NULL)
            drop_object(object);
        qt_adopted_drop(w, fd);
        qt_refuse(w, op, error, 0);
        return;
    }
    w->driver->ops->forget(w->driver, fd);
    object->adopted = true;
    qt_event(w, op->opcode, 0, op->user_data, 0)->value = object->handle;
}

/* Something that is under way, or that came and was not told, would be lost. */
static bool is_busy(const qt_object *object) {
    if (!qt_list_empty(&object->pendings) || object->reqs > 0)
        return true;
    if (object->kind == QUOIT_HANDLE_LISTENER)
        return ((const qt_listener *)object)->held_count > 0;
    if (object->kind != QUOIT_HANDLE_STREAM && object->kind != QUOIT_HANDLE_DATAGRAM)
        return false;
    const qt_stream *s = (const qt_stream *)object;
    if (object->kind == QUOIT_HANDLE_DATAGRAM && ((const qt_datagram *)s)->reset)
        return true;
    return s->held_count > 0 || s->held_end || s->send_head != NULL;
}

void qt_op_detach(qt_worker *w, const quoit_op *op, qt_object *object) {
    int fd = object->fd;
    int error = is_busy(object) ? QUOIT_E_BUSY : make_blocking(w, fd);
    if (error) {
        qt_refuse(w, op, error, QUOIT_FIELD_TARGET);
        return;
    }
    w->driver->ops->forget(w->driver, fd);
    if (object->adopted)
        qt_adopted_drop(w, fd);
    if (object->kind == QUOIT_HANDLE_LISTENER) {
        qt_listener_close((qt_listener *)object);
    } else if (object->kind == QUOIT_HANDLE_STREAM || object->kind == QUOIT_HANDLE_DATAGRAM) {
        qt_recv_drop((qt_stream *)object);
        qt_list_remove(&((qt_stream *)object)->dirty_link);
        qt_listener_stream_gone((qt_stream *)object);
    }
    qt_event(w, op->opcode, op->target, op->user_data, 0)->value = (uint64_t)fd;
    drop_object(object);
}
