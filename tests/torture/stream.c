/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Trials on a connection: receives, sends and closes, each against a cut; then the connection's end. */
#include "torture.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void stream_open(struct lane *lane, quoit_handle stream, int fd) {
    struct connection *conn = &lane->conn;
    uint64_t seed = (lane->world->seed << 32) + 2 * lane->world->next_seed++;
    *conn = (struct connection){.stream = stream, .fd = fd, .seed = seed, .unix_socket = lane->unix_socket};
    conn->out.seed = seed + 1;
    conn->echo = lane_random(lane, 4) == 0;
    lane->connected = true;
}

void stream_begin(struct lane *lane) {
    static const enum cut of_recv[] = {BY_CANCEL,   BY_CANCEL,   BY_CANCEL, BY_CANCEL, BY_CANCEL, BY_DEADLINE,
                                       BY_DEADLINE, BY_DEADLINE, BY_CLOSE,  BY_ABORT,  BY_END,    BY_RESET};
    static const enum cut of_send[] = {BY_CANCEL,   BY_CANCEL, BY_CANCEL, BY_CANCEL, BY_CANCEL, BY_DEADLINE,
                                       BY_DEADLINE, BY_CLOSE,  BY_ABORT,  BY_ABORT,  BY_RESET};
    static const enum cut of_close[] = {BY_CANCEL, BY_DEADLINE, BY_ABORT, BY_ABORT, BY_RESET};
    struct trial *trial = &lane->trial;
    uint64_t kind = lane_random(lane, 20);
    *trial = (struct trial){.moment = (enum moment)lane_random(lane, MOMENTS)};
    trial->subject = kind < 7 ? RECV : kind < 11 ? RECV_MULTI : kind < 18 ? SEND : CLOSE;
    trial->cut = trial->subject == SEND    ? of_send[lane_random(lane, sizeof of_send / sizeof *of_send)]
                 : trial->subject == CLOSE ? of_close[lane_random(lane, sizeof of_close / sizeof *of_close)]
                                           : of_recv[lane_random(lane, sizeof of_recv / sizeof *of_recv)];
    trial->op_round = (uint32_t)lane_random(lane, 2);
    trial->cause_round = (uint32_t)lane_random(lane, 4);
    trial->cut_round = trial->op_round + (uint32_t)lane_random(lane, 4);
    lane->phase = TRIAL;
}

static void release_kept(struct lane *lane) {
    struct connection *conn = &lane->conn;
    while (conn->nkept > 0)
        lane_op(lane, QUOIT_OP_RELEASE, conn->kept[--conn->nkept], NULL);
}

static uint32_t some_bytes(struct lane *lane) {
    static const uint32_t most[] = {16, 300, 3000, 3000, 20000};
    return 1 + (uint32_t)lane_random(lane, most[lane_random(lane, 5)]);
}

static uint32_t send_len(struct lane *lane) {
    static const uint32_t most[] = {100, 2000, 2000, 30000, 100000};
    uint32_t len = 1 + (uint32_t)lane_random(lane, most[lane_random(lane, 5)]);
    return lane->conn.unix_socket && len > 50000 ? len * 3 : len;
}

static void give_close(struct lane *lane, uint32_t flags, uint64_t timeout_ns, struct op **watched) {
    struct connection *conn = &lane->conn;
    quoit_op *op = lane_op(lane, QUOIT_OP_CLOSE, conn->stream, watched);
    op->flags = flags;
    op->timeout_ns = timeout_ns;
    if (watched != NULL)
        (*watched)->due_ns = lane->world->batch->now_ns + timeout_ns;
    conn->close_given = true;
    conn->torn |= flags != 0 || timeout_ns != 0;
}

static void give_recv(struct lane *lane, bool multi, uint64_t timeout_ns, struct op **watched) {
    quoit_op *op = lane_op(lane, QUOIT_OP_RECV, lane->conn.stream, watched);
    op->flags = (multi ? QUOIT_OPF_MULTI : 0) | (lane_random(lane, 5) == 0 ? QUOIT_OPF_KEEP : 0);
    op->len = lane_random(lane, 4) == 0 ? 1 + (uint32_t)lane_random(lane, 500) : 0;
    op->timeout_ns = timeout_ns;
    (*watched)->due_ns = lane->world->batch->now_ns + timeout_ns;
}

