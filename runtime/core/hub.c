/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What of a channel is shared by workers: its messages and the senders that wait. All of it under the hub's lock. */
#include "channel.h"
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static void open_bell(void *worker, qt_letter *letter) {
    qt_worker *w = worker;
    qt_hub *hub = qt_container(letter, qt_hub, bell);
    pthread_mutex_lock(&hub->lock);
    hub->rung = false;
    qt_list_splice(&w->channels_ready, &hub->ready);
    pthread_mutex_unlock(&hub->lock);
}

static void discard_bell(void *worker, qt_letter *letter) {
    (void)worker;
    (void)letter; /* a part of the hub */
}

qt_hub *qt_hub_new(void) {
    qt_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL)
        return NULL;
    pthread_mutex_init(&hub->lock, NULL);
    atomic_init(&hub->users, 1);
    qt_index_init(&hub->channels);
    qt_list_init(&hub->ready);
    hub->bell.open = open_bell;
    hub->bell.discard = discard_bell;
    return hub;
}

static void leave(qt_hub *hub) {
    if (atomic_fetch_sub(&hub->users, 1) != 1)
        return;
    qt_index_destroy(&hub->channels);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

/* A number that is another worker's by now makes that one turn for nothing. */
static void wake_all(const qt_wakes *wakes) {
    for (uint32_t i = 0; i < QT_WORKERS_MAX / 64; i++)
        for (uint64_t bits = wakes->bits[i]; bits != 0; bits &= bits - 1) {
            qt_shell *shell = qt_shell_worker(i * 64 + (uint32_t)__builtin_ctzll(bits));
            qt_worker *w = qt_shell_enter(shell);
            if (w == NULL)
                continue;
            qt_wake(w);
            qt_shell_leave(shell);
        }
}

/* Its worker may free it as soon as the letter is there. */
static void settle(qt_wait *wait, int32_t result, qt_wakes *wakes) {
    qt_worker *from = wait->from;
    wait->waits = false;
    wait->result = result;
    wakes->bits[from->id / 64] |= (uint64_t)1 << (from->id % 64);
    bool taken = qt_mailbox_put(&from->mailbox, &wait->letter);
    assert(taken); /* a worker with an op in flight has not shut its mailbox */
    (void)taken;
}

static void end_waits(qt_channel *c, int32_t result, qt_wakes *wakes) {
    while (!qt_list_empty(&c->waiting)) {
        qt_wait *wait = qt_container(c->waiting.next, qt_wait, link);
        qt_list_remove(&wait->link);
        settle(wait, result, wakes);
    }
}

static void put_in(qt_channel *c, const qt_words *words) {
    uint32_t at = c->head + c->count;
    c->words[at < c->capacity ? at : at - c->capacity] = *words;
    c->count++;
    if (c->arg == QUOIT_CHANNEL_ONESHOT)
        c->shut = true;
}

/* Whether the owner's worker must be woken: the first channel to become ready since it looked rings for all. */
static bool ring(qt_worker *to, qt_channel *c) {
    qt_hub *hub = c->hub;
    if (!c->wanted || c->ready)
        return false;
    c->ready = true;
    qt_list_append(&hub->ready, &c->ready_link);
    if (hub->rung)
        return false;
    hub->rung = true;
    return qt_mailbox_put(&to->mailbox, &hub->bell);
}

static quoit_status admit(qt_channel *c, const qt_worker *from) {
    if (c == NULL)
        return QUOIT_E_STALE;
    if (c->shut)
        return -EPIPE;
    if (c->arg != QUOIT_CHANNEL_ONE_TO_ONE)
        return 0;
    if (c->sender == 0)
        c->sender = from->handle;
    return c->sender == from->handle ? 0 : QUOIT_E_BUSY;
}

static qt_channel *find(qt_hub *hub, uint64_t handle) {
    qt_index_node *node = qt_index_next(&hub->channels, handle, NULL);
    return node ? qt_container(node, qt_channel, by_handle) : NULL;
}

/*
 * Inside the shell of the owner's worker. With a wait the send is kept until there is room. A sender that still has letters of
 * earlier sends to open gives a wait also where there is room, so that its sends are told in their order.
 */
quoit_status qt_channel_offer(qt_worker *to, uint64_t channel, const qt_words *words, const qt_worker *from,
                              qt_wait *wait, bool *last) {
    qt_hub *hub = to->hub;
    qt_wakes wakes = {{0}};
    bool wake = false;
    pthread_mutex_lock(&hub->lock);
    qt_channel *c = find(hub, channel);
    quoit_status status = admit(c, from);
    if (status == 0) {
        bool room = c->count < c->capacity;
        assert(qt_list_empty(&c->waiting) || !room);
        *last = c->arg == QUOIT_CHANNEL_ONESHOT;
        if (room && (wait != NULL || qt_list_empty(&from->waits))) {
            put_in(c, words);
            wake = ring(to, c);
        } else {
            status = QT_OFFER_WAITS;
        }
        if (wait != NULL) {
            atomic_fetch_add(&hub->users, 1);
            wait->hub = hub;
            wait->words = *words;
            wait->last = *last;
            wait->waits = true;
            if (status == 0)
                settle(wait, 0, &wakes);
            else
                qt_list_append(&c->waiting, &wait->link);
            status = QT_OFFER_WAITS;
        }
    }
    pthread_mutex_unlock(&hub->lock);
    if (wake)
        qt_wake(to);
    wake_all(&wakes);
    return status;
}

bool qt_wait_withdraw(qt_wait *wait) {
    pthread_mutex_lock(&wait->hub->lock);
    bool waited = wait->waits;
    wait->waits = false;
    if (waited)
        qt_list_remove(&wait->link);
    pthread_mutex_unlock(&wait->hub->lock);
    return waited;
}

void qt_wait_free(qt_wait *wait) {
    qt_worker *w = wait->from;
    if (wait->hub != NULL)
        leave(wait->hub);
    qt_list_remove(&wait->own_link);
    qt_slab_free(&w->wait_slab, wait);
}

qt_channel *qt_channel_new(qt_worker *w, uint32_t arg, uint32_t capacity, int *error) {
    qt_channel *c = calloc(1, sizeof *c + capacity * sizeof(qt_words));
    *error = c ? qt_handle_new(w, &c->object, QUOIT_HANDLE_CHANNEL, -1) : -ENOMEM;
    if (*error) {
        free(c);
        return NULL;
    }
    c->hub = w->hub;
    c->arg = arg;
    c->capacity = capacity;
    qt_list_init(&c->ready_link);
    qt_list_init(&c->waiting);
    pthread_mutex_lock(&w->hub->lock);
    qt_index_add(&w->hub->channels, &c->by_handle, c->object.handle);
    pthread_mutex_unlock(&w->hub->lock);
    return c;
}

void qt_channel_want(qt_channel *c, bool wanted) {
    pthread_mutex_lock(&c->hub->lock);
    c->wanted = wanted;
    if (wanted && c->count > 0 && !c->ready) {
        c->ready = true;
        qt_list_append(&c->object.worker->channels_ready, &c->ready_link);
    }
    pthread_mutex_unlock(&c->hub->lock);
}

/* Senders that wait move up into the room that is made. The caller has taken the channel from its ready list. */
uint32_t qt_channel_take(qt_channel *c, qt_words *out, uint32_t most, bool *end) {
    qt_wakes wakes = {{0}};
    uint32_t n = 0;
    pthread_mutex_lock(&c->hub->lock);
    while (n < most && c->count > 0) {
        out[n++] = c->words[c->head];
        c->head = c->head + 1 == c->capacity ? 0 : c->head + 1;
        c->count--;
        if (!qt_list_empty(&c->waiting)) {
            qt_wait *wait = qt_container(c->waiting.next, qt_wait, link);
            qt_list_remove(&wait->link);
            put_in(c, &wait->words);
            settle(wait, 0, &wakes);
        }
    }
    *end = c->shut && c->count == 0;
    c->ready = false;
    pthread_mutex_unlock(&c->hub->lock);
    wake_all(&wakes);
    return n;
}

uint32_t qt_channel_shut(qt_channel *c) {
    qt_wakes wakes = {{0}};
    pthread_mutex_lock(&c->hub->lock);
    c->shut = true;
    end_waits(c, -EPIPE, &wakes);
    uint32_t inside = c->count;
    pthread_mutex_unlock(&c->hub->lock);
    wake_all(&wakes);
    return inside;
}

/* Nobody finds it any more. */
uint64_t qt_channel_retire(qt_object *object) {
    qt_channel *c = (qt_channel *)object;
    uint32_t inside = qt_channel_shut(c);
    pthread_mutex_lock(&c->hub->lock);
    qt_index_remove(&c->hub->channels, &c->by_handle);
    if (c->ready)
        qt_list_remove(&c->ready_link);
    pthread_mutex_unlock(&c->hub->lock);
    return inside;
}

/*
 * The worker ends, perhaps with ops in flight: its waits come back, then others' waits in its channels are told. In a forked child the
 * lock may be held by a thread that stayed with the parent, and the others' lists are a copy that nobody reads.
 */
void qt_hub_close(qt_worker *w, bool forked) {
    for (qt_link *at = w->waits.next; at != &w->waits; at = at->next) {
        qt_wait *wait = qt_container(at, qt_wait, own_link);
        wait->op->state = NULL;
        if (!forked)
            qt_wait_withdraw(wait);
        leave(wait->hub);
    }
    for (uint32_t slot = 0; slot < w->handles.capacity && !forked; slot++) {
        qt_object *object = w->handles.slots[slot].object;
        if (object != NULL && object->kind == QUOIT_HANDLE_CHANNEL)
            qt_channel_retire(object);
    }
    leave(w->hub);
}
