/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* QUOIT_OP_CHANNEL, _SEND and _RECV, and how a channel ends. */
#include "channel.h"
#include "object.h"

#include <assert.h>
#include <errno.h>

/* Messages of one channel that are told before the next has its turn. */
#define BURST 32u

void qt_op_channel(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    bool fits =
        op->len > 0 && op->len <= QUOIT_CHANNEL_MAX && (op->arg != QUOIT_CHANNEL_ONESHOT || op->len == 1);
    if (op->arg > QUOIT_CHANNEL_ONESHOT || !fits) {
        qt_refuse(w, op, QUOIT_E_FIELD, fits ? QUOIT_FIELD_ARG : QUOIT_FIELD_LEN);
        return;
    }
    int error;
    qt_channel *c = qt_channel_new(w, op->arg, op->len, &error);
    if (c == NULL)
        qt_refuse(w, op, error, 0);
    else
        qt_succeed(w, op, c->object.handle);
}

/* Of whichever worker; leave the shell afterwards. */
static quoit_status find_owner(uint64_t handle, qt_shell **shell, qt_worker **out) {
    uint64_t kind = handle >> 56;
    if (kind == 0 || kind > QT_HANDLE_LAST || ((handle >> 24) & 0xFFFFFF) == 0)
        return QUOIT_E_HANDLE;
    if (kind != QUOIT_HANDLE_CHANNEL)
        return QUOIT_E_KIND;
    *shell = qt_shell_worker((uint32_t)(handle >> 48) & 0xFF);
    *out = qt_shell_enter(*shell);
    return *out ? 0 : QUOIT_E_STALE;
}

static void finish_send(qt_pending *p, int64_t result, bool last) {
    quoit_event *event = qt_finish(p, result, 0);
    if (event != NULL && result == 0 && last)
        event->flags |= QUOIT_EVF_EOF;
}

static void open_wait(void *worker, qt_letter *letter) {
    (void)worker;
    qt_wait *wait = qt_container(letter, qt_wait, letter);
    qt_pending *p = wait->op;
    int32_t result = wait->result;
    bool last = wait->last;
    p->state = NULL;
    qt_wait_free(wait);
    finish_send(p, result, last);
}

static void discard_wait(void *worker, qt_letter *letter) {
    (void)worker;
    (void)letter; /* gone with its worker */
}

/* The op's pending and its place in the line; null: it was refused. */
static qt_wait *wait_new(qt_worker *w, const quoit_op *op) {
    qt_wait *wait = qt_slab_alloc(&w->wait_slab);
    if (wait == NULL) {
        qt_refuse(w, op, -ENOMEM, 0);
        return NULL;
    }
    wait->op = qt_pending_new(w, op, NULL);
    if (wait->op == NULL) {
        qt_slab_free(&w->wait_slab, wait);
        return NULL;
    }
    wait->op->state = wait;
    wait->from = w;
    wait->letter.open = open_wait;
    wait->letter.discard = discard_wait;
    qt_list_append(&w->waits, &wait->own_link);
    return wait;
}

/* It does not fit, or earlier ones are not told yet. Meanwhile the channel may have got room, or an end. */
static void send_waiting(qt_worker *w, qt_worker *to, const quoit_op *op, const qt_words *words) {
    qt_wait *wait = wait_new(w, op);
    bool last;
    if (wait == NULL)
        return;
    quoit_status status = qt_channel_offer(to, op->target, words, w, wait, &last);
    if (status == QT_OFFER_WAITS)
        return;
    qt_pending *p = wait->op;
    p->state = NULL;
    qt_wait_free(wait);
    finish_send(p, status, false);
}

void qt_op_channel_send(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    qt_words words = {.word1 = op->addr, .word2 = op->offset, .number = op->arg};
    qt_shell *shell;
    qt_worker *to;
    bool last = false;
    quoit_status status = find_owner(op->target, &shell, &to);
    if (status == 0) {
        status = qt_channel_offer(to, op->target, &words, w, NULL, &last);
        if (status == QT_OFFER_WAITS)
            send_waiting(w, to, op, &words);
        qt_shell_leave(shell);
    }
    if (status < 0) {
        qt_refuse(w, op, status, status == -EPIPE ? 0 : QUOIT_FIELD_TARGET);
    } else if (status == 0 && !(op->flags & QUOIT_OPF_QUIET)) {
        quoit_event *event = qt_event(w, op->opcode, op->target, op->user_data, 0);
        event->flags = last ? QUOIT_EVF_EOF : 0;
    }
}

