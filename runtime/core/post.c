/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From other threads: quoit_post, which copies ops with all they point at, and QUOIT_OP_POST, a message. */
#include "../base/options.h"
#include "object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENT_MAX 4096u

typedef struct qt_posted {
    qt_letter letter;
    uint32_t n;
    quoit_op ops[]; /* then what they point at, 16-byte aligned */
} qt_posted;

/* Copies are made twice over the same code: first with no room, to learn the size. */
typedef struct qt_packer {
    uint8_t *at; /* null: only measure */
    uint64_t used;
} qt_packer;

static uint64_t pack(qt_packer *p, uint64_t addr, uint64_t len) {
    if (addr == 0 || len == 0)
        return addr;
    uint64_t offset = p->used;
    p->used += (len + 15u) & ~(uint64_t)15u;
    if (p->at == NULL)
        return addr;
    memcpy(p->at + offset, (const void *)(uintptr_t)addr, len);
    return (uint64_t)(uintptr_t)(p->at + offset);
}

/* A struct that begins with struct_size; an absurd size is left for the op to refuse. */
static uint64_t pack_struct(qt_packer *p, uint64_t addr) {
    uint32_t size;
    if (addr == 0)
        return 0;
    memcpy(&size, (const void *)(uintptr_t)addr, sizeof size);
    return pack(p, addr, size < sizeof size || size > ARGUMENT_MAX ? sizeof size : size);
}

static uint64_t pack_slices(qt_packer *p, uint64_t addr, uint32_t n) {
    uint64_t list = pack(p, addr, (uint64_t)n * sizeof(quoit_iov));
    for (uint32_t i = 0; i < n && addr != 0; i++) {
        quoit_iov slice;
        memcpy(&slice, (const quoit_iov *)(uintptr_t)addr + i, sizeof slice);
        slice.addr = pack(p, slice.addr, slice.len);
        if (p->at != NULL)
            memcpy((quoit_iov *)(uintptr_t)list + i, &slice, sizeof slice);
    }
    return list;
}

static uint64_t pack_call(qt_packer *p, const quoit_op *op) {
    quoit_call call;
    if (op->addr == 0 || op->len < QT_CALL_V1)
        return pack(p, op->addr, op->len < ARGUMENT_MAX ? op->len : ARGUMENT_MAX);
    uint64_t copy = pack(p, op->addr, op->len < ARGUMENT_MAX ? op->len : ARGUMENT_MAX);
    memcpy(&call, (const void *)(uintptr_t)op->addr, QT_CALL_V1);
    if (call.nargs <= QUOIT_CALL_ARGS_MAX) {
        call.types = pack(p, call.types, call.nargs);
        call.args = pack(p, call.args, (uint64_t)call.nargs * sizeof(uint64_t));
    }
    if (p->at != NULL)
        memcpy((void *)(uintptr_t)copy, &call, QT_CALL_V1);
    return copy;
}

static void pack_payload(qt_packer *p, quoit_op *op) {
    if (!(op->flags & QUOIT_OPF_IOV))
        op->addr = pack(p, op->addr, op->len);
    else if (op->len <= QUOIT_IOV_MAX)
        op->addr = pack_slices(p, op->addr, op->len);
}

static void pack_op(qt_packer *p, quoit_op *op) {
    if (op->flags & (QUOIT_OPF_BORROW | QUOIT_OPF_ARENA_SEND | QUOIT_OPF_ARENA_RECV))
        return; /* refused when executed: nothing of it is read */
    switch (op->opcode) {
    case QUOIT_OP_LISTEN:
    case QUOIT_OP_BIND:
        op->addr = pack(p, op->addr, op->len <= sizeof(quoit_addr) ? op->len : sizeof(quoit_addr));
        op->arg2 = pack_struct(p, op->arg2);
        break;
    case QUOIT_OP_CONNECT:
        op->addr = pack(p, op->addr, op->len <= sizeof(quoit_addr) ? op->len : sizeof(quoit_addr));
        op->arg2 = pack(p, op->arg2, sizeof(quoit_addr));
        break;
    case QUOIT_OP_SEND:
    case QUOIT_OP_SENDV:
    case QUOIT_OP_WRITE:
        pack_payload(p, op);
        break;
    case QUOIT_OP_SENDMSG:
        pack_payload(p, op);
        op->arg2 = pack(p, op->arg2, sizeof(quoit_addr));
        op->offset = (int64_t)pack_struct(p, (uint64_t)op->offset);
        break;
    case QUOIT_OP_MULTICAST:
        op->addr = pack(p, op->addr, op->len <= sizeof(quoit_addr) ? op->len : sizeof(quoit_addr));
        break;
    case QUOIT_OP_SEND_FD:
        op->addr = pack(p, op->addr, op->len);
        break;
    case QUOIT_OP_OPEN:
        op->addr = pack(p, op->addr, op->len < ARGUMENT_MAX ? op->len : ARGUMENT_MAX);
        break;
    case QUOIT_OP_OFFLOAD:
        op->addr = pack_call(p, op);
        break;
    default:
        break;
    }
}

static void execute_posted(void *worker, qt_letter *letter) {
    qt_worker *w = worker;
    qt_posted *posted = qt_container(letter, qt_posted, letter);
    w->executing_post = true;
    for (uint32_t i = 0; i < posted->n; i++)
        qt_execute(w, &posted->ops[i]);
    w->executing_post = false;
    QT_COUNT(w, posts_in, posted->n);
    free(posted);
}

