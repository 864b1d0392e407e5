# SPDX-License-Identifier: MIT OR Apache-2.0
"""Descriptors over Unix streams; and streams of which one half has ended."""

import asyncio
import contextlib
import errno
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import quoit
from aio_support import Runner, beside, in_thread, pair, until
from quoit import aio
from support import pattern, receive, receive_all


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def named(number: int) -> int:
    """A descriptor that can be told from others: a pipe's end with the number in it."""
    out, into = os.pipe()
    os.write(into, number.to_bytes(4, "little"))
    os.close(into)
    return out


def number_of(fd: int) -> int:
    number = int.from_bytes(os.read(fd, 4), "little")
    os.close(fd)
    return number


@contextlib.asynccontextmanager
async def unix_pair(tmp_path: Path) -> AsyncIterator[tuple[aio.Stream, aio.Stream]]:
    """Two ends that receive descriptors."""
    listener = await aio.listen(f"unix:{tmp_path}/fds", flags=quoit.LISTEN_UNLINK, descriptors=True)
    async with listener, await aio.connect(listener.address, descriptors=True) as here:
        there = await listener.accept()
        try:
            yield here, there
        finally:
            there.close()


def test_each_comes_with_its_bytes(run: Runner, tmp_path: Path) -> None:
    """In their order, none later than its first byte; the kernel may put bytes that went before into one parcel."""

    async def main() -> None:
        async with unix_pair(tmp_path) as (here, there):
            assert there.credentials is None
            await here.send(b"before ")
            await here.send_fd(b"one", (one := named(1)))
            await here.send(b" between ")
            await here.send_fd(b"two", (two := named(2)))
            await here.send_fd(b"!", (three := named(3)))
            await here.send_eof()
            for fd in (one, two, three):
                os.close(fd)
            got = bytearray()
            places: list[int] = []
            while (parcel := await there.recv_fds()).data:
                assert not parcel.truncated
                for fd in parcel.fds:
                    places.append(len(got))
                    assert number_of(fd) == len(places)
                got += parcel.data
            text = b"before one between two!"
            assert got == text
            for place, word in zip(places, (b"one", b"two", b"!"), strict=True):
                assert place <= text.index(word)
            assert places[2] == text.index(b"!")  # a send with a descriptor behind one with another
            assert there.credentials == aio.Credentials(os.getpid(), os.getuid(), os.getgid())
            assert await there.recv_fds() == aio.Parcel(b"", [])
            # The other way round, in small pieces.
            await there.send_fd(b"abcdef", (four := named(4)))
            os.close(four)
            first = await here.recv_fds(4)
            assert (first.data, number_of(first.fds[0])) == (b"abcd", 4)
            assert await here.recv_fds() == aio.Parcel(b"ef", [])

    run(main)


def test_none_is_left_open(run: Runner, tmp_path: Path) -> None:
    """Those whose bytes another receive takes, and those that nobody takes, are closed."""

    async def main() -> None:
        sent = named(0)
        async with unix_pair(tmp_path) as (here, there):
            await here.send(b"x")
            assert await there.recv() == b"x"
            before = open_fds()
            for _ in range(3):
                await here.send_fd(b"0123456789", sent)
            assert await there.recv_exactly(25) == b"0123456789012345678901234"
            # Two are closed; the third may belong to a byte that was not taken.
            assert open_fds() == before + 1
            parcel = await there.recv_fds()
            assert (parcel.data, len(parcel.fds)) == (b"56789", 1)
            os.close(parcel.fds[0])
            for _ in range(40):
                await here.send_fd(b".", sent)
            # Past a bound they stay with the kernel.
            await until(lambda: there._resource.paused)
            assert before < open_fds() <= before + 20
            here.close()
            await there.aclose()
            await here.aclose()
            assert open_fds() <= before - 2
        os.close(sent)

    run(main)


