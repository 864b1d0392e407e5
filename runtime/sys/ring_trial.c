/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ring_trial.h"
#include "clock.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES 8u
#define BUFFERS 2u
#define BUFFER_SIZE 64u
#define GROUP 0
#define NAP_NS 5000000

typedef struct bench {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    size_t buffers_bytes;
    char memory[BUFFERS][BUFFER_SIZE];
} bench;

void qt_ring_nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* Submits what is prepared and waits up to a second for one completion, which it copies out. 0 or -errno. */
static int go(bench *b, struct io_uring_cqe *out) {
    struct io_uring_sq *sq = &b->ring.sq;
    struct __kernel_timespec limit = {.tv_sec = 1};
    struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&limit};
    struct io_uring_cqe *cqe;
    io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
    int result = qt_ring_enter(b->ring.ring_fd, sq->sqe_tail - io_uring_smp_load_acquire(sq->khead), 1,
                               IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
    if (result < 0)
        return result;
    if (io_uring_peek_cqe(&b->ring, &cqe) != 0)
        return -ETIME;
    *out = *cqe;
    io_uring_cqe_seen(&b->ring, cqe);
    return 0;
}

static int try_setup(bench *b, enum qt_ring_rung rung, qt_trial *trial) {
    int64_t until = qt_now_ns() + QT_RING_RETRY_NS;
    int error;
    while ((error = qt_ring_open(&b->ring, rung, ENTRIES, 2 * ENTRIES)) == -ENOMEM && qt_now_ns() < until &&
           qt_memlock_allows(qt_ring_bytes(ENTRIES, 2 * ENTRIES, BUFFERS)))
        qt_ring_nap();
    trial->features = b->ring.features;
    return error;
}

static int try_enable(bench *b) {
    return qt_ring_register(b->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

static int try_nop(bench *b) {
    struct io_uring_cqe cqe;
    io_uring_prep_nop(io_uring_get_sqe(&b->ring));
    int error = go(b, &cqe);
    return error ? error : cqe.res;
}

static int try_buffers(bench *b) {
    b->buffers = qt_ring_buffers_map(BUFFERS, &b->buffers_bytes);
    if (b->buffers == NULL)
        return -ENOMEM;
    int error = qt_ring_register_buffers(&b->ring, b->buffers, BUFFERS, GROUP);
    for (unsigned i = 0; !error && i < BUFFERS; i++)
        io_uring_buf_ring_add(b->buffers, b->memory[i], BUFFER_SIZE, (unsigned short)i,
                              io_uring_buf_ring_mask(BUFFERS), (int)i);
    if (!error)
        io_uring_buf_ring_advance(b->buffers, BUFFERS);
    return error;
}

/* Bytes must arrive in one of our buffers with the receive still going; then the end, which lets go of the memory. */
static int receive(bench *b, const int pair[2]) {
    static const char word[] = "quoit";
    struct io_uring_cqe cqe;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&b->ring);
    io_uring_prep_recv_multishot(sqe, pair[0], NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    if (send(pair[1], word, sizeof word, MSG_NOSIGNAL) != sizeof word)
        return -errno;
    int error = go(b, &cqe);
    if (error || cqe.res < 0)
        return error ? error : cqe.res;
    unsigned bid = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
    if (cqe.res != sizeof word || !(cqe.flags & IORING_CQE_F_BUFFER) || bid >= BUFFERS ||
        memcmp(b->memory[bid], word, sizeof word) != 0)
        return -EPROTO;
    if (!(cqe.flags & IORING_CQE_F_MORE))
        return -EOPNOTSUPP;
    shutdown(pair[1], SHUT_WR);
    error = go(b, &cqe);
    return error || cqe.res != 0 ? -EPROTO : 0;
}

static int try_recv(bench *b) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    int error = receive(b, pair);
    close(pair[0]);
    close(pair[1]);
    return error;
}

static int accept_one(bench *b, int listener, int client) {
    struct io_uring_cqe cqe;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof name;
    io_uring_prep_multishot_accept(io_uring_get_sqe(&b->ring), listener, NULL, NULL, SOCK_CLOEXEC);
    /* Binding to a family alone picks a free abstract name. */
    if (bind(listener, (struct sockaddr *)&name, sizeof name.sun_family) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&name, &length) != 0 ||
        connect(client, (struct sockaddr *)&name, length) != 0)
        return -errno;
    int error = go(b, &cqe);
    if (error || cqe.res < 0)
        return error ? error : cqe.res;
    close(cqe.res);
    return cqe.flags & IORING_CQE_F_MORE ? 0 : -EOPNOTSUPP;
}

static int try_accept(bench *b) {
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = listener < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = client < 0 ? -errno : accept_one(b, listener, client);
    if (client >= 0)
        close(client);
    if (listener >= 0)
        close(listener);
    return error;
}

static int try_eventfd(bench *b) {
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = qt_ring_register(b->ring.ring_fd, IORING_REGISTER_EVENTFD, &fd, 1);
    close(fd);
    return error;
}

void qt_ring_try(enum qt_ring_rung rung, qt_trial *out) {
    static int (*const steps[QT_TRIAL_STEPS])(bench *) = {NULL,     try_enable, try_nop,    try_buffers,
                                                          try_recv, try_accept, try_eventfd};
    bench b = {0};
    *out = (qt_trial){.rung = rung, .failed = QT_TRIAL_STEPS};
    for (int step = 0; step < QT_TRIAL_STEPS; step++)
        out->results[step] = QT_TRIAL_NOT_TRIED;
    for (int step = 0; step < QT_TRIAL_STEPS && out->failed == QT_TRIAL_STEPS; step++) {
        int result = step == QT_TRIAL_SETUP ? try_setup(&b, rung, out) : steps[step](&b);
        out->results[step] = result;
        if (result != 0) {
            out->failed = step;
            out->error = result;
        }
    }
    if (out->results[QT_TRIAL_SETUP] == 0)
        io_uring_queue_exit(&b.ring);
    if (b.buffers != NULL)
        munmap(b.buffers, b.buffers_bytes);
}
