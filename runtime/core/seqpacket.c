/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unix seqpacket: connections of messages. Their objects are datagram sockets, whose receives and sends keep messages whole, and that
 * begin, end and close as streams do. The kernel answers 0 for an empty message as for the end; so the socket is set to tell when each
 * message came (SO_TIMESTAMP): control data come with every message, and never with the end.
 */
#include "object.h"

#include <errno.h>

/* Whoever made it may have asked for the time already, in one form or the other: then it stays. */
static int mark_messages(qt_worker *w, qt_datagram *d) {
    int fd = d->stream.object.fd;
    if (qt_option_is_on(w, fd, SOL_SOCKET, SO_TIMESTAMP) ||
        qt_option_is_on(w, fd, SOL_SOCKET, SO_TIMESTAMPNS))
        return 0;
    d->marks = true;
    return qt_set_option(w, fd, SOL_SOCKET, SO_TIMESTAMP, 1);
}

qt_datagram *qt_seqpacket_new(qt_worker *w, int fd, int *error) {
    qt_datagram *d = qt_datagram_new(w, fd, AF_UNIX, error);
    if (d == NULL)
        return NULL;
    d->sequenced = true;
    d->connected = true;
    d->credentials = qt_option_is_on(w, fd, SOL_SOCKET, SO_PASSCRED); /* its listener's */
    *error = mark_messages(w, d);
    if (*error == 0)
        return d;
    qt_handle_free(w, &d->stream.object);
    qt_slab_free(&w->datagrams, d);
    return NULL;
}

void qt_seqpacket_leave(qt_worker *w, const qt_datagram *d) {
    if (d->marks)
        qt_set_option(w, d->stream.object.fd, SOL_SOCKET, SO_TIMESTAMP, 0);
}

bool qt_seqpacket_is_end(const qt_datagram *d, uint64_t whole, uint64_t control_len) {
    return d->sequenced && whole == 0 && control_len == 0;
}

/* A reset is told by the kernel before the messages that came before it: it waits for them, and takes the place of the end. */
int32_t qt_seqpacket_result(qt_datagram *d, int32_t res) {
    if (res == -ECONNRESET && d->sequenced && !d->reset) {
        d->reset = true;
        return -EAGAIN;
    }
    if (res == 0 && d->reset) {
        d->reset = false;
        return -ECONNRESET;
    }
    return res;
}

/* A closing one throws away what comes. Descriptors that come with it find no room: the kernel closes them. */
void qt_seqpacket_discard(qt_datagram *d, qt_req *req) {
    d->in_slice = (struct iovec){d->stream.object.worker->sink, QT_SINK_SIZE};
    d->in = (struct msghdr){.msg_iov = &d->in_slice,
                            .msg_iovlen = 1,
                            .msg_control = d->in_control,
                            .msg_controllen = QT_MARK_SIZE};
    req->code = QT_REQ_RECV_FD;
    req->addr = (uint64_t)(uintptr_t)&d->in;
}
