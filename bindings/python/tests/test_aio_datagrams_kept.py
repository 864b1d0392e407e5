# SPDX-License-Identifier: MIT OR Apache-2.0
"""Datagram sockets under cancels, timeouts and back-pressure: what arrived is told exactly once."""

import asyncio
import random
from pathlib import Path

import pytest

from aio_support import Runner, cancelled, until
from quoit import aio
from quoit.aio.datagrams import EACH


def number_of(datagram: aio.Datagram) -> int:
    return int.from_bytes(datagram.data[:4], "little")


def numbered(number: int, size: int = 0) -> bytes:
    return number.to_bytes(4, "little") + bytes(size)


def test_receives_that_are_cancelled_or_time_out(run: Runner) -> None:
    """Tasks that wait are cancelled at random, also in the tick that brings a datagram: each comes once, in order."""
    count = 600

    async def main() -> None:
        chance = random.Random(11)
        given_up = 0
        got: list[int] = []
        async with await aio.bind("127.0.0.1:0") as sink, await aio.connect_datagrams(sink.local) as source:

            async def send() -> None:
                for number in range(count):
                    await source.send(numbered(number))
                    await aio.sleep(chance.choice([0, 0, 0, 0.0003]))

            sending = asyncio.create_task(send())
            while len(got) < count:
                if chance.random() < 0.5:
                    task = asyncio.create_task(sink.recv())
                    await asyncio.sleep(0)
                    if chance.random() < 0.5:
                        await asyncio.sleep(0)
                    task.cancel()
                else:
                    task = asyncio.create_task(asyncio.wait_for(sink.recv(), chance.choice([0.00001, 0.001])))
                try:
                    got.append(number_of(await task))
                except (asyncio.CancelledError, TimeoutError):
                    given_up += 1
            await sending
            assert sink.waiting == 0
        assert got == list(range(count))
        assert given_up > 0

    run(main)


def test_several_wait(run: Runner) -> None:
    """First come, first served; one that is cancelled as it is served passes its datagram on."""

    async def main() -> None:
        async with await aio.bind("127.0.0.1:0") as sink, await aio.connect_datagrams(sink.local) as source:
            tasks = [asyncio.create_task(sink.recv()) for _ in range(5)]
            await asyncio.sleep(0)
            box = sink._resource
            original = box.put.__func__  # type: ignore[attr-defined]

            class Both(type(box)):  # type: ignore[misc]
                __slots__ = ()

                def put(self, item: aio.Datagram) -> None:
                    original(self, item)
                    if number_of(item) == 1:
                        tasks[1].cancel()

            box.__class__ = Both
            for number in range(4):
                await source.send(numbered(number))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(outcomes[1], asyncio.CancelledError)
            assert sorted(number_of(one) for one in outcomes if isinstance(one, aio.Datagram)) == [0, 1, 2, 3]

    run(main)


@pytest.mark.parametrize("pressure", [{}, {"events_max": 1}], ids=["", "one-event"])
def test_more_than_the_program_takes(run: Runner, tmp_path: Path, pressure: dict[str, int]) -> None:
    """Past the bound the rest stays with the kernel, and the sender waits; nothing is lost, and the order stays."""
    count, size, bound = 400, 1000, 20 * (1004 + EACH)

    async def main() -> None:
        sink = await aio.bind(f"unix:{tmp_path}/sink", waiting_bytes=bound)
        async with sink, await aio.connect_datagrams(f"unix:{tmp_path}/sink") as source:

            async def send() -> None:
                for number in range(count):
                    await source.send(numbered(number, size))

            sending = asyncio.create_task(send())
            box = sink._resource
            await until(lambda: box.weight >= bound and not box.armed)
            seen = sink.waiting
            ticks = aio.current().worker.tick
            await until(lambda: aio.current().worker.tick > ticks + 20)
            assert sink.waiting == seen
            # What the library had already when it was told: a kernel's queue of Unix datagrams is short.
            assert seen < 300
            assert not sending.done()
            got = [number_of(await sink.recv()) for _ in range(count)]
            await sending
        assert got == list(range(count))

    run(main, **pressure)


def test_sends_that_are_cancelled(run: Runner, tmp_path: Path) -> None:
    """A send to a peer that has no room waits; cancelled it has not left, and what had left arrives."""

    async def main() -> None:
        sink = await aio.bind(f"unix:{tmp_path}/sink", waiting_bytes=1)
        async with sink, await aio.connect_datagrams(f"unix:{tmp_path}/sink") as source:
            left, given_up = [], 0
            number = 0
            while given_up < 20:
                sending = asyncio.create_task(source.send(numbered(number, 5000)))
                try:
                    async with asyncio.timeout(0.005):
                        await asyncio.shield(sending)
                    left.append(number)
                except TimeoutError:
                    if sending.done():
                        left.append(number)
                    else:
                        # It may be that it left while it was asked to end: then that is told.
                        done = (await cancelled(sending)).sent  # type: ignore[attr-defined]
                        assert done in (0, 5004)
                        left += [number] if done else []
                        given_up += not done
                number += 1
            assert source.bytes_queued == 0
            assert [number_of(await sink.recv()) for _ in left] == left
            await source.send(b"last")
            assert (await sink.recv()).data == b"last"

    run(main)


def test_sends_wait_while_much_is_owed(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        sink = await aio.bind(f"unix:{tmp_path}/sink", waiting_bytes=1)
        async with sink, await aio.connect_datagrams(f"unix:{tmp_path}/sink") as source:
            tasks = [asyncio.create_task(source.send(numbered(number, 9000))) for number in range(100)]
            await until(lambda: source._resource.debt.waiters)
            assert source.bytes_queued <= 65536 + 9004 + EACH
            got = [number_of(await sink.recv()) for _ in range(100)]
            await asyncio.gather(*tasks)
            assert sorted(got) == list(range(100))
            assert source.bytes_queued == 0

    run(main)
