/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * QUOIT_OP_MOVE: a stream goes to another worker. It leaves when nothing of it is under way: its receive has ended, what it owed is
 * sent. A letter then carries its descriptor, the bytes that were received and not told, and what is known of its end. One atomic
 * word decides whose it is: the old worker takes the letter back, or the new one makes its stream of it. Until the new one
 * has, the old one keeps everything, so that whatever fails leaves the stream where it was.
 */
#include "object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { QT_MOVE_OFFERED, QT_MOVE_WITHDRAWN, QT_MOVE_ANSWERED };

struct qt_move {
    qt_letter letter;
    atomic_uint refs; /* the stream's, the letter's */
    atomic_int state; /* QT_MOVE_* */
    /* the old worker's alone */
    qt_pending *op;
    bool idle;     /* nothing of it is under way any more */
    bool away;     /* the letter has left */
    uint64_t told; /* events of its worker when it became idle */
    /* as they were when it left */
    uint64_t from;
    uint64_t to;
    uint64_t stream;
    uint64_t user_data;
    uint64_t home;
    uint64_t unsent;
    int32_t fd;
    int32_t held_error;
    bool held_end;
    bool eof;
    bool resets;
    bool copies;
    bool adopted;
    bool accepted;
    uint32_t held_count;
    uint32_t *lengths; /* of what was held; the bytes follow */
    /* the new worker's answer, there when the state says so */
    quoit_status status;
    uint64_t made;
};

