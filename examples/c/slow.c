/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A service whose answers take their time, and which ends without cutting one off: SIGTERM drains it. Whatever a client sends is a
 * request; it is answered with "done" after the delay, and the connection closed.
 * Usage: slow HOST:PORT GRACE_MS DELAY_MS [--driver D] [--buffers N] [--events N]
 */
#include "service.h"

#define SLOTS 65536 /* a stream's number is the low 24 bits of its handle */

static struct {
    quoit_handle stream;
    int busy;
} open_streams[SLOTS];
static uint32_t delay_ms;
static uint64_t answered, cut;
static int in_time;

static uint32_t slot_of(quoit_handle stream) {
    uint32_t slot = (uint32_t)(stream & 0xFFFFFF);
    if (slot >= SLOTS) {
        fprintf(stderr, "More than %d connections at a time.\n", SLOTS);
        exit(1);
    }
    return slot;
}

static void close_stream(service *s, quoit_handle stream) {
    open_streams[slot_of(stream)].stream = 0;
    ask(s, (quoit_op){.opcode = QUOIT_OP_CLOSE, .flags = QUOIT_OPF_QUIET, .target = stream});
}

static void on_data(service *s, const quoit_event *e) {
    uint32_t slot = slot_of(e->source);
    if (open_streams[slot].stream != e->source)
        return; /* it was closed as idle */
    if (e->len > 0 && !open_streams[slot].busy) {
        open_streams[slot].busy = 1;
        ask(s, (quoit_op){.opcode = QUOIT_OP_TIMER,
                          .offset = (int64_t)(delay_ms / 2 + slot * 7 % (delay_ms / 2 + 1)) * 1000000,
                          .user_data = e->source});
    }
    if (!(e->flags & QUOIT_EVF_MORE) && !open_streams[slot].busy)
        close_stream(s, e->source);
}

/* The timer's user_data is the stream that waits for its answer. */
static void answer(service *s, const quoit_event *e) {
    quoit_handle stream = e->user_data;
    if (e->result < 0 || open_streams[slot_of(stream)].stream != stream)
        return;
    answered++;
    ask(s, (quoit_op){.opcode = QUOIT_OP_SEND,
                      .flags = QUOIT_OPF_QUIET,
                      .target = stream,
                      .addr = (uintptr_t) "done",
                      .len = 4});
    close_stream(s, stream);
}

/* Idle connections end at once; those with a request have the grace. */
static void on_drain(service *s, const quoit_event *e) {
    if (!(e->flags & QUOIT_EVF_MORE)) {
        cut = e->value;
        in_time = e->result == 0;
        return;
    }
    printf("draining %" PRIu64 " connections\n", e->value);
    fflush(stdout);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (open_streams[slot].stream != 0 && !open_streams[slot].busy)
            close_stream(s, open_streams[slot].stream);
}

static quoit_status on_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    service *s = ctx;
    (void)worker;
    batch->nops = 0;
    for (uint32_t i = 0; i < batch->nevents; i++) {
        const quoit_event *e = &events_of(batch)[i];
        if (e->kind == QUOIT_KIND_DRAIN)
            on_drain(s, e);
        else if (e->kind == QUOIT_OP_RECV)
            on_data(s, e);
        else if (e->kind == QUOIT_OP_TIMER)
            answer(s, e);
        else if (e->kind == QUOIT_OP_ACCEPT && e->value != 0) {
            open_streams[slot_of(e->value)].stream = e->value;
            open_streams[slot_of(e->value)].busy = 0;
        } else
            common_event(s, e);
    }
    return 0;
}

int main(int argc, char **argv) {
    service s = {0};
    if (argc < 4) {
        fprintf(
            stderr,
            "Usage: %s HOST:PORT GRACE_MS DELAY_MS [--driver D] [--buffers N] [--events N]\n"
            "Answers each request after the delay; on SIGTERM it finishes what it has within the grace.\n",
            argv[0]);
        return 2;
    }
    uint64_t grace_ns = (uint64_t)number_of("GRACE_MS", argv[2]) * 1000000;
    delay_ms = number_of("DELAY_MS", argv[3]);
    service_create(&s, argc, argv, 4);
    quoit_status status = quoit_drain_on_signals(s.runtime, QUOIT_SIGNAL_TERM | QUOIT_SIGNAL_INT, grace_ns);
    if (status < 0)
        die("quoit_drain_on_signals", status);
    service_listen(&s);
    status = quoit_run(s.worker, on_batch, &s);
    printf("{\"answered\":%" PRIu64 ",\"cut\":%" PRIu64 ",\"in_time\":%s}\n", answered, cut,
           in_time ? "true" : "false");
    quoit_worker_destroy(s.worker);
    quoit_runtime_destroy(s.runtime);
    return status < 0 ? 1 : 0;
}
