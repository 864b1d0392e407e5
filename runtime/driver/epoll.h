/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The epoll driver's parts: epoll.c (the driver's calls), epoll_io.c (the requests' system calls) and epoll_table.c (what is
 * known of each descriptor, and its registration).
 */
#ifndef QT_EPOLL_H
#define QT_EPOLL_H

#include "driver.h"

#include <sys/epoll.h>

typedef struct qt_req_list {
    qt_req *head;
    qt_req *tail;
} qt_req_list;

typedef struct qt_fd qt_fd;

struct qt_fd {
    qt_req *in;       /* RECV, RECVMSG, RECV_FD, DISCARD, ACCEPT or POLL */
    qt_req *out;      /* SEND, SENDMSG or CONNECT */
    qt_req_list outs; /* sends given after it, in order */
    qt_fd *hot_next;
    qt_fd *hot_prev;
    int32_t fd;
    uint32_t watched; /* mask as we last registered it; 0 when we did not */
    uint32_t tick;    /* when `served` began to count */
    uint16_t served;
    bool hot;
};

#define QT_FD_CHUNK 256

typedef struct qt_fd_table {
    qt_fd **chunks;
    uint32_t chunk_count;
} qt_fd_table;

/* qt_req.flags, the driver's */
#define QT_EPOLL_READY 0x80u   /* its completion waits in the ready list */
#define QT_EPOLL_STALLED 0x40u /* waits for the time of its next try */

typedef struct qt_epoll {
    qt_driver driver; /* first */
    qt_driver_options options;
    int fd;
    int wake_fd;
    int timer_fd;
    bool no_pwait2;
    bool more;        /* the next wait is known to show more: it was cut off, or a descriptor had its share */
    bool ready_first; /* whose turn it is in harvest */
    uint32_t tick;
    int64_t timer_deadline; /* what timer_fd is set to; -1: it is not */
    int64_t retry_ns;       /* when the stalled try again */
    qt_fd_table table;
    qt_req_list fresh;   /* submitted since the last enter */
    qt_req_list ready;   /* completions to tell */
    qt_req_list stalled; /* nothing tells when these may go on */
    qt_fd *hot_head;     /* descriptors to serve */
    qt_fd *hot_tail;
    uint32_t *free; /* pool buffers */
    uint32_t free_count;
} qt_epoll;

/* epoll_table.c */

qt_fd *qt_fd_at(qt_fd_table *table, int fd); /* null: negative, or memory is out */
void qt_fd_table_destroy(qt_fd_table *table);

/* Registers what its requests wait for. Asks the kernel even when our record says that nothing changes: the record may be of
 * an older file with the same number. 0 or -errno. */
int qt_fd_watch(qt_epoll *e, qt_fd *entry);
void qt_fd_unwatch(qt_epoll *e, qt_fd *entry);

/* Its out request is over. */
void qt_fd_drop_out(qt_epoll *e, qt_fd *entry);

/* An event came that no request wants: register less, so that it does not come for ever. */
void qt_fd_quiet(qt_epoll *e, qt_fd *entry);

/* The number means another file from now on: requests that wait for the old one end in `error`. */
void qt_fd_renew(qt_epoll *e, int fd, int32_t error);

void qt_hot_append(qt_epoll *e, qt_fd *entry); /* no effect on one that is hot */
void qt_hot_remove(qt_epoll *e, qt_fd *entry);

/* epoll_io.c */

void qt_req_append(qt_req_list *list, qt_req *req);
void qt_req_remove(qt_req_list *list, qt_req *req);

/* Counts a system call and turns its result into one of ours. Errors are read from errno. */
int32_t qt_epoll_result(qt_epoll *e, long result);

/* The request's one last completion, told by a later harvest; or at once, from within harvest. */
void qt_epoll_complete(qt_epoll *e, qt_req *req, int32_t res);
void qt_epoll_tell(qt_req *req, int32_t res);

void qt_epoll_start(qt_epoll *e, qt_req *req);
void qt_epoll_detach(qt_epoll *e, qt_req *req); /* takes a waiting request off its descriptor */
void qt_epoll_retry_out(qt_epoll *e, qt_fd *entry);
void qt_epoll_next_out(qt_epoll *e, int fd); /* its out request is over: those behind it */

/* Serves the in request of a descriptor that may be readable, once. Returns QT_SERVED_* */
unsigned qt_epoll_serve(qt_epoll *e, qt_fd *entry);

#define QT_SERVED_TOLD 1u  /* a completion was told */
#define QT_SERVED_AGAIN 2u /* it may have more */

#endif
