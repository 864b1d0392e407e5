/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A lane: its ops from giving to end, its phases, and what each trial came to. */
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t lane_random(struct lane *lane, uint64_t below) {
    return world_random(&lane->random) % below;
}

void lane_moved(struct lane *lane) {
    lane->since_ns = lane->world->now_ns;
    lane->world->moved = true;
}

quoit_op *lane_op(struct lane *lane, uint32_t opcode, quoit_handle target, struct op **watched) {
    struct world *world = lane->world;
    if (world->nops == world->batch->ops_max) {
        quoit_status taken = quoit_submit(world->worker, world->nops);
        if (taken != (quoit_status)world->nops)
            torture_fail(lane, "submit: %s", quoit_status_name(taken));
        world->nops = 0;
    }
    quoit_op *op = (quoit_op *)(uintptr_t)world->batch->ops + world->nops++;
    memset(op, 0, sizeof *op);
    op->opcode = opcode;
    op->target = target;
    op->user_data = (uint64_t)lane->index << 32;
    if (opcode == QUOIT_OP_RELEASE)
        return op; /* it tells only failure, and must not fail */
    struct op *record = lane->ops;
    while (record < lane->ops + OPS_MAX && record->id != 0)
        record++;
    if (record == lane->ops + OPS_MAX)
        torture_fail(lane, "too many ops are open");
    lane->serial = (lane->serial + 1) & 0xFFFFFFFF;
    lane->serial += lane->serial == 0;
    op->user_data |= lane->serial;
    *record = (struct op){.id = op->user_data, .opcode = opcode, .watched = watched != NULL};
    if (watched != NULL)
        *watched = record;
    return op;
}

void lane_forget(struct op **op) {
    if (*op != NULL)
        (*op)->id = 0;
    *op = NULL;
}

bool lane_quiet(const struct lane *lane) {
    for (uint32_t i = 0; i < OPS_MAX; i++)
        if (lane->ops[i].id != 0 && !lane->ops[i].ended)
            return false;
    return true;
}

/* Ops of a lane that are open are bounded: what is given besides the subject must leave room. */
bool lane_has_room(const struct lane *lane) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < OPS_MAX; i++)
        open += lane->ops[i].id != 0;
    return open < OPS_MAX / 2;
}

void lane_address(struct lane *lane, quoit_addr *addr, const char *what) {
    uint32_t pid = (uint32_t)getpid();
    *addr = (quoit_addr){.family = QUOIT_FAMILY_V4, .len = 4};
    addr->bytes[0] = 127;
    addr->bytes[1] = (uint8_t)(1 + lane->index);
    addr->bytes[2] = (uint8_t)(pid >> 8);
    addr->bytes[3] = (uint8_t)pid;
    if (!lane->unix_socket)
        return;
    addr->family = QUOIT_FAMILY_UNIX;
    addr->len = (uint32_t)snprintf((char *)addr->bytes, sizeof addr->bytes, "@torture-%d-%llu-%u-%s-%llu",
                                   (int)pid, (unsigned long long)lane->world->number, lane->index, what,
                                   (unsigned long long)lane->trials);
    addr->bytes[0] = 0;
}

static struct op *op_of(struct lane *lane, uint64_t id) {
    for (uint32_t i = 0; i < OPS_MAX; i++)
        if (lane->ops[i].id == id && !lane->ops[i].ended)
            return &lane->ops[i];
    return NULL;
}

void lane_event(struct lane *lane, const quoit_event *event) {
    struct op *op = (event->user_data & 0xFFFFFFFF) != 0 ? op_of(lane, event->user_data) : NULL;
    if (op == NULL || op->opcode != event->kind)
        torture_fail(lane, "an event that answers no open op: kind %u, result %lld, user_data %llx",
                     event->kind, (long long)event->result, (unsigned long long)event->user_data);
    lane_moved(lane);
    if (!(event->flags & QUOIT_EVF_MORE)) {
        op->ended = true;
        op->result = event->result;
        op->value = event->value;
        op->told_ns = lane->world->batch->now_ns;
    }
    uint32_t kind = event->kind;
    if (lane->datagrams)
        datagram_event(lane, op, event);
    else if (kind == QUOIT_OP_LISTEN || kind == QUOIT_OP_ACCEPT || kind == QUOIT_OP_CONNECT)
        establish_event(lane, op, event);
    else
        stream_event(lane, op, event);
    if (op->ended && op->memory != NULL) {
        memset(op->memory, 0xDD, op->len); /* borrowed memory is the program's again */
        free(op->memory);
        op->memory = NULL;
    }
    if (op->ended && !op->watched)
        op->id = 0;
}

