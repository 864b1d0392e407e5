/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEADER_BYTES 320u /* what the kernel puts before the completion entries */

const char *const qt_ring_rung_names[QT_RING_RUNGS] = {"uring-defer", "uring-coop", "uring-plain"};

static const unsigned rung_flags[QT_RING_RUNGS] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    0,
};

static int set_up(struct io_uring *ring, unsigned flags, uint32_t entries, uint32_t cq_entries) {
    struct io_uring_params params = {.flags = flags | IORING_SETUP_R_DISABLED | IORING_SETUP_CQSIZE |
                                              IORING_SETUP_CLAMP,
                                     .cq_entries = cq_entries};
    memset(ring, 0, sizeof *ring);
    return io_uring_queue_init_params(entries, ring, &params);
}

int qt_ring_open(struct io_uring *ring, enum qt_ring_rung rung, uint32_t entries, uint32_t cq_entries) {
    int error = set_up(ring, rung_flags[rung] | IORING_SETUP_SUBMIT_ALL, entries, cq_entries);
    if (error == -EINVAL && rung == QT_RING_PLAIN)
        error = set_up(ring, rung_flags[rung], entries, cq_entries);
    if (error)
        return error;
    error = io_uring_ring_dontfork(ring);
    if (!error && (ring->features & QT_RING_FEATURES) != QT_RING_FEATURES)
        error = -EOPNOTSUPP;
    if (error)
        io_uring_queue_exit(ring);
    return error;
}

struct io_uring_buf_ring *qt_ring_buffers_map(uint32_t entries, size_t *bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *bytes = (entries * sizeof(struct io_uring_buf) + page - 1) / page * page;
    void *memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (madvise(memory, *bytes, MADV_DONTFORK) != 0) {
        munmap(memory, *bytes);
        return NULL;
    }
    return memory;
}

int qt_ring_register_buffers(struct io_uring *ring, void *memory, uint32_t entries, uint16_t group) {
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)memory, .ring_entries = entries, .bgid = group};
    return qt_ring_register(ring->ring_fd, IORING_REGISTER_PBUF_RING, &registration, 1);
}

int qt_ring_enter(int fd, unsigned submit, unsigned min_complete, unsigned flags, const void *arg,
                  size_t arg_size) {
    long result = syscall(__NR_io_uring_enter, fd, submit, min_complete, flags, arg, arg_size);
    return result < 0 ? -errno : (int)result;
}

int qt_ring_register(int fd, unsigned opcode, const void *arg, unsigned n) {
    long result = syscall(__NR_io_uring_register, fd, opcode, arg, n);
    return result < 0 ? -errno : (int)result;
}

static uint64_t whole_pages(uint64_t bytes) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

uint64_t qt_ring_bytes(uint32_t entries, uint32_t cq_entries, uint32_t buffer_entries) {
    return whole_pages(HEADER_BYTES + (uint64_t)cq_entries * sizeof(struct io_uring_cqe) +
                       entries * sizeof(uint32_t)) +
           whole_pages((uint64_t)entries * sizeof(struct io_uring_sqe)) +
           whole_pages((uint64_t)buffer_entries * sizeof(struct io_uring_buf));
}
