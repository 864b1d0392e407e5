# SPDX-License-Identifier: MIT OR Apache-2.0
"""A TCP echo over batches: `echo.py HOST:PORT [--driver D] [--buffers N] [--events N]`.

Each tick brings an array of events; the answers are ops, packed into the worker's array, which go to the kernel with
the call that waits for the next events. What was received is sent from where it lies: nothing is copied.
"""

from collections.abc import Iterator

import service
from quoit import (
    EVF_MORE,
    OP_ACCEPT,
    OP_CLOSE,
    OP_LISTEN,
    OP_RECV,
    OP_SEND,
    OPF_ABORT,
    OPF_ARENA_RECV,
    OPF_AUTO_RECV,
    OPF_MULTI,
    OPF_QUIET,
    Error,
    Event,
    Worker,
    address,
)

ECHO = OPF_QUIET | OPF_ARENA_RECV
messages = received = 0


def on_batch(worker: Worker, events: Iterator[Event]) -> None:
    global messages, received
    op = worker.op
    for kind, flags, source, _, result, offset, length, _, buffer, value in events:
        if kind == OP_RECV:
            if length:
                messages += 1
                received += length
                op(OP_SEND, ECHO, source, 0, offset, length, 0, 0, buffer)
            if not flags & EVF_MORE:
                op(
                    OP_CLOSE,
                    OPF_QUIET if result >= 0 else OPF_QUIET | OPF_ABORT,
                    source,
                )
        elif kind == OP_SEND:
            # Sends are quiet: this one failed, so the peer has gone.
            op(OP_CLOSE, OPF_QUIET | OPF_ABORT, source)
        elif kind == OP_LISTEN:
            if result < 0:
                raise Error(result, "listen")
            op(OP_ACCEPT, OPF_MULTI | OPF_AUTO_RECV, value)
            print(
                "listening on",
                address.of(worker.pointer, value, peer=False),
                flush=True,
            )


def start(worker: Worker) -> service.OnBatch:
    where = address.parse(args.address)
    worker.op(OP_LISTEN, addr=worker.hold_struct(where), len=address.SIZE)
    return on_batch


if __name__ == "__main__":
    args = service.arguments("address")
    service.serve(args, start, lambda: {"handler_messages": messages, "handler_bytes": received})