static void give_subject(struct lane *lane) {
    struct trial *trial = &lane->trial;
    struct connection *conn = &lane->conn;
    uint64_t timeout = trial_deadline(lane);
    switch (trial->subject) {
    case SEND:
        for (uint64_t n = lane_random(lane, 4); n > 0 && lane_has_room(lane); n--)
            wire_send(lane, send_len(lane), (uint32_t)lane_random(lane, 8), 0, NULL);
        wire_send(lane, send_len(lane), (uint32_t)lane_random(lane, 4), timeout, &trial->op);
        break;
    case CLOSE:
        for (uint64_t n = lane_random(lane, 5); n > 0 && lane_has_room(lane); n--)
            wire_send(lane, send_len(lane), (uint32_t)lane_random(lane, 4), 0, NULL);
        conn->before_close = conn->dropped;
        conn->queued_at_close = 0;
        for (uint32_t i = 0; i < OPS_MAX; i++)
            if (lane->ops[i].id != 0 && !lane->ops[i].ended && lane->ops[i].opcode == QUOIT_OP_SEND)
                conn->queued_at_close += lane->ops[i].len;
        give_close(lane, 0, timeout, &trial->op);
        break;
    default:
        give_recv(lane, trial->subject == RECV_MULTI, timeout, &trial->op);
        break;
    }
    trial->cut_given = trial->cut == BY_DEADLINE;
    lane_moved(lane);
}

static void close_peer(struct lane *lane) {
    if (lane->conn.fd >= 0)
        close(lane->conn.fd);
    lane->conn.fd = -1;
    lane_moved(lane);
}

/* What the subject waits for: bytes for a receive, a reader for sends and closes. */
static void give_cause(struct lane *lane, bool first) {
    struct trial *trial = &lane->trial;
    struct connection *conn = &lane->conn;
    if (first)
        lane_moved(lane);
    trial->cause_given = true;
    if (trial->subject == RECV || trial->subject == RECV_MULTI) {
        if (first || (trial->subject == RECV_MULTI && trial->moment != LATE && lane_random(lane, 4) == 0))
            wire_peer_send(lane, some_bytes(lane));
        return;
    }
    wire_peer_recv(lane, trial->moment == LATE ? SIZE_MAX : 1 + lane_random(lane, 20000));
    if (conn->peer_ended)
        close_peer(lane);
}

static bool is_over(const struct lane *lane) {
    const struct trial *trial = &lane->trial;
    const struct connection *conn = &lane->conn;
    if (trial->op == NULL)
        return false;
    if (trial->op->ended || trial->subject != RECV_MULTI)
        return trial->op->ended;
    return trial->cause_given && conn->in_received == conn->in_sent && trial->op->bytes != 0;
}

static void give_cut(struct lane *lane) {
    struct trial *trial = &lane->trial;
    struct connection *conn = &lane->conn;
    static const uint32_t opcodes[SUBJECTS] = {[RECV] = QUOIT_OP_RECV,
                                               [RECV_MULTI] = QUOIT_OP_RECV,
                                               [SEND] = QUOIT_OP_SEND,
                                               [CLOSE] = QUOIT_OP_CLOSE};
    quoit_op *op;
    trial->cut_given = true;
    trial->told_first = is_over(lane);
    lane_moved(lane);
    switch (trial->cut) {
    case BY_CANCEL:
        op = lane_op(lane, QUOIT_OP_CANCEL, conn->stream, &trial->cut_op);
        op->arg = opcodes[trial->subject];
        op->arg2 = trial->op->id;
        conn->torn |= trial->subject == CLOSE;
        break;
    case BY_CLOSE:
        give_close(lane, 0, 0, &trial->cut_op);
        break;
    case BY_ABORT:
        give_close(lane, QUOIT_OPF_ABORT, 0, &trial->cut_op);
        break;
    case BY_END:
        if (conn->fd >= 0)
            shutdown(conn->fd, SHUT_WR);
        conn->peer_fin = true;
        break;
    default:
        if (conn->fd >= 0)
            plain_reset(conn->fd);
        conn->fd = -1;
        conn->reset = true;
        break;
    }
}

/* Whether a result is one that the cut may bring. */
static bool is_verdict(const struct lane *lane, int64_t result) {
    switch (lane->trial.cut) {
    case BY_DEADLINE:
        return result == -ETIMEDOUT;
    case BY_END:
        return false;
    case BY_RESET:
        return result == -ECONNRESET || result == -EPIPE;
    default:
        return result == -ECANCELED;
    }
}

