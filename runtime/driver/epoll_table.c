/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the epoll driver knows of each descriptor, and its registrations. */
#include "epoll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add_chunk(qt_fd_table *table, uint32_t index) {
    if (index >= table->chunk_count) {
        qt_fd **chunks = realloc(table->chunks, (index + 1) * sizeof *chunks);
        if (chunks == NULL)
            return -1;
        memset(chunks + table->chunk_count, 0, (index + 1 - table->chunk_count) * sizeof *chunks);
        table->chunks = chunks;
        table->chunk_count = index + 1;
    }
    qt_fd *chunk = calloc(QT_FD_CHUNK, sizeof *chunk);
    if (chunk == NULL)
        return -1;
    for (uint32_t i = 0; i < QT_FD_CHUNK; i++)
        chunk[i].fd = (int32_t)(index * QT_FD_CHUNK + i);
    table->chunks[index] = chunk;
    return 0;
}

qt_fd *qt_fd_at(qt_fd_table *table, int fd) {
    uint32_t index = (uint32_t)fd / QT_FD_CHUNK;
    if (fd < 0)
        return NULL;
    if ((index >= table->chunk_count || table->chunks[index] == NULL) && add_chunk(table, index) != 0)
        return NULL;
    return &table->chunks[index][(uint32_t)fd % QT_FD_CHUNK];
}

void qt_fd_table_destroy(qt_fd_table *table) {
    for (uint32_t i = 0; i < table->chunk_count; i++)
        free(table->chunks[i]);
    free(table->chunks);
}

static int control(qt_epoll *e, int op, qt_fd *entry, uint32_t mask) {
    struct epoll_event event = {.events = mask, .data.fd = entry->fd};
    return qt_epoll_result(e, epoll_ctl(e->fd, op, entry->fd, &event));
}

/* Our record is wrong after a close(2) of which we were not told and a reuse of the number: then the kernel says so. */
static int set_mask(qt_epoll *e, qt_fd *entry, uint32_t mask) {
    int op = entry->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int error = control(e, op, entry, mask);
    if (error == -ENOENT && op == EPOLL_CTL_MOD)
        error = control(e, EPOLL_CTL_ADD, entry, mask);
    else if (error == -EEXIST && op == EPOLL_CTL_ADD)
        error = control(e, EPOLL_CTL_MOD, entry, mask);
    entry->watched = error ? 0 : mask;
    return error;
}

static uint32_t wanted(const qt_fd *entry) {
    uint32_t mask = entry->out != NULL ? EPOLLOUT : 0;
    if (entry->in != NULL)
        mask |= entry->in->code == QT_REQ_POLL ? entry->in->op_flags : EPOLLIN;
    return mask;
}

int qt_fd_watch(qt_epoll *e, qt_fd *entry) {
    uint32_t mask = wanted(entry);
    /* A poll for nothing but errors: epoll reports errors and hang-ups without being asked. */
    return set_mask(e, entry, mask ? mask : EPOLLERR);
}

void qt_fd_unwatch(qt_epoll *e, qt_fd *entry) {
    if (entry->watched != 0)
        control(e, EPOLL_CTL_DEL, entry, 0);
    entry->watched = 0;
}

/* What was registered for receiving stays though no receive waits: mostly the next one follows before more bytes do. */
void qt_fd_drop_out(qt_epoll *e, qt_fd *entry) {
    uint32_t rest = entry->watched & ~(uint32_t)EPOLLOUT;
    if (rest == 0)
        qt_fd_unwatch(e, entry);
    else if (rest != entry->watched)
        set_mask(e, entry, rest);
}

/* Errors and hang-ups cannot be masked, so a descriptor that nobody waits for leaves the set until somebody does. */
void qt_fd_quiet(qt_epoll *e, qt_fd *entry) {
    uint32_t mask = wanted(entry);
    if (mask == 0)
        qt_fd_unwatch(e, entry);
    else
        set_mask(e, entry, mask);
}

void qt_fd_renew(qt_epoll *e, int fd, int32_t error) {
    qt_fd *entry = qt_fd_at(&e->table, fd);
    if (entry == NULL)
        return;
    qt_hot_remove(e, entry);
    qt_req *ended[] = {entry->in, entry->out};
    entry->in = NULL;
    entry->out = NULL;
    entry->watched = 0;
    for (int i = 0; i < 2; i++)
        if (ended[i] != NULL)
            qt_epoll_complete(e, ended[i], error);
    while (entry->outs.head != NULL) {
        qt_req *req = entry->outs.head;
        qt_req_remove(&entry->outs, req);
        qt_epoll_complete(e, req, error);
    }
}

void qt_hot_append(qt_epoll *e, qt_fd *entry) {
    if (entry->hot)
        return;
    entry->hot = true;
    entry->hot_next = NULL;
    entry->hot_prev = e->hot_tail;
    *(e->hot_tail ? &e->hot_tail->hot_next : &e->hot_head) = entry;
    e->hot_tail = entry;
}

void qt_hot_remove(qt_epoll *e, qt_fd *entry) {
    if (!entry->hot)
        return;
    entry->hot = false;
    *(entry->hot_prev ? &entry->hot_prev->hot_next : &e->hot_head) = entry->hot_next;
    *(entry->hot_next ? &entry->hot_next->hot_prev : &e->hot_tail) = entry->hot_prev;
}
