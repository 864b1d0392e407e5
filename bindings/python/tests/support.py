# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests share: a worker on a thread of its own, plain socket clients, programs run aside."""

import os
import queue
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import quoit

DRIVERS = ["uring-defer", "uring-coop", "uring-plain", "epoll"]
LIMIT = 30.0
ROOT = Path(__file__).resolve().parents[3]


class Running:
    """A worker that runs on a thread of its own inside the block; what its callbacks raise comes out at the end."""

    def __init__(self, worker: quoit.Worker, on_batch: Any = None) -> None:
        self.worker = worker
        self.on_batch = on_batch
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.worker.run(self.on_batch)
        except BaseException as error:
            self.error = error

    def __enter__(self) -> "Running":
        self.thread.start()
        return self

    def join(self) -> None:
        self.thread.join(LIMIT)
        assert not self.thread.is_alive(), "the worker does not stop"

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.thread.is_alive():
            try:
                self.worker.stop()
            except quoit.Error as gone:
                assert gone.status in (quoit.E_CLOSED, quoit.E_STALE)
        self.join()
        if self.error is not None and error is None:
            raise self.error


class Echo(quoit.Handler):
    def on_data(self, stream: quoit.Stream, data: bytes) -> None:
        stream.send(data)


class LentEcho(quoit.Handler):
    def on_lent(self, stream: quoit.Stream, data: quoit.Lent) -> None:
        stream.send(data)


def listening(worker: quoit.Worker, handler: quoit.Handler, where: str = "127.0.0.1:0") -> Callable[[], str]:
    """Has the worker listen; what is returned waits for the address."""
    ready: queue.Queue[str] = queue.Queue()
    worker.listen(where, handler, lambda listener: ready.put(listener.address))
    return lambda: ready.get(timeout=LIMIT)


def dial(where: str) -> socket.socket:
    if where.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(LIMIT)
        client.connect(where.removeprefix("unix:"))
        return client
    host, _, port = where.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=LIMIT)


def receive(client: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        piece = client.recv(min(65536, size - len(got)))
        if not piece:
            break
        got += piece
    return bytes(got)


def receive_all(client: socket.socket) -> bytes:
    return receive(client, sys.maxsize)


def echo_once(where: str, data: bytes) -> bytes:
    """Sends from a thread and receives meanwhile, so that no size stalls both ends."""
    with dial(where) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        got = receive(client, len(data))
        sender.join(LIMIT)
        return got


def pattern(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def drive(worker: quoit.Worker, until: Callable[[], bool]) -> None:
    """Turns the worker on this thread until something holds."""
    deadline = time.monotonic() + LIMIT
    while not until():
        assert time.monotonic() < deadline, "did not happen in time"
        worker.dispatch(worker.turn(100_000_000))


def gather(worker: quoit.Worker, until: Callable[[list[quoit.Event]], bool]) -> list[quoit.Event]:
    """Turns the worker on this thread and collects events until something holds."""
    events: list[quoit.Event] = []
    deadline = time.monotonic() + LIMIT
    while not until(events):
        assert time.monotonic() < deadline, f"did not happen in time; so far {events}"
        events += worker.turn(100_000_000)
    return events


def answers(worker: quoit.Worker, count: int = 1) -> list[quoit.Event]:
    return gather(worker, lambda events: len(events) >= count)


def program(
    source: str, *args: str, env: dict[str, str] | None = None, pass_fds: tuple[int, ...] = ()
) -> subprocess.Popen[str]:
    """A Python program, run aside."""
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "always", "-c", source, *args], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, pass_fds=pass_fds,
    )  # fmt: skip


def finished(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """(exit status, output, error output)"""
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the program does not end:\n{out}\n{err}") from None
    return process.returncode, out, err


def lines_of(process: "subprocess.Popen[str]") -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.rstrip("\n")
