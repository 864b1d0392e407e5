/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files: open, read, write, fsync. A file has no cursor; a write goes on until all of it is written. */
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What an op in flight owns beside its request. */
typedef struct qt_file_state {
    uint32_t buffer; /* lent block or pinned buffer */
    bool has_buffer;
    uint8_t *bytes; /* copied payload or path, at the end of this block */
    struct iovec *slices;
    uint32_t slice_count;
    uint64_t block_size;
} qt_file_state;

static qt_file_state *new_state(qt_worker *w, uint64_t extra) {
    uint64_t size = sizeof(qt_file_state) + extra;
    qt_file_state *state = qt_block_alloc(&w->blocks, size);
    if (state == NULL)
        return NULL;
    memset(state, 0, sizeof *state);
    state->block_size = size;
    state->bytes = (uint8_t *)(state + 1);
    return state;
}

static void drop_state(qt_pending *p) {
    qt_file_state *state = p->state;
    qt_worker *w = p->worker;
    p->state = NULL;
    if (state == NULL)
        return;
    if (state->has_buffer) {
        qt_buffer *buffer = qt_buffer_at(w, state->buffer);
        buffer->pins--;
        qt_buffer_settle(w, buffer);
    }
    qt_block_free(&w->blocks, state, state->block_size);
}

void qt_file_discard(qt_pending *p) {
    qt_file_state *state = p->state;
    if (state != NULL)
        qt_block_free(&p->worker->blocks, state, state->block_size);
}

/* Takes the request off its op; the result is the op's verdict where the kernel only says that it was cancelled. */
static int64_t take_result(qt_pending *p, const qt_completion *c) {
    qt_worker *w = p->worker;
    qt_req_free(&w->requests, p->req);
    p->req = NULL;
    if (p->object != NULL)
        p->object->reqs--;
    return c->res == -ECANCELED && p->verdict ? p->verdict : c->res;
}

static void end_file_op(qt_pending *p, int64_t result, uint64_t value) {
    qt_object *object = p->object;
    drop_state(p);
    qt_finish(p, result, value);
    if (object != NULL && object->closing)
        qt_close_advance(object);
}

static bool begin(qt_pending *p, uint8_t code, int fd, qt_req_fn done) {
    p->req = qt_request(p->worker, code, fd, p, done);
    if (p->req == NULL)
        return false;
    if (p->object != NULL)
        p->object->reqs++;
    return true;
}

/* open */

static const struct {
    uint32_t ours;
    int theirs;
} open_flags[] = {
    {QUOIT_OPEN_CREATE, O_CREAT},  {QUOIT_OPEN_EXCLUSIVE, O_EXCL},      {QUOIT_OPEN_TRUNCATE, O_TRUNC},
    {QUOIT_OPEN_APPEND, O_APPEND}, {QUOIT_OPEN_DIRECTORY, O_DIRECTORY}, {QUOIT_OPEN_NOFOLLOW, O_NOFOLLOW},
    {QUOIT_OPEN_SYNC, O_SYNC},     {QUOIT_OPEN_DIRECT, O_DIRECT},
};

static bool to_open_flags(uint32_t ours, int *theirs) {
    bool reads = ours & QUOIT_OPEN_READ;
    bool writes = ours & (QUOIT_OPEN_WRITE | QUOIT_OPEN_APPEND);
    *theirs = O_CLOEXEC | (writes ? (reads ? O_RDWR : O_WRONLY) : O_RDONLY);
    uint32_t known = QUOIT_OPEN_READ | QUOIT_OPEN_WRITE;
    for (size_t i = 0; i < sizeof open_flags / sizeof open_flags[0]; i++) {
        known |= open_flags[i].ours;
        if (ours & open_flags[i].ours)
            *theirs |= open_flags[i].theirs;
    }
    return !(ours & ~known) && (ours & (QUOIT_OPEN_READ | QUOIT_OPEN_DIRECTORY) || writes);
}

static void open_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    qt_worker *w = p->worker;
    int64_t result = take_result(p, c);
    if (result >= 0 && w->draining) {
        close(
            (int)result); /* a stop has closed its objects already: one that came now would never be closed */
        result = p->verdict;
    }
    if (result < 0) {
        end_file_op(p, result, 0);
        return;
    }
    qt_object *file = qt_slab_alloc(&w->objects);
    uint32_t kind = p->arg & QUOIT_OPEN_DIRECTORY ? QUOIT_HANDLE_DIRECTORY : QUOIT_HANDLE_FILE;
    int error = file ? qt_handle_new(w, file, kind, (int)result) : -ENOMEM;
    if (error) {
        if (file != NULL)
            qt_slab_free(&w->objects, file);
        close((int)result);
        end_file_op(p, error, 0);
        return;
    }
    end_file_op(p, 0, file->handle);
}

