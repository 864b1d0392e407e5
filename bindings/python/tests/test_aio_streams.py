# SPDX-License-Identifier: MIT OR Apache-2.0
"""Awaited streams and listeners: bytes, ends, back-pressure, errors."""

import asyncio
import errno
import functools
import socket
import struct
import threading
from pathlib import Path

import pytest

import quoit
from aio_support import Runner, beside, cancelled, in_thread, pair, thread, until
from quoit import aio
from quoit.aio.debt import SEND_ABOVE
from quoit.aio.inlet import PAUSE_ABOVE
from quoit.aio.listener import WAITING_MAX
from support import dial, pattern, receive, receive_all


async def echo(stream: aio.Stream) -> None:
    async for data in stream:
        await stream.send_all(data)


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_echo(run: Runner, tmp_path: Path, family: str) -> None:
    where = "127.0.0.1:0" if family == "tcp" else f"unix:{tmp_path}/echo"

    async def one(address: str, size: int) -> None:
        data = pattern(size, size)
        async with await aio.connect(address) as stream:
            async with asyncio.TaskGroup() as group:
                group.create_task(stream.send_all(data))
                assert await stream.recv_exactly(size) == data
            await stream.send_eof()
            assert await stream.recv() == b""

    async def main() -> None:
        async with await aio.listen(where) as listener:
            assert listener.address.startswith(where.removesuffix(":0"))
            assert (listener.port != 0) == (family == "tcp")
            serving = aio.spawn(listener.serve(echo))
            async with asyncio.TaskGroup() as group:
                for size in (1, 1000, 65536, 1_000_001):
                    group.create_task(one(listener.address, size))
        await serving

    run(main)


def test_ways_to_receive(run: Runner) -> None:
    async def main() -> None:
        async with pair() as (here, there):
            await there.send(b"hello\r\nwor")
            assert await here.recv_until(b"\r\n") == b"hello\r\n"
            assert await here.recv(2) == b"wo"
            assert await here.recv_exactly(0) == b""
            line = asyncio.create_task(here.recv_until(b"\r\n"))
            await there.send_all(b"ld\r")
            await until(lambda: here._resource.buffer == b"rld\r")
            await there.send_all(b"\nrest")
            assert await line == b"rld\r\n"
            with pytest.raises(aio.TooLong):
                await here.recv_until(b"\n", 3)
            there.close()
            with pytest.raises(aio.Incomplete) as short:
                await here.recv_exactly(5)
            assert short.value.partial == b"rest"
            with pytest.raises(aio.Incomplete, match="after 4 bytes"):
                await here.recv_until(b"\n")
            # Nothing of that was lost.
            assert await here.recv() == b"rest"
            assert await here.recv() == await here.recv() == b""

    run(main)


def test_half_close(run: Runner) -> None:
    async def main() -> None:
        async with pair() as (here, there):
            await here.send(b"question")
            await here.send_eof()
            assert b"".join([data async for data in there]) == b"question"
            with pytest.raises(quoit.Error, match="EPIPE"):
                await here.send_all(b"more")
            await there.send_all(b"answer")
            await there.send_eof()
            assert await here.recv_exactly(6) == b"answer"
            assert await here.recv() == b""

    run(main)


