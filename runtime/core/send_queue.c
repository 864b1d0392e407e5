/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Turning a send op into pieces of its stream's queue: copied, borrowed, in the scratch region, or pinned receive buffers. */
#include "object.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

void qt_piece_drop_fd(qt_piece *piece) {
    if (piece->has_fd)
        close(piece->fd);
    piece->has_fd = false;
}

void qt_piece_release(qt_stream *s, qt_piece *piece) {
    qt_worker *w = s->object.worker;
    qt_piece_drop_fd(piece);
    switch (piece->kind) {
    case QT_PIECE_COPY:
        qt_block_free(&w->blocks, piece->block, piece->size);
        s->copied -= piece->size;
        break;
    case QT_PIECE_SCRATCH:
        w->scratch.pins[piece->ref]--;
        break;
    case QT_PIECE_BUFFER: {
        qt_buffer *buffer = qt_buffer_at(w, piece->ref);
        s->pinned -= qt_buffer_size(w, buffer);
        buffer->pins--;
        qt_buffer_settle(w, buffer);
        break;
    }
    default:
        break;
    }
    qt_slab_free(&w->pieces, piece);
}

static qt_piece *new_piece(qt_stream *s, qt_pending *p, uint8_t kind, uint64_t addr, uint32_t len) {
    qt_piece *piece = qt_slab_alloc(&s->object.worker->pieces);
    if (piece == NULL)
        return NULL;
    piece->op = p;
    piece->kind = kind;
    piece->addr = addr;
    piece->len = len;
    return piece;
}

static void chain_add(qt_chain *chain, qt_piece *piece) {
    if (chain->tail)
        chain->tail->next = piece;
    else
        chain->head = piece;
    chain->tail = piece;
    chain->bytes += piece->len;
}

/* One block for all copied slices of an op, so that a sendv of many small parts costs one piece. */
static int add_copy(qt_stream *s, qt_pending *p, qt_chain *chain, const struct iovec *slices, uint32_t n,
                    uint64_t total) {
    qt_worker *w = s->object.worker;
    if (s->copied + total > w->options.send_limit)
        return -ENOBUFS;
    qt_piece *piece = new_piece(s, p, QT_PIECE_COPY, 0, (uint32_t)total);
    if (piece == NULL)
        return -ENOMEM;
    piece->size = total ? total : 1;
    piece->block = qt_block_alloc(&w->blocks, piece->size);
    if (piece->block == NULL) {
        qt_slab_free(&w->pieces, piece);
        return -ENOMEM;
    }
    uint8_t *at = piece->block;
    for (uint32_t i = 0; i < n; i++) {
        if (slices[i].iov_len)
            memcpy(at, slices[i].iov_base, slices[i].iov_len);
        at += slices[i].iov_len;
    }
    piece->addr = (uint64_t)(uintptr_t)piece->block;
    s->copied += piece->size;
    chain_add(chain, piece);
    return 0;
}

static int add_reference(qt_stream *s, qt_pending *p, qt_chain *chain, uint8_t kind, uint64_t addr,
                         uint32_t len, uint32_t ref) {
    qt_piece *piece = new_piece(s, p, kind, addr, len);
    if (piece == NULL)
        return -ENOMEM;
    piece->ref = ref;
    chain_add(chain, piece);
    return 0;
}

/* Received bytes are pinned, up to the stream's cap and the arena's; beyond, copied, so that a slow peer starves nobody. */
static int add_received(qt_stream *s, qt_pending *p, qt_chain *chain, qt_buffer *buffer, uint64_t offset,
                        uint32_t len) {
    qt_worker *w = s->object.worker;
    uint32_t size = qt_buffer_size(w, buffer);
    uint8_t *bytes = w->buffers.base + offset;
    bool first = s->pinned == 0; /* a single large block is always taken: files are sent so */
    if ((first || s->pinned + size <= w->options.kept_stream_max) && buffer->pins < UINT16_MAX &&
        qt_buffer_count_kept(w, buffer)) {
        int error = add_reference(s, p, chain, QT_PIECE_BUFFER, (uint64_t)(uintptr_t)bytes, len,
                                  qt_buffer_index(w, buffer));
        if (error)
            return error;
        buffer->pins++;
        s->pinned += size;
        return 0;
    }
    struct iovec slice = {bytes, len};
    return add_copy(s, p, chain, &slice, 1, len);
}

