/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* From completion queue entries to completions. */
#include "uring.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* A multishot one's buffer begins with the kernel's own words about what it put there. */
static void read_packet(const qt_uring *u, const qt_req *req, const qt_completion *c, qt_packet *packet) {
    const struct msghdr *asked = (const struct msghdr *)(uintptr_t)req->addr;
    if (!(req->flags & QT_REQ_MULTISHOT)) {
        qt_packet_read(packet, asked, (uint32_t)asked->msg_iov[0].iov_len, (uint32_t)c->res);
        return;
    }
    const uint8_t *buffer = u->options.buffer_base + (uint64_t)c->bid * u->options.buffer_size;
    struct io_uring_recvmsg_out head;
    memcpy(&head, buffer, sizeof head);
    uint32_t control = QT_PACKET_HEAD + asked->msg_namelen;
    uint32_t at = control + (uint32_t)asked->msg_controllen;
    assert((uint32_t)c->res >= at && sizeof head == QT_PACKET_HEAD);
    *packet = (qt_packet){.name = buffer + QT_PACKET_HEAD,
                          .name_len = head.namelen,
                          .control = buffer + control,
                          .control_len = head.controllen,
                          .at = at,
                          .len = (uint32_t)c->res - at,
                          .whole = head.payloadlen};
}

static void tell(qt_uring *u, const struct io_uring_cqe *cqe) {
    qt_req *req = qt_uring_request(u, cqe);
    /* A request is freed only after its last completion, so that none can be stale. */
    assert(req != NULL && req->state == QT_REQ_IN_FLIGHT);
    qt_completion c = {.res = cqe->res};
    /* What one of the kernel's own threads waits in is cancelled by a signal, and tells that. */
    if (cqe->res == -EINTR && req->cancelled)
        c.res = -ECANCELED;
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        c.flags |= QT_CQ_BUFFER;
        c.bid = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    }
    if (cqe->flags & IORING_CQE_F_SOCK_NONEMPTY)
        c.flags |= QT_CQ_NONEMPTY;
    if (cqe->flags & IORING_CQE_F_NOTIF) {
        c.res = 0;
        c.flags |= (uint32_t)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED ? QT_CQ_COPIED : 0;
    }
    qt_packet packet;
    if (req->code == QT_REQ_RECVMSG && c.res >= 0) {
        read_packet(u, req, &c, &packet);
        c.packet = &packet;
    }
    if (cqe->flags & IORING_CQE_F_MORE) {
        c.flags |= QT_CQ_MORE;
        req->flags |= req->flags & QT_REQ_ZEROCOPY ? QT_URING_TOLD : 0;
    } else {
        req->flags &= (uint8_t)~QT_URING_TOLD;
        if (req->scratch)
            qt_uring_remove(&u->cancels, req);
        req->state = QT_REQ_IDLE;
        u->in_flight--;
        if (req->code == QT_REQ_POLL && u->polls_fd >= 0)
            qt_uring_poll_end(u, req);
    }
    req->done(req, &c);
}

/*
 * A cancel may miss a request that is alive but just then on its way from one wait to the next: it is asked once more. One that is
 * being performed (EALREADY) ends by itself.
 */
static void cancel_failed(qt_uring *u, const struct io_uring_cqe *cqe) {
    qt_req *req = qt_uring_request(u, cqe);
    if (cqe->res == -ENOENT && req != NULL && req->state == QT_REQ_IN_FLIGHT && req->cancelled &&
        !req->scratch && !(req->flags & QT_URING_TOLD))
        qt_uring_cancel_later(u, req);
}

/* True if core was told something. */
static bool take(qt_uring *u, const struct io_uring_cqe *cqe) {
    switch (qt_uring_tag(cqe)) {
    case QT_TAG_REQUEST:
        tell(u, cqe);
        return true;
    case QT_TAG_CANCEL:
        cancel_failed(u, cqe);
        return false;
    case QT_TAG_WAKE:
        u->wake_armed = false; /* the next enter arms it again */
        return false;
    case QT_TAG_DEADLINE:
        u->deadline_armed = false;
        return false;
    default:
        return false;
    }
}

uint32_t qt_uring_harvest(qt_driver *d, uint32_t budget) {
    qt_uring *u = (qt_uring *)d;
    struct io_uring_cqe cqe;
    uint32_t count = 0;
    for (; count < budget && u->ended.head != NULL; count++) {
        qt_req *req = u->ended.head;
        qt_completion cancelled = {.res = -ECANCELED};
        qt_uring_remove(&u->ended, req);
        req->state = QT_REQ_IDLE;
        req->done(req, &cancelled);
    }
    while (count < budget && qt_uring_next(u, &cqe))
        count += take(u, &cqe);
    return count;
}

bool qt_uring_pending(qt_driver *d) {
    const qt_uring *u = (const qt_uring *)d;
    return u->ended.head != NULL || u->cancels.head != NULL || u->backlog.head != NULL || qt_uring_ready(u) ||
           qt_uring_kernel_has_more(u);
}