def test_bytes_that_go_before(run: Runner, tmp_path: Path) -> None:
    """Frames: what other receives read costs no descriptor of the next frame, however the kernel cuts the bytes."""
    chance = random.Random(4)
    bodies = [pattern(chance.choice([0, 1, 5000, 70_000]), number) for number in range(60)]

    async def main() -> None:
        async with unix_pair(tmp_path) as (here, there):

            async def send() -> None:
                for number, body in enumerate(bodies):
                    fd = named(number)
                    await here.send_fd(len(body).to_bytes(4, "big") + body[:3000], fd)
                    os.close(fd)
                    await here.send(body[3000:])

            sending = asyncio.create_task(send())
            for number, body in enumerate(bodies):
                parcel = await there.recv_fds(4)
                assert [number_of(fd) for fd in parcel.fds] == [number]
                head = parcel.data + await there.recv_exactly(4 - len(parcel.data))
                assert await there.recv_exactly(int.from_bytes(head, "big")) == body
            await sending

    run(main)


def test_receives_that_are_cancelled(run: Runner, tmp_path: Path) -> None:
    """Every descriptor comes once, with its bytes, however many receives were given up meanwhile."""
    count = 200

    async def main() -> None:
        chance = random.Random(9)
        async with unix_pair(tmp_path) as (here, there):

            async def send() -> None:
                for number in range(count):
                    fd = named(number)
                    await here.send_fd(number.to_bytes(4, "little"), fd)
                    os.close(fd)
                    await aio.sleep(chance.choice([0, 0, 0.0003]))

            sending = asyncio.create_task(send())
            got: list[int] = []
            given_up = 0
            while len(got) < count:
                task = asyncio.create_task(there.recv_fds())
                if chance.random() < 0.6:
                    await asyncio.sleep(0)
                    task.cancel()
                try:
                    parcel = await task
                except asyncio.CancelledError:
                    given_up += 1
                    continue
                assert int.from_bytes(parcel.data, "little") == len(got)
                got.append(number_of(parcel.fds[0]))
            await sending
            assert got == list(range(count))
            assert given_up > 0

    run(main)


def test_descriptors_that_cannot_be_sent(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        async with pair() as (here, _):
            with pytest.raises(quoit.Error) as failed:
                await here.send_fd(b"x", 0)
            assert failed.value.errno == errno.EOPNOTSUPP
            with pytest.raises(TypeError, match="descriptors=True"):
                await here.recv_fds()
            assert here.credentials is None
            await here.send_all(b"lives on")
        async with unix_pair(tmp_path) as (one, two):
            with pytest.raises(quoit.Error) as failed:
                await one.send_fd(b"x", 1_000_000)
            assert failed.value.errno == errno.EBADF
            with pytest.raises(ValueError, match="at least one byte"):
                await one.send_fd(b"", 0)
            with pytest.raises(ValueError, match="max_bytes"):
                await one.recv_fds(0)
            await one.send_all(b"lives on")
            assert (await two.recv_fds()).data == b"lives on"

    run(main)


def test_halves(run: Runner) -> None:
    """A stream of which one half has ended: `stop_recv` is the counterpart of `send_eof`."""

    async def main() -> None:
        async with beside() as (stream, client):
            client.sendall(b"taken")
            assert await stream.recv() == b"taken"
            waiting = asyncio.create_task(stream.recv())
            await asyncio.sleep(0)
            await stream.stop_recv()
            assert await waiting == b""
            assert await stream.recv() == b""
            await stream.send_all(b"still sends")
            assert await in_thread(receive, client, 11) == b"still sends"
            await stream.send_eof()
            assert await in_thread(receive_all, client) == b""

    run(main)


def test_a_stream_with_descriptors(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        async with unix_pair(tmp_path) as (here, there):
            await here.send_fd(b"ab", (fd := named(7)))
            await until(lambda: there._resource.buffer)
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await there.detach()
            parcel = await there.recv_fds(1)
            assert number_of(parcel.fds[0]) == 7
            detached = await there.detach()
            assert detached.unread == b"b"
            await here.send_fd(b"cd", fd)
            os.close(fd)
            async with await aio.adopt_stream(detached.fd, descriptors=True) as again:
                parcel = await again.recv_fds()
                assert (parcel.data, len(parcel.fds)) == (b"cd", 1)
                os.close(parcel.fds[0])
                here.close()

    run(main)
