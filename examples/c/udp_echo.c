/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* UDP echo: each datagram goes back to its sender, from where it lies. Usage: udp_echo HOST:PORT [--driver D] [--buffers N] [--events N] */
#include "service.h"

enum { TAG_BIND = TAG_FIRST_FREE };

static void on_bound(service *s, const quoit_event *e) {
    char text[160];
    quoit_addr addr;
    if (e->result < 0)
        die("bind", e->result);
    quoit_local_addr(s->worker, e->value, &addr);
    quoit_addr_text(&addr, text, sizeof text);
    printf("listening on %s\n", text);
    fflush(stdout);
    ask(s, (quoit_op){.opcode = QUOIT_OP_RECVMSG, .flags = QUOIT_OPF_MULTI, .target = e->value});
}

/* The buffer knows who sent it: a socket that is not connected answers there. */
static void on_datagram(service *s, const quoit_event *e) {
    if (e->result < 0)
        return;
    s->handler_messages++;
    s->handler_bytes += e->len;
    ask(s, (quoit_op){.opcode = QUOIT_OP_SENDMSG,
                      .flags = QUOIT_OPF_ARENA_RECV | QUOIT_OPF_QUIET,
                      .target = e->source,
                      .addr = e->offset,
                      .len = e->len,
                      .arg2 = e->buffer});
}

static quoit_status on_batch(void *ctx, quoit_worker *worker, quoit_batch *batch) {
    service *s = ctx;
    (void)worker;
    batch->nops = 0;
    for (uint32_t i = 0; i < batch->nevents; i++) {
        const quoit_event *e = &events_of(batch)[i];
        if (e->user_data == TAG_BIND)
            on_bound(s, e);
        else if (!common_event(s, e) && e->kind == QUOIT_OP_RECVMSG)
            on_datagram(s, e);
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
    ask(&s, (quoit_op){.opcode = QUOIT_OP_BIND,
                       .addr = (uintptr_t)&s.addr,
                       .len = sizeof s.addr,
                       .user_data = TAG_BIND});
    return service_run(&s, on_batch);
}
