/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Datagrams both ways between a socket of the worker and its peer, each with its account. */
#include "torture.h"

#include <errno.h>
#include <string.h>

#define CHUNK 65536
#define SEGMENTS_MAX 8
/* An op without a cap brings at least so much. */
#define CAP_LEAST 1500

uint32_t post_len(struct lane *lane) {
    static const uint32_t most[] = {100, 1400, 1400, 8000, 30000};
    uint64_t len = lane_random(lane, most[lane_random(lane, 5)]);
    return len < TALLY_HEAD ? 0 : (uint32_t)len;
}

/* UDP drops what the queue at the other end has no room for: never is more on its way. */
static bool fits(const struct lane *lane, uint64_t on_the_way, uint32_t len, uint32_t count) {
    return lane->unix_socket || on_the_way + tally_cost_of(len, count) <= lane->post.room;
}

/* False if there is no room on the way. Form: as in wire_send. */
bool post_send(struct lane *lane, uint32_t len, uint32_t form, uint64_t timeout_ns, struct op **watched) {
    struct post *post = &lane->post;
    struct op *record;
    uint32_t count = 1;
    if (!lane->unix_socket && len >= TALLY_HEAD && len < CAP_LEAST && lane_random(lane, 4) == 0)
        count += (uint32_t)lane_random(lane, SEGMENTS_MAX);
    if (!fits(lane, tally_cost(&post->out) + tally_cost(&post->forwarded), len, count))
        return false;
    quoit_op *op = lane_op(lane, QUOIT_OP_SENDMSG, post->socket, &record);
    record->watched = watched != NULL;
    record->quiet = form >= FORMS && watched == NULL && form % FORMS != BORROW;
    record->segment = count > 1 ? len : 0;
    record->due_ns = lane->world->batch->now_ns + timeout_ns;
    op->flags = record->quiet ? QUOIT_OPF_QUIET : 0;
    op->timeout_ns = timeout_ns;
    op->arg = record->segment;
    uint8_t *bytes = wire_place(lane, op, record, len * count, form % FORMS, sizeof post->there);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = tally_send(&post->out, len);
        tally_fill(&post->out, number, len, bytes + (size_t)i * len);
        record->number = i == 0 ? number : record->number;
    }
    if (!post->connected && op->flags & QUOIT_OPF_ARENA_SEND) {
        op->arg2 = op->addr + len * count;
        memcpy(bytes + (size_t)len * count, &post->there, sizeof post->there);
    } else if (!post->connected) {
        op->arg2 = (uintptr_t)&post->there;
    }
    wire_placed(lane, record, form % FORMS);
    if (watched != NULL)
        *watched = record;
    return true;
}

static uint32_t count_of(const struct op *op) {
    return op->segment != 0 ? op->len / op->segment : 1;
}

static struct tally *tally_of(struct lane *lane, const struct op *op) {
    return op->forwards ? &lane->post.forwarded : &lane->post.out;
}

static void tell(struct lane *lane, const struct op *op, uint64_t left) {
    for (uint32_t i = 0; i < count_of(op); i++)
        tally_told(tally_of(lane, op), op->number + i, i < left);
}

static bool is_quiet(const struct op *op) {
    return op->id != 0 && op->quiet && !op->ended && op->opcode == QUOIT_OP_SENDMSG;
}

void post_quiet_over(struct lane *lane, bool all) {
    for (struct op *op = lane->ops; op < lane->ops + OPS_MAX; op++) {
        if (!is_quiet(op) || (!all && !tally_has_arrived(tally_of(lane, op), op->number, count_of(op))))
            continue;
        tell(lane, op, count_of(op));
        op->id = 0;
    }
}

/* Those that succeed end in the order they were given: QUIET ones before this one have. */
static void quiet_before(struct lane *lane, uint64_t id) {
    for (struct op *op = lane->ops; op < lane->ops + OPS_MAX; op++) {
        if (!is_quiet(op) || op->id > id)
            continue;
        tell(lane, op, count_of(op));
        op->id = 0;
    }
}