static int received(qt_stream *s, qt_pending *p, qt_chain *chain, const quoit_op *op, const quoit_iov *iov,
                    uint32_t n, uint32_t *field) {
    qt_worker *w = s->object.worker;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t handle = op->arg2;
        qt_buffer *buffer;
        if (op->flags & QUOIT_OPF_IOV) {
            buffer = qt_buffer_at(w, iov[i].flags);
            if (buffer == NULL)
                return *field = QUOIT_FIELD_ADDR, QUOIT_E_STALE;
            handle = qt_buffer_handle(w, buffer);
        }
        int status = qt_buffer_check(w, handle, iov[i].addr, iov[i].len, &buffer);
        if (status != 0) {
            *field =
                status == QUOIT_E_RANGE || (op->flags & QUOIT_OPF_IOV) ? QUOIT_FIELD_ADDR : QUOIT_FIELD_ARG2;
            return status;
        }
        status = add_received(s, p, chain, buffer, iov[i].addr, iov[i].len);
        if (status != 0)
            return status;
    }
    return 0;
}

/* Scratch memory is used in place only by a send that starts now; what must queue is copied, so that a slow stream
 * does not pin a region. */
static int written(qt_stream *s, qt_pending *p, qt_chain *chain, const quoit_op *op, const quoit_iov *iov,
                   uint32_t n, bool in_place, uint32_t *field) {
    qt_worker *w = s->object.worker;
    struct iovec slices[QUOIT_IOV_MAX];
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        const void *memory = NULL;
        if (op->flags & QUOIT_OPF_IOV && iov[i].flags != 0)
            return *field = QUOIT_FIELD_ADDR, QUOIT_E_FIELD;
        int status = qt_op_memory(w, op, iov[i].addr, iov[i].len, &memory);
        if (status != 0)
            return *field = QUOIT_FIELD_ADDR, status;
        slices[i] = (struct iovec){(void *)(uintptr_t)memory, iov[i].len};
        total += iov[i].len;
    }
    if (total > UINT32_MAX)
        return *field = QUOIT_FIELD_LEN, QUOIT_E_LIMIT;
    /* No bytes pin no region: there may be none. */
    in_place = in_place && (op->flags & QUOIT_OPF_ARENA_SEND) && total > 0;
    if (!(op->flags & QUOIT_OPF_BORROW) && !in_place)
        return add_copy(s, p, chain, slices, n, total);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t kind = in_place ? QT_PIECE_SCRATCH : QT_PIECE_BORROW;
        int error = add_reference(s, p, chain, kind, (uint64_t)(uintptr_t)slices[i].iov_base,
                                  (uint32_t)slices[i].iov_len, w->scratch.current);
        if (error)
            return error;
        if (in_place)
            w->scratch.pins[w->scratch.current]++;
    }
    return 0;
}

int qt_pieces_make(qt_stream *s, qt_pending *p, const quoit_op *op, bool in_place, uint32_t *field,
                   qt_chain *out) {
    qt_worker *w = s->object.worker;
    quoit_iov one = {op->addr, op->len, 0};
    quoit_iov copy[QUOIT_IOV_MAX];
    const quoit_iov *iov = &one;
    uint32_t n = 1;
    if (op->flags & QUOIT_OPF_IOV) {
        const void *memory;
        if (op->len > QUOIT_IOV_MAX)
            return *field = QUOIT_FIELD_LEN, QUOIT_E_LIMIT;
        int status = qt_op_memory(w, op, op->addr, (uint64_t)op->len * sizeof one, &memory);
        if (status != 0)
            return *field = QUOIT_FIELD_ADDR, status;
        if (op->len)
            memcpy(copy, memory, op->len * sizeof one);
        iov = copy;
        n = op->len;
    }
    qt_chain chain = {0};
    int error = op->flags & QUOIT_OPF_ARENA_RECV ? received(s, p, &chain, op, iov, n, field)
                                                 : written(s, p, &chain, op, iov, n, in_place, field);
    if (error == 0 && chain.tail == NULL)
        error = add_reference(s, p, &chain, QT_PIECE_BORROW, 0, 0, 0);
    while (error && chain.head != NULL) {
        qt_piece *next = chain.head->next;
        qt_piece_release(s, chain.head);
        chain.head = next;
    }
    *out = chain;
    return error;
}

/* Appends all of the op or nothing. */
int qt_pieces_append(qt_stream *s, qt_pending *p, const quoit_op *op, uint32_t *field) {
    qt_chain chain;
    bool starts_now = s->send_head == NULL && s->send_req == NULL;
    int error = qt_pieces_make(s, p, op, starts_now, field, &chain);
    if (error)
        return error;
    chain.tail->last = true;
    if (s->send_tail)
        s->send_tail->next = chain.head;
    else
        s->send_head = chain.head;
    s->send_tail = chain.tail;
    s->queued += chain.bytes;
    p->total = chain.bytes;
    return 0;
}