static const char *const phase_names[] = {"listening", "idle",     "trial",  "fetching",
                                          "refused",   "settling", "ending", "done"};

/* A lane that has nothing to do begins something, or ends with its world. */
static void step_idle(struct lane *lane) {
    lane_moved(lane);
    if (lane->world->ending && !lane->connected)
        establish_end(lane);
    else if (lane->world->ending)
        lane->phase = ENDING;
    else if (lane->datagrams)
        lane->connected ? datagram_begin(lane) : datagram_bind(lane);
    else
        lane->connected ? stream_begin(lane) : establish_begin(lane);
}

static void check_stall(struct lane *lane) {
    const struct trial *trial = &lane->trial;
    const struct connection *conn = &lane->conn;
    char open[400] = "";
    size_t used = 0;
    if (lane->world->now_ns - lane->since_ns < STALL_SECONDS * 1000000000ull)
        return;
    for (uint32_t i = 0; i < OPS_MAX && used < sizeof open - 40; i++)
        if (lane->ops[i].id != 0)
            used += (size_t)snprintf(open + used, sizeof open - used, " %u%s", lane->ops[i].opcode,
                                     lane->ops[i].ended   ? "(ended)"
                                     : lane->ops[i].quiet ? "(quiet)"
                                                          : "");
    torture_fail(
        lane,
        "nothing has happened for %d s: phase %s, %s by %s, cause %d cut %d; in %llu of %llu, out %llu"
        " outstanding, eof %d broken %d peer ended %d fin %d fd %d close %d closed %d; ops:%s",
        STALL_SECONDS, phase_names[lane->phase], subject_names[trial->subject], cut_names[trial->cut],
        trial->cause_given, trial->cut_given, (unsigned long long)conn->in_received,
        (unsigned long long)conn->in_sent, (unsigned long long)flow_outstanding(&conn->out), conn->eof,
        conn->broken, conn->peer_ended, conn->peer_fin, conn->fd, conn->close_given, conn->closed, open);
}

void lane_step(struct lane *lane) {
    switch (lane->phase) {
    case DONE:
        return;
    case IDLE:
        step_idle(lane);
        break;
    default:
        lane->trial.round += lane->phase == TRIAL;
        if (lane->datagrams)
            datagram_step(lane);
        else if (lane->phase >= SETTLING || (lane->phase == TRIAL && lane->trial.subject > CONNECT))
            stream_step(lane);
        else
            establish_step(lane);
        break;
    }
    check_stall(lane);
}

uint64_t trial_deadline(struct lane *lane) {
    static const uint64_t soon[] = {1, 1, 20000, 50000, 100000, 300000, 1000000};
    if (lane->trial.cut != BY_DEADLINE)
        return 0;
    return lane->trial.moment == LATE ? 3000000 : soon[lane_random(lane, sizeof soon / sizeof *soon)];
}

void trial_count(struct lane *lane, bool whole, bool something) {
    struct trial *trial = &lane->trial;
    struct world *world = lane->world;
    enum outcome outcome = BEFORE;
    if (trial->told_first)
        outcome = AFTER;
    else if (trial->cut == BY_DEADLINE && whole && trial->op->told_ns < trial->op->due_ns)
        outcome = AFTER;
    else if (whole || something)
        outcome = DURING;
    lane->trials++;
    if (trial->skip) {
        world->totals->skipped++;
        return;
    }
    world->totals->outcomes[trial->subject][trial->cut][outcome]++;
    world->totals->interleavings++;
    world->done++;
}
