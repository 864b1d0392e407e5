/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * torture.h: many lanes over one worker, each with a connection or datagram socket of its own, on which one op after the other (the subject)
 * is met by a cancel, a deadline, a close, an abort, or the peer's end or reset (the cut) at a random moment.
 *
 * What became of the subject is told by its events, not by what was meant:
 *
 *   before   the cut had its way: nothing of the op had come about
 *   during   the op was cut in the middle, or was done although the cut had been asked first
 *   after    the op had told its end before the cut was asked
 *
 * Every choice comes from the seed and the number of the world, so that a run repeats; what the kernel does in between does not.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include "ledger.h"
#include "tally.h"

#include <quoit/quoit.h>
#include <stdbool.h>

enum subject {
    ACCEPT,
    ACCEPT_MULTI,
    CONNECT,
    RECV,
    RECV_MULTI,
    SEND,
    CLOSE,
    /* Of datagram sockets. */
    RECVMSG,
    RECVMSG_MULTI,
    SENDMSG,
    CLOSE_DATAGRAM,
    SUBJECTS
};
enum cut { BY_CANCEL, BY_DEADLINE, BY_CLOSE, BY_ABORT, BY_END, BY_RESET, CUTS };
enum outcome { BEFORE, DURING, AFTER, OUTCOMES };
/* When the cut comes: before what the op waits for, at a random round, or once the op has ended. */
enum moment { EARLY, RANDOM, LATE, MOMENTS };

#define LANES_MAX 64
#define OPS_MAX 32  /* of one lane that are open at once */
#define PEERS_MAX 3 /* connections made for one accept */
#define KEPT_MAX 6
#define STALL_SECONDS 20

/* An op of a lane from its giving to its last event, or until its lane has seen that. */
struct op {
    uint64_t id; /* its user_data, 0: free */
    uint32_t opcode;
    bool ended, quiet;
    bool watched; /* the lane itself forgets it */
    int64_t result;
    uint64_t value;
    uint64_t bytes; /* a receive's, over all its events; of datagrams their number */
    bool eof;
    uint32_t len;     /* a send's; the cap of a recvmsg */
    uint32_t number;  /* in the flow or tally */
    uint32_t segment; /* of a sendmsg that is several datagrams */
    bool forwards;    /* what was received */
    uint64_t due_ns;  /* its deadline */
    uint64_t told_ns;
    void *memory; /* borrowed until it ends */
};

struct connection {
    quoit_handle stream;
    int fd; /* the peer's end, -1 once it is closed */
    bool unix_socket;
    uint64_t seed; /* of what the peer sends; the flow has the next one */
    uint64_t in_sent, in_received;
    struct flow out;
    uint64_t dropped; /* bytes of sends that failed: what the close must tell as unsent */
    uint64_t before_close, queued_at_close;
    uint32_t open_sends;
    bool eof;    /* told to the stream */
    bool broken; /* the stream was told an error */
    bool peer_fin, peer_ended, peer_error;
    bool reset; /* by the peer */
    bool torn;  /* by an abort, a close's deadline, or the worker's stop */
    bool close_given, closed;
    bool echo; /* what arrives is sent back from where it lies */
    quoit_handle kept[KEPT_MAX];
    uint32_t nkept;
};

/* A datagram socket of the worker, and one of the peer's. */
struct post {
    quoit_handle socket;
    int fd;
    bool connected;
    uint64_t room; /* what a UDP socket's queue is sure to hold */
    quoit_addr here, there;
    struct tally in, out, forwarded;
    uint64_t dropped, before_close, queued_at_close; /* bytes, as in a connection */
    bool close_given, closed;
    bool missed;   /* what the peer sent was waited for in vain */
    bool forwards; /* what arrives is sent back from where it lies */
    quoit_handle kept[KEPT_MAX];
    uint32_t nkept;
};

struct peer {
    int fd;
    uint16_t port; /* 0 on a Unix socket */
    bool taken;
};

enum phase { LISTENING, IDLE, TRIAL, FETCHING, REFUSED, SETTLING, ENDING, DONE };

struct trial {
    enum subject subject;
    enum cut cut;
    enum moment moment;
    uint32_t round, op_round, cause_round, cut_round;
    bool cause_given, cut_given, told_first;
    struct op *op, *cut_op;
    bool skip; /* counts as no interleaving */
};

struct lane {
    struct world *world;
    uint32_t index;
    uint64_t random;
    uint64_t serial; /* of its newest op */
    enum phase phase;
    uint64_t since_ns; /* of the last thing that it got done */
    struct op ops[OPS_MAX];
    bool unix_socket;
    quoit_handle listener;
    quoit_addr addr;
    int peer_listener; /* -1 until a connect needs it */
    quoit_addr peer_addr;
    int fillers[4]; /* connections that keep the peer's listener full */
    uint32_t nfillers;
    struct peer peers[PEERS_MAX];
    uint32_t npeers;
    struct trial trial;
    bool datagrams; /* it has no connection but this */
    struct post post;
    struct connection conn;
    bool connected;    /* or its datagram socket is bound */
    struct op *waited; /* what the phase waits for */
    uint64_t trials;
};

