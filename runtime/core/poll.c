/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* QUOIT_OP_POLL: readiness of a foreign descriptor. It is duplicated: epoll refuses the same one twice. */
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

static uint32_t to_ours(uint32_t theirs) {
    uint32_t ours = 0;
    for (size_t i = 0; i < COUNT; i++)
        if (theirs & (uint32_t)masks[i].theirs)
            ours |= masks[i].ours;
    return ours;
}

/* 0 if the mask names nothing, or more than there is. */
static uint32_t to_theirs(uint32_t ours) {
    uint32_t theirs = 0;
    for (size_t i = 0; i < COUNT; i++)
        if (ours & masks[i].ours) {
            theirs |= (uint32_t)masks[i].theirs;
            ours &= ~masks[i].ours;
        }
    return ours == 0 ? theirs : 0;
}

/* The last event of a MULTI poll ends its handle, unless a close is under way, which then does. */
static void end_multi(qt_pending *p, int64_t result) {
    qt_poll *poll = (qt_poll *)p->object;
    qt_worker *w = p->worker;
    qt_finish(p, result, poll->object.handle);
    if (poll->object.closing) {
        qt_close_advance(&poll->object);
        return;
    }
    close(poll->object.fd);
    QT_COUNT(w, system_calls, 1);
    qt_handle_free(w, &poll->object);
    qt_slab_free(&w->objects, poll);
}

/*
 * Armed again as often as it was told, with the enter that the answers to the event go in by: a descriptor that was
 * served then is not ready, one that still is makes one event a tick, as poll(2) would.
 */
static void multi_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    qt_worker *w = p->worker;
    if (c->res > 0 && p->verdict == 0) {
        qt_pending_event(p, to_ours((uint32_t)c->res))->value = p->object->handle;
        qt_submit(w, req);
        return;
    }
    p->req = NULL;
    p->object->reqs--;
    qt_req_free(&w->requests, req);
    end_multi(p, p->verdict ? p->verdict : c->res);
}

static void once_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    qt_worker *w = p->worker;
    int64_t result = c->res > 0 ? (int64_t)to_ours((uint32_t)c->res) : c->res;
    p->req = NULL;
    close(req->fd);
    QT_COUNT(w, system_calls, 1);
    qt_req_free(&w->requests, req);
    if (result == -ECANCELED && p->verdict)
        result = p->verdict;
    qt_finish(p, result, 0);
}

/* 0, or why there is no object for it. */
static int make_object(qt_worker *w, int fd, qt_poll **out) {
    *out = qt_slab_alloc(&w->objects);
    if (*out == NULL)
        return -ENOMEM;
    int error = qt_handle_new(w, &(*out)->object, QUOIT_HANDLE_POLL, fd);
    if (error)
        qt_slab_free(&w->objects, *out);
    return error;
}

static void drop_object(qt_worker *w, qt_poll *poll) {
    qt_handle_free(w, &poll->object);
    qt_slab_free(&w->objects, poll);
}

/* Takes the duplicate; on failure the op is refused and the duplicate is still the caller's. */
static bool start(qt_worker *w, const quoit_op *op, int fd, uint32_t theirs) {
    bool multi = op->flags & QUOIT_OPF_MULTI;
    qt_poll *poll = NULL;
    int error = multi ? make_object(w, fd, &poll) : 0;
    if (error) {
        qt_refuse(w, op, error, 0);
        return false;
    }
    qt_req *req = qt_request(w, QT_REQ_POLL, fd, NULL, multi ? multi_done : once_done);
    if (req == NULL)
        qt_refuse(w, op, -ENOMEM, 0);
    qt_pending *p = req ? qt_pending_new(w, op, multi ? &poll->object : NULL) : NULL;
    if (p == NULL) {
        if (req != NULL)
            qt_req_free(&w->requests, req);
        if (multi)
            drop_object(w, poll);
        return false;
    }
    p->req = req;
    req->owner = p;
    req->op_flags = theirs;
    if (multi) {
        poll->object.reqs++;
        if (op->flags & QUOIT_OPF_ARMED)
            qt_pending_event(p, 0)->value = poll->object.handle;
    }
    qt_submit(w, req);
    return true;
}

void qt_op_poll(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    uint32_t theirs = to_theirs(op->arg);
    if (theirs == 0) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_ARG);
        return;
    }
    if (op->flags & QUOIT_OPF_ARMED && !(op->flags & QUOIT_OPF_MULTI)) {
        qt_refuse(w, op, QUOIT_E_FLAGS, QUOIT_FIELD_FLAGS);
        return;
    }
    if (op->offset < 0 || op->offset > INT32_MAX) {
        qt_refuse(w, op, -EBADF, QUOIT_FIELD_OFFSET);
        return;
    }
    QT_COUNT(w, system_calls, 1);
    int fd = fcntl((int)op->offset, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        qt_refuse(w, op, -errno, QUOIT_FIELD_OFFSET);
    else if (!start(w, op, fd, theirs))
        close(fd);
}

/* The duplicate of a MULTI poll is its object's. */
void qt_poll_discard(qt_pending *p) {
    if (p->req != NULL && p->object == NULL)
        close(p->req->fd);
}