void qt_op_open(qt_worker *w, const quoit_op *op, qt_object *directory) {
    const void *path;
    int flags = 0;
    uint32_t field = 0;
    quoit_status status = qt_op_memory(w, op, op->addr, op->len, &path);
    if (status != 0)
        field = QUOIT_FIELD_ADDR;
    else if (op->len == 0 || op->len >= 4096 || memchr(path, 0, op->len) != NULL)
        field = QUOIT_FIELD_LEN;
    else if (!to_open_flags(op->arg, &flags))
        field = QUOIT_FIELD_ARG;
    else if (op->offset & ~(int64_t)07777)
        field = QUOIT_FIELD_OFFSET;
    if (field) {
        qt_refuse(w, op, status ? status : QUOIT_E_FIELD, field);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, directory);
    if (p == NULL)
        return;
    qt_file_state *state = new_state(w, (uint64_t)op->len + 1);
    p->state = state;
    if (state == NULL || !begin(p, QT_REQ_OPENAT, directory ? directory->fd : AT_FDCWD, open_done)) {
        end_file_op(p, -ENOMEM, 0);
        return;
    }
    memcpy(state->bytes, path, op->len);
    state->bytes[op->len] = 0;
    p->req->addr = (uint64_t)(uintptr_t)state->bytes;
    p->req->op_flags = (uint32_t)flags;
    p->req->len = (uint32_t)op->offset;
    qt_submit(w, p->req);
}

/* read */

static void read_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    qt_worker *w = p->worker;
    qt_object *file = p->object;
    int64_t result = take_result(p, c);
    qt_file_state *state = p->state;
    if (result <= 0 || state == NULL) {
        drop_state(p);
        quoit_event *event = qt_finish(p, result, 0);
        if (event != NULL && result == 0)
            event->flags |= QUOIT_EVF_EOF;
    } else {
        qt_buffer *buffer = qt_buffer_at(w, state->buffer);
        buffer->length = (uint32_t)result;
        qt_buffer_lend(w, buffer);
        drop_state(p);
        quoit_event *event = qt_finish(p, result, 0);
        event->flags |= QUOIT_EVF_LENT;
        event->offset = buffer->offset;
        event->len = buffer->length;
        event->buffer = qt_buffer_handle(w, buffer);
    }
    if (file->closing)
        qt_close_advance(file);
}

void qt_op_read(qt_worker *w, const quoit_op *op, qt_object *file) {
    bool lend = op->addr == 0;
    uint32_t field = op->offset < -1                                                 ? QUOIT_FIELD_OFFSET
                     : op->len == 0 || op->len > (lend ? QUOIT_READ_MAX : INT32_MAX) ? QUOIT_FIELD_LEN
                     : lend == !!(op->flags & QUOIT_OPF_BORROW)                      ? QUOIT_FIELD_FLAGS
                                                                                     : 0;
    if (field) {
        qt_refuse(w, op, field == QUOIT_FIELD_FLAGS ? QUOIT_E_FLAGS : QUOIT_E_FIELD, field);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, file);
    if (p == NULL)
        return;
    uint64_t addr = op->addr;
    if (lend) {
        qt_file_state *state = new_state(w, 0);
        qt_buffer *buffer = state ? qt_buffer_take_large(w, op->len, file->handle) : NULL;
        p->state = state;
        if (buffer == NULL) {
            end_file_op(p, state ? -ENOBUFS : -ENOMEM, 0);
            return;
        }
        state->buffer = qt_buffer_index(w, buffer);
        state->has_buffer = true;
        addr = (uint64_t)(uintptr_t)(w->buffers.base + buffer->offset);
    }
    if (!begin(p, QT_REQ_READ, file->fd, read_done)) {
        end_file_op(p, -ENOMEM, 0);
        return;
    }
    p->req->addr = addr;
    p->req->len = op->len;
    p->req->offset = op->offset;
    qt_submit(w, p->req);
}

/* write */

static void submit_write(qt_pending *p, int64_t offset);

static void write_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    int64_t offset = req->offset;
    int64_t result = take_result(p, c);
    qt_file_state *state = p->state;
    if (result < 0) {
        end_file_op(p, result, p->done);
        return;
    }
    p->done += (uint64_t)result;
    if (p->done == p->total || result == 0) {
        end_file_op(p, p->done == p->total ? (int64_t)p->done : -EIO, p->done == p->total ? 0 : p->done);
        return;
    }
    uint64_t left = (uint64_t)result;
    while (left >= state->slices->iov_len && state->slice_count > 0) {
        left -= state->slices->iov_len;
        state->slices++;
        state->slice_count--;
    }
    state->slices->iov_base = (char *)state->slices->iov_base + left;
    state->slices->iov_len -= left;
    if (p->verdict)
        end_file_op(p, p->verdict, p->done);
    else
        submit_write(p, offset < 0 ? offset : offset + result);
}

