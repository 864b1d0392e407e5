/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel spreads connections over the sockets of a port by a hash of their addresses, blind to what each has. Where the bound of
 * the listener's options is passed, the worker that accepted hands the descriptor to the one with the fewest.
 */
#include "balance.h"

#include "object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct qt_balance_group {
    qt_link link;
    quoit_addr addr;
    qt_link members;
} qt_balance_group;

typedef struct qt_handed {
    qt_letter letter;
    uint64_t listener;
    int fd;
} qt_handed;

void qt_balance_init(qt_balance *b) {
    pthread_mutex_init(&b->lock, NULL);
    qt_list_init(&b->groups);
}

void qt_balance_destroy(qt_balance *b) {
    pthread_mutex_destroy(&b->lock);
}

static qt_balance_group *group_of(qt_balance *b, const quoit_addr *addr) {
    for (qt_link *at = b->groups.next; at != &b->groups; at = at->next) {
        qt_balance_group *group = qt_container(at, qt_balance_group, link);
        if (memcmp(&group->addr, addr, sizeof *addr) == 0)
            return group;
    }
    qt_balance_group *group = malloc(sizeof *group);
    if (group == NULL)
        return NULL;
    group->addr = *addr;
    qt_list_init(&group->members);
    qt_list_append(&b->groups, &group->link);
    return group;
}

int qt_balance_join(qt_listener *l, const quoit_addr *bound) {
    qt_worker *w = l->object.worker;
    qt_balance *b = &w->runtime->balance;
    qt_balance_member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return -ENOMEM;
    member->worker = w->handle;
    member->listener = l->object.handle;
    pthread_mutex_lock(&b->lock);
    member->group = group_of(b, bound);
    if (member->group != NULL)
        qt_list_append(&member->group->members, &member->link);
    pthread_mutex_unlock(&b->lock);
    if (member->group == NULL) {
        free(member);
        return -ENOMEM;
    }
    l->member = member;
    return 0;
}

void qt_balance_leave(qt_listener *l) {
    qt_balance *b = &l->object.worker->runtime->balance;
    qt_balance_member *member = l->member;
    if (member == NULL)
        return;
    pthread_mutex_lock(&b->lock);
    qt_list_remove(&member->link);
    if (qt_list_empty(&member->group->members)) {
        qt_list_remove(&member->group->link);
        free(member->group);
    }
    pthread_mutex_unlock(&b->lock);
    free(member);
    l->member = NULL;
}

void qt_balance_count(qt_listener *l, int change) {
    if (l->member == NULL)
        return;
    qt_balance *b = &l->object.worker->runtime->balance;
    pthread_mutex_lock(&b->lock);
    l->member->live += (uint32_t)change;
    pthread_mutex_unlock(&b->lock);
}

/* Of this group: the worker's listener, if that one is a member. */
static uint64_t find_in(const qt_balance_group *group, uint64_t listener, uint64_t worker) {
    uint64_t found = 0;
    bool member_too = false;
    for (qt_link *at = group->members.next; at != &group->members; at = at->next) {
        const qt_balance_member *member = qt_container(at, qt_balance_member, link);
        if (member->worker == worker)
            found = member->listener;
        member_too |= member->listener == listener;
    }
    return member_too ? found : 0;
}

uint64_t qt_balance_find(qt_balance *b, uint64_t listener, uint64_t worker) {
    uint64_t found = 0;
    pthread_mutex_lock(&b->lock);
    for (qt_link *at = b->groups.next; at != &b->groups && found == 0; at = at->next)
        found = find_in(qt_container(at, qt_balance_group, link), listener, worker);
    pthread_mutex_unlock(&b->lock);
    return found;
}

static void open_handed(void *worker, qt_letter *letter) {
    qt_worker *w = worker;
    qt_handed *handed = qt_container(letter, qt_handed, letter);
    qt_object *object;
    if (qt_handle_find(w, handed->listener, QT_KIND(QUOIT_HANDLE_LISTENER), &object) == 0 && !object->closing)
        qt_listener_take(qt_container(object, qt_listener, object), handed->fd, true);
    else
        close(handed->fd);
    free(handed);
}

static void discard_handed(void *worker, qt_letter *letter) {
    (void)worker;
    qt_handed *handed = qt_container(letter, qt_handed, letter);
    close(handed->fd);
    free(handed);
}

static bool send_handed(const qt_balance_member *to, int fd) {
    qt_shell *shell;
    qt_worker *w;
    if (qt_worker_of_handle(to->worker, &shell, &w) != 0)
        return false;
    bool taken = false;
    qt_handed *handed = qt_mailbox_reserve(&w->mailbox, 1, 0) ? malloc(sizeof *handed) : NULL;
    if (handed != NULL) {
        *handed = (qt_handed){.letter = {.open = open_handed, .discard = discard_handed, .ops = 1},
                              .listener = to->listener,
                              .fd = fd};
        taken = !atomic_load(&w->stop) && qt_mailbox_put(&w->mailbox, &handed->letter);
        if (taken) {
            qt_wake(w);
        } else {
            qt_mailbox_unreserve(&w->mailbox, 1, 0);
            free(handed);
        }
    }
    qt_shell_leave(shell);
    return taken;
}

static qt_balance_member *least(const qt_balance_group *group) {
    qt_balance_member *found = qt_container(group->members.next, qt_balance_member, link);
    for (qt_link *at = found->link.next; at != &group->members; at = at->next) {
        qt_balance_member *member = qt_container(at, qt_balance_member, link);
        if (member->live < found->live)
            found = member;
    }
    return found;
}

bool qt_balance_hand_over(qt_listener *l, int fd) {
    if (l->member == NULL)
        return false;
    qt_balance *b = &l->object.worker->runtime->balance;
    pthread_mutex_lock(&b->lock);
    qt_balance_member *to = least(l->member->group);
    uint64_t mine = (uint64_t)l->member->live + 1;
    bool handed = to != l->member &&
                  mine * 100 > ((uint64_t)to->live + 1) * (100 + (uint64_t)l->skew_percent) &&
                  send_handed(to, fd);
    if (handed)
        to->live++;
    pthread_mutex_unlock(&b->lock);
    if (handed)
        QT_COUNT(l->object.worker, handed_over, 1);
    return handed;
}
