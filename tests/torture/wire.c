/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Bytes both ways between a stream and its peer, each with its account. */
#include "torture.h"

#include "pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK 65536
/* How far around the place that is due a byte that is wrong is looked for. */
#define SEARCH 65536

static void give_slices(quoit_op *op, const uint8_t *bytes, uint32_t len, quoit_iov *slices) {
    uint32_t first = len / 3;
    slices[0] = (quoit_iov){(uintptr_t)bytes, first, 0};
    slices[1] = (quoit_iov){(uintptr_t)(bytes + first), len - first, 0};
    op->addr = (uintptr_t)slices;
    op->len = 2;
    op->flags |= QUOIT_OPF_IOV;
}

uint8_t *wire_place(struct lane *lane, quoit_op *op, struct op *record, uint32_t len, enum form form,
                    uint32_t more) {
    static quoit_iov slices[64][2];
    static uint32_t at;
    struct world *world = lane->world;
    quoit_batch *batch = world->batch;
    record->len = len;
    if (form == SCRATCH && batch->scratch_len - world->scratch_used >= len + more) {
        op->flags |= QUOIT_OPF_ARENA_SEND;
        op->addr = batch->scratch_off + world->scratch_used;
        op->len = len;
        world->scratch_used += len + more;
        return (uint8_t *)(uintptr_t)(batch->send_base + op->addr);
    }
    /* Copied ones lie here only until the op is taken, which is in this round. */
    uint8_t *bytes = record->memory = malloc(len + 1);
    if (bytes == NULL)
        abort();
    op->addr = (uintptr_t)bytes;
    op->len = len;
    if (form == BORROW)
        op->flags |= QUOIT_OPF_BORROW;
    else if (form == SLICES)
        give_slices(op, bytes, len, slices[at++ % 64]);
    return bytes;
}

void wire_placed(struct lane *lane, struct op *record, enum form form) {
    struct world *world = lane->world;
    if (record->memory == NULL || form == BORROW)
        return;
    /* What is copied is the library's when the call returns: it must not look again. */
    quoit_status taken = quoit_submit(world->worker, world->nops);
    if (taken != (quoit_status)world->nops)
        torture_fail(lane, "submit: %s", quoit_status_name(taken));
    world->nops = 0;
    memset(record->memory, 0xDD, record->len);
    free(record->memory);
    record->memory = NULL;
}

/* Form: as in the enumeration; from FORMS on the same and QUIET, but BORROW. */
void wire_send(struct lane *lane, uint32_t len, uint32_t form, uint64_t timeout_ns, struct op **watched) {
    struct connection *conn = &lane->conn;
    bool quiet = form >= FORMS && watched == NULL && form % FORMS != BORROW;
    struct op *record;
    uint64_t content;
    quoit_op *op = lane_op(lane, QUOIT_OP_SEND, conn->stream, &record);
    record->watched = watched != NULL;
    record->quiet = quiet;
    record->number = flow_send(&conn->out, len, quiet, NULL, &content);
    op->flags = quiet ? QUOIT_OPF_QUIET : 0;
    op->timeout_ns = timeout_ns;
    if (timeout_ns != 0)
        record->due_ns = lane->world->batch->now_ns + timeout_ns;
    uint8_t *bytes = wire_place(lane, op, record, len, form % FORMS, 0);
    pattern_fill(bytes, conn->out.seed, content, len);
    wire_placed(lane, record, form % FORMS);
    conn->open_sends++;
    if (watched != NULL)
        *watched = record;
}

void wire_echo(struct lane *lane, const quoit_event *event) {
    struct connection *conn = &lane->conn;
    struct op *record;
    uint64_t content;
    quoit_op *op = lane_op(lane, QUOIT_OP_SEND, conn->stream, &record);
    const uint8_t *bytes = (const uint8_t *)(uintptr_t)(lane->world->batch->recv_base + event->offset);
    op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET;
    op->addr = event->offset;
    op->len = event->len;
    op->arg2 = event->buffer;
    record->watched = false;
    record->quiet = true;
    record->len = event->len;
    record->number = flow_send(&conn->out, event->len, true, bytes, &content);
    conn->open_sends++;
}

/* QUIET sends that went well tell nothing: those given before this number are known to be over. */
static void quiet_over(struct lane *lane, uint32_t number) {
    for (uint32_t i = 0; i < OPS_MAX; i++) {
        struct op *op = &lane->ops[i];
        if (op->id != 0 && op->quiet && (int32_t)(op->number - number) < 0) {
            op->id = 0;
            lane->conn.open_sends--;
        }
    }
}

