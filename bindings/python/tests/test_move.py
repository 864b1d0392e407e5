# SPDX-License-Identifier: MIT OR Apache-2.0
"""Connections that go to another worker: the op and the event as they are."""

import socket

import quoit
from support import LIMIT

MOVE = 5


def until(kind: int, first: quoit.Worker, second: quoit.Worker) -> quoit.Event:
    """The first event of this kind that the first worker tells; both are turned."""
    while True:
        for event in first.turn(1_000_000):
            if event[0] == kind:
                return event
        assert all(event[0] < quoit.KIND_BAD_OP for event in second.turn(0))


def echo_once(worker: quoit.Worker, stream: int, client: socket.socket) -> None:
    client.sendall(b"moved")
    worker.op(quoit.OP_RECV, 0, stream, 6)
    event = next(iter(worker.turn(-1)))
    assert (event[0], event[4]) == (quoit.OP_RECV, 5)
    worker.op(quoit.OP_SEND, quoit.OPF_QUIET | quoit.OPF_ARENA_RECV, stream, 7, event[5], event[6], 0, 0, event[8])
    assert list(worker.turn(0)) == []
    assert client.recv(5, socket.MSG_WAITALL) == b"moved"


def test_there_and_back(runtime: quoit.Runtime) -> None:
    ours, client = socket.socketpair()
    client.settimeout(LIMIT)
    with runtime.worker() as here, runtime.worker() as there:
        here.op(quoit.OP_ADOPT, offset=ours.detach())
        stream = until(quoit.OP_ADOPT, here, there)[9]
        workers = [here, there]
        for number in range(4):
            old, new = workers
            old.op(quoit.OP_MOVE, 0, stream, MOVE, 1 << 63 | number, arg2=old.handle)
            refused = until(quoit.OP_MOVE, old, new)
            assert (refused[4], refused[7]) == (quoit.E_FIELD, quoit.FIELD_ARG2)
            old.op(quoit.OP_MOVE, 0, stream, MOVE, 1 << 63 | number, arg2=new.handle)
            assert list(old.turn(0)) == []
            moved = until(quoit.KIND_MOVED, new, old) if number % 2 else next(iter(new.turn(-1)))
            assert moved == (quoit.KIND_MOVED, 0, stream, 1 << 63 | number, 0, 0, 0, 0, 0, moved[9])
            ended = next(iter(old.turn(-1)))
            assert ended == (quoit.OP_MOVE, 0, stream, MOVE, 0, 0, 0, 0, 0, moved[9])
            stream = moved[9]
            echo_once(new, stream, client)
            workers.reverse()
    assert client.recv(1) == b""
    client.close()
