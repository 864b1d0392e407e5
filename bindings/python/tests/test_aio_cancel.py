# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cancelled and timed out, nothing is lost: each byte, stream, tick and message is told exactly once."""

import asyncio
import random
import socket

import pytest

import quoit
from aio_support import Runner, beside, cancelled, in_thread, pair, thread, until
from quoit import aio
from support import dial, pattern, receive, receive_all


def test_receives_that_time_out(run: Runner) -> None:
    """The peer sends in dribs while each receive is given almost no time; all bytes come, in order."""
    data = pattern(6000)

    async def main() -> None:
        chance = random.Random(7)
        late = 0
        async with pair() as (here, there):

            async def send() -> None:
                at = 0
                while at < len(data):
                    size = chance.randrange(1, 200)
                    await there.send_all(data[at : at + size])
                    at += size
                    await aio.sleep(chance.choice([0, 0, 0.0005]))

            sending = aio.spawn(send())
            got = b""
            while len(got) < len(data):
                left = min(300, len(data) - len(got))
                count = chance.choice([1, 7, 65536])
                way = here.recv(count) if chance.random() < 0.6 else here.recv_exactly(left)
                try:
                    got += await asyncio.wait_for(way, chance.choice([0.00001, 0.0005, 0.01]))
                except TimeoutError:
                    late += 1
                assert data.startswith(got)
            await sending
        assert late > 0

    run(main)


def test_receive_cancelled_as_the_bytes_come(run: Runner) -> None:
    """Both happen in one tick: the task was woken already and is cancelled before it runs."""

    async def main() -> None:
        async with pair() as (here, there):
            task = asyncio.create_task(here.recv())
            await asyncio.sleep(0)
            inlet = here._resource
            original = inlet.got.__func__  # type: ignore[attr-defined]

            class Both(type(inlet)):  # type: ignore[misc]
                __slots__ = ()

                def got(self, data: quoit.Lent) -> None:
                    original(self, data)
                    task.cancel()

            inlet.__class__ = Both
            await there.send_all(b"kept")
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await here.recv() == b"kept"

    run(main)


def test_send_all_tells_what_left(run: Runner) -> None:
    data = pattern(12_000_000)

    async def main() -> None:
        async with beside(small=True) as (stream, client):
            sending = asyncio.create_task(stream.send_all(data))
            await until(lambda: aio.current().stats()["bytes_sent"])
            error = await cancelled(sending)
            left = error.sent  # type: ignore[attr-defined]
            assert 0 < left < len(data)
            assert left == stream.bytes_sent
            got = asyncio.create_task(in_thread(receive_all, client))
            await stream.send_all(b"the end")
            await stream.send_eof()
            assert await got == data[:left] + b"the end"

    run(main)


def test_send_all_is_taken_back_whole(run: Runner) -> None:
    """Behind another that is on its way, none of it has left; asked a second time it ends no sooner and no later."""
    data = pattern(12_000_000)

    async def main() -> None:
        async with beside(small=True) as (stream, client):
            first = asyncio.create_task(stream.send_all(data))
            await until(lambda: aio.current().stats()["bytes_sent"])
            for size in (10, 1_000_000):
                second = asyncio.create_task(stream.send_all(bytes(size)))
                await aio.sleep(0.001)
                second.cancel()
                await asyncio.sleep(0)
                assert (await cancelled(second)).sent == 0  # type: ignore[attr-defined]
            got = asyncio.create_task(in_thread(receive_all, client))
            await first
            await stream.send_eof()
            assert await got == data
            assert stream.bytes_sent == len(data)

    run(main)


def test_send_is_taken_whole_or_not(run: Runner) -> None:
    piece = pattern(30_000)

    async def main() -> None:
        chance = random.Random(3)
        async with beside(small=True) as (stream, client):
            taken = late = 0
            while late < 20:
                try:
                    async with asyncio.timeout(chance.choice([0.00001, 0.002])):
                        await stream.send(taken.to_bytes(4, "little") + piece)
                    taken += 1
                except TimeoutError:
                    late += 1
            got = asyncio.create_task(in_thread(receive, client, taken * (len(piece) + 4)))
            await stream.flush()
            assert await got == b"".join(number.to_bytes(4, "little") + piece for number in range(taken))

    run(main)


