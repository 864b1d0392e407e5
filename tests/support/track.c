/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "track.h"

#include "cells.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define ALL_EVENT_FLAGS (0x7F | QUOIT_EVF_MESSAGE | QUOIT_EVF_CREDENTIALS)
#define ALL_BATCH_FLAGS 0x7
#define DATA_FLAGS (QUOIT_EVF_LENT | QUOIT_EVF_KEPT | QUOIT_EVF_COPIED)

static bool is_send(uint32_t opcode) {
    return opcode == QUOIT_OP_SEND || opcode == QUOIT_OP_SENDV || opcode == QUOIT_OP_SEND_FD;
}

/* Which refusals are not part of a stream's order: the op never reached the stream. */
static bool was_refused(const quoit_event *event) {
    return event->result <= -20001 || event->result == -105 /* ENOBUFS */;
}

static void check_data(struct pump *pump, const quoit_event *event) {
    uint32_t kinds = event->flags & DATA_FLAGS;
    bool cut = event->kind == QUOIT_OP_RECV_FD && event->flags & QUOIT_EVF_TRUNC; /* a message may be */
    CHECK(event->len == (event->result > 0 ? event->result : 0) || (cut && event->len < event->result));
    if (event->len) {
        CHECK(kinds == QUOIT_EVF_LENT || kinds == QUOIT_EVF_KEPT || kinds == QUOIT_EVF_COPIED);
        CHECK(event->offset + event->len <= pump->batch->recv_size);
        if (kinds != QUOIT_EVF_COPIED)
            CHECK_EQ(quoit_handle_kind(event->buffer), QUOIT_HANDLE_BUFFER);
    } else {
        CHECK(!(kinds & QUOIT_EVF_KEPT));
    }
}

static void collect(struct pump *pump, struct stream *stream, const quoit_event *event) {
    if (stream->len + event->len > stream->room) {
        stream->room = (stream->len + event->len) * 2;
        stream->data = realloc(stream->data, stream->room);
        CHECK(stream->data != NULL);
    }
    memcpy(stream->data + stream->len, event_data(pump, event), event->len);
    stream->len += event->len;
}

/* A receive's event: bytes in order by the running total, nothing while paused, EOF only at the end. */
static void track_recv(struct pump *pump, const quoit_event *event) {
    struct stream *stream = stream_of(pump, event->source);
    bool more = event->flags & QUOIT_EVF_MORE, eof = event->flags & QUOIT_EVF_EOF;
    if (!stream) {
        CHECK(event->result < 0 && !more); /* given to what is no stream */
        return;
    }
    check_data(pump, event);
    if (event->result < 0 && was_refused(event))
        return;
    CHECK(!stream->closed);
    if (event->len || eof)
        CHECK(!stream->paused || stream->resuming);
    if (eof)
        CHECK(!more && event->result >= 0);
    if (!more && event->result == 0 && (op_record(pump, event->user_data)->flags & QUOIT_OPF_MULTI))
        CHECK(eof); /* a MULTI receive ends by the end of the stream or an error */
    if (stream->recv_id != event->user_data) {
        stream->recv_id = event->user_data;
        stream->total = 0;
    }
    stream->total += event->len;
    stream->recv_events++;
    if (event->result >= 0)
        CHECK_EQ(event->value, stream->total);
    if (pump->collect && event->len)
        collect(pump, stream, event);
    if (!more) {
        stream->eof |= eof;
        stream->end = event->result;
        if (stream->accept_id == event->user_data)
            stream->auto_ended = true;
    }
}

/* A datagram's event: the whole length, what is here of it, and whose it is beside it. */
static void track_recvmsg(struct pump *pump, const quoit_event *event) {
    uint32_t kinds = event->flags & DATA_FLAGS;
    if (event->flags & QUOIT_EVF_EOF) /* of a connection: alone, no message is in it */
        CHECK(event->flags == QUOIT_EVF_EOF && event->result == 0);
    if (event->result < 0 || event->flags & QUOIT_EVF_EOF) {
        CHECK(!kinds && !event->len && !event->offset && !event->buffer && !event->value);
        return;
    }
    CHECK(kinds == QUOIT_EVF_LENT || kinds == QUOIT_EVF_KEPT || kinds == QUOIT_EVF_COPIED);
    CHECK(event->offset + event->len <= pump->batch->recv_size);
    CHECK(event->value + sizeof(quoit_addr) <= pump->batch->recv_size);
    CHECK_EQ(event->value % 8, 0);
    CHECK_EQ(event->len < event->result, !!(event->flags & QUOIT_EVF_TRUNC));
    CHECK(event->len <= event->result);
    if (kinds != QUOIT_EVF_COPIED)
        CHECK_EQ(quoit_handle_kind(event->buffer), QUOIT_HANDLE_BUFFER);
    else
        CHECK_EQ(event->buffer, 0);
}

