/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kinds of object and what each opcode's file offers to the others. */
#ifndef QT_OBJECT_H
#define QT_OBJECT_H

#include "balance.h"
#include "worker.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

/* A part of a stream's send queue. */
typedef struct qt_piece qt_piece;
struct qt_piece {
    qt_piece *next;
    qt_pending *op;
    uint64_t addr;
    uint64_t size; /* QT_PIECE_COPY: as allocated, at `block` */
    void *block;
    uint32_t len;
    uint32_t ref; /* QT_PIECE_BUFFER: buffer index; QT_PIECE_SCRATCH: region */
    uint8_t kind;
    bool last;   /* of its op */
    bool has_fd; /* a descriptor leaves with its first byte */
    bool ends;   /* it is owed, and its op ends with `result` */
    int32_t fd;
    uint64_t flight; /* the newest zero-copy send that reads from it, 0 none */
    int64_t result;
};

typedef struct qt_chain {
    qt_piece *head;
    qt_piece *tail;
    uint64_t bytes;
} qt_chain;

enum {
    QT_PIECE_COPY,
    QT_PIECE_BORROW,
    QT_PIECE_SCRATCH,
    QT_PIECE_BUFFER,
    QT_PIECE_SHUTDOWN,
    QT_PIECE_SPLICE
};

#define QT_GATHER_MAX 128

typedef struct qt_move qt_move;

/* What one sendmsg in flight points at. */
typedef struct qt_send_slot {
    struct msghdr message;
    struct iovec slices[QT_GATHER_MAX];
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
} qt_send_slot;

typedef struct qt_stream {
    qt_object object;
    qt_link dirty_link;
    qt_link starved_link;
    /* receiving */
    qt_pending *recv;
    qt_req *recv_req;
    qt_pending *recv_fd; /* instead of recv; also a splice */
    uint32_t recv_cap;
    uint8_t paused; /* QT_PAUSED_* */
    bool recv_keep;
    bool held_end; /* the end (or error) came while paused */
    bool eof;      /* the peer's FIN was seen */
    int32_t held_error;
    uint32_t *held; /* buffers received while paused by the program */
    uint32_t held_count;
    uint32_t held_capacity;
    uint32_t held_skip; /* bytes of the first that were told already */
    uint64_t kept_bytes;
    qt_timer silence; /* since the kernel's request brought bytes and went on: missed_end.c */
    bool brought_more;
    /* sending */
    qt_piece *send_head;
    qt_piece *send_tail;
    qt_req *send_req;
    qt_send_slot *send_slot;
    bool splicing;        /* a splice is at the head, and under way */
    uint64_t send_flying; /* bytes of the send in flight */
    uint64_t queued;      /* bytes not yet sent */
    uint64_t copied;      /* of them, in memory of ours */
    uint64_t pinned;      /* bytes of receive buffers held by queued sends */
    uint64_t unsent;      /* dropped by an abort */
    qt_link flights;      /* zero-copy sends that the kernel has not let go of */
    uint64_t flight_count;
    qt_piece *owed_head; /* left the queue, and wait for that: to be freed, and their ops to end */
    qt_piece *owed_tail;
    bool copies; /* it has shown that zero copies are not to be had */
    /* closing */
    qt_req *close_req;
    bool fin_sent;
    bool patient; /* its close names no time */
    bool auto_nodelay;
    bool resets;       /* an abort is a RST */
    bool accepted;     /* a drain waits for it */
    uint64_t listener; /* of this worker, that counts it; it may be gone */
    uint64_t home;     /* that accepted it, of any worker */
    qt_move *move;     /* it goes to another worker */
} qt_stream;

/* A SENDMSG on its way; sendmsg.c. */
typedef struct qt_outgoing {
    qt_link link; /* in its socket's waiting or flying list */
    qt_pending *op;
    qt_req *req;
    qt_piece *pieces;
    uint32_t piece_count;
    uint32_t segment; /* bytes of each datagram, 0: it is one */
    bool split;       /* … and each goes by itself */
    bool sent;        /* waits for those before it to end */
    bool blocked;     /* waits for room */
    bool has_fd;      /* a descriptor leaves with it */
    uint8_t shutdown; /* it is none: QUOIT_SHUTDOWN_* */
    int32_t fd;
    uint32_t info_len; /* of the control data, without the segment size */
    struct msghdr header;
    struct iovec *slices;
    struct iovec few[4];
    struct sockaddr_storage name;
    uint64_t control[12];
} qt_outgoing;

