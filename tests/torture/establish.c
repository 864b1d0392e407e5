/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Trials that make a connection: accept on a listener of the lane, connect to one of the peer. */
#include "torture.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void begin_listening(struct lane *lane) {
    quoit_op *op = lane_op(lane, QUOIT_OP_LISTEN, 0, &lane->waited);
    lane_address(lane, &lane->addr, "worker");
    op->addr = (uintptr_t)&lane->addr;
    op->len = sizeof lane->addr;
    lane->phase = LISTENING;
}

static void begin_accept(struct lane *lane, struct trial *trial) {
    static const enum cut cuts[] = {BY_CANCEL, BY_CANCEL, BY_DEADLINE, BY_CLOSE, BY_ABORT};
    trial->subject = !lane->unix_socket && lane_random(lane, 3) == 0 ? ACCEPT_MULTI : ACCEPT;
    trial->cut = cuts[lane_random(lane, 5)];
}

/* A listener with no room: what connects waits until those before it are accepted. */
static void fill(struct lane *lane) {
    while (lane->nfillers < 4) {
        int fd = plain_connect_nb(&lane->peer_addr);
        if (fd < 0)
            return;
        lane->fillers[lane->nfillers++] = fd;
    }
    torture_fail(lane, "a listener without a backlog takes more and more");
}

static void begin_connect(struct lane *lane, struct trial *trial) {
    trial->subject = CONNECT;
    trial->cut = lane_random(lane, 5) < 3 ? BY_CANCEL : BY_DEADLINE;
    if (lane->peer_listener < 0) {
        lane_address(lane, &lane->peer_addr, "peer");
        lane->peer_listener = plain_listen(&lane->peer_addr, lane->unix_socket ? 0 : 16);
    }
    if (lane->unix_socket && trial->moment != LATE)
        fill(lane);
    else
        trial->cause_given = true;
}

void establish_begin(struct lane *lane) {
    struct trial *trial = &lane->trial;
    if (lane->listener == 0) {
        lane->unix_socket = lane_random(lane, 3) == 0;
        if (lane->peer_listener >= 0)
            close(lane->peer_listener);
        lane->peer_listener = -1;
        begin_listening(lane);
        return;
    }
    *trial = (struct trial){.moment = (enum moment)lane_random(lane, MOMENTS)};
    lane_random(lane, 3) < 2 ? begin_accept(lane, trial) : begin_connect(lane, trial);
    trial->op_round = (uint32_t)lane_random(lane, 2);
    trial->cause_round = (uint32_t)lane_random(lane, 4);
    trial->cut_round = trial->op_round + (uint32_t)lane_random(lane, 4);
    lane->npeers = 0;
    lane->phase = TRIAL;
}

/* A new stream of the worker's: the lane's own, if it has none yet. */
static void take_stream(struct lane *lane, quoit_handle stream, int fd) {
    if (lane->connected) {
        lane_op(lane, QUOIT_OP_CLOSE, stream, NULL)->flags = QUOIT_OPF_ABORT;
        close(fd);
        return;
    }
    stream_open(lane, stream, fd);
}

static struct peer *peer_of(struct lane *lane, quoit_handle stream) {
    quoit_addr addr = {0};
    if (!lane->unix_socket && quoit_peer_addr(lane->world->worker, stream, &addr) < 0)
        torture_fail(lane, "an accepted connection has no peer address");
    for (uint32_t i = 0; i < lane->npeers; i++)
        if (!lane->peers[i].taken && lane->peers[i].port == addr.port)
            return &lane->peers[i];
    return NULL;
}

static void accepted(struct lane *lane, struct op *op, const quoit_event *event) {
    struct totals *totals = lane->world->totals;
    totals->accepted++;
    op->bytes++;
    struct peer *peer = peer_of(lane, event->value);
    if (peer == NULL) {
        totals->accepts_doubled++;
        torture_fail(lane, "a connection was accepted that nobody made, or twice");
    }
    peer->taken = true;
    if (!lane->world->stopped)
        take_stream(lane, event->value, peer->fd);
    else
        close(peer->fd);
}

void establish_event(struct lane *lane, struct op *op, const quoit_event *event) {
    if (event->kind == QUOIT_OP_ACCEPT && event->result >= 0)
        accepted(lane, op, event);
    if (event->kind == QUOIT_OP_LISTEN && event->result < 0 && !lane->world->stopped)
        torture_fail(lane, "listen: %s", quoit_status_name((quoit_status)event->result));
    if (event->kind == QUOIT_OP_LISTEN && event->result >= 0) {
        lane->listener = event->value;
        if (!lane->unix_socket)
            lane->addr.port = (uint16_t)event->aux;
    }
}

