/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A splice through a pipe: the kernel moves pages, and the bytes never come here. What cannot be moved so goes through memory, also
 * what is in the pipe already. Pipes are kept for the next splice, a few of them; a worker has no more than PIPES_MAX.
 */
#include "splice.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define PIPES_MAX 64
#define PIPE_SIZE (256u << 10)

static bool get_pipe(qt_splice *sp) {
    qt_worker *w = sp->op->worker;
    if (sp->has_pipe)
        return true;
    if (w->pipes_kept > 0) {
        w->pipes_kept--;
        sp->pipe[0] = w->pipes[w->pipes_kept][0];
        sp->pipe[1] = w->pipes[w->pipes_kept][1];
    } else if (w->pipes_out >= PIPES_MAX || pipe2(sp->pipe, O_CLOEXEC) != 0) {
        return false;
    } else {
        int grown = fcntl(sp->pipe[1], F_SETPIPE_SZ, PIPE_SIZE);
        (void)grown; /* a smaller one does as well */
        QT_COUNT(w, system_calls, 2);
    }
    w->pipes_out++;
    return sp->has_pipe = true;
}

void qt_splice_pipe_drop(qt_splice *sp) {
    qt_worker *w = sp->op->worker;
    if (!sp->has_pipe)
        return;
    sp->has_pipe = false;
    w->pipes_out--;
    if (sp->piped == 0 && w->pipes_kept < QT_PIPES_KEPT) {
        w->pipes[w->pipes_kept][0] = sp->pipe[0];
        w->pipes[w->pipes_kept][1] = sp->pipe[1];
        w->pipes_kept++;
        return;
    }
    close(sp->pipe[0]);
    close(sp->pipe[1]);
    QT_COUNT(w, system_calls, 2);
}

static void in_done(qt_req *req, const qt_completion *c) {
    qt_splice *sp = req->owner;
    int32_t res = qt_splice_answer(req, c);
    sp->looked = false;
    if (res == -EINVAL)
        sp->pipes = false; /* no splices from there, or to there */
    else
        qt_splice_took(sp, res);
    sp->piped += res > 0 ? (uint64_t)res : 0;
    qt_splice_advance(sp);
}

static void look_done(qt_req *req, const qt_completion *c) {
    qt_splice *sp = req->owner;
    sp->looked = qt_splice_answer(req, c) >= 0;
    qt_splice_advance(sp);
}

/* A stream is waited for first: a splice that waits holds one of the kernel's threads. */
bool qt_splice_pipe_in(qt_splice *sp) {
    bool waits = sp->from->kind == QUOIT_HANDLE_STREAM && !sp->looked;
    if (!sp->pipes || !get_pipe(sp))
        return false;
    if (!qt_splice_request(sp, waits ? QT_REQ_POLL : QT_REQ_SPLICE, sp->from->fd,
                           waits ? look_done : in_done)) {
        qt_splice_advance(sp);
        return true;
    }
    sp->req->op_flags = waits ? POLLIN | POLLRDHUP : (uint32_t)sp->pipe[1];
    sp->req->len = waits ? 0 : sp->left < PIPE_SIZE ? (uint32_t)sp->left : PIPE_SIZE;
    sp->req->offset = sp->from_at;
    sp->req->addr = waits ? 0 : UINT64_MAX;
    qt_splice_submit(sp, false);
    return true;
}

static void out_done(qt_req *req, const qt_completion *c) {
    qt_splice *sp = req->owner;
    int32_t res = qt_splice_answer(req, c);
    if (res == -EINVAL)
        sp->pipes = false;
    else
        qt_splice_brought(sp, res);
    sp->piped -= res > 0 ? (uint64_t)res : 0;
    qt_splice_advance(sp);
}

/* Out of the pipe into memory. */
static void poured(qt_req *req, const qt_completion *c) {
    qt_splice *sp = req->owner;
    int32_t res = qt_splice_answer(req, c);
    sp->at = 0;
    sp->ready = res > 0 ? (uint32_t)res : 0;
    sp->piped -= sp->ready;
    if (res <= 0 && !qt_splice_is_passing(res))
        sp->status = res ? res : -EIO;
    qt_splice_advance(sp);
}

void qt_splice_pipe_out(qt_splice *sp) {
    bool pours = !sp->pipes;
    if ((pours && !qt_splice_block(sp)) ||
        !qt_splice_request(sp, pours ? QT_REQ_READ : QT_REQ_SPLICE, sp->pipe[0], pours ? poured : out_done)) {
        qt_splice_advance(sp);
        return;
    }
    sp->req->offset = -1;
    sp->req->len = (uint32_t)sp->piped;
    sp->req->op_flags = pours ? 0 : (uint32_t)sp->to->fd;
    sp->req->addr = pours ? (uint64_t)(uintptr_t)sp->block : (uint64_t)sp->to_at;
    if (pours && sp->req->len > sp->room)
        sp->req->len = sp->room;
    qt_splice_submit(sp, true);
}

void qt_pipes_close(qt_worker *w) {
    while (w->pipes_kept > 0) {
        w->pipes_kept--;
        close(w->pipes[w->pipes_kept][0]);
        close(w->pipes[w->pipes_kept][1]);
    }
}