static void submit_write(qt_pending *p, int64_t offset) {
    qt_file_state *state = p->state;
    if (!begin(p, QT_REQ_WRITEV, p->object->fd, write_done)) {
        end_file_op(p, -ENOMEM, p->done);
        return;
    }
    p->req->addr = (uint64_t)(uintptr_t)state->slices;
    p->req->len = state->slice_count;
    p->req->offset = offset;
    p->req->op_flags = offset < 0 ? RWF_APPEND : 0;
    qt_submit(p->worker, p->req);
}

/* Finds where each slice lies. With ARENA_RECV the loan is checked and the first slice's buffer pinned, others are copied. */
static quoit_status find_slices(qt_worker *w, const quoit_op *op, struct iovec *slices, uint32_t *n,
                                uint64_t *total, qt_buffer **pin) {
    quoit_iov one = {op->addr, op->len, 0};
    const void *list = &one;
    *n = 1;
    if (op->flags & QUOIT_OPF_IOV) {
        if (op->flags & QUOIT_OPF_ARENA_RECV)
            return QUOIT_E_FIELD;
        quoit_status status = qt_op_memory(w, op, op->addr, (uint64_t)op->len * sizeof one, &list);
        if (status != 0)
            return status;
        *n = op->len;
    }
    for (uint32_t i = 0; i < *n; i++) {
        quoit_iov slice;
        const void *memory = NULL;
        memcpy(&slice, (const char *)list + i * sizeof slice, sizeof slice);
        quoit_status status;
        if (op->flags & QUOIT_OPF_ARENA_RECV) {
            status = qt_buffer_check(w, op->arg2, slice.addr, slice.len, pin);
            memory = w->buffers.base + slice.addr;
        } else {
            status = slice.flags ? QUOIT_E_FIELD : qt_op_memory(w, op, slice.addr, slice.len, &memory);
        }
        if (status != 0)
            return status;
        slices[i] = (struct iovec){(void *)(uintptr_t)memory, slice.len};
        *total += slice.len;
    }
    return *total > INT32_MAX ? QUOIT_E_LIMIT : 0;
}

static bool keep_payload(qt_pending *p, const struct iovec *slices, uint32_t n, qt_buffer *pin) {
    qt_worker *w = p->worker;
    bool copy = !(p->flags & QUOIT_OPF_BORROW) && pin == NULL;
    uint32_t kept = copy ? 1 : n;
    qt_file_state *state = new_state(w, (uint64_t)kept * sizeof *slices + (copy ? p->total : 0));
    if (state == NULL)
        return false;
    p->state = state;
    state->slices = (struct iovec *)(void *)state->bytes;
    state->slice_count = kept;
    if (!copy) {
        if (n)
            memcpy(state->slices, slices, n * sizeof *slices);
        if (pin != NULL) {
            pin->pins++;
            state->buffer = qt_buffer_index(w, pin);
            state->has_buffer = true;
        }
        return true;
    }
    uint8_t *at = (uint8_t *)(state->slices + 1);
    state->slices[0] = (struct iovec){at, p->total};
    for (uint32_t i = 0; i < n; i++) {
        if (slices[i].iov_len)
            memcpy(at, slices[i].iov_base, slices[i].iov_len);
        at += slices[i].iov_len;
    }
    return true;
}

void qt_op_write(qt_worker *w, const quoit_op *op, qt_object *file) {
    struct iovec slices[QUOIT_IOV_MAX];
    uint32_t n;
    uint64_t total = 0;
    qt_buffer *pin = NULL;
    if (op->offset < -1) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_OFFSET);
        return;
    }
    if (op->flags & QUOIT_OPF_IOV && op->len > QUOIT_IOV_MAX) {
        qt_refuse(w, op, QUOIT_E_LIMIT, QUOIT_FIELD_LEN);
        return;
    }
    quoit_status status = find_slices(w, op, slices, &n, &total, &pin);
    if (status != 0) {
        qt_refuse(w, op, status, QUOIT_FIELD_ADDR);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, file);
    if (p == NULL)
        return;
    p->total = total;
    if (total == 0)
        end_file_op(p, 0, 0);
    else if (!keep_payload(p, slices, n, pin))
        end_file_op(p, -ENOMEM, 0);
    else
        submit_write(p, op->offset);
}

/* fsync */

static void fsync_done(qt_req *req, const qt_completion *c) {
    qt_pending *p = req->owner;
    int64_t result = take_result(p, c);
    end_file_op(p, result, 0);
}

void qt_op_fsync(qt_worker *w, const quoit_op *op, qt_object *file) {
    if (op->arg > 1) {
        qt_refuse(w, op, QUOIT_E_FIELD, QUOIT_FIELD_ARG);
        return;
    }
    qt_pending *p = qt_pending_new(w, op, file);
    if (p == NULL)
        return;
    if (!begin(p, QT_REQ_FSYNC, file->fd, fsync_done)) {
        end_file_op(p, -ENOMEM, 0);
        return;
    }
    p->req->op_flags = op->arg;
    qt_submit(w, p->req);
}
