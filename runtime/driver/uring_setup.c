/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Setting a ring up, by a ladder of sizes, and tearing it down. */
#include "uring.h"

#include <errno.h>
#include <quoit/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SMALLEST_RING 16u
/* The kernel frees a dead process's rings some time after it is gone, and charges them to the user until then. */
#define RETRIES 20
#define RETRY_NS 50000000
#define NEEDED_FEATURES (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS)
#define LETTING_GO_NS 1000000000

static unsigned flags_of(uint32_t rung) {
    unsigned flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL;
    if (rung == QUOIT_DRIVER_URING_DEFER)
        return flags | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    if (rung == QUOIT_DRIVER_URING_COOP)
        return flags | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    return flags;
}

static int register_buffers(qt_uring *u) {
    uint32_t entries = u->options.buffer_entries;
    size_t size = (size_t)entries * sizeof(struct io_uring_buf);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    struct io_uring_buf_reg reg = {.ring_addr = (uint64_t)(uintptr_t)memory, .ring_entries = entries};
    int error = qt_uring_register(u->ring.ring_fd, IORING_REGISTER_PBUF_RING, &reg, 1);
    if (error == 0 && madvise(memory, size, MADV_DONTFORK) != 0)
        error = -errno;
    if (error != 0) {
        munmap(memory, size);
        return error;
    }
    u->buffers = memory;
    u->buffers_size = size;
    return 0;
}

static int set_up(qt_uring *u, unsigned entries, unsigned cq_entries) {
    struct io_uring_params params = {.flags = flags_of(u->options.rung), .cq_entries = cq_entries};
    int error = io_uring_queue_init_params(entries, &u->ring, &params);
    if (error != 0)
        return error;
    error = (params.features & NEEDED_FEATURES) == NEEDED_FEATURES ? io_uring_ring_dontfork(&u->ring) : -EINVAL;
    if (error == 0)
        error = register_buffers(u);
    if (error != 0) {
        io_uring_queue_exit(&u->ring);
        return error;
    }
    u->have_ring = true;
    u->driver.ring_entries = params.sq_entries;
    u->driver.cq_entries = params.cq_entries;
    u->enter_flags = params.features & IORING_FEAT_NO_IOWAIT ? IORING_ENTER_NO_IOWAIT : 0;
    return 0;
}

/* Each size in turn, as long as memory is what lacks. */
static int descend(qt_uring *u) {
    unsigned entries = u->options.ring_entries;
    unsigned cq_entries = u->options.cq_entries;
    for (;;) {
        int error = set_up(u, entries, cq_entries);
        if (error != -ENOMEM || entries <= SMALLEST_RING)
            return error;
        entries = entries / 2 < SMALLEST_RING ? SMALLEST_RING : entries / 2;
        cq_entries = cq_entries / 2 < 2 * entries ? 2 * entries : cq_entries / 2;
    }
}

int qt_uring_setup(qt_uring *u) {
    struct timespec pause = {0, RETRY_NS};
    int error = descend(u);
    for (int i = 0; i < RETRIES && error == -ENOMEM && u->options.patient; i++) {
        nanosleep(&pause, NULL);
        error = descend(u);
    }
    if (error != 0)
        return error;
    /* Not O_NONBLOCK: the ring's read on it must wait, not fail. */
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    return u->wake_fd < 0 ? -errno : 0;
}

/* Cancels everything and waits until the kernel has let go of the memory that requests point at. */
static void let_go(qt_uring *u) {
    struct io_uring_sqe *sqe = qt_uring_sqe(u);
    if (sqe == NULL)
        return;
    io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
    sqe->user_data = QT_TAG_IGNORE;
    struct __kernel_timespec limit = {0, LETTING_GO_NS / 20};
    for (int i = 0; i < 20 && u->in_flight > 0; i++) {
        int result = qt_uring_enter(u->ring.ring_fd, qt_uring_publish(u), 1, IORING_ENTER_GETEVENTS, &limit);
        if (result < 0 && result != -ETIME && result != -EINTR)
            return; /* not this thread's ring: closing it cancels all the same */
        unsigned head = *u->ring.cq.khead;
        for (; head != __atomic_load_n(u->ring.cq.ktail, __ATOMIC_ACQUIRE); head++) {
            const struct io_uring_cqe *cqe = &u->ring.cq.cqes[head & u->ring.cq.ring_mask];
            if ((cqe->user_data & 0xFF) == QT_TAG_REQUEST && !(cqe->flags & IORING_CQE_F_MORE) && u->in_flight > 0)
                u->in_flight--;
        }
        __atomic_store_n(u->ring.cq.khead, head, __ATOMIC_RELEASE);
    }
}

void qt_uring_teardown(qt_uring *u, bool forked) {
    if (u->have_ring && !forked && atomic_load(&u->enabled) && u->in_flight > 0)
        let_go(u);
    if (u->have_ring) {
        /* A child has no mapping of the ring (MADV_DONTFORK): it only drops its descriptor. */
        if (forked)
            close(u->ring.ring_fd);
        else
            io_uring_queue_exit(&u->ring);
        if (u->buffers != NULL && !forked)
            munmap(u->buffers, u->buffers_size);
    }
    if (u->wake_fd >= 0)
        close(u->wake_fd);
    if (u->host_fd >= 0)
        close(u->host_fd);
    free(u->deferred);
    free(u);
}
