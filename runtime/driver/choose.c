/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Choosing a runtime's driver by trying: a small ring is set up for real and receives for real. */
#include "choose.h"

#include "driver.h"

#include <errno.h>
#include <quoit/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRIAL_BUFFERS 4u
#define TRIAL_BUFFER_SIZE 64u
#define TRIAL_WAIT_NS 1000000000

static const uint32_t rungs[] = {QUOIT_DRIVER_URING_DEFER, QUOIT_DRIVER_URING_COOP, QUOIT_DRIVER_URING_PLAIN};

const char *qt_rung_name(uint32_t rung) {
    static const char *const names[] = {"auto", "uring", "uring-defer", "uring-coop", "uring-plain", "epoll"};
    return rung < sizeof names / sizeof names[0] ? names[rung] : "unknown";
}

typedef struct qt_trial {
    int32_t received;
    bool done;
} qt_trial;

static void received(qt_req *req, const qt_completion *c) {
    qt_trial *trial = req->owner;
    if (!(c->flags & QT_CQ_MORE) || (c->res > 0 && c->flags & QT_CQ_BUFFER)) {
        trial->received = c->res;
        trial->done = true;
    }
}

/* A multishot receive over a socket pair into the buffer ring: what every stream will do. */
static int receive_once(qt_driver *d, qt_req_table *requests, int pair[2]) {
    qt_trial trial = {0};
    qt_req *req = qt_req_alloc(requests);
    if (req == NULL)
        return -ENOMEM;
    req->code = QT_REQ_RECV;
    req->flags = QT_REQ_MULTISHOT;
    req->fd = pair[0];
    req->owner = &trial;
    req->done = received;
    d->ops->submit(d, req);
    if (send(pair[1], "quoit", 5, MSG_NOSIGNAL) != 5)
        return -errno;
    for (int i = 0; i < 10 && !trial.done; i++) {
        d->ops->enter(d, TRIAL_WAIT_NS / 10);
        d->ops->harvest(d, 1);
    }
    return !trial.done ? -ETIME : trial.received < 0 ? trial.received : trial.received == 5 ? 0 : -EIO;
}

int qt_rung_try(uint32_t rung) {
    uint8_t memory[TRIAL_BUFFERS * TRIAL_BUFFER_SIZE];
    qt_req_table requests = {0};
    qt_driver *d;
    int pair[2];
    qt_driver_options options = {.rung = rung,
                                 .ring_entries = 8,
                                 .cq_entries = 16,
                                 .buffer_entries = TRIAL_BUFFERS,
                                 .buffer_size = TRIAL_BUFFER_SIZE,
                                 .buffer_base = memory,
                                 .requests = &requests};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    int error = rung == QUOIT_DRIVER_EPOLL ? qt_epoll_create(&options, &d) : qt_uring_create(&options, &d);
    if (error == 0) {
        error = d->ops->enable(d);
        for (uint32_t bid = 0; bid < TRIAL_BUFFERS && error == 0; bid++)
            d->ops->buffer_add(d, bid);
        if (error == 0)
            error = receive_once(d, &requests, pair);
        d->ops->destroy(d, false);
    }
    qt_req_table_destroy(&requests);
    close(pair[0]);
    close(pair[1]);
    return error;
}

/* Why a rung was refused, as far as its errno tells. */
static const char *why(int error) {
    switch (-error) {
    case EPERM:
        return "EPERM: a seccomp profile or kernel.io_uring_disabled forbids io_uring";
    case ENOSYS:
        return "ENOSYS: the kernel, or a sandbox, has no io_uring";
    case EINVAL:
        return "EINVAL: the kernel is too old for this rung";
    case ENOMEM:
        return "ENOMEM: RLIMIT_MEMLOCK leaves no room for a ring";
    default:
        return strerrorname_np(-error) ? strerrorname_np(-error) : "unknown error";
    }
}

static bool is_descriptor_shortage(int error) {
    return error == -EMFILE || error == -ENFILE;
}

static int choose_uring(uint32_t wanted, char *reason, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < sizeof rungs / sizeof rungs[0]; i++) {
        if (wanted >= QUOIT_DRIVER_URING_DEFER && wanted != rungs[i])
            continue;
        int error = qt_rung_try(rungs[i]);
        if (error == 0) {
            snprintf(reason + used, size - used, "%s works here.", qt_rung_name(rungs[i]));
            return (int)rungs[i];
        }
        int n = snprintf(reason + used, size - used, "%s was refused (%s). ", qt_rung_name(rungs[i]), why(error));
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
        if (is_descriptor_shortage(error))
            return error;
    }
    return QUOIT_E_DRIVER;
}

int qt_driver_choose(uint32_t wanted, char *reason, size_t size) {
    reason[0] = 0;
    if (wanted == QUOIT_DRIVER_EPOLL) {
        snprintf(reason, size, "epoll was asked for.");
        return QUOIT_DRIVER_EPOLL;
    }
    int rung = choose_uring(wanted, reason, size);
    if (rung >= 0 || is_descriptor_shortage(rung) || wanted != QUOIT_DRIVER_AUTO)
        return rung;
    size_t used = strlen(reason);
    snprintf(reason + used, size - used, "epoll is used instead.");
    return QUOIT_DRIVER_EPOLL;
}
