/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* QUOIT_OP_OFFLOAD: a native function, described at run time, on the blocking pool. */
#include "../base/options.h"
#include "blocking.h"
#include "ffi_call.h"
#include "object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct qt_offload {
    qt_work work; /* first: freed as the work */
    struct qt_ffi_call *call;
    qt_pending *op;
} qt_offload;

static void run_call(qt_work *work) {
    work->bits = qt_ffi_invoke(((qt_offload *)work)->call);
}

static void call_done(qt_work *work, bool ran) {
    qt_offload *o = (qt_offload *)work;
    qt_pending *p = o->op;
    qt_ffi_free(o->call);
    p->state = NULL;
    qt_finish(p, ran ? 0 : p->verdict ? p->verdict : -ECANCELED, ran ? work->bits : 0);
}

static quoit_status read_call(qt_worker *w, const quoit_op *op, struct qt_ffi_call **out) {
    quoit_call call;
    uint32_t struct_size;
    const void *memory;
    const void *types = NULL;
    const void *args = NULL;
    if (op->len < QT_CALL_V1)
        return QUOIT_E_STRUCT_SIZE;
    quoit_status status = qt_op_memory(w, op, op->addr, op->len, &memory);
    if (status != 0)
        return status;
    memcpy(&struct_size, memory, sizeof struct_size);
    if (struct_size > op->len)
        return QUOIT_E_FIELD;
    status = qt_options_read(&call, sizeof call, QT_CALL_V1, memory);
    if (status == 0 && (call.flags != 0 || call.nargs > QUOIT_CALL_ARGS_MAX || call.entry == 0))
        status = QUOIT_E_FIELD;
    if (status == 0 && call.nargs > 0)
        status = qt_op_memory(w, op, call.types, call.nargs, &types);
    if (status == 0 && call.nargs > 0)
        status = qt_op_memory(w, op, call.args, (uint64_t)call.nargs * sizeof(uint64_t), &args);
    if (status == 0)
        status = qt_ffi_prepare(&call, types, args, out);
    return status;
}

void qt_op_offload(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    if (!(op->flags & QUOIT_OPF_ARGS)) {
        qt_refuse(w, op, QUOIT_E_FLAGS, QUOIT_FIELD_FLAGS);
        return;
    }
    struct qt_ffi_call *call;
    quoit_status status = read_call(w, op, &call);
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_ADDR);
        return;
    }
    qt_offload *o = calloc(1, sizeof *o);
    qt_pending *p = qt_pending_new(w, op, NULL);
    if (o == NULL || p == NULL) {
        qt_ffi_free(call);
        free(o);
        if (p != NULL)
            qt_finish(p, -ENOMEM, 0);
        return;
    }
    o->call = call;
    o->op = p;
    o->work.run = run_call;
    o->work.done = call_done;
    int error = qt_work_submit(w, &o->work, true);
    if (error) {
        qt_ffi_free(call);
        free(o);
        qt_finish(p, error, 0);
        return;
    }
    p->state = o;
    QT_COUNT(w, offloads, 1);
}

/* A call that runs cannot be interrupted: its own result is then the op's last event. */
void qt_offload_end(qt_pending *p) {
    qt_work_cancel(p->worker, &((qt_offload *)p->state)->work);
}
