/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* QUOIT_OP_POLL: one-shot readiness of a foreign descriptor. It is duplicated: epoll refuses the same one twice. */
#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static const struct {
    uint32_t ours;
    short theirs;
} masks[] = {
    {QUOIT_POLL_IN, POLLIN},   {QUOIT_POLL_OUT, POLLOUT}, {QUOIT_POLL_ERR, POLLERR},
    {QUOIT_POLL_HUP, POLLHUP}, {QUOIT_POLL_PRI, POLLPRI}, {QUOIT_POLL_RDHUP, POLLRDHUP},
};

#define COUNT (sizeof masks / sizeof masks[0])

static void poll_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    qt_worker *w = p->worker;
    int64_t result = c->res;
    p->req = NULL;
    close(req->fd);
    QT_COUNT(w, system_calls, 1);
    qt_req_free(&w->requests, req);
    if (result == -ECANCELED && p->verdict)
        result = p->verdict;
    if (result > 0) {
        uint32_t theirs = (uint32_t)result;
        result = 0;
        for (size_t i = 0; i < COUNT; i++)
            if (theirs & (uint32_t)masks[i].theirs)
                result |= masks[i].ours;
    }
    qt_finish(p, result, 0);
}

void qt_op_poll(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    uint32_t theirs = 0;
    uint32_t known = 0;
    for (size_t i = 0; i < COUNT; i++) {
        known |= masks[i].ours;
        if (op->arg & masks[i].ours)
            theirs |= (uint32_t)masks[i].theirs;
    }
    if (op->arg == 0 || op->arg & ~known) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_ARG);
        return;
    }
    if (op->offset < 0 || op->offset > INT32_MAX) {
        qt_refuse(w, op, -EBADF, QUOIT_FIELD_OFFSET);
        return;
    }
    QT_COUNT(w, system_calls, 1);
    int fd = fcntl((int)op->offset, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        qt_refuse(w, op, -errno, QUOIT_FIELD_OFFSET);
        return;
    }
    qt_req *req = qt_request(w, QT_REQ_POLL, fd, NULL, poll_done);
    qt_pending *p = req ? qt_pending_new(w, op, NULL) : NULL;
    if (p == NULL) {
        close(fd);
        if (req != NULL)
            qt_req_free(&w->requests, req);
        else
            qt_refuse(w, op, -ENOMEM, 0);
        return;
    }
    p->req = req;
    req->owner = p;
    req->op_flags = theirs;
    qt_submit(w, req);
}

void qt_poll_discard(qt_pending *p) {
    if (p->req != NULL)
        close(p->req->fd);
}