struct totals {
    uint64_t outcomes[SUBJECTS][CUTS][OUTCOMES];
    uint64_t interleavings, skipped, worlds, connections;
    uint64_t made, accepted, accepts_lost, accepts_doubled;
    uint64_t in_lost, in_doubled, in_wrong, in_bytes;
    struct ledger out;
    struct ledger datagrams; /* counted in datagrams, both ways */
    uint64_t fds_left, buffers_left, objects_left, ops_left;
};

struct world {
    uint64_t number, seed, random, goal;
    quoit_runtime *runtime;
    quoit_worker *worker;
    quoit_batch *batch;
    uint32_t nops, nlanes;
    uint64_t now_ns, next_seed;
    uint64_t done; /* interleavings of this world */
    bool ending, stopped, moved;
    uint8_t *bytes; /* of ARENA_SEND and peers */
    uint32_t scratch_used;
    struct lane lanes[LANES_MAX];
    struct totals *totals;
};

/* main.c */
extern uint32_t torture_driver;
uint64_t torture_now(void);
_Noreturn void torture_fail(const struct lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
extern const char *const subject_names[SUBJECTS];
extern const char *const cut_names[CUTS];

/* world.c */
void world_run(struct world *world);
uint64_t world_random(uint64_t *state);

/* lane.c */
void lane_step(struct lane *lane);
void lane_event(struct lane *lane, const quoit_event *event);
/* The next op of the array; its record, which is the lane's own if it is watched. */
quoit_op *lane_op(struct lane *lane, uint32_t opcode, quoit_handle target, struct op **watched);
void lane_forget(struct op **op);
uint64_t lane_random(struct lane *lane, uint64_t below);
bool lane_quiet(const struct lane *lane); /* no op of it is open */
void lane_moved(struct lane *lane);
bool lane_has_room(const struct lane *lane);
/* A loopback address that no other lane has: nobody else binds a port that was closed here. Or an abstract name. */
void lane_address(struct lane *lane, quoit_addr *addr, const char *what);
/* Tells what became of the subject, and counts it. */
void trial_count(struct lane *lane, bool whole, bool something);
uint64_t trial_deadline(struct lane *lane);

/* establish.c: the trials that make a connection */
void establish_begin(struct lane *lane);
void establish_step(struct lane *lane);
void establish_event(struct lane *lane, struct op *op, const quoit_event *event);
void establish_end(struct lane *lane); /* closes what the lane listens with */

/* stream.c: the trials on a connection, and its end */
void stream_open(struct lane *lane, quoit_handle stream, int fd);
void stream_begin(struct lane *lane);
void stream_step(struct lane *lane);
void stream_event(struct lane *lane, struct op *op, const quoit_event *event);
void stream_finish(struct lane *lane);

/* datagram.c: the trials on a datagram socket, and its end */
void datagram_bind(struct lane *lane);
void datagram_begin(struct lane *lane);
void datagram_step(struct lane *lane);
void datagram_event(struct lane *lane, struct op *op, const quoit_event *event);
void datagram_finish(struct lane *lane);

/* post.c: datagrams both ways */
bool post_send(struct lane *lane, uint32_t len, uint32_t form, uint64_t timeout_ns, struct op **watched);
void post_sent(struct lane *lane, struct op *op);
void post_received(struct lane *lane, struct op *op, const quoit_event *event);
void post_peer_send(struct lane *lane);
void post_peer_recv(struct lane *lane, uint32_t most);
/* QUIET sends all of whose datagrams are there have ended well; or all that are left, at the socket's end. */
void post_quiet_over(struct lane *lane, bool all);
uint32_t post_len(struct lane *lane);

/* wire.c: bytes both ways */
enum form { COPY, BORROW, SLICES, SCRATCH, FORMS };
/* Where the bytes of a send go, by its form; SCRATCH leaves so many more behind them, or becomes COPY. */
uint8_t *wire_place(struct lane *lane, quoit_op *op, struct op *record, uint32_t len, enum form form,
                    uint32_t more);
/* The bytes are there. */
void wire_placed(struct lane *lane, struct op *record, enum form form);
void wire_send(struct lane *lane, uint32_t len, uint32_t form, uint64_t timeout_ns, struct op **watched);
void wire_echo(struct lane *lane, const quoit_event *event);
void wire_received(struct lane *lane, const quoit_event *event);
void wire_sent(struct lane *lane, struct op *op);
void wire_peer_send(struct lane *lane, uint32_t len);
/* What the peer's socket holds, up to most bytes. */
void wire_peer_recv(struct lane *lane, size_t most);
/* Every send has ended, and the quiet ones went well. False if one that is not quiet is open. */
bool wire_settle(struct lane *lane);
void wire_account(struct lane *lane);

/* peer.c: plain sockets */
int plain_connect(const quoit_addr *addr, bool narrow, uint16_t *port);
int plain_connect_nb(const quoit_addr *addr);
int plain_listen(quoit_addr *addr, int backlog);
int plain_accept(int listener, uint16_t *port);
void plain_reset(int fd);
int plain_bind(quoit_addr *addr);
/* False if its queue is full. */
bool plain_send_to(int fd, const quoit_addr *to, const void *bytes, uint32_t len);
/* The next datagram, its length and its sender's port; -1 when there is none. */
int64_t plain_recv_from(int fd, void *bytes, size_t room, uint16_t *port);
uint32_t plain_fds(void);

#endif
