/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ends that the kernel forgets. When a multishot receive of io_uring is woken once for bytes and for what follows at once, a
 * reset or the close of a Unix socket, it takes the bytes, believes the socket empty and waits for another wake, which never
 * comes. So a stream whose receive waits on after bytes is looked at, once, when it has been silent for a while: if it has
 * ended, the receive is cancelled and armed anew, and finds the end. A stream that is busy costs a flag.
 */
#include "object.h"

#include <poll.h>

#define SILENCE_NS 100000000

static bool has_ended(qt_stream *s) {
    struct pollfd look = {.fd = s->object.fd, .events = POLLRDHUP};
    QT_COUNT(s->object.worker, system_calls, 1);
    return poll(&look, 1, 0) > 0;
}

static void silent(qt_timer *timer) {
    qt_stream *s = qt_container(timer, qt_stream, silence);
    qt_worker *w = s->object.worker;
    if (s->recv_req == NULL || s->recv_req->cancelled || s->object.closing)
        return; /* whatever is armed next looks for itself */
    if (s->brought_more) {
        s->brought_more = false;
        qt_timer_arm(&w->wheel, timer, qt_after(qt_now(w), SILENCE_NS));
    } else if (has_ended(s)) {
        qt_cancel_request(w, s->recv_req); /* its end arms the next */
    }
}

void qt_silence_init(qt_stream *s) {
    qt_timer_init(&s->silence, silent);
}

void qt_silence_begin(qt_stream *s) {
    qt_worker *w = s->object.worker;
    if (!w->driver->forgets_ends || s->object.closing)
        return;
    s->brought_more = s->silence.armed;
    if (!s->silence.armed)
        qt_timer_arm(&w->wheel, &s->silence, qt_after(qt_now(w), SILENCE_NS));
}

void qt_silence_end(qt_stream *s) {
    qt_timer_disarm(&s->object.worker->wheel, &s->silence);
}
