# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ways to break the core: (name, file, text, replacement). The text must stand in the file exactly once."""

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str


CORE = "runtime/core/"

MUTATIONS = (
    Mutation("MORE is lost", CORE + "events.c", "event->flags = QUOIT_EVF_MORE;", "event->flags = 0;"),
    Mutation(
        "a receive that ended is not armed again",
        CORE + "recv.c",
        "        wait_for_buffer(s);\n    } else {\n        arm(s);\n    }",
        "        wait_for_buffer(s);\n    }",
    ),
    Mutation(
        "starved receives are never armed again",
        CORE + "recv.c",
        "        qt_list_remove(&s->starved_link);\n        arm(s);\n    }\n}",
        "        qt_list_remove(&s->starved_link);\n    }\n}",
    ),
    Mutation("the generation is not compared", CORE + "handles.c", "object->handle != handle", "false"),
    Mutation("the worker of a handle is not compared", CORE + "handles.c", "((handle >> 48) & 0xFF) != w->id", "false"),
    Mutation(
        "loans end before the ops are read",
        CORE + "turn.c",
        "    qt_submit_ops(w, nops);\n    qt_loans_end(w);",
        "    qt_loans_end(w);\n    qt_submit_ops(w, nops);",
    ),
    Mutation(
        "EOF is result 0 alone",
        CORE + "recv.c",
        "end_recv(s, res, res == 0 ? QUOIT_EVF_EOF : 0);",
        "end_recv(s, res, 0);",
    ),
    Mutation("QUIET tells success", CORE + "pending.c", "result < 0 || !(p->flags & QUOIT_OPF_QUIET)", "true"),
    Mutation(
        "close does not wait for sends",
        CORE + "close.c",
        "if (s->send_head != NULL || s->recv_req != NULL || s->recv != NULL || s->recv_fd != NULL ||\n"
        "        s->close_req != NULL || s->send_req != NULL)",
        "if (s->recv_req != NULL || s->recv != NULL || s->recv_fd != NULL || s->close_req != NULL)",
    ),
    Mutation("no empty pool is survived", CORE + "recv.c", "bool again = res == -ENOBUFS || ", "bool again = "),
    Mutation(
        "what a stream owes has no bound", CORE + "send_queue.c", "s->copied + total > w->options.send_limit", "false"
    ),
    Mutation("deadlines are not armed", CORE + "pending.c", "op->timeout_ns != 0", "false"),
    Mutation("nobody wakes a sleeper", CORE + "turn.c", "if (atomic_exchange(&w->sleeping, 0))", "if (false)"),
    Mutation("any thread may turn", "capi/src/calls.c", "if (owner != self)", "if (false)"),
    Mutation("callbacks may turn", "capi/src/calls.c", "if (!inside && w->in_turn)", "if (false)"),
    Mutation("stray fields pass", CORE + "dispatch.c", "(stray = stray_field(op, rule)) != 0", "(stray = 0) != 0"),
    Mutation("flags pass", CORE + "dispatch.c", "if (f & ~rule->flags)", "if (false)"),
    Mutation(
        "a partial send is taken for whole",
        CORE + "send.c",
        "        if (sent < piece->len) {",
        "        if (sent < piece->len && piece->len < 4096) {",
    ),
    Mutation("release works without keep", CORE + "buffers.c", "if (status == 0 && buffer->keeps == 0)", "if (false)"),
    Mutation(
        "pause holds nothing back",
        CORE + "recv.c",
        "else if (s->paused & QT_PAUSED_USER)\n        hold",
        "else if (false)\n        hold",
    ),
    Mutation(
        "a cancelled receive loses bytes",
        CORE + "recv.c",
        "if (s->object.closing || s->recv == NULL)",
        "if (s->object.closing || s->recv == NULL || s->recv->verdict)",
    ),
    Mutation(
        "received bytes are sent unchecked",
        CORE + "buffers.c",
        "if (offset < start || offset - start > (*out)->length",
        "if (false && offset - start > (*out)->length",
    ),
    Mutation(
        "running out of descriptors ends accepting",
        CORE + "listener.c",
        "} else if (is_shortage(c->res)) {",
        "} else if (false) {",
    ),
    Mutation(
        "posts come in reverse",
        CORE + "mailbox.c",
        "qt_letter *letter = oldest_first(atomic_exchange(&box->head, NULL));",
        "qt_letter *letter = atomic_exchange(&box->head, NULL);",
    ),
    Mutation("equal timers expire in reverse", "runtime/base/wheel.c", "a->order < b->order", "a->order > b->order"),
    Mutation(
        "a timer fires a tick early",
        "runtime/base/wheel.c",
        "return ns <= 0 ? 0 : (ns - 1) / TICK_NS + 1;",
        "return ns <= 0 ? 0 : ns / TICK_NS;",
    ),
    Mutation(
        "a kept buffer has no cap", CORE + "recv.c", "if (s->kept_bytes >= w->options.kept_stream_max)", "if (false)"
    ),
    Mutation(
        "the child of a fork goes on",
        CORE + "runtime.h",
        "__atomic_load_n(runtime->fork_page, __ATOMIC_RELAXED) == 0",
        "runtime == NULL",
    ),
    Mutation(
        "a MULTI poll is not armed again",
        CORE + "poll.c",
        "->value = p->object->handle;\n        qt_submit(w, req);",
        "->value = p->object->handle;",
    ),
    Mutation(
        "a MULTI poll leaves its duplicate open",
        CORE + "poll.c",
        "    close(poll->object.fd);\n    QT_COUNT(w, system_calls, 1);\n    qt_handle_free",
        "    QT_COUNT(w, system_calls, 1);\n    qt_handle_free",
    ),
    Mutation(
        "an index that grows loses what it has",
        "runtime/base/index.c",
        "&buckets[bucket_of(index, node->key)]",
        "&buckets[0]",
    ),
    Mutation(
        "a cancel takes ops of any name",
        CORE + "cancel.c",
        "(!by_user_data || p->user_data == user_data)",
        "(by_user_data || !by_user_data || user_data)",
    ),
    Mutation(
        "a close tells nothing unsent", CORE + "close.c", "qt_finish(p, 0, unsent);", "qt_finish(p, 0, unsent * 0);"
    ),
    Mutation("a cancel misses the middle of a message", CORE + "send.c", "else if (asked)", "else if (false)"),
    Mutation(
        "a signal in a thread of the kernel is told",
        "runtime/driver/uring_harvest.c",
        "if (cqe->res == -EINTR && req->cancelled)",
        "if (false)",
    ),
    Mutation(
        "an end behind bytes is forgotten", CORE + "missed_end.c", "} else if (has_ended(s)) {", "} else if (false) {"
    ),
    Mutation(
        "options of sockets have no bounds",
        CORE + "sockopt.c",
        "op->offset < option->least || op->offset > option->most",
        "op->offset < option->least && op->offset > option->most",
    ),
    Mutation(
        "an empty message ends its connection",
        CORE + "seqpacket.c",
        "whole == 0 && control_len == 0",
        "whole + control_len * 0 == 0",
    ),
    Mutation(
        "a reset overtakes what came before it",
        CORE + "seqpacket.c",
        "res == -ECONNRESET && d->sequenced && !d->reset",
        "false",
    ),
    Mutation("a detached socket stays marked", CORE + "seqpacket.c", "if (d->marks)\n", "if (false)\n"),
    Mutation(
        "credentials come with the next receive only",
        CORE + "recv.c",
        "qt_cancel_request(s->object.worker, s->recv_req); /* its end arms the next */",
        "(void)s;",
    ),
    Mutation(
        "descriptors that nobody asked for stay open",
        CORE + "recvmsg.c",
        "if (local)\n        qt_fds_take",
        "if (false)\n        qt_fds_take",
    ),
    Mutation("the send arena begins with a region", CORE + "scratch.c", "#define HEAD 4096u", "#define HEAD 0u"),
    Mutation(
        "a stream moves before its events were seen", CORE + "move.c", "if (w->seen >= m->told)", "if (m->told > 0)"
    ),
    Mutation(
        "what was held does not move",
        CORE + "move.c",
        "    m->held_count = s->held_count;\n    if (total == 0)",
        "    m->held_count = 0;\n    if (true)",
    ),
    Mutation("an end that was held does not move", CORE + "move.c", "    s->held_end = m->held_end;\n", ""),
    Mutation(
        "a moved stream keeps its place",
        CORE + "move.c",
        "    qt_list_remove(&s->dirty_link);\n    qt_listener_stream_gone(s);",
        "    qt_list_remove(&s->dirty_link);",
    ),
    Mutation(
        "a move is taken back too late",
        CORE + "move.c",
        "return !m->away || change(m, QT_MOVE_WITHDRAWN);",
        "return true;",
    ),
    Mutation("a cancel asks twice", CORE + "cancel.c", "p->verdict == 0 && (!by_user_data", "(!by_user_data"),
    Mutation(
        "an ABORT does not hasten a close",
        CORE + "close.c",
        "if (forced && object->closing == QT_CLOSING)",
        "if (false)",
    ),
    Mutation(
        "joining a group hears all groups",
        CORE + "datagram.c",
        "IP_MULTICAST_ALL,\n                         0);",
        "IP_MULTICAST_ALL,\n                         1);",
    ),
    Mutation("timers of several clocks come in reverse", CORE + "clocks.c", "late > longest", "late < longest"),
    Mutation(
        "a period counts from its event",
        CORE + "timers.c",
        "now - (int64_t)(late % period), t->period_ns",
        "now - (int64_t)(late % period) * 0, t->period_ns",
    ),
)