static bool all_taken(const struct lane *lane) {
    for (uint32_t i = 0; i < lane->npeers; i++)
        if (!lane->peers[i].taken)
            return false;
    return true;
}

static void make_connections(struct lane *lane) {
    uint32_t count = lane->trial.subject == ACCEPT_MULTI ? 1 + (uint32_t)lane_random(lane, PEERS_MAX) : 1;
    for (uint32_t i = 0; i < count; i++) {
        struct peer *peer = &lane->peers[lane->npeers];
        *peer = (struct peer){.fd = -1};
        peer->fd = plain_connect(&lane->addr, lane_random(lane, 3) == 0, &peer->port);
        if (peer->fd < 0)
            return; /* the listener is closed */
        lane->npeers++;
        lane->world->totals->made++;
    }
}

static void give_subject(struct lane *lane) {
    struct trial *trial = &lane->trial;
    uint64_t timeout = trial_deadline(lane);
    quoit_op *op;
    if (trial->subject == CONNECT) {
        op = lane_op(lane, QUOIT_OP_CONNECT, 0, &trial->op);
        op->addr = (uintptr_t)&lane->peer_addr;
        op->len = sizeof lane->peer_addr;
    } else {
        op = lane_op(lane, QUOIT_OP_ACCEPT, lane->listener, &trial->op);
        op->flags = trial->subject == ACCEPT_MULTI ? QUOIT_OPF_MULTI : 0;
    }
    op->timeout_ns = timeout;
    trial->op->due_ns = lane->world->batch->now_ns + timeout;
    trial->cut_given = trial->cut == BY_DEADLINE;
    lane_moved(lane);
}

static void give_cause(struct lane *lane) {
    lane->trial.cause_given = true;
    if (lane->trial.subject != CONNECT) {
        make_connections(lane);
    } else {
        /* Room in the peer's listener: what fills it is taken and closed. */
        uint16_t port;
        for (uint32_t i = 0; i < lane->nfillers; i++) {
            int fd = plain_accept(lane->peer_listener, &port);
            if (fd < 0)
                torture_fail(lane, "what fills the peer's listener is not there");
            close(fd);
            close(lane->fillers[i]);
        }
        lane->nfillers = 0;
    }
    lane_moved(lane);
}

static void give_cut(struct lane *lane) {
    struct trial *trial = &lane->trial;
    quoit_op *op;
    trial->cut_given = true;
    trial->told_first =
        trial->op->ended || (trial->subject == ACCEPT_MULTI && trial->cause_given && all_taken(lane));
    if (trial->cut == BY_CANCEL) {
        op = lane_op(lane, QUOIT_OP_CANCEL, trial->subject == CONNECT ? 0 : lane->listener, &trial->cut_op);
        op->arg = trial->subject == CONNECT ? QUOIT_OP_CONNECT : QUOIT_OP_ACCEPT;
        op->arg2 = trial->op->id;
    } else {
        op = lane_op(lane, QUOIT_OP_CLOSE, lane->listener, &trial->cut_op);
        op->flags = trial->cut == BY_ABORT ? QUOIT_OPF_ABORT : 0;
    }
    lane_moved(lane);
}

static void judge(struct lane *lane) {
    struct trial *trial = &lane->trial;
    struct op *op = trial->op, *cut = trial->cut_op;
    assert(op != NULL);
    int64_t verdict = trial->cut == BY_DEADLINE ? -ETIMEDOUT : -ECANCELED;
    if (op->result != 0 && op->result != verdict)
        torture_fail(lane, "%s by %s ended with %s", subject_names[trial->subject], cut_names[trial->cut],
                     quoit_status_name((quoit_status)op->result));
    if (trial->subject == ACCEPT_MULTI && op->result == 0)
        torture_fail(lane, "a MULTI accept ended by itself");
    if (trial->cut == BY_CANCEL) {
        assert(cut != NULL);
        bool won = op->result != 0;
        if (cut->result != 1 && (cut->result != -ENOENT || won))
            torture_fail(lane, "a cancel ended with %s, its op with %s",
                         quoit_status_name((quoit_status)cut->result),
                         quoit_status_name((quoit_status)op->result));
        if (trial->told_first && trial->subject != ACCEPT_MULTI && cut->result != -ENOENT)
            torture_fail(lane, "an op was cancelled after its end");
    } else if (cut != NULL && cut->result != 0) {
        torture_fail(lane, "closing a listener: %s", quoit_status_name((quoit_status)cut->result));
    }
    trial_count(lane, op->result == 0, op->bytes != 0);
}

