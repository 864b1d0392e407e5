/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program of somebody else's: it knows the installed headers and library only. One op goes round. */
#include <quoit/quoit.h>
#include <stdio.h>

static int fail(const char *what, quoit_status status) {
    fprintf(stderr, "consumer: %s: %s: %s\n", what, quoit_status_name(status), quoit_status_message(status));
    return 1;
}

int main(void) {
    quoit_runtime *runtime = 0;
    quoit_worker *worker = 0;
    quoit_status status = quoit_runtime_create(0, &runtime);
    if (status < 0)
        return fail("runtime", status);
    status = quoit_worker_create(runtime, 0, &worker);
    if (status < 0)
        return fail("worker", status);

    quoit_batch *batch = quoit_worker_batch(worker);
    quoit_op *op = (quoit_op *)(uintptr_t)batch->ops;
    *op = (quoit_op){.opcode = QUOIT_OP_NOP, .user_data = 42};
    status = quoit_turn(worker, 1, 1000000000);
    if (status != 1)
        return fail("turn", status);
    const quoit_event *event = (const quoit_event *)(uintptr_t)batch->events;
    if (event->kind != QUOIT_OP_NOP || event->user_data != 42 || event->result != 0)
        return fail("event", (quoit_status)event->result);

    quoit_worker_destroy(worker);
    status = quoit_runtime_destroy(runtime);
    if (status < 0)
        return fail("destroy", status);
    printf("consumer of %x: 1 op, 1 event\n", quoit_version());
    return 0;
}
