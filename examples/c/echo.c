/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TCP echo: what comes in goes out from the same buffer, without a copy. Usage: echo HOST:PORT [--driver D] [--buffers N] [--events N] */
#include "service.h"

static void on_data(service *s, const quoit_event *e) {
    if (e->len > 0) {
        s->handler_messages++;
        s->handler_bytes += e->len;
        ask(s, (quoit_op){.opcode = QUOIT_OP_SEND,
                          .flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET,
                          .target = e->source,
                          .addr = e->offset,
                          .len = e->len,
                          .arg2 = e->buffer});
    }
    if (!(e->flags & QUOIT_EVF_MORE))
        ask(s, (quoit_op){.opcode = QUOIT_OP_CLOSE, .flags = QUOIT_OPF_QUIET, .target = e->source});
}

static quoit_status on_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    service *s = ctx;
    (void)worker;
    batch->nops = 0;
    for (uint32_t i = 0; i < batch->nevents; i++) {
        const quoit_event *e = &events_of(batch)[i];
        if (!common_event(s, e) && e->kind == QUOIT_OP_RECV)
            on_data(s, e);
    }
    return 0;
}

int main(int argc, char **argv) {
    service s = {0};
    if (argc < 2) {
        fprintf(stderr, "Usage: %s HOST:PORT [--driver D] [--buffers N] [--events N]\n", argv[0]);
        return 2;
    }
    service_open(&s, argc, argv, 2);
    service_listen(&s);
    return service_run(&s, on_batch);
}
