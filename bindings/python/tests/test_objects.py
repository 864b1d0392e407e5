# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timers, polls, messages between threads and workers, offloaded calls."""

import os
import threading
import time
import zlib

import pytest

import quoit
import support
from quoit import TYPE_DOUBLE, TYPE_I32, TYPE_POINTER, TYPE_U8, TYPE_U32, TYPE_U64, TYPE_VOID, Function
from support import LentEcho, Running, drive, echo_once, listening


def test_timer_is_never_early(worker: quoit.Worker) -> None:
    fired: list[float] = []
    begun = time.monotonic()
    worker.timer(0.03, lambda count: fired.append(time.monotonic()))
    worker.timer(0.01, lambda count: fired.append(time.monotonic()))
    drive(worker, lambda: len(fired) == 2)
    assert fired[0] - begun >= 0.01
    assert fired[1] - begun >= 0.03


def test_periodic_timer_and_cancel(worker: quoit.Worker) -> None:
    counts: list[int] = []
    timer = worker.timer(0.002, counts.append, period=0.002)
    drive(worker, lambda: sum(counts) >= 5)
    timer.cancel()
    drive(worker, lambda: timer.handle == 0)
    assert worker.stats()["ops_live"] == 0


def test_timer_moved(worker: quoit.Worker) -> None:
    fired: list[float] = []
    timer = worker.timer(3600, lambda count: fired.append(time.monotonic()))
    with pytest.raises(quoit.Error, match="QUOIT_E_STALE"):
        timer.rearm(0.01)
    drive(worker, lambda: timer.handle != 0)
    begun = time.monotonic()
    timer.rearm(0.02)
    drive(worker, lambda: bool(fired))
    assert 0.02 <= fired[0] - begun < support.LIMIT


def test_timer_at_a_time_of_the_calendar(worker: quoit.Worker) -> None:
    fired: list[float] = []
    at = time.time() + 0.02
    worker.timer(at, lambda count: fired.append(time.time()), clock=quoit.CLOCK_WALL, absolute=True)
    drive(worker, lambda: bool(fired))
    assert fired[0] >= at - 0.001


def test_poll_of_a_foreign_descriptor(worker: quoit.Worker) -> None:
    reader, writer = os.pipe()
    outcomes: list[int | quoit.Error] = []
    worker.poll(reader, quoit.POLL_IN, outcomes.append)
    worker.dispatch(worker.turn(0))
    assert outcomes == []
    os.write(writer, b"x")
    drive(worker, lambda: len(outcomes) == 1)
    assert outcomes[0] == quoit.POLL_IN
    os.read(reader, 1)
    waiting = worker.poll(reader, quoit.POLL_IN, outcomes.append)
    worker.poll(reader, quoit.POLL_IN, outcomes.append, timeout=0.01)
    drive(worker, lambda: len(outcomes) == 2)
    waiting.cancel()
    drive(worker, lambda: len(outcomes) == 3)
    assert [str(outcome).split("[")[1].split("]")[0] for outcome in outcomes[1:]] == ["ETIMEDOUT", "ECANCELED"]
    os.close(reader)
    os.close(writer)


