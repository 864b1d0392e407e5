/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the epoll driver knows of each descriptor, and its registrations. */
#ifndef QT_EPOLL_TABLE_H
#define QT_EPOLL_TABLE_H

#include "driver.h"

#include <sys/epoll.h>

typedef struct qt_fd qt_fd;

struct qt_fd {
    qt_req *in;  /* RECV, DISCARD, ACCEPT or POLL */
    qt_req *out; /* SEND, SENDMSG or CONNECT */
    qt_fd *hot_next;
    qt_fd *hot_prev;
    int32_t fd;
    uint32_t watched; /* mask as we last registered it; 0 when we did not */
    bool hot;
};

#define QT_FD_CHUNK 256

typedef struct qt_fd_table {
    qt_fd **chunks;
    uint32_t chunk_count;
} qt_fd_table;

typedef struct qt_req_list {
    qt_req *head;
    qt_req *tail;
} qt_req_list;

typedef struct qt_epoll {
    qt_driver driver; /* first */
    qt_driver_options options;
    int fd;
    int wake_fd;
    int timer_fd;
    bool no_pwait2;
    int64_t timer_deadline;
    qt_fd_table table;
    qt_req_list fresh; /* submitted since the last enter */
    qt_req_list ready; /* completions to tell */
    qt_fd *hot_head;   /* descriptors to serve */
    qt_fd *hot_tail;
    uint32_t *free; /* pool buffers */
    uint32_t free_count;
} qt_epoll;

qt_fd *qt_fd_at(qt_fd_table *table, int fd); /* null: negative, or memory is out */
void qt_fd_table_destroy(qt_fd_table *table);

/* Registers what its requests wait for; what was registered for receiving stays, to save calls. 0 or -errno. */
int qt_fd_watch(qt_epoll *e, qt_fd *entry);
void qt_fd_unwatch(qt_epoll *e, qt_fd *entry);

/* An event came that no request wants: register less, so that it does not come for ever. */
void qt_fd_quiet(qt_epoll *e, qt_fd *entry, uint32_t events);

/* The descriptor is about to be closed. */
void qt_fd_forget(qt_epoll *e, int fd);

void qt_hot_append(qt_epoll *e, qt_fd *entry); /* no effect on one that is hot */
void qt_hot_remove(qt_epoll *e, qt_fd *entry);

#endif