/* Cancel, deadline or stop. A message that is in the channel by now stays there: its letter tells success. */
void qt_channel_send_end(qt_pending *p) {
    qt_wait *wait = p->state;
    if (!qt_wait_withdraw(wait))
        return;
    p->state = NULL;
    qt_wait_free(wait);
    qt_finish(p, p->verdict, 0);
}

/* A cancel by the channel's handle: this worker's sends to it, which are no ops of the object. */
uint32_t qt_channel_cancel_sends(qt_worker *w, const quoit_op *op) {
    uint32_t count = 0;
    qt_link *at = w->waits.next;
    while (at != &w->waits) {
        qt_pending *p = qt_container(at, qt_wait, own_link)->op;
        at = at->next;
        if (p->source != op->target || p->verdict != 0 || (op->arg != 0 && op->arg != p->opcode) ||
            (op->arg2 != 0 && op->arg2 != p->user_data))
            continue;
        count++;
        qt_pending_end(p, -ECANCELED);
    }
    return count;
}

void qt_op_channel_recv(qt_worker *w, const quoit_op *op, qt_object *object) {
    qt_channel *c = (qt_channel *)object;
    if (c->recv != NULL) {
        qt_refuse(w, op, QUOIT_E_BUSY, QUOIT_FIELD_TARGET);
        return;
    }
    c->recv = qt_pending_new(w, op, object);
    if (c->recv != NULL)
        qt_channel_want(c, true);
}

static void end_recv(qt_channel *c, int64_t result, uint32_t flags) {
    qt_pending *p = c->recv;
    c->recv = NULL;
    quoit_event *event = qt_finish(p, result, 0);
    event->flags |= flags;
}

/* What was not told stays inside. */
void qt_channel_recv_end(qt_pending *p) {
    qt_channel *c = (qt_channel *)p->object;
    qt_channel_want(c, false);
    end_recv(c, p->verdict, 0);
}

static void tell(qt_channel *c, const qt_words *words, bool end) {
    qt_pending *p = c->recv;
    assert(p != NULL);
    quoit_event *event;
    if (p->flags & QUOIT_OPF_MULTI && !end) {
        event = qt_pending_event(p, words->word2);
    } else {
        c->recv = NULL;
        event = qt_finish(p, words->word2, 0);
    }
    event->flags |= QUOIT_EVF_MESSAGE | (end ? QUOIT_EVF_EOF : 0);
    event->value = words->word1;
    event->aux = words->number;
}

/* Nothing is inside, and nothing will come: the end of a closing channel, and of a oneshot. */
static void end_channel(qt_channel *c) {
    if (!c->object.closing)
        c->object.closing = QT_CLOSING;
    qt_close_advance(&c->object);
}

/* A close that names no time waits as long as messages are taken. */
static void progress(qt_channel *c) {
    qt_worker *w = c->object.worker;
    if (c->patient)
        qt_timer_arm(&w->wheel, &c->object.close_op->deadline,
                     qt_after(qt_now(w), w->options.close_timeout_ns));
}

static uint32_t tell_some(qt_channel *c, uint32_t most) {
    qt_words words[BURST];
    bool end;
    bool multi = c->recv != NULL && c->recv->flags & QUOIT_OPF_MULTI;
    uint32_t wanted = c->recv == NULL ? 0 : !multi ? 1 : most < BURST ? most : BURST;
    uint32_t n = qt_channel_take(c, words, wanted, &end);
    for (uint32_t i = 0; i < n; i++)
        tell(c, &words[i], end && i + 1 == n);
    if (end && wanted > 0) {
        end_channel(c);
        return n;
    }
    qt_channel_want(c, c->recv != NULL); /* ready again, behind the others, if more is inside */
    if (n > 0)
        progress(c);
    return n;
}

void qt_channels_deliver(qt_worker *w, uint32_t most) {
    while (most > 0 && !qt_list_empty(&w->channels_ready)) {
        qt_channel *c = qt_container(w->channels_ready.next, qt_channel, ready_link);
        qt_list_remove(&c->ready_link);
        most -= tell_some(c, most);
    }
}

/* Its senders end at once; its receiver has what is inside, then the end. */
void qt_channel_close(qt_object *object, bool patient) {
    qt_channel *c = (qt_channel *)object;
    c->patient = patient;
    object->closing = QT_CLOSING;
    uint32_t inside = qt_channel_shut(c);
    if (inside > 0) {
        progress(c);
        return;
    }
    if (c->recv != NULL)
        end_recv(c, 0, QUOIT_EVF_EOF);
    qt_close_advance(object);
}
