# SPDX-License-Identifier: MIT OR Apache-2.0
"""Real connections on every driver and rung."""

import hashlib
import selectors
import socket
import struct
import threading
from pathlib import Path

import pytest

import quoit
import support
from support import Echo, LentEcho, Running, dial, echo_once, listening, pattern, receive, receive_all

HANDLERS = [Echo, LentEcho]


@pytest.mark.parametrize("where", ["127.0.0.1:0", "[::1]:0"])
@pytest.mark.parametrize("handler", HANDLERS)
def test_small_messages(worker: quoit.Worker, handler: type[quoit.Handler], where: str) -> None:
    address = listening(worker, handler(), where)
    with Running(worker), dial(address()) as client:
        for size in (1, 2, 13, 1000, 2048, 2049, 5000):
            data = pattern(size, size)
            client.sendall(data)
            assert receive(client, size) == data


@pytest.mark.parametrize("handler", HANDLERS)
def test_unix_sockets(worker: quoit.Worker, handler: type[quoit.Handler], tmp_path: Path) -> None:
    address = listening(worker, handler(), f"unix:{tmp_path}/echo")
    with Running(worker):
        assert echo_once(address(), pattern(100_000)) == pattern(100_000)


@pytest.mark.parametrize("buffers", [0, 16])
@pytest.mark.parametrize("handler", HANDLERS)
def test_big_transfers(runtime: quoit.Runtime, handler: type[quoit.Handler], buffers: int) -> None:
    data = pattern(4 << 20)
    with runtime.worker(recv_buffers=buffers) as worker:
        address = listening(worker, handler())
        with Running(worker):
            where = address()
            digests: list[str] = []
            clients = [
                threading.Thread(target=lambda: digests.append(hashlib.sha256(echo_once(where, data)).hexdigest()))
                for _ in range(6)
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join(support.LIMIT)
        assert digests == [hashlib.sha256(data).hexdigest()] * 6
        stats = worker.stats()
        assert stats["bytes_received"] == stats["bytes_sent"] == 6 * len(data)
        if buffers:
            assert stats["recv_nobufs"] > 0


def test_one_large_send(worker: quoit.Worker) -> None:
    """More than the scratch region holds: copied; the count and the bytes are whole."""
    data = pattern(3 << 20)
    counts: list[int | quoit.Error] = []

    class Giver(quoit.Handler):
        def on_open(self, stream: quoit.Stream) -> None:
            stream.send(data, counts.append)
            stream.send(b"tail")
            stream.close()

    address = listening(worker, Giver())
    with Running(worker), dial(address()) as client:
        assert receive_all(client) == data + b"tail"
    assert counts == [len(data)]


def test_borrowed_and_vectored_sends(worker: quoit.Worker) -> None:
    memory = bytearray(pattern(500_000))
    counts: list[int | quoit.Error] = []

    class Giver(quoit.Handler):
        def on_open(self, stream: quoit.Stream) -> None:
            stream.send(memory, counts.append, borrow=True)
            stream.sendv([b"one", bytearray(b"two"), memoryview(b"three")], counts.append)
            stream.sendv([b"four", b"five"])
            stream.send(b"", counts.append)
            stream.close()

    address = listening(worker, Giver())
    with Running(worker), dial(address()) as client:
        assert receive_all(client) == bytes(memory) + b"onetwothreefourfive"
    assert counts == [len(memory), 11, 0]


def test_reader_of_a_byte_at_a_time(worker: quoit.Worker) -> None:
    data = pattern(3000)
    address = listening(worker, LentEcho())
    with Running(worker), dial(address()) as client:
        client.sendall(data)
        assert b"".join(client.recv(1) for _ in range(len(data))) == data


def test_slow_reader_is_not_outrun(worker: quoit.Worker) -> None:
    """A peer that sends and does not read stops the receive, and loses nothing when it reads at last."""
    address = listening(worker, LentEcho())
    data = pattern(24 << 20)
    with Running(worker), dial(address()) as client, selectors.DefaultSelector() as ready:
        client.setblocking(False)
        ready.register(client, selectors.EVENT_WRITE)
        sent = 0
        while sent < len(data) and ready.select(1.0):
            sent += client.send(data[sent : sent + 262_144])
        assert 0 < sent < len(data)
        client.settimeout(support.LIMIT)
        assert receive(client, sent) == data[:sent]
        client.sendall(b"more")
        assert receive(client, 4) == b"more"


def test_half_close(worker: quoit.Worker) -> None:
    """The stream still sends after the peer's end; the end comes after the bytes."""
    seen: list[bytes] = []

    class Collector(quoit.Handler):
        def on_data(self, stream: quoit.Stream, data: bytes) -> None:
            seen.append(data)

        def on_eof(self, stream: quoit.Stream) -> None:
            stream.send(b"".join(seen)[::-1])
            stream.close()

    address = listening(worker, Collector())
    with Running(worker), dial(address()) as client:
        client.sendall(b"abcdef")
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b"fedcba"


def test_peer_reset_is_told(worker: quoit.Worker) -> None:
    closed: list[quoit.Error | None] = []

    class Watcher(quoit.Handler):
        def on_close(self, stream: quoit.Stream, error: quoit.Error | None) -> None:
            closed.append(error)
            stream.worker.stop()

    address = listening(worker, Watcher())
    with Running(worker) as running:
        client = dial(address())
        client.sendall(b"x")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        running.join()
    assert len(closed) == 1
    assert closed[0] is not None
    assert closed[0].name == "ECONNRESET"
    assert isinstance(closed[0], OSError)


def test_connect(worker: quoit.Worker) -> None:
    """Both ends in one worker; the bytes go there and back."""
    data = pattern(1 << 20)
    got = bytearray()
    told: list[str] = []

    class Client(quoit.Handler):
        def on_open(self, stream: quoit.Stream) -> None:
            told.append(stream.peer)
            stream.send(data)

        def on_data(self, stream: quoit.Stream, piece: bytes) -> None:
            got.extend(piece)
            if len(got) == len(data):
                stream.close()

        def on_close(self, stream: quoit.Stream, error: quoit.Error | None) -> None:
            assert error is None
            worker.stop()

    def ready(listener: quoit.Listener) -> None:
        told.append(listener.address)
        assert listener.address.endswith(f":{listener.port}")
        worker.connect(listener.address, Client(), timeout=10)

    worker.listen("127.0.0.1:0", LentEcho(), ready)
    worker.run()
    assert bytes(got) == data
    assert told[0] == told[1]


def test_connect_refused(worker: quoit.Worker) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{probe.getsockname()[1]}"
    failures: list[quoit.Error] = []

    def failed(error: quoit.Error) -> None:
        failures.append(error)
        worker.stop()

    worker.connect(where, Echo(), failed)
    worker.run()
    assert failures[0].name == "ECONNREFUSED"
    assert failures[0].operation == "connect"


def test_pause_and_resume(worker: quoit.Worker) -> None:
    """Nothing comes between the two, all of it afterwards."""
    while_paused: list[bytes] = []
    after: list[bytes] = []
    done = threading.Event()

    class Pausing(quoit.Handler):
        paused = False

        def on_data(self, stream: quoit.Stream, data: bytes) -> None:
            if data == b"pause":
                self.paused = True
                stream.pause()
                stream.send(b"paused")
                worker.timer(0.15, lambda _: self.go_on(stream))
            elif self.paused:
                while_paused.append(data)
            else:
                after.append(data)
                if b"".join(after) == b"late":
                    done.set()

        def go_on(self, stream: quoit.Stream) -> None:
            self.paused = False
            stream.resume()

    address = listening(worker, Pausing())
    with Running(worker), dial(address()) as client:
        client.sendall(b"pause")
        assert receive(client, 6) == b"paused"
        client.sendall(b"late")
        assert done.wait(support.LIMIT)
    assert while_paused == []


def test_kept_bytes_survive_the_turn(worker: quoit.Worker) -> None:
    kept: list[quoit.Lent] = []
    seen: list[bytes] = []
    stale: list[quoit.Lent] = []

    class Keeper(quoit.Handler):
        def on_lent(self, stream: quoit.Stream, data: quoit.Lent) -> None:
            if len(kept) < 3:
                data.keep()
                kept.append(data)
            else:
                stale.append(data)
                for lent in kept:
                    seen.append(bytes(lent))
                    lent.release()
            stream.send(b".")

    address = listening(worker, Keeper())
    with Running(worker), dial(address()) as client:
        for word in (b"first", b"second", b"third", b"fourth"):
            client.sendall(word)
            assert receive(client, 1) == b"."
    assert seen == [b"first", b"second", b"third"]
    for lent in (*kept, *stale):
        with pytest.raises(quoit.Error, match="QUOIT_E_STALE"):
            bytes(lent)
    with pytest.raises(quoit.Error, match="QUOIT_E_STALE"):
        kept[0].release()
    assert worker.stats()["buffers_kept"] == 0


def test_one_crossing_a_tick(worker: quoit.Worker) -> None:
    """Fifty connections answered in batches: what the library counts is what the binding made."""
    address = listening(worker, LentEcho())
    with Running(worker):
        where = address()
        clients = [dial(where) for _ in range(50)]
        for _ in range(20):
            for client in clients:
                client.sendall(b"hello")
            for client in clients:
                assert receive(client, 5) == b"hello"
        for client in clients:
            client.close()
    stats = worker.stats()
    assert stats["accepts"] == 50
    assert stats["crossings"] == stats["ticks"]
    assert stats["crossings"] < stats["events"]
