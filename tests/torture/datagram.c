/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Trials on a datagram socket: receives, sends and closes, each against a cut; then the socket's end. */
#include "torture.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Nothing is on its way so long: what has not arrived is lost. */
#define LOST_SECONDS 8
#define CAP_WHOLE 60000

static uint64_t queue_room(const struct lane *lane) {
    int room;
    socklen_t len = sizeof room;
    if (getsockopt(lane->post.fd, SOL_SOCKET, SO_RCVBUF, &room, &len) != 0)
        torture_fail(lane, "getsockopt: %s", strerror(errno));
    return (uint64_t)room / 2; /* the kernel gives room back late, up to a quarter */
}

void datagram_bind(struct lane *lane) {
    struct post *post = &lane->post;
    uint64_t seed = (lane->world->seed << 32) + 2 * lane->world->next_seed++;
    memset(post, 0, sizeof *post);
    lane->unix_socket = lane_random(lane, 2) == 0;
    post->in.seed = post->forwarded.seed = seed;
    post->out.seed = seed + 1;
    post->connected = lane_random(lane, 2) == 0;
    post->forwards = lane_random(lane, 4) == 0;
    lane_address(lane, &post->there, "mate");
    lane_address(lane, &post->here, "post");
    post->fd = plain_bind(&post->there);
    post->room = queue_room(lane);
    quoit_bind_options options = {.struct_size = sizeof options};
    if (post->connected)
        options.peer = post->there;
    quoit_op *op = lane_op(lane, QUOIT_OP_BIND, 0, &lane->waited);
    op->addr = (uintptr_t)&post->here;
    op->len = sizeof post->here;
    op->arg2 = (uintptr_t)&options;
    if (quoit_submit(lane->world->worker, lane->world->nops) < 0) /* while the options are there */
        torture_fail(lane, "submit failed");
    lane->world->nops = 0;
    lane->phase = LISTENING;
}

void datagram_begin(struct lane *lane) {
    static const enum cut of_recv[] = {BY_CANCEL,   BY_CANCEL,   BY_CANCEL, BY_DEADLINE,
                                       BY_DEADLINE, BY_DEADLINE, BY_CLOSE,  BY_ABORT};
    static const enum cut of_close[] = {BY_CANCEL, BY_DEADLINE, BY_ABORT};
    struct trial *trial = &lane->trial;
    uint64_t kind = lane_random(lane, 20);
    *trial = (struct trial){.moment = (enum moment)lane_random(lane, MOMENTS)};
    trial->subject = kind < 7 ? RECVMSG : kind < 11 ? RECVMSG_MULTI : kind < 18 ? SENDMSG : CLOSE_DATAGRAM;
    trial->cut =
        trial->subject == CLOSE_DATAGRAM ? of_close[lane_random(lane, 3)] : of_recv[lane_random(lane, 8)];
    trial->op_round = (uint32_t)lane_random(lane, 2);
    trial->cause_round = (uint32_t)lane_random(lane, 4);
    trial->cut_round = trial->op_round + (uint32_t)lane_random(lane, 4);
    lane->phase = TRIAL;
}

static void release_kept(struct lane *lane) {
    struct post *post = &lane->post;
    while (post->nkept > 0)
        lane_op(lane, QUOIT_OP_RELEASE, post->kept[--post->nkept], NULL);
}

static void give_close(struct lane *lane, uint32_t flags, uint64_t timeout_ns, struct op **watched) {
    quoit_op *op = lane_op(lane, QUOIT_OP_CLOSE, lane->post.socket, watched);
    op->flags = flags;
    op->timeout_ns = timeout_ns;
    if (watched != NULL)
        (*watched)->due_ns = lane->world->batch->now_ns + timeout_ns;
    lane->post.close_given = true;
}

static void give_recv(struct lane *lane, bool multi, uint32_t cap, uint64_t timeout_ns, struct op **watched) {
    quoit_op *op = lane_op(lane, QUOIT_OP_RECVMSG, lane->post.socket, watched);
    op->flags = (multi ? QUOIT_OPF_MULTI : 0) | (lane_random(lane, 5) == 0 ? QUOIT_OPF_KEEP : 0);
    op->len = (*watched)->len = cap;
    op->timeout_ns = timeout_ns;
    (*watched)->due_ns = lane->world->batch->now_ns + timeout_ns;
}

