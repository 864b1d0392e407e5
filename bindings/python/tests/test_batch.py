# SPDX-License-Identifier: MIT OR Apache-2.0
"""The batch level: turns, ops, submit, errors of ops and calls, grease."""

import itertools
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import quoit
from quoit import address
from support import Running, answers, dial, gather, pattern, receive


def listen(worker: quoit.Worker, where: str = "127.0.0.1:0") -> tuple[int, str]:
    """(listener, its address)"""
    worker.op(quoit.OP_LISTEN, 0, 0, 7, worker.hold_struct(address.parse(where)), address.SIZE)
    (event,) = answers(worker)
    assert event[:5] == (quoit.OP_LISTEN, 0, 0, 7, 0)
    return event[9], address.of(worker.pointer, event[9], peer=False)


def echo(worker: quoit.Worker, events: Iterator[quoit.Event]) -> None:
    flags = quoit.OPF_QUIET | quoit.OPF_ARENA_RECV
    for event in events:
        if event[0] == quoit.OP_RECV:
            if event[6]:
                worker.op(quoit.OP_SEND, flags, event[2], 0, event[5], event[6], 0, 0, event[8])
            if not event[1] & quoit.EVF_MORE:
                worker.op(quoit.OP_CLOSE, quoit.OPF_QUIET, event[2])


def test_nop(worker: quoit.Worker) -> None:
    worker.op(quoit.OP_NOP, user_data=42)
    assert answers(worker) == [(quoit.OP_NOP, 0, 0, 42, 0, 0, 0, 0, 0, 0)]
    worker.op(quoit.OP_NOP, quoit.OPF_QUIET, user_data=43)
    assert list(worker.turn(0)) == []


def test_more_ops_than_the_array_holds(runtime: quoit.Runtime) -> None:
    """A full array is submitted in mid-batch; every op is answered, in batches of at most events_max."""
    with runtime.worker(events_max=8, ops_max=4) as worker:
        assert (worker.events_max, worker.ops_max) == (8, 4)
        for number in range(1000):
            worker.op(quoit.OP_NOP, user_data=number)
        events: list[quoit.Event] = []
        while len(events) < 1000:
            batch = list(worker.turn(1_000_000_000))
            assert 0 < len(batch) <= 8
            assert bool(worker.flags & quoit.BATCH_LEFT) == (len(events) + len(batch) < 1000)
            events += batch
        assert [event[3] for event in events] == list(range(1000))
        stats = worker.stats()
        assert stats["ops"] == 1000
        assert stats["crossings"] == 249 + stats["ticks"]


def test_what_an_op_points_at_outlives_a_full_array(runtime: quoit.Runtime) -> None:
    """It is held before its op is queued, which may first have to submit those that fill the array."""
    with runtime.worker(ops_max=4) as worker:
        for _ in range(worker.ops_max):
            worker.op(quoit.OP_NOP, quoit.OPF_QUIET)
        where = address.parse("127.0.0.1:0")
        watched = weakref.ref(where)
        at = worker.hold_struct(where)
        del where
        worker.op(quoit.OP_LISTEN, 0, 0, 7, at, address.SIZE)
        assert watched() is not None
        (event,) = answers(worker)
        assert event[:5] == (quoit.OP_LISTEN, 0, 0, 7, 0)
        assert watched() is None


@pytest.mark.parametrize("events_max", [1, 0])
def test_echo_over_batches(runtime: quoit.Runtime, events_max: int) -> None:
    with runtime.worker(events_max=events_max) as worker:
        listener, where = listen(worker)
        worker.op(quoit.OP_ACCEPT, quoit.OPF_MULTI | quoit.OPF_AUTO_RECV, listener)
        data = pattern(20_000)

        def client() -> None:
            with dial(where) as connection:
                for _ in range(20):
                    connection.sendall(data)
                    assert receive(connection, len(data)) == data
            worker.stop()

        thread = threading.Thread(target=client)
        thread.start()
        worker.run(echo)
        thread.join(30)
        assert worker.stats()["bytes_sent"] == 20 * len(data)


def test_grease_is_ignored(runtime: quoit.Runtime) -> None:
    with runtime.worker(flags=quoit.WORKER_GREASE) as worker:
        kinds: set[int] = set()

        def see(worker: quoit.Worker, events: Iterator[quoit.Event]) -> None:
            batch = list(events)
            kinds.update(event[0] for event in batch)
            echo(worker, iter(batch))
            worker.dispatch(iter(batch))

        listener, where = listen_greased(worker)
        worker.op(quoit.OP_ACCEPT, quoit.OPF_MULTI | quoit.OPF_AUTO_RECV, listener)

        def client() -> None:
            with dial(where) as connection:
                while not any(kind >= quoit.KIND_GREASE for kind in kinds):
                    connection.sendall(b"hello")
                    assert receive(connection, 5) == b"hello"
            worker.stop()

        thread = threading.Thread(target=client)
        thread.start()
        worker.run(see)
        thread.join(30)
        assert any(kind >= quoit.KIND_GREASE for kind in kinds)


def listen_greased(worker: quoit.Worker) -> tuple[int, str]:
    worker.op(quoit.OP_LISTEN, 0, 0, 7, worker.hold_struct(address.parse("127.0.0.1:0")), address.SIZE)
    events = gather(worker, lambda events: any(event[0] == quoit.OP_LISTEN for event in events))
    listener = next(event[9] for event in events if event[0] == quoit.OP_LISTEN)
    return listener, address.of(worker.pointer, listener, peer=False)


