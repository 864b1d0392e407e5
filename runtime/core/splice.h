/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A splice: bytes that go from one object to another, one kernel request at a time. splice.c, splice_pipe.c. */
#ifndef QT_SPLICE_H
#define QT_SPLICE_H

#include "object.h"

/* Through memory at a time: what a stream brings at once, and, of files, more than that, for each chunk may cost a thread's turn. */
#define QT_SPLICE_CHUNK 65536u
#define QT_SPLICE_FILE_CHUNK 262144u

typedef struct qt_splice {
    qt_link link; /* in worker->splices */
    qt_pending *op;
    qt_object *from;
    qt_object *to;
    qt_req *req;   /* the one in flight */
    uint64_t left; /* to take yet */
    int64_t from_at;
    int64_t to_at; /* -1: the file's own, or its end */
    uint64_t taken;
    uint64_t arrived;
    /* taken and not arrived: in memory, then in the pipe */
    uint8_t *block;
    uint32_t at;
    uint32_t ready;
    uint32_t room; /* of the block */
    struct iovec slice;
    uint64_t piped;
    int pipe[2];
    int32_t status; /* why it goes no further */
    bool pipes;     /* its bytes go through a pipe, if they can */
    bool has_pipe;
    bool looked;  /* the source had something when last asked */
    bool turn;    /* what its destination owed before has left */
    bool ended;   /* the source's end was seen */
    bool cut;     /* no more is moved */
    bool writing; /* the request in flight takes bytes to the destination */
} qt_splice;

/* The next step of it, whatever that is; ends it when there is none. */
void qt_splice_advance(qt_splice *sp);
bool qt_splice_request(qt_splice *sp, uint8_t code, int fd,
                       qt_req_fn done); /* fills sp->req; false: no memory */
void qt_splice_submit(qt_splice *sp, bool writes);
/* Takes the request off it; its result. */
int32_t qt_splice_answer(qt_req *req, const qt_completion *c);
void qt_splice_took(qt_splice *sp, int32_t res);
void qt_splice_brought(qt_splice *sp, int32_t res);

bool qt_splice_block(qt_splice *sp);    /* memory to go through; false: there is none */
bool qt_splice_is_passing(int32_t res); /* nothing happened, and it may go on */

/* splice_pipe.c; in: false if it goes through memory */
bool qt_splice_pipe_in(qt_splice *sp);
void qt_splice_pipe_out(qt_splice *sp);
void qt_splice_pipe_drop(qt_splice *sp);

#endif