static uint32_t some_cap(struct lane *lane) {
    uint64_t kind = lane_random(lane, 4);
    return kind < 2 ? 0 : kind == 2 ? CAP_WHOLE : TALLY_HEAD + (uint32_t)lane_random(lane, 500);
}

/* Sends before the subject: on a Unix socket enough to fill the peer's queue now and then. */
static void give_some(struct lane *lane) {
    bool more = true;
    for (uint64_t n = lane_random(lane, 14); n > 0 && more && lane_has_room(lane); n--)
        more = post_send(lane, post_len(lane), (uint32_t)lane_random(lane, 2 * FORMS), 0, NULL);
}

static uint64_t queued_bytes(const struct lane *lane) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < OPS_MAX; i++)
        if (lane->ops[i].id != 0 && !lane->ops[i].ended && lane->ops[i].opcode == QUOIT_OP_SENDMSG)
            sum += lane->ops[i].len;
    return sum;
}

/* False if it must wait: what is on its way fills the peer's queue. */
static bool give_subject(struct lane *lane) {
    struct trial *trial = &lane->trial;
    struct post *post = &lane->post;
    uint64_t timeout = trial_deadline(lane);
    switch (trial->subject) {
    case SENDMSG:
        if (trial->round == trial->op_round)
            give_some(lane);
        if (!post_send(lane, post_len(lane), (uint32_t)lane_random(lane, FORMS), timeout, &trial->op)) {
            post_peer_recv(lane, UINT32_MAX);
            post_quiet_over(lane, false);
            return false;
        }
        break;
    case CLOSE_DATAGRAM:
        give_some(lane);
        post->before_close = post->dropped;
        post->queued_at_close = queued_bytes(lane);
        give_close(lane, 0, timeout, &trial->op);
        break;
    default:
        give_recv(lane, trial->subject == RECVMSG_MULTI, some_cap(lane), timeout, &trial->op);
        break;
    }
    trial->cut_given = trial->cut == BY_DEADLINE;
    lane_moved(lane);
    return true;
}

static bool is_recv(const struct lane *lane) {
    return lane->trial.subject == RECVMSG || lane->trial.subject == RECVMSG_MULTI;
}

/* What the subject waits for: datagrams for a receive, a reader for sends and closes. */
static void give_cause(struct lane *lane) {
    struct trial *trial = &lane->trial;
    if (!trial->cause_given)
        lane_moved(lane);
    if (!is_recv(lane))
        post_peer_recv(lane, trial->moment == LATE ? UINT32_MAX : 1 + (uint32_t)lane_random(lane, 3));
    else if (!trial->cause_given)
        for (uint64_t n = 1 + lane_random(lane, trial->subject == RECVMSG ? 2 : 5); n > 0; n--)
            post_peer_send(lane);
    else if (trial->subject == RECVMSG_MULTI && trial->moment != LATE && lane_random(lane, 4) == 0)
        post_peer_send(lane);
    trial->cause_given = true;
}

/* So late that what has not arrived is lost. */
static bool is_late(struct lane *lane) {
    struct post *post = &lane->post;
    bool late = lane->world->now_ns - lane->since_ns > LOST_SECONDS * 1000000000ull;
    post->missed |= late && post->in.count != 0 && !post->close_given;
    return late;
}

static bool is_over(struct lane *lane) {
    const struct op *op = lane->trial.op;
    if (op == NULL || op->ended || lane->trial.subject != RECVMSG_MULTI)
        return op != NULL && op->ended;
    return lane->trial.cause_given && ((lane->post.in.count == 0 && op->bytes != 0) || is_late(lane));
}