def test_accepts_that_time_out(run: Runner) -> None:
    """Each stream is accepted once, however many accepts were given up meanwhile."""
    count = 60

    async def main() -> None:
        async with await aio.listen("127.0.0.1:0") as listener:
            address = listener.address
            clients: list[socket.socket] = []

            def dial_all() -> None:
                for number in range(count):
                    clients.append(dial(address))
                    clients[-1].sendall(bytes([number]))

            dialler = thread(dial_all)
            seen: list[int] = []
            while len(seen) < count:
                accepts = [asyncio.create_task(listener.accept()) for _ in range(3)]
                await aio.sleep(0.0002)
                for accept in accepts:
                    accept.cancel()
                for outcome in await asyncio.gather(*accepts, return_exceptions=True):
                    if isinstance(outcome, aio.Stream):
                        seen += await outcome.recv_exactly(1)
                        outcome.abort()
            assert sorted(seen) == list(range(count))
            dialler.join()
            for client in clients:
                client.close()

    run(main)


def test_connects_given_up(run: Runner) -> None:
    """Whether it won or not, no connection is left over."""

    async def main() -> None:
        chance = random.Random(5)
        made = 0
        async with await aio.listen("127.0.0.1:0") as listener:

            async def server() -> None:
                async for stream in listener:
                    aio.spawn(drained(stream))

            async def drained(stream: aio.Stream) -> None:
                async with stream:
                    try:
                        assert await stream.recv() == b""
                    except quoit.Error as error:
                        assert error.errno is not None

            serving = aio.spawn(server())
            for _ in range(50):
                connecting = asyncio.create_task(aio.connect(listener.address))
                await aio.sleep(chance.choice([0, 0.00005, 0.0005]))
                connecting.cancel()
                try:
                    async with await connecting:
                        made += 1
                except asyncio.CancelledError:
                    pass
            await until(lambda: len(aio.current().resources) == 1)
        await serving

    run(main)


def test_close_given_up_is_an_abort(run: Runner) -> None:
    async def main() -> None:
        async with beside() as (stream, client):
            # The peer does not close, so the close waits for it.
            client.sendall(b"unread")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.aclose(), 0.02)
            await until(lambda: stream._resource.closed)

    run(main)


def test_a_ledger_of_random_cancels(run: Runner) -> None:
    """Two streams send and receive both ways while tasks are cancelled at random: every byte, exactly once."""
    total = 400_000

    async def send(stream: aio.Stream, data: bytes, chance: random.Random) -> int:
        at = cancels = 0
        while at < len(data):
            piece = data[at : at + chance.choice([1, 500, 20_000, 100_000])]
            before = stream.bytes_sent
            if chance.random() < 0.3:
                await aio.sleep(0.0005)  # the receiver waits meanwhile, or gives up
            task = asyncio.create_task(stream.send_all(piece))
            if chance.random() < 0.5:
                await aio.sleep(chance.choice([0, 0.0001]))
                task.cancel()
            try:
                await task
                assert stream.bytes_sent - before == len(piece)
            except asyncio.CancelledError as error:
                cancels += 1
                # One that never began has no outcome to tell.
                assert getattr(error, "sent", 0) == stream.bytes_sent - before
            at += stream.bytes_sent - before
        await stream.send_eof()
        return cancels

    async def receive_some(stream: aio.Stream, chance: random.Random) -> tuple[bytes, int]:
        got, cancels = bytearray(), 0
        while True:
            task = asyncio.create_task(stream.recv(chance.choice([1, 1000, 65536])))
            if chance.random() < 0.5:
                await asyncio.sleep(0)
                task.cancel()
            try:
                data = await task
            except asyncio.CancelledError:
                cancels += 1
                continue
            if not data:
                return bytes(got), cancels
            got += data

    async def main() -> None:
        one, two = pattern(total, 1), pattern(total, 2)
        async with pair() as (here, there):
            chances = [random.Random(number) for number in range(4)]
            sent, _, (got_there, _), (got_here, _) = outcomes = await asyncio.gather(
                send(here, one, chances[0]), send(there, two, chances[1]),
                receive_some(there, chances[2]), receive_some(here, chances[3]),
            )  # fmt: skip
            assert got_there == one
            assert got_here == two
            assert sent + outcomes[1] > 0
            assert outcomes[2][1] + outcomes[3][1] > 0

    run(main)