static void track_sendmsg(struct pump *pump, struct op_record *record, const quoit_event *event) {
    if (event->result < 0)
        return;
    CHECK_EQ(event->value, 0);
    for (struct op_record *other = record; other-- > pump->records && record - other < 64;)
        if (other->target == record->target && other->opcode == QUOIT_OP_SENDMSG &&
            !(other->flags & QUOIT_OPF_QUIET))
            CHECK(other->ended);
}

/* An adopted stream is one from then on; a detached or moved one has told its last. */
static void track_descriptor(struct pump *pump, const quoit_event *event) {
    if (event->result < 0) {
        CHECK_EQ(event->value, 0);
        return;
    }
    if (event->kind == QUOIT_OP_ADOPT && quoit_handle_kind(event->value) == QUOIT_HANDLE_STREAM)
        stream_add(pump, event->value);
    else if (event->kind != QUOIT_OP_ADOPT && stream_of(pump, event->source))
        stream_of(pump, event->source)->closed = true;
}

static void track_new_stream(struct pump *pump, struct op_record *record, const quoit_event *event) {
    if (event->result < 0) {
        CHECK_EQ(event->value, 0);
        return;
    }
    CHECK_EQ(event->result, 0);
    CHECK_EQ(event->value >> 48 & 0xFF, pump->handle >> 48 & 0xFF);
    if (quoit_handle_kind(event->value) == QUOIT_HANDLE_DATAGRAM)
        return; /* a connection of messages */
    CHECK_EQ(quoit_handle_kind(event->value), QUOIT_HANDLE_STREAM);
    struct stream *stream = stream_add(pump, event->value);
    stream->accept_id = event->user_data;
    stream->auto_recv = event->kind == QUOIT_OP_ACCEPT && (record->flags & QUOIT_OPF_AUTO_RECV);
}

/* Sends that went well come in the order they were given: none may overtake one still open. */
static void track_send(struct pump *pump, struct op_record *record, const quoit_event *event) {
    if (event->result < 0)
        return;
    CHECK(stream_of(pump, event->source) || quoit_handle_kind(event->source) == QUOIT_HANDLE_DATAGRAM);
    for (struct op_record *other = record; other-- > pump->records && record - other < 64;)
        if (other->target == record->target && is_send(other->opcode) && !(other->flags & QUOIT_OPF_QUIET))
            CHECK(other->ended);
}

static void track_close(struct pump *pump, const quoit_event *event) {
    struct stream *stream = stream_of(pump, event->source);
    if (event->result < 0 || !stream)
        return;
    CHECK(!stream->auto_recv || stream->auto_ended);
    stream->closed = true;
}

static bool may_have_more(const struct op_record *record) {
    return record->flags & QUOIT_OPF_MULTI || record->periodic ||
           (record->opcode == QUOIT_OP_TIMER && record->flags & QUOIT_OPF_ARMED);
}

static void track_op(struct pump *pump, struct op_record *record, const quoit_event *event) {
    bool more = event->flags & QUOIT_EVF_MORE;
    if (record->ended)
        FAIL("op %u has an event after its last: result %lld flags %x", record->opcode,
             (long long)event->result, event->flags);
    CHECK_EQ(event->source, record->target);
    if (record->flags & QUOIT_OPF_QUIET || record->opcode == QUOIT_OP_RELEASE)
        CHECK(event->result < 0);
    if (more)
        CHECK(may_have_more(record) && (event->result >= 0 || event->flags & QUOIT_EVF_MESSAGE));
    if (event->flags & QUOIT_EVF_MESSAGE)
        CHECK_EQ(event->kind, QUOIT_OP_CHANNEL_RECV);
    if (event->flags & QUOIT_EVF_CREDENTIALS)
        CHECK(event->buffer && (event->kind == QUOIT_OP_RECVMSG || event->kind == QUOIT_OP_RECV_FD));
    record->events++;
    record->last = *event;
    record->ended = !more;
    if (!more)
        cells_ended(pump, record);
    struct stream *stream = stream_of(pump, event->source);
    if (stream && stream->closed && event->kind != QUOIT_OP_CLOSE && event->kind != QUOIT_OP_DETACH &&
        event->kind != QUOIT_OP_MOVE) /* an ABORT may follow a close that waited */
        CHECK(event->result < 0);
    if (is_send(event->kind))
        track_send(pump, record, event);
    else if (event->kind == QUOIT_OP_RECV)
        track_recv(pump, event);
    else if (event->kind == QUOIT_OP_RECVMSG)
        track_recvmsg(pump, event);
    else if (event->kind == QUOIT_OP_SENDMSG)
        track_sendmsg(pump, record, event);
    else if (event->kind == QUOIT_OP_ACCEPT || event->kind == QUOIT_OP_CONNECT)
        track_new_stream(pump, record, event);
    else if (event->kind == QUOIT_OP_CLOSE)
        track_close(pump, event);
    else if (event->kind == QUOIT_OP_ADOPT || event->kind == QUOIT_OP_DETACH || event->kind == QUOIT_OP_MOVE)
        track_descriptor(pump, event);
    else if ((event->kind == QUOIT_OP_READ || event->kind == QUOIT_OP_RECV_FD) && event->buffer)
        check_data(pump, event);
    else if (stream && event->kind == QUOIT_OP_RECV_PAUSE && event->result == 0)
        stream->paused = true, stream->resuming = false;
    else if (stream && event->kind == QUOIT_OP_RECV_RESUME && event->result == 0)
        stream->paused = stream->resuming = false;
}