static void give_cut(struct lane *lane) {
    static const uint32_t opcodes[SUBJECTS] = {[RECVMSG] = QUOIT_OP_RECVMSG,
                                               [RECVMSG_MULTI] = QUOIT_OP_RECVMSG,
                                               [SENDMSG] = QUOIT_OP_SENDMSG,
                                               [CLOSE_DATAGRAM] = QUOIT_OP_CLOSE};
    struct trial *trial = &lane->trial;
    trial->cut_given = true;
    trial->told_first = is_over(lane);
    lane_moved(lane);
    if (trial->cut != BY_CANCEL) {
        give_close(lane, trial->cut == BY_ABORT ? QUOIT_OPF_ABORT : 0, 0, &trial->cut_op);
        return;
    }
    quoit_op *op = lane_op(lane, QUOIT_OP_CANCEL, lane->post.socket, &trial->cut_op);
    op->arg = opcodes[trial->subject];
    op->arg2 = trial->op->id;
}

static void judge_cancel(struct lane *lane) {
    struct trial *trial = &lane->trial;
    assert(trial->cut_op != NULL);
    int64_t asked = trial->cut_op->result;
    bool gone = asked == -ENOENT || (trial->subject == CLOSE_DATAGRAM && asked == QUOIT_E_STALE);
    if (asked != 1 && (!gone || trial->op->result == -ECANCELED))
        torture_fail(lane, "a cancel ended with %s, its op with %s", quoit_status_name((quoit_status)asked),
                     quoit_status_name((quoit_status)trial->op->result));
    if (trial->told_first && trial->subject != RECVMSG_MULTI && !gone)
        torture_fail(lane, "an op was cancelled after its end");
}

static void judge(struct lane *lane) {
    struct trial *trial = &lane->trial;
    const struct post *post = &lane->post;
    const struct op *op = trial->op;
    int64_t verdict = trial->cut == BY_DEADLINE ? -ETIMEDOUT : -ECANCELED;
    assert(op != NULL);
    if (trial->cut == BY_CANCEL)
        judge_cancel(lane);
    trial->skip = op->result == -ENOBUFS && trial->subject == SENDMSG; /* the bound on what a socket owes */
    if (op->result < 0 && !trial->skip && (op->result != verdict || trial->subject == CLOSE_DATAGRAM))
        torture_fail(lane, "%s by %s ended with %s", subject_names[trial->subject], cut_names[trial->cut],
                     quoit_status_name((quoit_status)op->result));
    if (op->result < 0 && trial->cut == BY_CLOSE && trial->subject == SENDMSG && !trial->skip)
        torture_fail(lane, "a graceful close dropped a datagram");
    if (trial->subject == CLOSE_DATAGRAM) {
        uint64_t dropped = post->dropped - post->before_close;
        trial_count(lane, dropped == 0, dropped < post->queued_at_close);
    } else {
        trial_count(lane, op->result >= 0, trial->subject == SENDMSG ? op->value != 0 : op->bytes != 0);
    }
}

static void step_trial(struct lane *lane) {
    struct trial *trial = &lane->trial;
    struct post *post = &lane->post;
    if (post->nkept != 0 && lane_random(lane, 3) == 0)
        release_kept(lane); /* at their cap the socket receives no more */
    if (trial->op == NULL && (trial->round < trial->op_round || !give_subject(lane)))
        return;
    bool told = trial->op->ended;
    bool now = trial->moment == EARLY ? told : trial->round >= trial->cause_round;
    if (is_recv(lane) ? now && (!trial->cause_given || !told) : now || post->close_given)
        give_cause(lane);
    if (!trial->cut_given && (trial->moment == LATE ? is_over(lane) : trial->round >= trial->cut_round))
        give_cut(lane);
    if (!told || !trial->cut_given ||
        (trial->cut_op != NULL && !trial->cut_op->ended && trial->cut == BY_CANCEL))
        return;
    judge(lane);
    lane->phase = post->close_given || post->missed ? ENDING : lane_random(lane, 3) == 0 ? SETTLING : IDLE;
    if (trial->cut_op != NULL)
        trial->cut_op->watched = false; /* a close's own end comes later */
    if (trial->cut_op != NULL && trial->cut_op->ended)
        lane_forget(&trial->cut_op);
    lane_forget(&trial->op);
}