bool wire_settle(struct lane *lane) {
    quiet_over(lane, lane->conn.out.first + lane->conn.out.count);
    return flow_settle(&lane->conn.out);
}

/* A send has told its end. */
void wire_sent(struct lane *lane, struct op *op) {
    struct connection *conn = &lane->conn;
    uint32_t done = op->result < 0 ? (uint32_t)op->value : (uint32_t)op->result;
    if (op->result >= 0 && op->result != op->len)
        torture_fail(lane, "a send of %u bytes succeeded with %lld", op->len, (long long)op->result);
    if (op->result < 0 && op->value >= op->len)
        torture_fail(lane, "a send of %u bytes failed with %s, but %llu are done", op->len,
                     quoit_status_name((quoit_status)op->result), (unsigned long long)op->value);
    bool refused = op->result == -ENOBUFS || op->result <= -20000;
    if (refused && op->value != 0)
        torture_fail(lane, "a send was refused, but %llu bytes are done", (unsigned long long)op->value);
    if (op->result < 0 && !refused)
        conn->dropped += op->len - done;
    if (op->result >= 0 && !flow_sent_before(&conn->out, op->number))
        torture_fail(lane, "a send succeeded before one that was given earlier");
    if (op->result >= 0)
        quiet_over(lane, op->number);
    flow_sent(&conn->out, op->number, done);
    conn->open_sends--;
}

/* Bytes that are not those that are due: are they from before, or from behind a gap? */
static void misplaced(struct lane *lane, const void *data, size_t len) {
    struct connection *conn = &lane->conn;
    struct totals *totals = lane->world->totals;
    size_t probe = len < 16 ? len : 16;
    for (uint64_t off = 1; off < SEARCH; off++) {
        if (conn->in_received >= off &&
            pattern_check(data, conn->seed, conn->in_received - off, probe) == probe) {
            totals->in_doubled += off;
            conn->in_received -= off;
            return;
        }
        if (pattern_check(data, conn->seed, conn->in_received + off, probe) == probe) {
            totals->in_lost += off;
            conn->in_received += off;
            return;
        }
    }
    totals->in_wrong += len;
}

void wire_received(struct lane *lane, const quoit_event *event) {
    struct connection *conn = &lane->conn;
    const void *data = (const void *)(uintptr_t)(lane->world->batch->recv_base + event->offset);
    if (pattern_check(data, conn->seed, conn->in_received, event->len) != event->len)
        misplaced(lane, data, event->len);
    conn->in_received += event->len;
    lane->world->totals->in_bytes += event->len;
}

void wire_peer_send(struct lane *lane, uint32_t len) {
    struct connection *conn = &lane->conn;
    uint8_t *bytes = lane->world->bytes;
    if (conn->fd < 0 || conn->peer_fin || conn->peer_error)
        return;
    if (len > CHUNK)
        len = CHUNK;
    pattern_fill(bytes, conn->seed, conn->in_sent, len);
    ssize_t sent = send(conn->fd, bytes, len, MSG_NOSIGNAL);
    if (sent > 0)
        conn->in_sent += (uint64_t)sent;
    else if (sent < 0 && errno != EAGAIN)
        conn->peer_error = true;
}

void wire_peer_recv(struct lane *lane, size_t most) {
    struct connection *conn = &lane->conn;
    uint8_t *bytes = lane->world->bytes;
    while (most > 0 && conn->fd >= 0 && !conn->peer_ended) {
        size_t room = most < CHUNK ? most : CHUNK;
        ssize_t got = recv(conn->fd, bytes, room, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            conn->peer_ended = true;
            conn->peer_error |= got < 0;
            return;
        }
        flow_arrived(&conn->out, bytes, (size_t)got);
        lane_moved(lane);
        most -= (size_t)got;
        if ((size_t)got < room)
            return;
    }
}

/* Both ends are closed: what each was told goes into the ledger. */
void wire_account(struct lane *lane) {
    struct connection *conn = &lane->conn;
    struct totals *totals = lane->world->totals;
    bool graceful = conn->closed && !conn->torn && !conn->reset && !conn->broken;
    if (graceful && conn->peer_error && !conn->peer_fin)
        conn->out.complete = true;
    if (graceful && conn->peer_ended)
        conn->out.complete = true;
    if (!wire_settle(lane))
        torture_fail(lane, "the stream is closed, but a send has not ended");
    flow_close(&conn->out, &totals->out);
    if (conn->eof && !conn->reset && conn->in_received < conn->in_sent)
        totals->in_lost += conn->in_sent - conn->in_received;
    if (conn->in_received > conn->in_sent)
        totals->in_doubled += conn->in_received - conn->in_sent;
    totals->connections++;
}
