# SPDX-License-Identifier: MIT OR Apache-2.0
"""The end of a worker in order."""

import os
import queue
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import quoit
from support import LIMIT, Echo, Running, dial, listening


@contextmanager
def served(worker: quoit.Worker) -> Iterator[tuple[Running, socket.socket, list[quoit.Drain]]]:
    """A worker that runs, a client that it has answered, and what is told of a drain."""
    told: list[quoit.Drain] = []
    worker.on_drain = told.append
    address = listening(worker, Echo())
    with Running(worker) as running:
        client = dial(address())
        client.sendall(b"one")
        assert client.recv(3, socket.MSG_WAITALL) == b"one"
        yield running, client, told


def test_accepted_streams_finish(worker: quoit.Worker) -> None:
    with served(worker) as (running, client, told):
        worker.drain(3600)
        client.sendall(b"two")
        assert client.recv(3, socket.MSG_WAITALL) == b"two"
        client.close()
        running.join()
    assert told == [quoit.Drain(1, False, 0), quoit.Drain(0, True, 0)]


def test_grace_is_over(worker: quoit.Worker) -> None:
    with served(worker) as (running, client, told):
        quoit.drain(worker.handle, 0.02)
        running.join()
    client.close()
    assert told[-1].over
    assert told[-1].streams == 1
    assert quoit.status_name(told[-1].result) == "ETIMEDOUT"


def test_signal_of_the_program(worker: quoit.Worker) -> None:
    """As a service does it: Python's handler of SIGTERM asks for the drain."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: worker.drain(3600))
    try:
        worker.timer(0.01, lambda count: os.kill(os.getpid(), signal.SIGTERM))
        worker.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert worker.finished


def test_bounded_listener(worker: quoit.Worker) -> None:
    address: queue.Queue[str] = queue.Queue()
    worker.listen("127.0.0.1:0", Echo(), lambda listener: address.put(listener.address), streams_max=1)
    with pytest.raises(quoit.Error, match=r"E_STALE|E_HANDLE"):
        quoit.drain(12345, 1)
    with Running(worker):
        where = address.get(timeout=LIMIT)
        first, second = dial(where), dial(where)
        second.sendall(b"two")
        first.sendall(b"one")
        assert first.recv(3, socket.MSG_WAITALL) == b"one"
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.recv(3)
        first.close()
        second.settimeout(LIMIT)
        assert second.recv(3, socket.MSG_WAITALL) == b"two"
        second.close()
