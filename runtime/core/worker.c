/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A worker's making and end. */
#include "../base/options.h"
#include "../sys/clock.h"
#include "blocking.h"
#include "channel.h"
#include "clocks.h"
#include "object.h"
#include "status.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t or_default(uint64_t given, uint64_t otherwise) {
    return given ? given : otherwise;
}

/* The only place where a worker's defaults stand. */
static void set_defaults(quoit_worker_options *o) {
    o->events_max = (uint32_t)or_default(o->events_max, 256);
    o->ops_max =
        (uint32_t)or_default(o->ops_max, 4 * (uint64_t)(o->events_max < 16384 ? o->events_max : 16384));
    o->scratch_len = (uint32_t)or_default(o->scratch_len, 1 << 20);
    o->recv_arena = or_default(o->recv_arena, 1 << 30);
    o->send_arena = or_default(o->send_arena, 1 << 30);
    o->recv_buffers = (uint32_t)or_default(o->recv_buffers, 256);
    o->recv_buffer_size = (uint32_t)or_default(o->recv_buffer_size, 2048);
    o->send_limit = or_default(o->send_limit, 4 << 20);
    o->kept_stream_max = or_default(o->kept_stream_max, 64 << 10);
    o->kept_max = or_default(o->kept_max, 256 << 20);
    o->ring_entries = (uint32_t)or_default(o->ring_entries, 256);
    o->cq_entries = (uint32_t)or_default(o->cq_entries, 4096);
    o->objects_max = (uint32_t)or_default(o->objects_max, 1 << 20);
    o->mailbox_ops = (uint32_t)or_default(o->mailbox_ops, 65536);
    o->mailbox_bytes = or_default(o->mailbox_bytes, 64 << 20);
    o->close_timeout_ns = or_default(o->close_timeout_ns, 5000000000u);
}

/* The name of the first option that is out of range, or null. */
static const char *bad_option(const quoit_worker_options *o) {
    if (o->events_max > 65536)
        return "events_max (1 to 65536)";
    if (o->ops_max > 65536)
        return "ops_max (1 to 65536)";
    if (o->scratch_len < 4096 || o->scratch_len > (64u << 20))
        return "scratch_len (4096 to 67108864)";
    if (o->recv_buffers > 32768 || (o->recv_buffers & (o->recv_buffers - 1)))
        return "recv_buffers (a power of two up to 32768)";
    if (o->recv_buffer_size < 64 || o->recv_buffer_size > (1u << 20))
        return "recv_buffer_size (64 to 1048576)";
    if (o->recv_arena < (16u << 20) || o->recv_arena > ((uint64_t)1 << 40))
        return "recv_arena (16 MiB to 1 TiB)";
    if (o->recv_arena < 4 * (uint64_t)o->recv_buffers * o->recv_buffer_size)
        return "recv_arena (at least 4 x recv_buffers x recv_buffer_size)";
    if (o->send_arena < o->scratch_len || o->send_arena > ((uint64_t)1 << 40))
        return "send_arena (scratch_len to 1 TiB)";
    if (o->cq_entries < 2 * o->ring_entries || o->cq_entries > 65536)
        return "cq_entries (2 x ring_entries to 65536)";
    if (o->ring_entries > 32768)
        return "ring_entries (1 to 32768)";
    if (o->objects_max > 0xFFFFFE)
        return "objects_max (1 to 16777214)";
    if (o->reserved || o->reserved2)
        return "reserved (must be 0)";
    return NULL;
}

static quoit_status read_options(qt_runtime *runtime, const quoit_worker_options *given,
                                 quoit_worker_options *out) {
    memset(out, 0, sizeof *out);
    if (given != NULL) {
        quoit_status status = qt_options_read(out, sizeof *out, QT_WORKER_OPTIONS_V1, given);
        if (status != 0)
            return status;
    }
    if (out->flags & ~(uint32_t)QUOIT_WORKER_GREASE)
        return QUOIT_E_FLAGS;
    set_defaults(out);
    const char *bad = bad_option(out);
    if (bad == NULL)
        return 0;
    qt_log_line(runtime, QUOIT_LOG_ERROR, "quoit_worker_create: option %s is out of range", bad);
    return QUOIT_E_ARGUMENT;
}

