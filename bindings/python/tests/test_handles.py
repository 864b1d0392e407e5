# SPDX-License-Identifier: MIT OR Apache-2.0
"""Handles that are stale, foreign, of another kind or never were: a clear error, whatever op is given them."""

import random

import pytest

import quoit
from quoit import address
from support import answers, dial

ERRORS = {quoit.E_STALE, quoit.E_KIND, quoit.E_WORKER, quoit.E_HANDLE}
BY_TARGET = [
    quoit.OP_ACCEPT, quoit.OP_RECV, quoit.OP_RECV_PAUSE, quoit.OP_RECV_RESUME, quoit.OP_SEND, quoit.OP_SHUTDOWN,
    quoit.OP_CLOSE, quoit.OP_CANCEL, quoit.OP_READ, quoit.OP_WRITE, quoit.OP_FSYNC, quoit.OP_KEEP, quoit.OP_RELEASE,
]  # fmt: skip


def listen(worker: quoit.Worker) -> tuple[int, str]:
    where = worker.hold_struct(address.parse("127.0.0.1:0"))
    worker.op(quoit.OP_LISTEN, addr=where, len=address.SIZE)
    (event,) = answers(worker)
    assert event[4] == 0
    return event[9], address.of(worker.pointer, event[9], peer=False)


def mutations(handle: int, numbers: random.Random) -> list[int]:
    generation = 1 << 24
    changed = [handle + generation, handle - generation, handle + 1, handle ^ (1 << 56), handle ^ (1 << 48)]
    changed += [handle ^ (1 << numbers.randrange(63)) for _ in range(40)]
    changed += [0, 1, 255, 256, (1 << 63) - 1, (1 << 64) - 1, handle | 1 << 63, numbers.getrandbits(63)]
    return [value & (1 << 64) - 1 for value in changed if value != handle]


def test_mutated_handles(worker: quoit.Worker) -> None:
    listener, where = listen(worker)
    worker.op(quoit.OP_ACCEPT, 0, listener)
    client = dial(where)
    stream = answers(worker)[0][9]
    numbers = random.Random(3)
    tried = 0
    for handle in mutations(stream, numbers) + mutations(listener, numbers):
        if handle in (stream, listener):
            continue
        for opcode in BY_TARGET:
            if opcode == quoit.OP_CANCEL and handle == 0:
                continue
            worker.op(opcode, 0, handle, tried)
            (event,) = answers(worker)
            assert event[4] in ERRORS, (hex(handle), event)
            assert event[:4] == (opcode, 0, handle, tried)
            assert event[7] == quoit.FIELD_TARGET
            tried += 1
    assert tried > 1000
    worker.op(quoit.OP_SEND, 0, stream, 1, worker.hold(b"fine"), 4)
    assert answers(worker)[0][4] == 4
    assert client.recv(10) == b"fine"
    client.close()


def test_ended_stream_is_stale(worker: quoit.Worker) -> None:
    listener, where = listen(worker)
    worker.op(quoit.OP_ACCEPT, 0, listener)
    client = dial(where)
    stream = answers(worker)[0][9]
    worker.op(quoit.OP_CLOSE, quoit.OPF_ABORT, stream, 5)
    assert answers(worker)[0][:5] == (quoit.OP_CLOSE, 0, stream, 5, 0)
    for opcode in (quoit.OP_SEND, quoit.OP_RECV, quoit.OP_CLOSE):
        worker.op(opcode, 0, stream, 6)
        (event,) = answers(worker)
        assert event[4] == quoit.E_STALE
    with pytest.raises(quoit.Error, match="QUOIT_E_STALE"):
        address.of(worker.pointer, stream, peer=True)
    client.close()


def test_handle_of_another_worker(runtime: quoit.Runtime) -> None:
    with runtime.worker() as one, runtime.worker() as two:
        listener, _ = listen(one)
        two.op(quoit.OP_ACCEPT, 0, listener)
        assert answers(two)[0][4] == quoit.E_WORKER


def test_ended_loan_is_stale(worker: quoit.Worker) -> None:
    """Bytes of an ended loan are refused, never another stream's bytes."""
    listener, where = listen(worker)
    worker.op(quoit.OP_ACCEPT, quoit.OPF_AUTO_RECV, listener)
    client = dial(where)
    client.sendall(b"secret")
    events = answers(worker, 2)
    stream = events[0][9]
    received = next(event for event in events if event[0] == quoit.OP_RECV)
    worker.turn(0)
    flags = quoit.OPF_ARENA_RECV
    worker.op(quoit.OP_SEND, flags, stream, 0, received[5], received[6], 0, 0, received[8])
    worker.op(quoit.OP_KEEP, 0, received[8])
    statuses = [event[4] for event in answers(worker, 2)]
    assert statuses == [quoit.E_STALE] * 2
    client.close()


def test_destroyed_worker_and_runtime(driver: str) -> None:
    runtime = quoit.Runtime(driver)
    worker = runtime.worker()
    handle = worker.handle
    worker.close()
    worker.close()
    for call in (lambda: worker.turn(0), lambda: worker.op(quoit.OP_NOP), lambda: worker.submit()):
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            call()
    for name in ("stats", "stop"):
        with pytest.raises(quoit.Error, match=r"QUOIT_E_(STALE|CLOSED)"):
            getattr(worker, name)()
    with pytest.raises(quoit.Error, match=r"QUOIT_E_(STALE|CLOSED)"):
        quoit.send_message(handle)
    runtime.close()
    runtime.close()
    for use in (lambda: runtime.worker(), lambda: runtime.reason, lambda: list(runtime.log())):
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            use()


def test_memory_in_use_keeps_the_runtime(driver: str) -> None:
    runtime = quoit.Runtime(driver)
    worker = runtime.worker()
    part = worker.recv_view[:10]
    with pytest.raises(BufferError):
        worker.close()
    with pytest.raises(BufferError):
        runtime.close()
    worker.op(quoit.OP_NOP, user_data=3)
    assert answers(worker)[0][3] == 3
    assert bytes(part) == bytes(10)
    del part
    runtime.close()
    assert runtime.closed
    assert worker.closed
