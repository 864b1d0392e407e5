/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * TCP echo on three workers behind one listener: each connection goes to the worker that has the fewest.
 * Usage: balance HOST:PORT [--driver D] [--buffers N] [--events N]
 */
#include "service.h"

#include <stdatomic.h>

enum { WORKERS = 3, TAG_MOVE = TAG_FIRST_FREE, TAG_OTHER = TAG_MOVE + WORKERS };

/* A worker and what it has; all threads read and count `live`. */
typedef struct lane {
    service service; /* first */
    atomic_uint live;
    unsigned served;
} lane;

static lane lanes[WORKERS];

static unsigned fewest(void) {
    unsigned found = 0;
    for (unsigned i = 1; i < WORKERS; i++)
        if (lanes[i].live < lanes[found].live)
            found = i;
    return found;
}

static void serve(lane *l, uint64_t stream) {
    l->served++;
    ask(&l->service,
        (quoit_op){
            .opcode = QUOIT_OP_RECV, .flags = QUOIT_OPF_MULTI, .target = stream, .user_data = TAG_OTHER});
}

/* Nothing is received before it has arrived: bytes that come meanwhile wait in the socket. */
static void on_accept(lane *l, uint64_t stream) {
    unsigned to = fewest();
    lanes[to].live++;
    if (&lanes[to] == l)
        serve(l, stream);
    else
        ask(&l->service, (quoit_op){.opcode = QUOIT_OP_MOVE,
                                    .target = stream,
                                    .user_data = TAG_MOVE + to,
                                    .arg2 = lanes[to].service.batch->worker});
}

static void on_move(lane *l, const quoit_event *e) {
    if (e->result == 0)
        return; /* it is there: QUOIT_KIND_MOVED */
    lanes[e->user_data - TAG_MOVE].live--;
    l->live++;
    serve(l, e->source);
}

static void on_data(lane *l, const quoit_event *e) {
    if (e->len > 0) {
        l->service.handler_messages++;
        l->service.handler_bytes += e->len;
        ask(&l->service, (quoit_op){.opcode = QUOIT_OP_SEND,
                                    .flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET,
                                    .target = e->source,
                                    .user_data = TAG_OTHER,
                                    .addr = e->offset,
                                    .len = e->len,
                                    .arg2 = e->buffer});
    }
    if (e->flags & QUOIT_EVF_MORE)
        return;
    l->live--;
    ask(&l->service,
        (quoit_op){
            .opcode = QUOIT_OP_CLOSE, .flags = QUOIT_OPF_QUIET, .target = e->source, .user_data = TAG_OTHER});
}

static void on_listening(service *s, const quoit_event *e) {
    char text[160];
    quoit_addr addr;
    if (e->result < 0)
        die("listen", e->result);
    quoit_local_addr(s->worker, e->value, &addr);
    quoit_addr_text(&addr, text, sizeof text);
    printf("listening on %s\n", text);
    fflush(stdout);
    ask(s, (quoit_op){.opcode = QUOIT_OP_ACCEPT,
                      .flags = QUOIT_OPF_MULTI,
                      .target = e->value,
                      .user_data = TAG_ACCEPT});
}

static quoit_status on_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    lane *l = ctx;
    (void)worker;
    batch->nops = 0;
    for (uint32_t i = 0; i < batch->nevents; i++) {
        const quoit_event *e = &events_of(batch)[i];
        if (e->kind == QUOIT_OP_LISTEN)
            on_listening(&l->service, e);
        else if (e->kind == QUOIT_OP_ACCEPT && e->result == 0)
            on_accept(l, e->value);
        else if (e->kind == QUOIT_OP_MOVE)
            on_move(l, e);
        else if (e->kind == QUOIT_KIND_MOVED)
            serve(l, e->value);
        else if (e->kind == QUOIT_OP_RECV)
            on_data(l, e);
        else
            common_event(&l->service, e);
    }
    return 0;
}

static void start(lane *l, quoit_runtime *runtime) {
    service *s = &l->service;
    quoit_status status = quoit_worker_create(runtime, NULL, &s->worker);
    if (status < 0)
        die("quoit_worker_create", status);
    s->batch = quoit_worker_batch(s->worker);
    if ((status = quoit_worker_start(s->worker, on_batch, l)) < 0)
        die("quoit_worker_start", status);
}

int main(int argc, char **argv) {
    service *front = &lanes[0].service;
    if (argc < 2) {
        fprintf(stderr, "Usage: %s HOST:PORT [--driver D] [--buffers N] [--events N]\n", argv[0]);
        return 2;
    }
    service_open(front, argc, argv, 2);
    for (int i = 1; i < WORKERS; i++)
        start(&lanes[i], front->runtime);
    service_listen(front);
    quoit_status status = quoit_run(front->worker, on_batch, &lanes[0]);
    for (int i = 1; i < WORKERS; i++) {
        quoit_stop(lanes[i].service.batch->worker);
        quoit_worker_join(lanes[i].service.worker);
        front->handler_messages += lanes[i].service.handler_messages;
        front->handler_bytes += lanes[i].service.handler_bytes;
        quoit_worker_destroy(lanes[i].service.worker);
    }
    printf("{\"served\":[%u,%u,%u]}\n", lanes[0].served, lanes[1].served, lanes[2].served);
    report(front);
    quoit_worker_destroy(front->worker);
    quoit_runtime_destroy(front->runtime);
    close(front->signals);
    return status < 0;
}