static int make_batch(qt_worker *w) {
    const quoit_worker_options *o = &w->options;
    size_t events = (sizeof(quoit_batch) + 63) & ~(size_t)63;
    size_t ops = events + (size_t)o->events_max * sizeof(quoit_event);
    w->batch_bytes = ops + (size_t)o->ops_max * sizeof(quoit_op);
    uint8_t *memory = mmap(NULL, w->batch_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    w->batch = (quoit_batch *)(void *)memory;
    w->events = (quoit_event *)(void *)(memory + events);
    w->ops = (quoit_op *)(void *)(memory + ops);
    *w->batch = (quoit_batch){.struct_size = sizeof *w->batch,
                              .ops = (uint64_t)(uintptr_t)w->ops,
                              .events = (uint64_t)(uintptr_t)w->events,
                              .ops_max = o->ops_max,
                              .events_max = o->events_max,
                              .stride = sizeof(quoit_event),
                              .next_ns = -1,
                              .now_ns = (uint64_t)qt_now_ns(),
                              .recv_base = (uint64_t)(uintptr_t)w->buffers.base,
                              .recv_size = w->buffers.arena_size,
                              .send_base = (uint64_t)(uintptr_t)w->scratch.base,
                              .send_size = w->scratch.mapped,
                              .worker = w->handle};
    return 0;
}

static void driver_leaked(void *worker) {
    qt_worker *w = worker;
    w->leaked = true;
    qt_log_line(w->runtime, QUOIT_LOG_WARNING,
                "The kernel did not let go of a worker's requests in time; their memory is left to it.");
}

/* A runtime on io_uring whose ring cannot be had for want of memory goes on with epoll, unless a rung was forced. */
static int make_driver(qt_worker *w) {
    qt_runtime *runtime = w->runtime;
    qt_driver_options options = {.rung = runtime->rung,
                                 .ring_entries = w->options.ring_entries,
                                 .cq_entries = w->options.cq_entries,
                                 .buffer_entries = w->options.recv_buffers,
                                 .buffer_size = w->options.recv_buffer_size,
                                 .patient = true,
                                 .buffer_base = w->buffers.base,
                                 .host = {.ctx = w,
                                          .run_blocking = qt_run_blocking,
                                          .cancel_blocking = qt_cancel_blocking,
                                          .leaked = driver_leaked},
                                 .requests = &w->requests};
    int error = -ENOMEM;
    if (runtime->rung != QUOIT_DRIVER_EPOLL) {
        error = qt_uring_create(&options, &w->driver);
        if (error == 0 || error == -EMFILE || error == -ENFILE || runtime->driver_forced)
            return error;
        qt_log_line(runtime, QUOIT_LOG_WARNING,
                    "No ring could be set up for a worker (%s); it runs on epoll.", qt_status_name(error));
    }
    options.rung = QUOIT_DRIVER_EPOLL;
    return qt_epoll_create(&options, &w->driver);
}

static int init(qt_worker *w) {
    qt_slab_init(&w->pendings, sizeof(qt_pending), 128);
    qt_slab_init(&w->streams, sizeof(qt_stream), 64);
    qt_slab_init(&w->datagrams, sizeof(qt_datagram), 16);
    qt_slab_init(&w->outgoings, sizeof(qt_outgoing), 32);
    size_t small =
        sizeof(qt_listener) > sizeof(qt_timer_object) ? sizeof(qt_listener) : sizeof(qt_timer_object);
    qt_slab_init(&w->objects, small, 64);
    qt_slab_init(&w->pieces, sizeof(qt_piece), 128);
    qt_slab_init(&w->send_slots, sizeof(qt_send_slot), 8);
    qt_slab_init(&w->flights, qt_flight_size, 32);
    qt_slab_init(&w->splices_slab, qt_splice_size, 32);
    qt_slab_init(&w->wait_slab, sizeof(qt_wait), 32);
    qt_list_init(&w->loose);
    qt_index_init(&w->named);
    qt_list_init(&w->dirty);
    qt_list_init(&w->splices);
    qt_list_init(&w->leaving);
    qt_list_init(&w->stalled);
    qt_list_init(&w->waits);
    qt_list_init(&w->channels_ready);
    qt_list_init(&w->works);
    qt_list_init(&w->works_waiting);
    pthread_mutex_init(&w->life_lock, NULL);
    pthread_mutex_init(&w->works_lock, NULL);
    pthread_cond_init(&w->works_home, NULL);
    w->handles.max = w->options.objects_max;
    qt_wheel_init(&w->wheel, qt_now_ns());
    qt_drain_init(w);
    qt_mailbox_init(&w->mailbox, w->options.mailbox_ops, w->options.mailbox_bytes);
    w->sink = malloc(QT_SINK_SIZE);
    w->hub = qt_hub_new();
    int error = w->sink && w->hub ? qt_buffers_init(w) : -ENOMEM;
    if (!error)
        error = qt_scratch_init(w);
    if (!error)
        error = make_batch(w);
    if (!error)
        error = make_driver(w);
    if (!error)
        qt_scratch_next(w);
    return error;
}

int qt_worker_create(qt_runtime *runtime, const quoit_worker_options *given, qt_worker **out) {
    quoit_worker_options options;
    quoit_status status = read_options(runtime, given, &options);
    if (status != 0)
        return status;
    qt_worker *w = calloc(1, sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    w->shell = qt_shell_take_worker();
    if (w->shell == NULL) {
        free(w);
        return QUOIT_E_LIMIT;
    }
    w->runtime = runtime;
    w->options = options;
    w->id = w->shell->number;
    w->handle = qt_handle_make(QUOIT_HANDLE_WORKER, w->id, w->shell->generation, 0);
    w->stats.struct_size = sizeof w->stats;
    int error = init(w);
    if (error) {
        qt_shell *shell = w->shell;
        qt_worker_free(w, false);
        qt_shell_give_back(shell);
        return error;
    }
    w->stats.driver = w->driver->rung;
    /* Until its first turn it sleeps in nobody's wait: a post must wake the host's fd. */
    atomic_store(&w->sleeping, 1);
    atomic_store(&w->shell->body, w);
    atomic_fetch_add(&runtime->workers, 1);
    *out = w;
    return 0;
}

static void free_pieces(qt_worker *w, qt_piece *piece) {
    for (; piece != NULL; piece = piece->next) {
        qt_piece_drop_fd(piece);
        if (piece->kind == QT_PIECE_COPY)
            qt_block_free(&w->blocks, piece->block, piece->size);
    }
}

static void free_stream(qt_worker *w, qt_stream *s) {
    free_pieces(w, s->send_head);
    free_pieces(w, s->owed_head);
    free(s->held);
}

/* Else a peer that acknowledges nothing would keep the kernel at their memory. */
static void break_flights(qt_worker *w) {
    for (uint32_t slot = 0; slot < w->handles.capacity; slot++) {
        qt_object *object = w->handles.slots[slot].object;
        if (object != NULL && object->kind == QUOIT_HANDLE_STREAM && object->fd >= 0)
            qt_flights_break((qt_stream *)object);
    }
}

static void close_descriptors(qt_worker *w) {
    for (uint32_t slot = 0; slot < w->handles.capacity; slot++) {
        qt_object *object = w->handles.slots[slot].object;
        if (object != NULL && object->moving)
            qt_move_abandon((qt_stream *)object);
        if (object != NULL && object->fd >= 0)
            close(object->fd);
    }
}

static void discard_all(qt_link *list) {
    for (qt_link *at = list->next; at != list; at = at->next)
        qt_pending_discard(qt_container(at, qt_pending, link));
}

/* What was left over: the driver is gone, so that nothing points at it any more. */
static void free_objects(qt_worker *w, bool forked) {
    for (uint32_t slot = 0; slot < w->handles.capacity; slot++) {
        qt_object *object = w->handles.slots[slot].object;
        if (object == NULL)
            continue;
        if (object->kind == QUOIT_HANDLE_STREAM || object->kind == QUOIT_HANDLE_DATAGRAM)
            free_stream(w, (qt_stream *)object);
        if (object->kind == QUOIT_HANDLE_LISTENER && !forked)
            qt_listener_free((qt_listener *)object);
        discard_all(&object->pendings);
        if (object->kind == QUOIT_HANDLE_CHANNEL)
            free(object);
    }
    if (w->loose.next != NULL)
        discard_all(&w->loose);
}

/* Also for a worker that is half made. Its pool jobs come home first: they point into it. */
void qt_worker_free(qt_worker *w, bool forked) {
    if (w->works.next != NULL)
        qt_works_abandon(w, forked);
    if (w->hub != NULL)
        qt_hub_close(w, forked);
    if (!forked) {
        qt_mailbox_close(&w->mailbox, w);
        break_flights(w);
    }
    if (w->driver != NULL)
        w->driver->ops->destroy(w->driver, forked);
    qt_clocks_destroy(w);
    close_descriptors(w);
    if (w->leaked)
        return;
    free_objects(w, forked);
    qt_pipes_close(w);
    qt_req_table_destroy(&w->requests);
    qt_slab_destroy(&w->pendings);
    qt_slab_destroy(&w->streams);
    qt_slab_destroy(&w->datagrams);
    qt_slab_destroy(&w->outgoings);
    qt_slab_destroy(&w->objects);
    qt_slab_destroy(&w->pieces);
    qt_slab_destroy(&w->send_slots);
    qt_slab_destroy(&w->flights);
    qt_slab_destroy(&w->splices_slab);
    qt_slab_destroy(&w->wait_slab);
    qt_index_destroy(&w->named);
    qt_blocks_destroy(&w->blocks);
    qt_buffers_destroy(w);
    qt_scratch_destroy(w);
    free(w->handles.slots);
    free(w->queue.items);
    free(w->sink);
    free(w->adopted);
    if (w->batch != NULL)
        munmap(w->batch, w->batch_bytes);
    free(w);
}
