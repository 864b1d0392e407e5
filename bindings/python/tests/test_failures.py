# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions in callbacks: they come out of run, after everything in flight has ended."""

from collections.abc import Callable, Iterator

import pytest

import quoit
from support import Running, dial, finished, listening, program, receive_all


class Boom(Exception):
    pass


def test_exception_in_a_handler(worker: quoit.Worker, capfd: pytest.CaptureFixture[str]) -> None:
    """The worker stops, open streams are told, the peer sees the end, later failures are printed."""
    closed: list[quoit.Error | None] = []
    outcomes: list[object] = []

    class Failing(quoit.Handler):
        def on_data(self, stream: quoit.Stream, data: bytes) -> None:
            if data == b".":
                stream.send(data)
                return
            worker.timer(3600, lambda count: None)
            worker.poll(0, quoit.POLL_PRI, outcomes.append)
            raise Boom("in on_data")

        def on_close(self, stream: quoit.Stream, error: quoit.Error | None) -> None:
            closed.append(error)
            raise Boom("in on_close")

    address = listening(worker, Failing())
    running = Running(worker)
    with pytest.raises(Boom, match="in on_data"), running, dial(address()) as client, dial(address_of(client)) as other:
        other.sendall(b".")
        assert other.recv(1) == b"."
        client.sendall(b"x")
        try:
            assert receive_all(client) == b""
        except ConnectionResetError:
            pass
        running.join()
    assert len(closed) == 2
    assert all(error is not None and error.name == "ECANCELED" for error in closed)
    assert worker.finished
    assert worker.stats()["objects_live"] == 0
    assert capfd.readouterr().err.count("Boom: in on_close") == 2
    with pytest.raises(quoit.Error, match=r"QUOIT_E_(CLOSED|THREAD)"):
        worker.run()


def address_of(client: object) -> str:
    return "{}:{}".format(*client.getpeername())  # type: ignore[attr-defined]


def test_exception_in_a_batch_callback(worker: quoit.Worker) -> None:
    def fail(worker: quoit.Worker, events: Iterator[quoit.Event]) -> None:
        next(events)
        view = worker.recv_view[:100]
        raise Boom(len(view))

    worker.op(quoit.OP_TIMER, offset=10**15)
    for _ in range(10):
        worker.op(quoit.OP_NOP)
    with pytest.raises(Boom):
        worker.run(fail)
    assert worker.stats()["ops_live"] == 0


@pytest.mark.parametrize(
    "start",
    [
        lambda worker: worker.listen("192.0.2.1:1", quoit.Handler()),
        lambda worker: worker.connect("unix:/no/such/socket", quoit.Handler()),
        lambda worker: worker.message(worker.handle ^ (1 << 50)),
    ],
)
def test_an_error_that_nobody_asked_for(worker: quoit.Worker, start: Callable[[quoit.Worker], None]) -> None:
    start(worker)
    with pytest.raises(quoit.Error) as caught:
        worker.run()
    assert caught.value.operation in ("listen", "connect", "post")


def test_a_failed_send_ends_the_stream(worker: quoit.Worker) -> None:
    """Without a callback for it, an error of a send goes to on_close."""
    closed: list[quoit.Error | None] = []

    class Sender(quoit.Handler):
        def on_open(self, stream: quoit.Stream) -> None:
            stream.shutdown(quoit.SHUTDOWN_SEND)
            stream.send(b"too late")

        def on_close(self, stream: quoit.Stream, error: quoit.Error | None) -> None:
            closed.append(error)
            worker.stop()

    address = listening(worker, Sender())
    with Running(worker) as running, dial(address()):
        running.join()
    assert closed[0] is not None
    assert closed[0].operation == "send"


def test_traceback_is_reported(driver: str) -> None:
    """Uncaught, it ends the program with the callback in its traceback."""
    source = """
import quoit, sys
def broken_callback(count):
    raise ZeroDivisionError("here")
with quoit.Runtime(sys.argv[1]) as runtime, runtime.worker() as worker:
    worker.timer(0.001, broken_callback)
    worker.run()
"""
    status, _, err = finished(program(source, driver))
    assert status == 1
    assert "in broken_callback" in err
    assert "ZeroDivisionError: here" in err
