/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* File requests by plain system calls, for a thread of the blocking pool. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

/* How often a call that waits for a pipe looks whether it is still wanted. */
#define LOOK_MS 50

/*
 * A pipe or terminal may have nothing for as long as it likes: wait here, where a cancel is seen, not inside a read that cannot
 * be called back and would take bytes meant for the next one. Regular files are always ready.
 */
static int wait_ready(const qt_req *req) {
    struct pollfd item = {.fd = req->fd, .events = req->code == QT_REQ_READ ? POLLIN : POLLOUT};
    if (req->offset >= 0 || req->code == QT_REQ_OPENAT || req->code == QT_REQ_FSYNC)
        return 0;
    while (poll(&item, 1, LOOK_MS) == 0)
        if (__atomic_load_n(&req->cancelled, __ATOMIC_RELAXED))
            return -ECANCELED;
    return 0;
}

/*
 * As the ring does it: a FIFO or terminal is not waited for (a FIFO without a reader is -ENXIO to a writer, open(2)), and the
 * descriptor blocks afterwards as was asked.
 */
static int open_now(const qt_req *req) {
    int asked = (int)req->op_flags;
    int fd = openat(req->fd, (const char *)(uintptr_t)req->addr, asked | O_NONBLOCK, req->len);
    if (fd < 0 || asked & (O_NONBLOCK | O_DIRECTORY))
        return fd;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static ssize_t execute(const qt_req *req) {
    void *memory = (void *)(uintptr_t)req->addr;
    struct iovec one = {memory, req->len};
    bool many = req->code == QT_REQ_WRITEV;
    switch (req->code) {
    case QT_REQ_OPENAT:
        return open_now(req);
    case QT_REQ_READ:
        return req->offset < 0 ? read(req->fd, memory, req->len)
                               : pread(req->fd, memory, req->len, req->offset);
    case QT_REQ_WRITE:
    case QT_REQ_WRITEV:
        return pwritev2(req->fd, many ? memory : &one, many ? (int)req->len : 1,
                        req->offset < 0 ? -1 : req->offset, (int)req->op_flags);
    case QT_REQ_FSYNC:
        return req->op_flags & 1 ? fdatasync(req->fd) : fsync(req->fd);
    default:
        errno = EINVAL;
        return -1;
    }
}

int32_t qt_req_execute(const qt_req *req) {
    ssize_t result;
    int verdict = wait_ready(req);
    if (verdict)
        return verdict;
    do
        result = execute(req);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : (int32_t)result;
}