static void discard_posted(void *worker, qt_letter *letter) {
    (void)worker;
    free(qt_container(letter, qt_posted, letter));
}

static uint64_t payload_size(const quoit_op *ops, uint32_t n) {
    qt_packer measure = {0};
    for (uint32_t i = 0; i < n; i++) {
        quoit_op op = ops[i];
        pack_op(&measure, &op);
    }
    return measure.used;
}

static qt_posted *copy_ops(const quoit_op *ops, uint32_t n, uint64_t payload) {
    size_t head = (sizeof(qt_posted) + n * sizeof(quoit_op) + 15u) & ~(size_t)15u;
    qt_posted *posted = malloc(head + payload);
    if (posted == NULL)
        return NULL;
    memset(posted, 0, sizeof *posted);
    qt_packer packer = {.at = (uint8_t *)posted + head};
    posted->n = n;
    for (uint32_t i = 0; i < n; i++) {
        posted->ops[i] = ops[i];
        pack_op(&packer, &posted->ops[i]);
    }
    posted->letter.open = execute_posted;
    posted->letter.discard = discard_posted;
    posted->letter.ops = n;
    posted->letter.bytes = payload;
    return posted;
}

/* Any thread, inside the shell. Takes as long a prefix as the mailbox has room for. */
quoit_status qt_post(qt_worker *w, const quoit_op *ops, uint32_t n) {
    uint64_t payload = 0;
    while (n > 0 && !qt_mailbox_reserve(&w->mailbox, n, payload = payload_size(ops, n)))
        n /= 2;
    if (n == 0) {
        __atomic_fetch_add(&w->posts_refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    qt_posted *posted = copy_ops(ops, n, payload);
    if (posted == NULL) {
        qt_mailbox_unreserve(&w->mailbox, n, payload);
        return -ENOMEM;
    }
    if (atomic_load(&w->stop) || !qt_mailbox_put(&w->mailbox, &posted->letter)) {
        qt_mailbox_unreserve(&w->mailbox, n, payload);
        free(posted);
        return QUOIT_E_CLOSED;
    }
    qt_wake(w);
    return (quoit_status)n;
}

/* Any thread, inside the shell. It takes no room, so it cannot be refused. */
quoit_status qt_nudge(qt_worker *w) {
    if (atomic_load(&w->stop))
        return QUOIT_E_CLOSED;
    atomic_store(&w->nudged, true);
    qt_wake(w);
    return 0;
}

typedef struct qt_message {
    qt_letter letter;
    uint64_t user_data;
    uint64_t word1;
    int64_t word2;
    uint32_t number;
} qt_message;

static void deliver_message(void *worker, qt_letter *letter) {
    qt_message *m = qt_container(letter, qt_message, letter);
    quoit_event *event = qt_event(worker, QUOIT_KIND_MESSAGE, 0, m->user_data, m->word2);
    event->value = m->word1;
    event->aux = m->number;
    free(m);
}

static void discard_message(void *worker, qt_letter *letter) {
    (void)worker;
    free(qt_container(letter, qt_message, letter));
}

static quoit_status send_message(qt_worker *to, const quoit_op *op) {
    if (!qt_mailbox_reserve(&to->mailbox, 1, 0))
        return -EAGAIN;
    qt_message *m = malloc(sizeof *m);
    if (m != NULL) {
        *m = (qt_message){.letter = {.open = deliver_message, .discard = discard_message, .ops = 1},
                          .user_data = op->arg2,
                          .word1 = op->addr,
                          .word2 = op->offset,
                          .number = op->arg};
        if (!atomic_load(&to->stop) && qt_mailbox_put(&to->mailbox, &m->letter)) {
            qt_wake(to);
            return 0;
        }
    }
    quoit_status status = m ? QUOIT_E_CLOSED : -ENOMEM;
    free(m);
    qt_mailbox_unreserve(&to->mailbox, 1, 0);
    return status;
}

quoit_status qt_worker_of_handle(uint64_t handle, qt_shell **shell, qt_worker **out) {
    if ((handle >> 56) != QUOIT_HANDLE_WORKER)
        return (handle >> 56) > 0 && (handle >> 56) <= QT_HANDLE_LAST ? QUOIT_E_KIND : QUOIT_E_HANDLE;
    *shell = qt_shell_worker((uint32_t)(handle >> 48) & 0xFF);
    qt_worker *w = qt_shell_enter(*shell);
    if (w == NULL)
        return QUOIT_E_STALE;
    if (w->handle != handle) {
        qt_shell_leave(*shell);
        return QUOIT_E_STALE;
    }
    *out = w;
    return 0;
}

void qt_op_post(qt_worker *w, const quoit_op *op, qt_object *object) {
    (void)object;
    qt_shell *shell;
    qt_worker *to;
    quoit_status status = qt_worker_of_handle(op->target, &shell, &to);
    if (status == 0) {
        status = send_message(to, op);
        qt_shell_leave(shell);
    }
    if (status != 0)
        qt_refuse(w, op, status, status == -EAGAIN ? 0 : QUOIT_FIELD_TARGET);
    else
        qt_succeed(w, op, 0);
}