def test_messages_between_threads_and_workers(runtime: quoit.Runtime) -> None:
    """From plain threads, first in first out per sender; and from worker to worker and back."""
    got: list[quoit.Message] = []
    with runtime.worker() as one, runtime.worker() as two:
        two.on_message = lambda message: two.message(one.handle, message.word1, message.word2, message.aux, 99)

        def arrived(message: quoit.Message) -> None:
            if message.user_data == 99:
                got.append(message)
                if len(got) == 400:
                    one.stop()
            else:
                one.message(two.handle, message.word1, message.word2, message.aux)

        one.on_message = arrived

        def sender(number: int) -> None:
            for index in range(100):
                deadline = time.monotonic() + support.LIMIT
                while not quoit.send_message(one.handle, index, -index, number):
                    assert time.monotonic() < deadline

        with Running(two), Running(one) as running:
            threads = [threading.Thread(target=sender, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(support.LIMIT)
            running.join()
    for number in range(4):
        mine = [message for message in got if message.aux == number]
        assert [message.word1 for message in mine] == list(range(100))
        assert [message.word2 for message in mine] == [-index for index in range(100)]


def test_posted_ops_run_there(worker: quoit.Worker) -> None:
    ops = quoit.pack_op(quoit.OP_NOP, user_data=1) + quoit.pack_op(quoit.OP_NOP, user_data=2)
    assert quoit.post(worker.handle, ops) == 2
    assert [event[3] for event in support.answers(worker, 2)] == [1, 2]
    with pytest.raises(ValueError, match="whole"):
        quoit.post(worker.handle, ops[:-1])


def test_full_mailbox(runtime: quoit.Runtime) -> None:
    with runtime.worker(mailbox_ops=4) as worker:
        taken = [quoit.send_message(worker.handle, number) for number in range(6)]
        assert taken == [True] * 4 + [False] * 2
        assert [event[9] for event in support.answers(worker, 4)] == [0, 1, 2, 3]


def offload(worker: quoit.Worker, function: Function, *args: quoit.offload.Argument) -> object:
    outcomes: list[object] = []
    worker.offload(function, args, outcomes.append)
    drive(worker, lambda: bool(outcomes))
    return outcomes[0]


def test_offload_pow(worker: quoit.Worker) -> None:
    power = Function.find("libm.so.6", "pow", TYPE_DOUBLE, [TYPE_DOUBLE, TYPE_DOUBLE])
    assert offload(worker, power, 2.0, 0.5) == 2.0**0.5
    assert offload(worker, power, 3, 4) == 81.0
    with pytest.raises(TypeError):
        worker.offload(power, (1.0,), print)


def test_offload_crc32(worker: quoit.Worker) -> None:
    crc32 = Function.find("libz.so.1", "crc32", TYPE_U64, [TYPE_U64, TYPE_POINTER, TYPE_U32])
    for data in (b"hello", bytearray(support.pattern(1 << 20)), memoryview(b"view")):
        assert offload(worker, crc32, 0, data, len(data)) == zlib.crc32(data)


def test_offload_integers(worker: quoit.Worker) -> None:
    absolute = Function.find(None, "abs", TYPE_I32, [TYPE_I32])
    assert offload(worker, absolute, -7) == 7
    assert offload(worker, Function.find(None, "atoi", TYPE_I32, [TYPE_POINTER]), b"-12\0") == -12
    upper = Function.find(None, "toupper", TYPE_I32, [TYPE_I32])
    assert offload(worker, upper, ord("a")) == ord("A")
    assert offload(worker, Function.find(None, "free", TYPE_VOID, [TYPE_POINTER]), None) is None
    with pytest.raises(OverflowError):
        offload(worker, absolute, 1 << 40)
    with pytest.raises(OverflowError):
        offload(worker, Function(absolute.address, TYPE_I32, [TYPE_U8]), -1)
    with pytest.raises(quoit.Error, match="ENOENT"):
        Function.find("libm.so.6", "no_such_function", TYPE_VOID)
    with pytest.raises(ValueError, match="TYPE"):
        Function(1, 99)


def test_sleep_does_not_stop_the_echo(worker: quoit.Worker) -> None:
    """A call that sleeps two seconds ends after a thousand echoes that were made meanwhile."""
    nap = Function.find(None, "usleep", TYPE_I32, [TYPE_U32])
    order: list[str] = []
    address = listening(worker, LentEcho())

    def woke(outcome: object) -> None:
        assert outcome == 0
        order.append("woke")

    begun = time.monotonic()
    worker.offload(nap, (2_000_000,), woke)
    with Running(worker):
        where = address()
        with support.dial(where) as client:
            for _ in range(1000):
                client.sendall(b"ping")
                assert support.receive(client, 4) == b"ping"
        order.append("echoed")
        while len(order) < 2:
            assert echo_once(where, b"alive") == b"alive"
            assert time.monotonic() - begun < support.LIMIT
    assert order == ["echoed", "woke"]
    assert time.monotonic() - begun >= 2
    assert worker.stats()["offloads"] == 1
