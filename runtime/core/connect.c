/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connecting a stream. The handle exists from success on; until then cancel finds the op by its user_data. */
#include "object.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct qt_connect {
    struct sockaddr_storage addr;
    int fd;
} qt_connect;

static void end_connect(qt_pending *p, int64_t result, uint64_t value) {
    qt_connect *state = p->state;
    qt_worker *w = p->worker;
    p->state = NULL;
    if (result < 0) {
        close(state->fd);
        QT_COUNT(w, system_calls, 1);
    }
    free(state);
    qt_finish(p, result, value);
    if (result < 0)
        qt_listeners_retry(w);
}

static void connect_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    qt_worker *w = p->worker;
    p->req = NULL;
    qt_req_free(&w->requests, req);
    int32_t res = c->res;
    if (res >= 0 && w->draining)
        res = -ECANCELED; /* a stop has closed its objects already: one that came now would never be closed */
    if (res < 0) {
        end_connect(p, p->verdict && res == -ECANCELED ? p->verdict : res, 0);
        return;
    }
    int error;
    int fd = ((qt_connect *)p->state)->fd;
    qt_object *made = p->arg & QUOIT_CONNECT_SEQPACKET ? (qt_object *)qt_seqpacket_new(w, fd, &error)
                                                       : (qt_object *)qt_stream_new(w, fd, &error);
    if (made == NULL) {
        end_connect(p, error, 0);
        return;
    }
    QT_COUNT(w, connects, 1);
    end_connect(p, 0, made->handle);
}

/* A socket for the address, bound to the local one if that is given. The descriptor or -errno. */
static int open_socket(qt_worker *w, const quoit_op *op, const struct sockaddr_storage *addr,
                       uint32_t *field) {
    struct sockaddr_storage local;
    socklen_t local_len = 0;
    int on = 1;
    if (op->arg2 != 0) {
        quoit_status status = qt_op_addr(w, op, op->arg2, sizeof(quoit_addr), &local, &local_len);
        *field = QUOIT_FIELD_ARG2;
        if (status != 0)
            return status;
    }
    QT_COUNT(w, system_calls, 2);
    int type = op->arg & QUOIT_CONNECT_SEQPACKET ? SOCK_SEQPACKET : SOCK_STREAM;
    int fd = socket(addr->ss_family, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int error = 0;
    if (local_len != 0 && bind(fd, (const struct sockaddr *)&local, local_len) != 0)
        error = -errno;
    if (!error && addr->ss_family != AF_UNIX && !(op->arg & QUOIT_CONNECT_DELAY) &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        error = -errno;
    if (error)
        close(fd);
    return error ? error : fd;
}

void qt_op_connect(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    struct sockaddr_storage addr;
    socklen_t len;
    uint32_t field = QUOIT_FIELD_ADDR;
    quoit_status status = qt_op_addr(w, op, op->addr, op->len, &addr, &len);
    uint32_t known = QUOIT_CONNECT_DELAY | (addr.ss_family == AF_UNIX ? QUOIT_CONNECT_SEQPACKET : 0u);
    if (status == 0 && op->arg & ~known) {
        status = QUOIT_E_FIELD;
        field = QUOIT_FIELD_ARG;
    }
    int fd = status != 0 ? status : open_socket(w, op, &addr, &field);
    if (fd < 0) {
        qt_refuse(w, op, fd, field);
        return;
    }
    qt_connect *state = malloc(sizeof *state);
    qt_pending *p = state ? qt_pending_new(w, op, NULL) : NULL;
    if (state == NULL)
        qt_refuse(w, op, -ENOMEM, 0);
    if (p == NULL) {
        free(state);
        close(fd);
        return;
    }
    *state = (qt_connect){.addr = addr, .fd = fd};
    p->state = state;
    p->req = qt_request(w, QT_REQ_CONNECT, fd, p, connect_done);
    if (p->req == NULL) {
        end_connect(p, -ENOMEM, 0);
        return;
    }
    p->req->addr = (uint64_t)(uintptr_t)&state->addr;
    p->req->len = len;
    qt_submit(w, p->req);
}

void qt_connect_discard(qt_pending *p) {
    qt_connect *state = p->state;
    if (state != NULL)
        close(state->fd);
    free(state);
}