def test_bad_ops_end_in_events(worker: quoit.Worker) -> None:
    """Each names what was wrong; none is an error of the turn."""
    cases = [
        ({"opcode": 999}, "QUOIT_E_OPCODE", "opcode"),
        ({"opcode": quoit.OP_NOP, "flags": quoit.OPF_LINK}, "QUOIT_E_FLAGS", "flags"),
        ({"opcode": quoit.OP_NOP, "arg": 1}, "QUOIT_E_FIELD", "arg"),
        ({"opcode": quoit.OP_NOP, "offset": -1}, "QUOIT_E_FIELD", "offset"),
        ({"opcode": quoit.OP_SEND, "target": 12345}, "QUOIT_E_HANDLE", "target"),
        ({"opcode": quoit.OP_CLOSE, "target": worker.handle}, "QUOIT_E_KIND", "target"),
        ({"opcode": quoit.OP_TIMER, "arg": 77, "offset": 1}, "QUOIT_E_FIELD", "arg"),
    ]
    for number, (fields, _, _) in enumerate(cases):
        worker.op(user_data=number, **fields)
    events = answers(worker, len(cases))
    for (_, name, field), event in zip(cases, sorted(events, key=lambda event: event[3]), strict=True):
        error = quoit.errors.event_error(event[0], event[4], event[7], event[9])
        assert (error.name, error.field) == (name, field)
        assert error.message
        assert error.hint
        assert error.errno is None
        assert error.kind == quoit.CLASS_USAGE
        assert field in str(error)


def test_unknown_high_opcode_cannot_forge_a_message(worker: quoit.Worker) -> None:
    worker.op(quoit.KIND_MESSAGE, user_data=5)
    (event,) = answers(worker)
    assert (event[0], event[3], event[7]) == (quoit.KIND_BAD_OP, 5, quoit.KIND_MESSAGE)


def test_call_errors(worker: quoit.Worker) -> None:
    worker.turn(0)
    caught: list[quoit.Error] = []

    def elsewhere() -> None:
        for call in (lambda: worker.turn(0), lambda: worker.op(quoit.OP_NOP), lambda: worker.fileno()):
            try:
                call()
            except quoit.Error as error:
                caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(30)
    assert [error.status for error in caught] == [quoit.E_THREAD] * 3

    def again(worker: quoit.Worker, events: Iterator[quoit.Event]) -> bool:
        with pytest.raises(quoit.Error, match="QUOIT_E_REENTER"):
            worker.turn(0)
        return True

    worker.op(quoit.OP_NOP)
    worker.run(again)
    too_many = quoit.lib.quoit_turn(worker.pointer, worker.ops_max + 1, 0)
    assert too_many == quoit.E_TOO_MANY
    assert quoit.lib.quoit_turn(worker.pointer, 0, -2) == quoit.E_ARGUMENT


def test_a_failed_turn_takes_no_op(worker: quoit.Worker) -> None:
    worker.turn(0)
    worker.op(quoit.OP_NOP, user_data=9)

    def elsewhere() -> None:
        with pytest.raises(quoit.Error):
            worker.turn(0)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(30)
    assert [event[3] for event in answers(worker)] == [9]


def test_options_are_checked(runtime: quoit.Runtime) -> None:
    with pytest.raises(quoit.Error):
        runtime.worker(events_max=1 << 30)
    with pytest.raises(quoit.Error):
        runtime.worker(flags=1 << 31)
    with pytest.raises(ValueError, match="driver"):
        quoit.Runtime("kqueue")


def test_addresses() -> None:
    for text in ("127.0.0.1:80", "[::1]:8080", "unix:/run/x", "unix:@name"):
        assert address.show(address.parse(text)) == text
    for text in ("", "127.0.0.1", "nonsense:80", "127.0.0.1:99999"):
        with pytest.raises(quoit.Error, match="QUOIT_E_ARGUMENT"):
            address.parse(text)


def test_scratch_is_used_and_found_again(worker: quoit.Worker) -> None:
    """Sends through the scratch region over many turns: each batch names a free one."""
    listener, where = listen(worker)
    worker.op(quoit.OP_ACCEPT, 0, listener)
    client = dial(where)
    stream = answers(worker)[0][9]
    for number in itertools.count():
        piece = pattern(300_000, number)
        how, _, _ = worker.payload(piece)
        if number == 0:
            assert how == quoit.OPF_ARENA_SEND
        worker.send(stream, piece, 0, number)
        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(receive, client, len(piece))
            (event,) = answers(worker)
            assert event[3:5] == (number, len(piece))
            assert reader.result(30) == piece
        if number == 20:
            break
    client.close()


def test_host_loop_can_watch_the_worker(worker: quoit.Worker) -> None:
    import select

    ready = select.poll()
    ready.register(worker.fileno(), select.POLLIN)
    worker.turn(0)
    assert ready.poll(0) == []
    quoit.send_message(worker.handle, 1)
    assert ready.poll(30_000)
    assert [event[0] for event in answers(worker)] == [quoit.KIND_MESSAGE]
    worker.op(quoit.OP_TIMER, offset=20_000_000)
    worker.turn(0)
    assert ready.poll(30_000)
    assert [event[0] for event in answers(worker)] == [quoit.OP_TIMER]


def test_running_in_a_thread_ends_with_stop(worker: quoit.Worker) -> None:
    seen: list[int] = []
    with Running(worker, lambda _, events: seen.extend(event[0] for event in events)):
        pass
    assert seen == []
    with pytest.raises(quoit.Error, match=r"QUOIT_E_(CLOSED|THREAD)"):
        worker.turn(0)