static void closed(struct lane *lane, const struct op *op) {
    struct post *post = &lane->post;
    if (op->result == QUOIT_E_CLOSING || op->result == QUOIT_E_STALE)
        return; /* one that hastens a close */
    if (op->result != 0)
        torture_fail(lane, "close: %s", quoit_status_name((quoit_status)op->result));
    post->closed = true;
    post_quiet_over(lane, true);
    if (op->value != post->dropped)
        torture_fail(lane, "the close tells %llu bytes unsent, its sends %llu", (unsigned long long)op->value,
                     (unsigned long long)post->dropped);
}

void datagram_event(struct lane *lane, struct op *op, const quoit_event *event) {
    struct post *post = &lane->post;
    switch (event->kind) {
    case QUOIT_OP_BIND:
        if (event->result < 0 && !lane->world->stopped)
            torture_fail(lane, "bind: %s", quoit_status_name((quoit_status)event->result));
        if (event->result < 0)
            break;
        post->socket = event->value;
        post->here.port = (uint16_t)event->aux;
        lane->connected = true;
        break;
    case QUOIT_OP_RECVMSG:
        if (event->result >= 0)
            post_received(lane, op, event);
        else if (event->result != -ECANCELED && event->result != -ETIMEDOUT)
            torture_fail(lane, "a recvmsg ended with %s", quoit_status_name((quoit_status)event->result));
        break;
    case QUOIT_OP_SENDMSG:
        post_sent(lane, op);
        break;
    case QUOIT_OP_CLOSE:
        closed(lane, op);
        break;
    default:
        break;
    }
}

/* What is on its way arrives, both ways. True when nothing is any more, or so late that it is lost. */
static bool settled(struct lane *lane) {
    struct post *post = &lane->post;
    post_peer_recv(lane, UINT32_MAX);
    post_quiet_over(lane, false);
    if (lane->waited != NULL && lane->waited->ended)
        lane_forget(&lane->waited);
    if (is_late(lane))
        return true;
    if (post->in.count != 0 && !post->close_given && lane->waited == NULL) {
        release_kept(lane); /* or their cap could pause it for ever */
        give_recv(lane, false, CAP_WHOLE, 0, &lane->waited);
        lane_moved(lane);
    }
    bool in = post->in.count == 0 || post->close_given;
    return in && lane->waited == NULL && post->out.count == 0 && post->forwarded.count == 0;
}

static void step_settling(struct lane *lane) {
    struct post *post = &lane->post;
    if (!settled(lane))
        return;
    release_kept(lane);
    bool lost = post->in.count + post->out.count + post->forwarded.count != 0;
    lane->phase = lost ? ENDING : IDLE;
}

static void step_ending(struct lane *lane) {
    struct post *post = &lane->post;
    if (!settled(lane))
        return;
    if (post->nkept != 0)
        release_kept(lane);
    if (!post->close_given)
        give_close(lane, lane_random(lane, 3) == 0 ? QUOIT_OPF_ABORT : 0, 0, NULL);
    if (post->closed && lane_quiet(lane))
        datagram_finish(lane);
}

void datagram_step(struct lane *lane) {
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
    case SETTLING:
        step_settling(lane);
        break;
    default:
        step_ending(lane);
        break;
    }
}

/* The socket is closed. What the peer had sent by then was dropped with it, unless a lost one was waited for before. */
void datagram_finish(struct lane *lane) {
    struct post *post = &lane->post;
    struct ledger *sum = &lane->world->totals->datagrams;
    bool stopped = lane->world->stopped;
    if (post->fd < 0)
        return;
    post_peer_recv(lane, UINT32_MAX);
    post_quiet_over(lane, true);
    close(post->fd);
    post->fd = -1;
    tally_close(&post->in, sum, post->missed);
    tally_close(&post->out, sum, !stopped || lane->unix_socket);
    tally_close(&post->forwarded, sum, !stopped || lane->unix_socket);
    lane->connected = false;
    lane->phase = IDLE;
}