/* A datagram socket receives as a stream does, with its pauses, caps and buffers (recv.c); what one buffer brings is read by recvmsg.c. */
typedef struct qt_datagram {
    qt_stream stream; /* first */
    uint16_t family;  /* AF_* */
    uint16_t port;
    uint32_t options; /* QUOIT_BIND_* */
    bool connected;
    bool sequenced;   /* Unix seqpacket: a connection; seqpacket.c */
    bool marks;       /* … whose messages we set to be told with their time */
    bool reset;       /* … that its peer has reset, which no receive has told */
    bool credentials; /* those of each message's sender are asked for */
    /* receiving */
    uint8_t form;          /* QT_FORM_* of the request in flight */
    bool with_credentials; /* … which has room for them */
    uint32_t block;        /* QT_FORM_BLOCK: its buffer's index */
    struct msghdr in;
    struct iovec in_slice;
    struct sockaddr_storage in_name;
    uint64_t in_control[16];
    /* sending */
    qt_link waiting;
    qt_link flying;
    uint32_t flying_count;
    uint32_t blocked; /* of them, those that found no room */
    qt_req *room_req; /* tells when there is some; where nothing does, the timer */
    qt_timer retry;
    bool no_segments; /* the device cannot split what it is given */
} qt_datagram;

/* Pool buffers until further notice; one pool buffer; a block, when none of the pool has room enough. */
enum { QT_FORM_MANY, QT_FORM_ONE, QT_FORM_BLOCK };

#define QT_PAUSED_USER 1u
#define QT_PAUSED_SEND 2u
#define QT_PAUSED_KEPT 4u

typedef struct qt_listener {
    qt_object object;
    qt_pending *accept;
    qt_req *accept_req;
    qt_link stalled_link;
    qt_timer retry;
    qt_req *close_req;
    uint32_t backlog;
    uint32_t last_accepts; /* draining: so many more may come out of the backlog */
    uint32_t streams_max;  /* 0: no bound */
    uint32_t streams_live;
    uint32_t skew_percent;
    bool sequenced;            /* what it accepts are connections of messages */
    qt_balance_member *member; /* null: it hands nothing over */
    int *held;                 /* accepted, and told when there is room or an accept to tell it */
    uint32_t held_count;
    uint32_t held_capacity;
} qt_listener;

typedef struct qt_timer_object {
    qt_object object;
    qt_timer timer;
    int64_t period_ns;
    uint32_t clock; /* QUOIT_CLOCK_*, whose wheel it is in */
} qt_timer_object;

/* A MULTI poll; a one-shot one has no object. */
typedef struct qt_poll {
    qt_object object; /* its fd is the duplicate */
} qt_poll;

/* memory.c: what an op points at */
/* Resolves addr of `len` bytes (pointer, or offset in the scratch region): 0 and *out, or a status. */
quoit_status qt_op_memory(qt_worker *w, const quoit_op *op, uint64_t addr, uint64_t len, const void **out);
quoit_status qt_op_addr(qt_worker *w, const quoit_op *op, uint64_t addr, uint32_t len,
                        struct sockaddr_storage *out, socklen_t *out_len);
quoit_status qt_addr_to_sockaddr(const quoit_addr *addr, struct sockaddr_storage *out, socklen_t *out_len);
quoit_status qt_addr_from_sockaddr(const struct sockaddr_storage *from, socklen_t len, quoit_addr *out);

/* A request of an op or object; null when memory is out. */
qt_req *qt_request(qt_worker *w, uint8_t code, int fd, void *owner, qt_req_fn done);
void qt_submit(qt_worker *w, qt_req *req);
void qt_cancel_request(qt_worker *w, qt_req *req);