void post_sent(struct lane *lane, struct op *op) {
    uint64_t done = op->result < 0 ? op->value : (uint64_t)op->result;
    bool refused = op->result == -ENOBUFS || op->result <= -20000;
    if (op->result >= 0 && op->result != op->len)
        torture_fail(lane, "a sendmsg of %u bytes succeeded with %lld", op->len, (long long)op->result);
    if (op->result < 0 && (done >= op->len + (op->len == 0) || (refused && done != 0)))
        torture_fail(lane, "a sendmsg of %u bytes failed with %s, but %llu are done", op->len,
                     quoit_status_name((quoit_status)op->result), (unsigned long long)done);
    if (done != op->len && (op->segment == 0 ? done != 0 : done % op->segment != 0))
        torture_fail(lane, "a datagram of %u left with %llu bytes", op->len, (unsigned long long)done);
    if (op->result < 0 && !refused && op->result != -ECANCELED && op->result != -ETIMEDOUT)
        torture_fail(lane, "a sendmsg of %u bytes ended with %s", op->len,
                     quoit_status_name((quoit_status)op->result));
    if (op->result < 0 && op->result != -ENOBUFS && refused && !lane->world->stopped)
        torture_fail(lane, "a sendmsg was refused with %s", quoit_status_name((quoit_status)op->result));
    if (op->result < 0 && !refused)
        lane->post.dropped += op->len - done;
    tell(lane, op, op->segment != 0 ? done / op->segment : op->result >= 0);
    if (op->result >= 0)
        quiet_before(lane, op->id);
}

/* Back to where it came from, from where it lies. */
static void forward(struct lane *lane, const quoit_event *event, uint32_t number) {
    struct post *post = &lane->post;
    struct op *record;
    uint64_t on_the_way = tally_cost(&post->out) + tally_cost(&post->forwarded);
    if (!lane_has_room(lane) || !fits(lane, on_the_way, event->len, 1))
        return;
    quoit_op *op = lane_op(lane, QUOIT_OP_SENDMSG, post->socket, &record);
    op->flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET;
    op->addr = event->offset;
    op->len = event->len;
    op->arg2 = event->buffer;
    record->watched = false;
    record->quiet = record->forwards = true;
    record->len = event->len;
    record->number = number;
    tally_forward(&post->forwarded, number, event->len);
}

/* What there was no room for is cut, and says so. */
static bool is_cut_rightly(const struct op *op, const quoit_event *event) {
    if (!(event->flags & QUOIT_EVF_TRUNC))
        return event->len == event->result;
    return (int64_t)event->len < event->result &&
           (op->len != 0 ? event->len == op->len : event->len >= CAP_LEAST);
}

void post_received(struct lane *lane, struct op *op, const quoit_event *event) {
    struct post *post = &lane->post;
    const uint8_t *arena = (const uint8_t *)(uintptr_t)lane->world->batch->recv_base;
    const quoit_addr *from = (const void *)(arena + event->value);
    int64_t number;
    op->bytes++;
    if (!is_cut_rightly(op, event))
        torture_fail(lane, "a datagram of %lld bytes came with %u, flags %x, cap %u",
                     (long long)event->result, event->len, event->flags, op->len);
    if (memcmp(from, &post->there, sizeof *from) != 0)
        torture_fail(lane, "a datagram came from another address than the peer's");
    if (!tally_arrived(&post->in, arena + event->offset, event->len, (uint64_t)event->result, &number))
        post->in.ledger.wrong++;
    bool over = post->close_given || lane->world->stopped;
    if (post->forwards && number >= 0 && !(event->flags & QUOIT_EVF_TRUNC) && !over)
        forward(lane, event, (uint32_t)number);
    /* After the forwarding, which reads from it. */
    if (!(event->flags & QUOIT_EVF_KEPT) || lane->world->stopped)
        return;
    if (post->nkept < KEPT_MAX)
        post->kept[post->nkept++] = event->buffer;
    else
        lane_op(lane, QUOIT_OP_RELEASE, event->buffer, NULL);
}

void post_peer_send(struct lane *lane) {
    struct post *post = &lane->post;
    uint8_t *bytes = lane->world->bytes;
    uint32_t len = post_len(lane);
    if (post->close_given || !fits(lane, tally_cost(&post->in), len, 1))
        return;
    uint32_t number = tally_send(&post->in, len);
    tally_fill(&post->in, number, len, bytes);
    tally_told(&post->in, number, plain_send_to(post->fd, &post->here, bytes, len));
}

void post_peer_recv(struct lane *lane, uint32_t most) {
    struct post *post = &lane->post;
    uint8_t *bytes = lane->world->bytes;
    int64_t number;
    uint16_t port;
    while (most-- > 0) {
        int64_t got = plain_recv_from(post->fd, bytes, CHUNK, &port);
        if (got < 0)
            return;
        lane_moved(lane);
        if (port != post->here.port)
            torture_fail(lane, "a datagram left from another port than the socket's");
        if (!tally_arrived(&post->out, bytes, (uint32_t)got, (uint64_t)got, &number) &&
            !tally_arrived(&post->forwarded, bytes, (uint32_t)got, (uint64_t)got, &number))
            post->out.ledger.wrong++;
    }
}