/* A stream of another worker becomes one of this. */
static void track_moved(struct pump *pump, const quoit_event *event) {
    CHECK_EQ(event->flags, 0);
    CHECK_EQ(event->result, 0);
    CHECK_EQ(quoit_handle_kind(event->source), QUOIT_HANDLE_STREAM);
    CHECK(event->source >> 48 != event->value >> 48);
    CHECK_EQ(event->value >> 48 & 0xFF, pump->handle >> 48 & 0xFF);
    stream_add(pump, event->value);
    pump->moved = *event;
    pump->moves++;
}

void track_event(struct pump *pump, const quoit_event *event) {
    struct op_record *record = op_record(pump, event->user_data);
    CHECK(!(event->flags & ~(uint32_t)ALL_EVENT_FLAGS));
    if (event->kind >= QUOIT_KIND_GREASE) {
        CHECK_EQ(event->user_data, UINT64_MAX);
        pump->greased++;
        return;
    }
    if (event->kind == QUOIT_KIND_DRAIN)
        return;
    if (event->kind == QUOIT_KIND_MOVED) {
        track_moved(pump, event);
        return;
    }
    if (event->kind == QUOIT_KIND_MESSAGE) {
        CHECK(!(event->flags & QUOIT_EVF_MORE));
        pump->messages++;
        return;
    }
    if (!record)
        FAIL("an event of kind %u has the unknown user_data %llx", event->kind,
             (unsigned long long)event->user_data);
    CHECK(record->taken);
    if (event->kind == QUOIT_OP_RECVMSG && record->opcode == QUOIT_OP_ACCEPT) {
        CHECK(record->flags & QUOIT_OPF_AUTO_RECV);
        track_recvmsg(pump, event);
        return;
    }
    if (event->kind == QUOIT_OP_RECV && record->opcode == QUOIT_OP_ACCEPT) {
        /* AUTO_RECV: the stream's receive is an op of its own under the accept's user_data. */
        struct stream *stream = stream_of(pump, event->source);
        CHECK(record->flags & QUOIT_OPF_AUTO_RECV);
        CHECK(stream != NULL && stream->auto_recv && stream->accept_id == event->user_data);
        CHECK(!stream->auto_ended);
        track_recv(pump, event);
        return;
    }
    if (record->opcode >= 0x8000) {
        CHECK_EQ(event->kind, QUOIT_KIND_BAD_OP);
        CHECK_EQ(event->aux, record->opcode);
    } else {
        CHECK_EQ(event->kind, record->opcode);
    }
    track_op(pump, record, event);
}

void track_batch(struct pump *pump, int returned) {
    const quoit_batch *batch = pump->batch;
    if (returned < 0)
        FAIL("a turn returned %d %s", returned, quoit_status_name(returned));
    CHECK_EQ(batch->nevents, returned);
    CHECK_EQ(batch->nops, 0);
    CHECK(batch->nevents <= batch->events_max);
    CHECK(!(batch->flags & ~(uint32_t)ALL_BATCH_FLAGS));
    CHECK_EQ(batch->tick, pump->tick + 1);
    CHECK(batch->now_ns >= pump->now_ns);
    CHECK(batch->next_ns >= -1);
    CHECK(batch->scratch_off + batch->scratch_len <= batch->send_size);
    CHECK(batch->scratch_len == 0 || batch->scratch_off > 0); /* an offset of 0 is none */
    pump->tick = batch->tick;
    pump->now_ns = batch->now_ns;
    pump->turns++;
}

void track_ended(struct pump *pump) {
    for (uint32_t i = 0; i < pump->count; i++) {
        const struct op_record *record = &pump->records[i];
        bool quiet = record->flags & QUOIT_OPF_QUIET || record->opcode == QUOIT_OP_RELEASE;
        if (record->taken && !record->ended && !quiet)
            FAIL("op %u on %llx never had its last event (%u events)", record->opcode,
                 (unsigned long long)record->target, record->events);
    }
    for (uint32_t i = 0; i < pump->nstreams; i++)
        if (pump->streams[i]->auto_recv && !pump->streams[i]->auto_ended)
            FAIL("the receive armed by AUTO_RECV on %llx never had its last event",
                 (unsigned long long)pump->streams[i]->handle);
}