static void judge_cancel(struct lane *lane, bool cancelled) {
    struct trial *trial = &lane->trial;
    assert(trial->cut_op != NULL);
    int64_t asked = trial->cut_op->result;
    bool gone = asked == -ENOENT || (trial->subject == CLOSE && asked == QUOIT_E_STALE);
    if (asked != 1 && (!gone || cancelled))
        torture_fail(lane, "a cancel ended with %s, its op with %s", quoit_status_name((quoit_status)asked),
                     quoit_status_name((quoit_status)trial->op->result));
    if (trial->told_first && trial->subject != RECV_MULTI && !gone)
        torture_fail(lane, "an op was cancelled after its end");
}

static void judge_close(struct lane *lane) {
    struct connection *conn = &lane->conn;
    uint64_t dropped = conn->dropped - conn->before_close, queued = conn->queued_at_close;
    if (lane->trial.op->result != 0)
        torture_fail(lane, "close: %s", quoit_status_name((quoit_status)lane->trial.op->result));
    trial_count(lane, dropped == 0, dropped < queued);
}

static void judge(struct lane *lane) {
    struct trial *trial = &lane->trial;
    struct op *op = trial->op;
    assert(op != NULL);
    bool good = op->result >= 0;
    if (trial->cut == BY_CANCEL)
        judge_cancel(lane, op->result == -ECANCELED);
    if (trial->subject == CLOSE) {
        judge_close(lane);
        return;
    }
    trial->skip = op->result == -ENOBUFS && trial->subject == SEND; /* the bound on what a stream owes */
    if (!good && !trial->skip && !is_verdict(lane, op->result))
        torture_fail(lane, "%s by %s ended with %s", subject_names[trial->subject], cut_names[trial->cut],
                     quoit_status_name((quoit_status)op->result));
    if (!good && trial->cut == BY_CLOSE && trial->subject == SEND && !trial->skip)
        torture_fail(lane, "a graceful close dropped a send");
    bool end = op->eof && op->bytes == 0;
    if (trial->subject == SEND)
        trial_count(lane, good, op->value != 0);
    else
        trial_count(lane, good && !end, op->bytes != 0);
}

static void step_trial(struct lane *lane) {
    struct trial *trial = &lane->trial;
    struct connection *conn = &lane->conn;
    bool recv = trial->subject == RECV || trial->subject == RECV_MULTI;
    if (conn->nkept != 0 && lane_random(lane, 3) == 0)
        release_kept(lane); /* at their cap the stream receives no more */
    if (trial->op == NULL && trial->round >= trial->op_round)
        give_subject(lane);
    bool told = trial->op != NULL && trial->op->ended;
    bool now = trial->moment == EARLY ? told : trial->round >= trial->cause_round;
    if (recv ? now && (!trial->cause_given || !told) : now)
        give_cause(lane, !trial->cause_given);
    if (recv && (trial->cut_given || trial->moment == LATE)) /* a stream that owes much does not receive */
        wire_peer_recv(lane, SIZE_MAX);
    if (!recv && conn->close_given) /* what a graceful close waits for */
        give_cause(lane, false);
    if (trial->op != NULL && !trial->cut_given &&
        (trial->moment == LATE ? is_over(lane) : trial->round >= trial->cut_round))
        give_cut(lane);
    if (!told || !trial->cut_given ||
        (trial->cut_op != NULL && !trial->cut_op->ended && trial->cut == BY_CANCEL))
        return;
    judge(lane);
    lane->phase = lane_random(lane, 3) == 0 ? SETTLING : IDLE;
    if (conn->close_given || conn->peer_fin || conn->reset || conn->broken || conn->peer_ended)
        lane->phase = ENDING;
    if (trial->cut_op != NULL)
        trial->cut_op->watched = false; /* a close's own end comes later */
    if (trial->cut_op != NULL && trial->cut_op->ended)
        lane_forget(&trial->cut_op);
    lane_forget(&trial->op);
}