static void unref(qt_move *m) {
    if (atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    free(m->lengths);
    free(m);
}

static bool change(qt_move *m, int to) {
    int from = QT_MOVE_OFFERED;
    return atomic_compare_exchange_strong(&m->state, &from, to);
}

static void drop_stream(qt_stream *s) {
    qt_worker *w = s->object.worker;
    if (s->object.adopted)
        qt_adopted_drop(w, s->object.fd);
    qt_recv_drop(s);
    qt_list_remove(&s->dirty_link);
    qt_listener_stream_gone(s);
    qt_handle_free(w, &s->object);
    qt_slab_free(&w->streams, s);
}

/* the old worker: how it ends */

static qt_pending *unhook(qt_stream *s) {
    qt_move *m = s->move;
    qt_pending *p = m->op;
    s->move = NULL;
    s->object.moving = false;
    unref(m);
    return p;
}

static void stay(qt_stream *s, quoit_status status) {
    bool destination = status == QUOIT_E_CLOSED || status == QUOIT_E_STALE;
    qt_finish(unhook(s), status, 0)->aux = destination ? QUOIT_FIELD_ARG2 : 0;
}

static void leave(qt_stream *s) {
    uint64_t made = s->move->made;
    qt_finish(unhook(s), 0, made);
    drop_stream(s);
}

/* The answer is there. True: the stream has left. */
static bool obey(qt_stream *s) {
    quoit_status status = s->move->status;
    if (status != 0)
        stay(s, status);
    else
        leave(s);
    return status == 0;
}

static bool take_back(qt_move *m) {
    return !m->away || change(m, QT_MOVE_WITHDRAWN);
}

bool qt_move_settle(qt_object *object, int32_t verdict) {
    qt_stream *s = (qt_stream *)object;
    if (!take_back(s->move))
        return obey(s);
    stay(s, verdict);
    return false;
}

/* Cancel or deadline. If it comes too late the answer is on its way. */
void qt_move_end(qt_pending *p) {
    qt_stream *s = (qt_stream *)p->object;
    if (take_back(s->move))
        stay(s, p->verdict);
}

void qt_move_abandon(qt_stream *s) {
    if (!take_back(s->move) && s->move->status == 0)
        s->object.fd = -1; /* the other worker's */
    unhook(s);
}

static void open_answer(void *worker, qt_letter *letter) {
    qt_move *m = qt_container(letter, qt_move, letter);
    qt_object *object;
    if (qt_handle_find(worker, m->stream, QT_KIND(QUOIT_HANDLE_STREAM), &object) == 0 &&
        ((qt_stream *)object)->move == m)
        obey((qt_stream *)object);
    unref(m);
}

static void discard_answer(void *worker, qt_letter *letter) {
    (void)worker;
    unref(qt_container(letter, qt_move, letter));
}

/* the new worker */

static void answer(qt_move *m) {
    qt_shell *shell;
    qt_worker *w;
    bool taken = false;
    m->letter = (qt_letter){.open = open_answer, .discard = discard_answer};
    if (qt_worker_of_handle(m->from, &shell, &w) == 0) {
        taken = qt_mailbox_put(&w->mailbox, &m->letter);
        if (taken)
            qt_wake(w);
        qt_shell_leave(shell);
    }
    if (!taken) /* that worker has ended, or has asked for the answer already and then drained */
        unref(m);
}

/* The listener here that the stream counts for: the one that accepted it, or the one that shares its port and load. */
static qt_listener *counts_for(qt_worker *w, uint64_t home) {
    qt_object *object;
    if (home == 0)
        return NULL;
    if (((home >> 48) & 0xFF) != w->id)
        home = qt_balance_find(&w->runtime->balance, home, w->handle);
    if (qt_handle_find(w, home, QT_KIND(QUOIT_HANDLE_LISTENER), &object) != 0 || object->closing)
        return NULL;
    return (qt_listener *)object;
}

static int unpack(qt_stream *s, const qt_move *m) {
    qt_worker *w = s->object.worker;
    const uint8_t *bytes = (const uint8_t *)(m->lengths + m->held_count);
    if (m->held_count == 0)
        return 0;
    s->held = malloc(m->held_count * sizeof *s->held);
    if (s->held == NULL)
        return -ENOMEM;
    s->held_capacity = m->held_count;
    for (uint32_t i = 0; i < m->held_count; i++) {
        qt_buffer *buffer = qt_buffer_take_large(w, m->lengths[i], s->object.handle);
        if (buffer == NULL)
            return -ENOMEM;
        buffer->length = m->lengths[i];
        memcpy(w->buffers.base + buffer->offset, bytes, buffer->length);
        bytes += buffer->length;
        s->held[s->held_count++] = qt_buffer_index(w, buffer);
    }
    return 0;
}

static int fill(qt_stream *s, const qt_move *m) {
    s->home = m->home;
    s->unsent = m->unsent;
    s->held_error = m->held_error;
    s->held_end = m->held_end;
    s->eof = m->eof;
    s->resets = m->resets;
    s->copies = m->copies;
    int error = unpack(s, m);
    if (!error && m->adopted) {
        error = qt_adopted_add(s->object.worker, m->fd);
        s->object.adopted = error == 0;
    }
    return error;
}

/* The descriptor is not touched: the old worker may take it back meanwhile. */
static quoit_status make_stream(qt_worker *w, const qt_move *m, const qt_listener *l, qt_stream **out) {
    int error;
    if (w->draining || qt_drain_asked(w) || w->drain.grace_ns != QT_DRAIN_NOT_ASKED)
        return QUOIT_E_CLOSED;
    if (l != NULL && qt_listener_full(l))
        return QUOIT_E_LIMIT;
    qt_stream *s = qt_stream_new(w, m->fd, &error);
    if (s != NULL && (error = fill(s, m)) != 0) {
        drop_stream(s);
        s = NULL;
    }
    *out = s;
    return error;
}

static void welcome(qt_stream *s, const qt_move *m, qt_listener *l) {
    qt_worker *w = s->object.worker;
    w->driver->ops->forget(w->driver, m->fd);
    s->accepted = m->accepted;
    w->drain.streams += s->accepted;
    qt_event(w, QUOIT_KIND_MOVED, m->stream, m->user_data, 0)->value = s->object.handle;
    if (l != NULL) {
        qt_balance_count(l, 1);
        qt_listener_stream_came(l, s);
    }
}

static void open_move(void *worker, qt_letter *letter) {
    qt_worker *w = worker;
    qt_move *m = qt_container(letter, qt_move, letter);
    qt_stream *s = NULL;
    if (atomic_load(&m->state) != QT_MOVE_OFFERED) {
        unref(m);
        return;
    }
    qt_listener *l = counts_for(w, m->home);
    m->status = make_stream(w, m, l, &s);
    m->made = s ? s->object.handle : 0;
    if (!change(m, QT_MOVE_ANSWERED)) {
        if (s != NULL)
            drop_stream(s);
        unref(m);
        return;
    }
    if (s != NULL)
        welcome(s, m, l);
    answer(m);
}

static void discard_move(void *worker, qt_letter *letter) {
    (void)worker;
    qt_move *m = qt_container(letter, qt_move, letter);
    m->status = QUOIT_E_STALE;
    if (change(m, QT_MOVE_ANSWERED))
        answer(m);
    else
        unref(m);
}

/* the old worker: how it begins */

static int pack(qt_stream *s, qt_move *m) {
    qt_worker *w = s->object.worker;
    uint64_t total = 0;
    uint32_t skip = s->held_skip;
    for (uint32_t i = 0; i < s->held_count; i++)
        total += qt_buffer_at(w, s->held[i])->length;
    total -= skip;
    m->letter.bytes = total;
    m->held_count = s->held_count;
    if (total == 0)
        return 0;
    m->lengths = malloc(s->held_count * sizeof *m->lengths + total);
    if (m->lengths == NULL)
        return -ENOMEM;
    uint8_t *bytes = (uint8_t *)(m->lengths + s->held_count);
    for (uint32_t i = 0; i < s->held_count; i++) {
        const qt_buffer *buffer = qt_buffer_at(w, s->held[i]);
        m->lengths[i] = buffer->length - skip;
        memcpy(bytes, w->buffers.base + buffer->offset + skip, m->lengths[i]);
        bytes += m->lengths[i];
        skip = 0;
    }
    return 0;
}

static void describe(qt_stream *s, qt_move *m) {
    m->from = s->object.worker->handle;
    m->stream = s->object.handle;
    m->home = s->home;
    m->unsent = s->unsent;
    m->fd = s->object.fd;
    m->held_error = s->held_error;
    m->held_end = s->held_end;
    m->eof = s->eof;
    m->resets = s->resets;
    m->copies = s->copies;
    m->adopted = s->object.adopted;
    m->accepted = s->accepted;
    m->letter.open = open_move;
    m->letter.discard = discard_move;
    m->letter.ops = 1;
}

static quoit_status offer(qt_worker *to, qt_move *m) {
    uint64_t bytes = m->letter.bytes;
    if (!qt_mailbox_reserve(&to->mailbox, 1, bytes))
        return -EAGAIN;
    m->away = true;
    atomic_store(&m->refs, 2);
    if (!atomic_load(&to->stop) && qt_mailbox_put(&to->mailbox, &m->letter)) {
        qt_wake(to);
        return 0;
    }
    m->away = false;
    atomic_store(&m->refs, 1);
    qt_mailbox_unreserve(&to->mailbox, 1, bytes);
    return QUOIT_E_CLOSED;
}

/* Nothing is under way, and all that was told of it the program has had: what it keeps beside the stream may go along. */
static bool may_go(qt_stream *s) {
    qt_worker *w = s->object.worker;
    qt_move *m = s->move;
    if (m->away || s->recv != NULL || s->recv_fd != NULL || s->send_head != NULL || s->object.reqs > 0)
        return false;
    if (!m->idle)
        m->told = w->stats.events;
    m->idle = true;
    if (w->seen >= m->told)
        return true;
    qt_list_append(&w->leaving, &s->dirty_link);
    return false;
}

void qt_move_advance(qt_stream *s) {
    qt_worker *w = s->object.worker;
    qt_move *m = s->move;
    if (!may_go(s))
        return;
    qt_shell *shell;
    qt_worker *to;
    describe(s, m);
    quoit_status status = pack(s, m);
    if (status == 0)
        status = qt_worker_of_handle(m->to, &shell, &to);
    if (status == 0) {
        w->driver->ops->forget(w->driver, m->fd); /* before its number can be closed elsewhere */
        status = offer(to, m);
        qt_shell_leave(shell);
    }
    if (status != 0)
        stay(s, status);
}

void qt_op_move(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_stream *s = (qt_stream *)object;
    qt_shell *shell;
    qt_worker *to;
    quoit_status status = qt_worker_of_handle(op->arg2, &shell, &to);
    if (status == 0) {
        status = to == w ? QUOIT_E_FIELD : 0;
        qt_shell_leave(shell);
    }
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_ARG2);
        return;
    }
    qt_move *m = calloc(1, sizeof *m);
    if (m == NULL) {
        qt_refuse(w, op, -ENOMEM, 0);
        return;
    }
    m->op = qt_pending_new(w, op, object);
    if (m->op == NULL) {
        free(m);
        return;
    }
    m->to = op->arg2;
    m->user_data = op->addr;
    atomic_init(&m->refs, 1);
    atomic_init(&m->state, QT_MOVE_OFFERED);
    s->move = m;
    object->moving = true;
    if (s->recv != NULL)
        qt_pending_end(s->recv, -ECANCELED);
    if (s->recv_fd != NULL)
        qt_pending_end(s->recv_fd, -ECANCELED);
    qt_splices_close(&s->object);
    qt_send_mark(s); /* the flush sends what is queued, then lets it go */
}
