/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "calls.h"

#include <stdatomic.h>
#include <unistd.h>

static atomic_int begun;

static uint32_t wait_for_byte(int32_t fd) {
    char byte;
    atomic_fetch_add(&begun, 1);
    return read(fd, &byte, 1) == 1 ? 7 : 0;
}

int waits_begun(void) {
    return atomic_load(&begun);
}

static quoit_op *op_new_call(struct pump *pump, const quoit_call *call) {
    quoit_op *op = op_new(pump, QUOIT_OP_OFFLOAD, 0);
    op->flags = QUOIT_OPF_ARGS;
    op->addr = (uintptr_t)call;
    op->len = sizeof *call;
    return op;
}

uint64_t op_call(struct pump *pump, uint64_t entry, uint32_t returns, uint32_t nargs, const uint8_t *types,
                 const uint64_t *args) {
    quoit_call call = {.struct_size = sizeof call,
                       .nargs = nargs,
                       .entry = entry,
                       .types = (uintptr_t)types,
                       .args = (uintptr_t)args,
                       .return_type = returns};
    uint64_t id = op_new_call(pump, &call)->user_data;
    pump_submit(pump);
    return id;
}

quoit_op *op_new_wait_for_byte(struct pump *pump, int fd) {
    static const uint8_t types[1] = {QUOIT_TYPE_I32};
    static _Thread_local uint64_t argument;
    static _Thread_local quoit_call call;
    argument = (uint64_t)fd;
    call = (quoit_call){.struct_size = sizeof call,
                        .nargs = 1,
                        .entry = (uintptr_t)wait_for_byte,
                        .types = (uintptr_t)types,
                        .args = (uintptr_t)&argument,
                        .return_type = QUOIT_TYPE_U32};
    return op_new_call(pump, &call);
}

uint64_t op_wait_for_byte(struct pump *pump, int fd) {
    uint64_t id = op_new_wait_for_byte(pump, fd)->user_data;
    pump_submit(pump);
    return id;
}