def test_send_waits_while_too_much_is_owed(run: Runner) -> None:
    piece = pattern(50_000)

    async def main() -> None:
        async with beside(small=True) as (stream, client):
            sent = most = 0

            async def send() -> None:
                nonlocal sent, most
                while True:
                    await stream.send(piece)
                    sent += len(piece)
                    most = max(most, stream.bytes_queued)

            sending = asyncio.create_task(send())
            await until(lambda: stream._resource.debt.waiters)
            assert SEND_ABOVE < stream.bytes_queued <= most <= SEND_ABOVE + len(piece)
            await cancelled(sending)
            assert sent == stream.bytes_sent + stream.bytes_queued
            got = asyncio.create_task(in_thread(receive, client, sent + 3))
            await stream.send(bytearray(b"end"))
            await stream.flush()
            assert (stream.bytes_sent, stream.bytes_queued) == (sent + 3, 0)
            assert await got == piece * (sent // len(piece)) + b"end"

    run(main)


def test_what_is_queued_may_change(run: Runner) -> None:
    """`send` takes the bytes as they are when it is called, wherever they go."""

    async def main() -> None:
        async with pair() as (here, there):
            for size in (10, 40_000, 3_000_000):
                data = bytearray(pattern(size))
                await here.send(data)
                data[:] = bytes(size)
                assert await there.recv_exactly(size) == pattern(size)

    run(main, scratch_len=4096)


def test_nobody_reads(run: Runner) -> None:
    """A stream that nobody reads stops receiving, and loses nothing."""
    data = pattern(8_000_000)

    async def main() -> None:
        async with beside() as (stream, client):
            sender = thread(lambda: client.sendall(data))
            await until(lambda: len(stream._resource.buffer) > PAUSE_ABOVE)
            ticks = aio.current().worker.tick
            await until(lambda: aio.current().worker.tick > ticks + 20)
            # What the library had received already is told; a batch is 256 buffers of 2 KiB.
            assert len(stream._resource.buffer) <= PAUSE_ABOVE + 256 * 2048
            assert sender.is_alive()
            assert await stream.recv(1000) == data[:1000]
            assert await stream.recv_exactly(2_000_000) == data[1000:2_001_000]
            rest = bytearray()
            while len(rest) < len(data) - 2_001_000:
                rest += await stream.recv()
            assert rest == data[2_001_000:]
            sender.join()

    run(main)


def test_reset(run: Runner) -> None:
    async def main() -> None:
        async with beside() as (stream, client):
            client.sendall(b"last words")
            await until(lambda: stream._resource.buffer)
            waiting = asyncio.create_task(stream.recv_exactly(100))
            await asyncio.sleep(0)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            with pytest.raises(quoit.Error) as reset:
                await waiting
            assert reset.value.errno == errno.ECONNRESET
            assert await stream.recv() == b"last words"
            for again in (stream.recv, lambda: stream.send(b"x"), lambda: stream.send_all(b"x"), stream.flush):
                with pytest.raises(quoit.Error, match="ECONNRESET"):
                    await again()
            assert stream.closed

    run(main)


def test_connects_that_fail(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        async with await aio.listen("127.0.0.1:0") as listener:
            address = listener.address
            with pytest.raises(quoit.Error, match="EADDRINUSE"):
                await aio.listen(address)
        with pytest.raises(quoit.Error) as refused:
            await aio.connect(address)
        assert refused.value.errno == errno.ECONNREFUSED
        with pytest.raises(quoit.Error, match="ENOENT"):
            await aio.connect(f"unix:{tmp_path}/none")
        with pytest.raises(quoit.Error, match="address 'nowhere'"):
            await aio.connect("nowhere")
        with pytest.raises(quoit.Error, match="address 'nowhere'"):
            await aio.listen("nowhere")

    run(main)


def test_more_streams_than_the_program_takes(run: Runner) -> None:
    """Further ones stay in the kernel; each is served when its turn comes, with what it sent before."""
    count = 3 * WAITING_MAX

    async def main() -> None:
        async with await aio.listen("127.0.0.1:0") as listener:
            clients = [dial(listener.address) for _ in range(count)]
            for number, client in enumerate(clients):
                client.sendall(b"%4d" % number)
            door = listener._resource
            await until(lambda: len(door.waiting) >= WAITING_MAX and not door.armed)
            seen = set()
            async for stream in listener:
                async with stream:
                    seen.add(int(await stream.recv_exactly(4)))
                    stream.abort()
                if len(seen) == count:
                    break
            assert seen == set(range(count))
            for client in clients:
                client.close()

    run(main)


def test_use_after_close(run: Runner) -> None:
    async def main() -> None:
        async with pair() as (here, there):
            assert (here.local, here.peer) == (there.peer, there.local)
            waiting = asyncio.create_task(here.recv())
            await asyncio.sleep(0)
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await here.recv()
            here.close()
            with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                await waiting
            for call in (here.recv, lambda: here.recv_exactly(1), lambda: here.send(b"x"),
                         lambda: here.send_all(b"x"), here.send_eof):  # fmt: skip
                with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                    await call()
            there.close()
            await here.aclose()
            await here.aclose()
            with pytest.raises(quoit.Error, match="QUOIT_E_STALE"):
                _ = here.peer
            for wrong in (here.recv(0), here.recv_exactly(-1), here.recv_until(b"")):
                with pytest.raises(ValueError):
                    await wrong

    run(main)


def test_close_of_a_listener(run: Runner) -> None:
    async def main() -> None:
        listener = await aio.listen("127.0.0.1:0")
        accepts = [asyncio.create_task(listener.accept()) for _ in range(3)]
        await asyncio.sleep(0)
        with dial(listener.address) as client:
            taken = await accepts[0]
            listener.close()
            listener.close()
            for accept in accepts[1:]:
                with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                    await accept
            assert [stream async for stream in listener] == []
            # The stream lives on.
            await taken.send_all(b"still here")
            taken.close()
            assert await in_thread(receive_all, client) == b"still here"
        await taken.aclose()

    run(main)


def test_close_sends_what_is_queued(run: Runner) -> None:
    """Also when the program ends right after it."""
    data = pattern(1_000_000)
    got: list[bytes] = []
    readers: list[threading.Thread] = []

    def read(address: str) -> None:
        with dial(address) as client:
            got.append(receive_all(client))

    async def main() -> None:
        async with await aio.listen("127.0.0.1:0") as listener:
            readers.append(thread(functools.partial(read, listener.address)))
            stream = await listener.accept()
            await stream.send(data)
            stream.close()

    run(main)
    for reader in readers:
        reader.join()
    assert got == [data]


def test_a_handler_that_raises(run: Runner) -> None:
    """It is reported, its stream is aborted, and the others are served."""
    run.expects_reports = True

    async def handler(stream: aio.Stream) -> None:
        command = await stream.recv_until(b"\n")
        if command == b"raise\n":
            raise RuntimeError("asked to")
        await stream.send_all(command)

    async def ask(address: str, command: bytes) -> bytes:
        async with await aio.connect(address) as stream:
            await stream.send_all(command)
            return b"".join([data async for data in stream])

    async def main() -> None:
        async with await aio.listen("127.0.0.1:0") as listener:
            serving = aio.spawn(listener.serve(handler))
            assert await ask(listener.address, b"one\n") == b"one\n"
            try:
                assert await ask(listener.address, b"raise\n") == b""
            except quoit.Error as error:
                assert error.errno == errno.ECONNRESET
            assert await ask(listener.address, b"two\n") == b"two\n"
        await serving

    run(main)
    assert [str(report["exception"]) for report in run.reports] == ["asked to"]


def test_handlers_that_run_when_the_listener_closes(run: Runner) -> None:
    """They may end within the grace, and are cancelled after it; at once when the server is."""
    ends: list[str] = []

    async def handler(stream: aio.Stream) -> None:
        try:
            await stream.send_all(await stream.recv_exactly(1))
            ends.append("answered")
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async def main() -> None:
        for grace, way in ((60.0, "answer"), (0.01, "wait"), (60.0, "cancel")):
            ends.clear()
            async with await aio.listen("127.0.0.1:0") as listener:
                serving = asyncio.create_task(listener.serve(handler, grace=grace))
                async with await aio.connect(listener.address) as stream:
                    await until(lambda: len(aio.current().resources) == 3)
                    listener.close()
                    if way == "answer":
                        await stream.send(b"x")
                        assert await stream.recv() == b"x"
                        stream.close()
                        await serving
                    elif way == "wait":
                        await serving
                    else:
                        await cancelled(serving)
            assert ends == ["answered" if way == "answer" else "cancelled"]

    run(main)