/* The peer's side of a connect: the last that waits, or the one with the stream's port. */
static int find_connected(struct lane *lane, quoit_handle stream) {
    quoit_addr addr = {0};
    uint16_t port;
    int found = -1;
    if (!lane->unix_socket && quoit_local_addr(lane->world->worker, stream, &addr) < 0)
        torture_fail(lane, "a connected stream has no local address");
    for (int fd = plain_accept(lane->peer_listener, &port); fd >= 0;
         fd = plain_accept(lane->peer_listener, &port)) {
        if (!lane->unix_socket && port != addr.port) {
            close(fd); /* of a connect that was cut */
            continue;
        }
        if (found >= 0)
            close(found);
        found = fd;
    }
    return found;
}

static void drop_waiting(struct lane *lane) {
    uint16_t port;
    for (int fd = plain_accept(lane->peer_listener, &port); fd >= 0;
         fd = plain_accept(lane->peer_listener, &port))
        close(fd);
}

/* A cut connect may have got through: it waits there, closed. */
static void end_connect(struct lane *lane) {
    struct op *op = lane->trial.op;
    if (op->result == 0) {
        int fd = find_connected(lane, op->value);
        if (fd < 0)
            return; /* the last step of the handshake is on its way */
        take_stream(lane, op->value, fd);
    } else {
        drop_waiting(lane);
    }
    lane_forget(&lane->trial.op);
    lane->phase = IDLE;
}

static void step_trial(struct lane *lane) {
    struct trial *trial = &lane->trial;
    bool told = trial->op != NULL && trial->op->ended;
    bool multi = trial->subject == ACCEPT_MULTI;
    if (trial->op == NULL && trial->round >= trial->op_round)
        give_subject(lane);
    if (!trial->cause_given && (trial->moment == EARLY ? told : trial->round >= trial->cause_round))
        give_cause(lane);
    bool late = multi ? trial->cause_given && all_taken(lane) : told;
    if (trial->op != NULL && !trial->cut_given &&
        (trial->moment == LATE ? late : trial->round >= trial->cut_round))
        give_cut(lane);
    if (!told || !trial->cut_given || !trial->cause_given || (trial->cut_op != NULL && !trial->cut_op->ended))
        return;
    judge(lane);
    if (trial->cut == BY_CLOSE || trial->cut == BY_ABORT)
        lane->listener = 0;
    lane_forget(&trial->cut_op);
    lane->phase = FETCHING;
    if (trial->subject == CONNECT)
        return;
    lane_forget(&trial->op);
    if (lane->listener == 0)
        lane->phase = REFUSED;
}

/* What was not accepted by the subject is accepted now: a cut loses no connection. */
static void step_fetching(struct lane *lane) {
    if (lane->trial.subject == CONNECT) {
        end_connect(lane);
        return;
    }
    if (lane->waited != NULL && !lane->waited->ended)
        return;
    if (lane->waited != NULL && lane->waited->result < 0)
        torture_fail(lane, "accept: %s", quoit_status_name((quoit_status)lane->waited->result));
    lane_forget(&lane->waited);
    if (all_taken(lane))
        lane->phase = IDLE;
    else
        lane_op(lane, QUOIT_OP_ACCEPT, lane->listener, &lane->waited);
}

/* The listener was closed: who was not accepted sees an end. */
static void step_refused(struct lane *lane) {
    char byte;
    bool all = true;
    for (uint32_t i = 0; i < lane->npeers; i++) {
        struct peer *peer = &lane->peers[i];
        if (peer->taken)
            continue;
        ssize_t got = recv(peer->fd, &byte, 1, MSG_DONTWAIT);
        if (got > 0)
            torture_fail(lane, "bytes from a connection that was not accepted");
        if (got < 0 && errno == EAGAIN) {
            all = false;
            continue;
        }
        close(peer->fd);
        peer->taken = true;
    }
    if (all)
        lane->phase = IDLE;
}

void establish_step(struct lane *lane) {
    switch (lane->phase) {
    case LISTENING:
        if (!lane->waited->ended)
            return;
        lane_forget(&lane->waited);
        lane->phase = IDLE;
        break;
    case TRIAL:
        step_trial(lane);
        break;
    case FETCHING:
        step_fetching(lane);
        break;
    case REFUSED:
        step_refused(lane);
        break;
    default:
        break;
    }
}

void establish_end(struct lane *lane) {
    for (uint32_t i = 0; i < lane->npeers; i++)
        if (!lane->peers[i].taken)
            close(lane->peers[i].fd);
    for (uint32_t i = 0; i < lane->nfillers; i++)
        close(lane->fillers[i]);
    if (lane->peer_listener >= 0)
        close(lane->peer_listener);
    lane->npeers = lane->nfillers = 0;
    lane->peer_listener = -1;
    lane->phase = DONE;
    if (lane->listener != 0 && !lane->world->stopped)
        lane_op(lane, QUOIT_OP_CLOSE, lane->listener, NULL);
    lane->listener = 0;
}