static void received(struct lane *lane, struct op *op, const quoit_event *event) {
    struct connection *conn = &lane->conn;
    if (event->len != 0)
        wire_received(lane, event);
    op->bytes += event->len;
    if (event->result != (event->result < 0 ? event->result : (int64_t)event->len))
        torture_fail(lane, "a receive tells %lld bytes and brings %u", (long long)event->result, event->len);
    if (event->flags & QUOIT_EVF_EOF)
        conn->eof = op->eof = true;
    if (event->result < 0 && event->result != -ECANCELED && event->result != -ETIMEDOUT)
        conn->broken = true;
    if (conn->echo && event->len != 0 && event->buffer != 0 && !conn->close_given && !lane->world->stopped &&
        lane_has_room(lane))
        wire_echo(lane, event);
    /* After the echo, which reads from it. */
    if (event->flags & QUOIT_EVF_KEPT) {
        if (conn->nkept < KEPT_MAX && !lane->world->stopped)
            conn->kept[conn->nkept++] = event->buffer;
        else if (!lane->world->stopped)
            lane_op(lane, QUOIT_OP_RELEASE, event->buffer, NULL);
    }
}

static void sent(struct lane *lane, struct op *op) {
    struct connection *conn = &lane->conn;
    wire_sent(lane, op);
    bool broken = op->result == -EPIPE || op->result == -ECONNRESET;
    if (broken && !conn->reset && conn->fd >= 0)
        torture_fail(lane, "a send failed with %s, but the peer is there",
                     quoit_status_name((quoit_status)op->result));
    if (op->result < 0 && !broken && op->result != -ECANCELED && op->result != -ETIMEDOUT &&
        op->result != -ENOBUFS && !(lane->world->stopped && op->result == QUOIT_E_CLOSING))
        torture_fail(lane, "a send ended with %s", quoit_status_name((quoit_status)op->result));
    conn->broken |= broken;
}

static void closed(struct lane *lane, struct op *op) {
    struct connection *conn = &lane->conn;
    if (!lane->connected)
        return; /* a listener, or a connection too many */
    if (op->result == QUOIT_E_CLOSING || op->result == QUOIT_E_STALE)
        return; /* one that hastens a close */
    conn->closed = true;
    if (!wire_settle(lane))
        torture_fail(lane, "a stream's close came before the end of its sends");
    if (op->value != conn->dropped)
        torture_fail(lane, "the close tells %llu bytes unsent, its sends %llu", (unsigned long long)op->value,
                     (unsigned long long)conn->dropped);
}

void stream_event(struct lane *lane, struct op *op, const quoit_event *event) {
    switch (event->kind) {
    case QUOIT_OP_RECV:
        received(lane, op, event);
        break;
    case QUOIT_OP_SEND:
        sent(lane, op);
        break;
    case QUOIT_OP_CLOSE:
        if (event->source == lane->conn.stream)
            closed(lane, op);
        break;
    default:
        break;
    }
}

/* The peer reads until it has all, the stream receives until it has all. */
static bool settled(struct lane *lane, bool read) {
    struct connection *conn = &lane->conn;
    if (read)
        wire_peer_recv(lane, SIZE_MAX);
    if (lane->waited != NULL && lane->waited->ended)
        lane_forget(&lane->waited);
    if (lane->waited != NULL)
        return false;
    bool wants = conn->peer_fin ? !conn->eof : conn->in_received < conn->in_sent;
    if (wants && !conn->broken && !conn->close_given) {
        release_kept(lane); /* or their cap could pause it for ever */
        give_recv(lane, false, 0, &lane->waited);
        lane_moved(lane);
        return false;
    }
    return true;
}

static void step_settling(struct lane *lane) {
    struct connection *conn = &lane->conn;
    if (!settled(lane, true) || (flow_outstanding(&conn->out) != 0 && !conn->peer_ended))
        return;
    if (conn->peer_ended || conn->broken) {
        lane->phase = ENDING;
        return;
    }
    if (!wire_settle(lane))
        return; /* all has arrived, but a send has not told so yet */
    release_kept(lane);
    lane->phase = IDLE;
}

static void step_ending(struct lane *lane) {
    struct connection *conn = &lane->conn;
    if (!settled(lane, true))
        return;
    if (conn->nkept != 0)
        release_kept(lane);
    if (!conn->close_given)
        give_close(lane, lane_random(lane, 3) == 0 ? QUOIT_OPF_ABORT : 0, 0, NULL);
    if (conn->peer_ended)
        close_peer(lane);
    if (conn->closed && conn->fd < 0 && lane_quiet(lane))
        stream_finish(lane);
}

void stream_step(struct lane *lane) {
    if (lane->phase == TRIAL)
        step_trial(lane);
    else if (lane->phase == SETTLING)
        step_settling(lane);
    else
        step_ending(lane);
}

void stream_finish(struct lane *lane) {
    close_peer(lane);
    wire_account(lane);
    lane->connected = false;
    lane->phase = IDLE;
}