/* listener.c, connect.c */
void qt_op_listen(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_accept(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_connect(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_accept_end(qt_pending *p);
void qt_listener_close(qt_listener *l);
void qt_listener_take(qt_listener *l, int fd, bool counted); /* counted: the balance has it already */
bool qt_listener_takes(const qt_listener *l);                /* it could accept one more now */
void qt_listener_arm(qt_listener *l);
void qt_listener_stream_gone(qt_stream *s);
void qt_listener_stream_came(qt_listener *l, qt_stream *s); /* it counts for this one from now on */
bool qt_listener_full(const qt_listener *l);
void qt_listener_free(qt_listener *l);
void qt_listeners_retry(qt_worker *w); /* a file descriptor was closed */
qt_stream *qt_stream_new(qt_worker *w, int fd, int *error);
int qt_set_option(qt_worker *w, int fd, int level, int name, int value); /* 0 or -errno */
void qt_remove_socket(qt_worker *w, const char *path); /* a Unix socket's file, nothing else */
/* Copies the options struct that arg2 points at, if it does; `known` flags. 0 or a status. */
quoit_status qt_op_options(qt_worker *w, const quoit_op *op, void *out, uint32_t size, uint32_t v1_size,
                           uint32_t known);
qt_listener *qt_listener_new(qt_worker *w, int fd, uint32_t backlog, int *error);

/* recv.c */
void qt_op_recv(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_recv_pause(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_recv_resume(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_recv_end(qt_pending *p);
void qt_recv_renew(qt_stream *s); /* what the kernel was asked for is asked anew */
void qt_recv_pause_for(qt_stream *s, uint8_t reason);
void qt_recv_resume_for(qt_stream *s, uint8_t reason);
void qt_recv_auto(qt_stream *s, const qt_pending *accept); /* AUTO_RECV */
/* missed_end.c */
void qt_silence_init(qt_stream *s);
void qt_silence_begin(qt_stream *s); /* bytes came, and the request that brought them waits on */
void qt_silence_end(qt_stream *s);

/* The next bytes that were held back, at most `room`, to other memory: how many. */
uint32_t qt_recv_take_held(qt_stream *s, uint8_t *to, uint32_t room);
void qt_recv_drop(qt_stream *s); /* closing: give back what is held */
void qt_starved_rearm(qt_worker *w);

/* datagram.c */
qt_datagram *qt_datagram_new(qt_worker *w, int fd, int family, int *error);
int qt_datagram_take(qt_worker *w,
                     qt_datagram *d); /* of an adopted one: what it was set to before; 0 or -errno */
void qt_op_bind(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_multicast(qt_worker *w, const quoit_op *op, qt_object *object);

bool qt_option_is_on(qt_worker *w, int fd, int level, int name);

/* seqpacket.c */
#define QT_MARK_SIZE ((uint32_t)CMSG_SPACE(sizeof(struct timeval))) /* control data of each message */
qt_datagram *qt_seqpacket_new(qt_worker *w, int fd, int *error); /* connected; on failure fd is left open */
void qt_seqpacket_leave(qt_worker *w, const qt_datagram *d);     /* detach: as it was found */
bool qt_seqpacket_is_end(const qt_datagram *d, uint64_t whole, uint64_t control_len);
int32_t qt_seqpacket_result(qt_datagram *d,
                            int32_t res); /* of a receive that brought no message: what to make of it */
void qt_seqpacket_discard(qt_datagram *d, qt_req *req);

/* recvmsg.c: the datagram's half of recv.c */
void qt_op_recvmsg(qt_worker *w, const quoit_op *op, qt_object *object);
int qt_recvmsg_fill(qt_datagram *d, qt_req *req); /* 0 or -errno */
/* The block of a request that is over and had no pool buffer, or null. */
qt_buffer *qt_recvmsg_block(qt_datagram *d, bool brought);
void qt_recvmsg_read(qt_datagram *d, qt_buffer *buffer, const qt_packet *packet);

/* sendmsg.c */
void qt_op_sendmsg(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_sendmsg_with(qt_worker *w, const quoit_op *op, qt_object *object,
                     int fd); /* fd: -1, or becomes its */
void qt_sendmsg_shutdown(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_sendmsg_end(qt_pending *p);
void qt_sendmsg_flush(qt_datagram *d);
void qt_sendmsg_retry(qt_timer *timer);
void qt_sendmsg_abort(qt_datagram *d);
void qt_sendmsg_discard(qt_pending *p);

/* send.c, send_queue.c */
void qt_op_send(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_send_with(qt_worker *w, const quoit_op *op, qt_object *object, int fd); /* fd: -1, or becomes its */
uint32_t qt_shutdown_how(uint32_t how); /* from QUOIT_SHUTDOWN_* to SHUT_* */
void qt_op_shutdown(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_send_end(qt_pending *p);
void qt_send_drop_all(qt_stream *s, int32_t status); /* ends every queued op that is not in flight */
void qt_send_flush(qt_worker *w);
void qt_send_mark(qt_stream *s);
void qt_piece_release(qt_stream *s, qt_piece *piece);
void qt_piece_drop_fd(qt_piece *piece);
int qt_pieces_append(qt_stream *s, qt_pending *p, const quoit_op *op, uint32_t *field);
/* The op's pieces as a chain of their own; `in_place`: scratch memory need not be copied. 0, or a status and *field. */
int qt_pieces_make(qt_stream *s, qt_pending *p, const quoit_op *op, bool in_place, uint32_t *field,
                   qt_chain *out);

void qt_send_answered(qt_stream *s, int32_t res, bool asked); /* the send in flight is over */

/* zerocopy.c */
extern const size_t qt_flight_size;
bool qt_zerocopy_fits(const qt_stream *s, const qt_piece *piece);
void qt_flight_begin(qt_stream *s, qt_req *req,
                     uint64_t pieces); /* makes the request one, of so many pieces */
void qt_flights_break(qt_stream *s);   /* makes the kernel let go, by a reset */
/* The piece has left the queue; `ends`: its op has ended with the result. Either waits while the kernel needs the memory. */
void qt_piece_retire(qt_stream *s, qt_piece *piece, bool ends, int64_t result);

/* fds.c */
void qt_op_send_fd(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_recv_fd(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_recv_fd_discard(qt_pending *p);
#define QT_CREDENTIALS_SIZE ((uint32_t)CMSG_SPACE(3 * sizeof(int32_t))) /* control data: pid, uid, gid */
/* Those of a message's sender, if they came with it: pid, uid, gid. */
bool qt_credentials_read(struct msghdr *message, int32_t words[3]);
/* Takes the descriptors that came with a message: up to `most` into fds, the others are closed. How many there were. */
uint32_t qt_fds_take(struct msghdr *message, int32_t *fds, uint32_t most);

/* splice.c, splice_pipe.c */
void qt_op_splice(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_splice_end(qt_pending *p);
void qt_splice_turn(qt_pending *p);
void qt_splice_refuse(qt_pending *p,
                      int32_t status);    /* it has not begun, and its destination can send no more */
void qt_splices_close(qt_object *object); /* the object closes: those to it take no more */
void qt_splices_cut(qt_object *object);   /* those from it and to it end now */
void qt_splice_discard(qt_pending *p);
void qt_pipes_close(qt_worker *w);
extern const size_t qt_splice_size;

/* close.c */
void qt_op_close(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_close_end(qt_pending *p);
void qt_close_progress(qt_stream *s);
void qt_close_advance(qt_object *object); /* something it waited for has happened */
void qt_object_abort(qt_object *object);

/* timers.c */
void qt_op_timer(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_timer_end(qt_pending *p);
void qt_timer_object_free(qt_timer_object *t);

/* files.c, poll.c, offload.c */
void qt_op_open(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_read(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_write(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_fsync(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_poll(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_offload(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_offload_end(qt_pending *p);
void qt_connect_discard(qt_pending *p);
void qt_poll_discard(qt_pending *p);
void qt_file_discard(qt_pending *p);
int qt_run_blocking(void *worker, qt_req *req);
bool qt_cancel_blocking(void *worker, qt_req *req);

/* sockopt.c */
#define QT_SOCKETS                                                                                           \
    (QT_KIND(QUOIT_HANDLE_STREAM) | QT_KIND(QUOIT_HANDLE_LISTENER) | QT_KIND(QUOIT_HANDLE_DATAGRAM))
void qt_op_socket_set(qt_worker *w, const quoit_op *op, qt_object *object);
int qt_socket_take_linger(qt_worker *w, qt_stream *s); /* of an adopted one: 0 or -errno */
quoit_status qt_socket_get(qt_worker *w, const qt_object *object, uint32_t number, int64_t *out);

/* adopt.c */
void qt_op_adopt(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_detach(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_adopted_drop(qt_worker *w, int fd); /* it is closed */
int qt_adopted_add(qt_worker *w, int fd);   /* 0, QUOIT_E_BUSY or -ENOMEM */

/* move.c */
void qt_op_move(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_move_end(qt_pending *p);
void qt_move_advance(qt_stream *s); /* from the flush: lets it go when nothing of it is under way */
/* Ends the move of an object that is moving, now. True: it has left, and the object is no more. */
bool qt_move_settle(qt_object *object, int32_t verdict);
void qt_move_abandon(qt_stream *s); /* the worker ends */

/* post.c */
void qt_op_post(qt_worker *w, const quoit_op *op, qt_object *object);
quoit_status qt_post(qt_worker *w, const quoit_op *ops, uint32_t n);
quoit_status qt_nudge(qt_worker *w);

/* channel.c, hub.c */
void qt_op_channel(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_channel_send(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_channel_recv(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_channel_send_end(qt_pending *p);
void qt_channel_recv_end(qt_pending *p);
uint32_t qt_channel_cancel_sends(qt_worker *w, const quoit_op *op);
void qt_channels_deliver(qt_worker *w, uint32_t most); /* at most so many events */
void qt_channel_close(qt_object *object, bool patient);
uint64_t qt_channel_retire(qt_object *object); /* how many messages were dropped */
qt_hub *qt_hub_new(void);
void qt_hub_close(qt_worker *w, bool forked);

/* buffers.c */
int qt_buffers_init(qt_worker *w);
void qt_buffers_destroy(qt_worker *w);
void qt_buffers_refill(qt_worker *w);
qt_buffer *qt_buffer_received(qt_worker *w, uint32_t bid, uint32_t length, uint64_t owner);
qt_buffer *qt_buffer_at(qt_worker *w, uint32_t index);
uint32_t qt_buffer_index(qt_worker *w, const qt_buffer *buffer);
uint64_t qt_buffer_handle(qt_worker *w, const qt_buffer *buffer);
qt_buffer *qt_buffer_take_large(qt_worker *w, uint32_t length, uint64_t owner);
uint32_t qt_buffer_size(qt_worker *w, const qt_buffer *buffer);
void qt_loans_begin(qt_worker *w); /* of the events now in the batch */
void qt_buffer_lend(qt_worker *w, qt_buffer *buffer);
bool qt_buffer_count_kept(qt_worker *w, qt_buffer *buffer); /* false: over the arena's cap */
void qt_buffer_unkeep(qt_worker *w, qt_buffer *buffer);
void qt_buffer_settle(qt_worker *w, qt_buffer *buffer); /* gives it back if nobody holds it */
void qt_loans_end(qt_worker *w);
quoit_status qt_buffer_find(qt_worker *w, uint64_t handle, qt_buffer **out);
quoit_status qt_buffer_check(qt_worker *w, uint64_t handle, uint64_t offset, uint64_t len, qt_buffer **out);
void qt_op_keep(qt_worker *w, const quoit_op *op, qt_object *object);
void qt_op_release(qt_worker *w, const quoit_op *op, qt_object *object);

/* scratch.c */
int qt_scratch_init(qt_worker *w);
void qt_scratch_destroy(qt_worker *w);
void qt_scratch_next(qt_worker *w); /* names the region that the next ops may use */

#endif
