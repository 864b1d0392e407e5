# SPDX-License-Identifier: MIT OR Apache-2.0
"""Channels between loops on threads of their own: order, bounds, ends; cancels lose and double nothing."""

import asyncio
import errno
import gc
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

import quoit
from aio_support import Runner, cancelled, until
from quoit import aio
from quoit.aio.channels import AHEAD
from support import LIMIT


@contextmanager
def others(driver: str, count: int, main: Callable[[int], Coroutine[Any, Any, object]]) -> Iterator[None]:
    """Runs main(number) in so many threads, each a worker of its own; what one raises comes out at the end."""
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            quoit.run_async(main(number), driver=driver)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


async def ended(threads: AbstractContextManager[None]) -> None:
    """Leaves `others` without holding the loop up."""
    await asyncio.to_thread(threads.__exit__, None, None, None)


@pytest.mark.parametrize("capacity", [1, 3, AHEAD, 1000])
def test_many_to_one(run: Runner, capacity: int) -> None:
    """Every object of every sender arrives once, in its sender's order."""
    count = 300

    async def main() -> None:
        sender: aio.Sender[tuple[int, int]]
        receiver: aio.Receiver[tuple[int, int]]
        sender, receiver = await aio.channel(capacity)
        left = [3]

        async def produce(number: int) -> None:
            for index in range(count):
                await sender.send((number, index))
            left[0] -= 1
            if not left[0]:
                sender.close()

        threads = others(run.driver, 3, produce)
        threads.__enter__()
        got: dict[int, list[int]] = {0: [], 1: [], 2: []}
        async for number, index in receiver:
            got[number].append(index)
        await ended(threads)
        assert got == {number: list(range(count)) for number in range(3)}
        assert receiver.closed and sender.closed
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            await receiver.recv()
        assert not receiver._resource.sent

    run(main)


@pytest.mark.parametrize("pressure", [{}, {"events_max": 1}], ids=["", "one-event"])
def test_both_ends_in_one_loop(run: Runner, pressure: dict[str, int]) -> None:
    """It is the object itself that arrives, and after the end there is nothing left to close."""

    async def main() -> None:
        sender, receiver = await aio.channel(2)
        things: list[object] = [object(), None, [1, 2], b"", 0]

        async def send() -> None:
            with sender:
                for thing in things:
                    await sender.send(thing)

        sending = asyncio.create_task(send())
        got = [thing async for thing in receiver]
        await sending
        assert all(one is other for one, other in zip(got, things, strict=True))

    run(main, **pressure)


@pytest.mark.parametrize("pressure", [{}, {"events_max": 1}], ids=["", "one-event"])
@pytest.mark.parametrize("capacity", [4, AHEAD])
def test_sends_wait_for_room(run: Runner, capacity: int, pressure: dict[str, int]) -> None:
    total = capacity + 500

    async def main() -> None:
        sender, receiver = await aio.channel(capacity)
        sends = [asyncio.create_task(sender.send(index)) for index in range(total)]
        host = aio.current()

        def done() -> int:
            return sum(task.done() for task in sends)

        await until(lambda: done() >= capacity)
        while True:
            before, tick = done(), host.worker.tick
            await until(lambda tick=tick: host.worker.tick > tick + 30)  # type: ignore[misc]
            if done() == before:
                break
        # What is inside, and what the receiver has in hand.
        assert done() == capacity + len(receiver._resource.waiting)
        assert len(receiver._resource.waiting) <= (1 if capacity < AHEAD else AHEAD + 256)
        assert [await receiver.recv() for _ in range(total)] == list(range(total))
        await asyncio.gather(*sends)
        receiver.close()

    run(main, **pressure)


def test_cancels_lose_and_double_nothing(run: Runner) -> None:
    """Sends and receives are cancelled at random: what a send says is inside arrives once, and nothing else."""
    count = 400

    async def main() -> None:
        sender: aio.Sender[tuple[int, int]]
        receiver: aio.Receiver[tuple[int, int]]
        sender, receiver = await aio.channel(3)
        inside: list[set[tuple[int, int]]] = [set(), set()]
        cancels, left = [0, 0], [2]

        async def produce(number: int) -> None:
            chance = random.Random(number)
            for index in range(count):
                task = asyncio.create_task(sender.send((number, index)))
                if chance.random() < 0.6:
                    await aio.sleep(chance.choice([0, 0.0002]))
                    task.cancel()
                try:
                    await task
                    inside[number].add((number, index))
                except asyncio.CancelledError as error:
                    cancels[number] += 1
                    # One that never began has no outcome to tell.
                    if getattr(error, "sent", 0):
                        inside[number].add((number, index))
            left[0] -= 1
            if not left[0]:
                sender.close()

        threads = others(run.driver, 2, produce)
        threads.__enter__()
        got: list[tuple[int, int]] = []
        chance = random.Random(5)
        given_up = 0
        while not receiver.closed:
            task = asyncio.create_task(receiver.recv())
            if chance.random() < 0.5:
                await asyncio.sleep(0)
                task.cancel()
            try:
                got.append(await task)
                if chance.random() < 0.1:
                    await aio.sleep(0.0005)
            except asyncio.CancelledError:
                given_up += 1
            except quoit.Error as error:
                assert error.status == quoit.E_CLOSED
        await ended(threads)
        assert len(got) == len(set(got))
        assert set(got) == inside[0] | inside[1]
        for number in range(2):
            mine = [index for one, index in got if one == number]
            assert mine == sorted(mine)
        assert min(cancels) > 0 and given_up > 0
        assert not receiver._resource.sent

    run(main)


def test_a_send_that_is_cancelled_while_it_waits(run: Runner) -> None:
    async def main() -> None:
        sender, receiver = await aio.channel(1)
        await sender.send("one")
        await sender.send("two")  # the first is in the receiver's hands
        waiting = asyncio.create_task(sender.send("three"))
        await aio.sleep(0.002)
        assert not waiting.done()
        assert (await cancelled(waiting)).sent == 0  # type: ignore[attr-defined]
        # Only the second is on its way.
        assert list(receiver._resource.sent.values()) == ["two"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sender.send("four"), 0.002)
        sender.close()
        assert [word async for word in receiver] == ["one", "two"]

    run(main)


def test_closes(run: Runner) -> None:
    """The sender's close lets what is inside arrive; the receiver's drops it. Sends end with EPIPE either way."""

    async def main() -> None:
        for ending in ("sender", "receiver"):
            sender, receiver = await aio.channel(2)
            for index in range(3):
                await sender.send(index)
            waiting = asyncio.create_task(sender.send(3))
            await aio.sleep(0.002)
            assert not waiting.done()
            (sender if ending == "sender" else receiver).close()
            with pytest.raises(quoit.Error) as broken:
                await waiting
            assert broken.value.errno == errno.EPIPE
            assert [index async for index in receiver] == ([0, 1, 2] if ending == "sender" else [])
            assert receiver.closed
            with pytest.raises(quoit.Error, match="EPIPE"):
                await sender.send(4)
            await receiver.aclose()
            assert sender.closed

    # What is dropped is not waited for.
    run(main, close_timeout_ns=3600 * 10**9)


def test_a_close_after_the_end(run: Runner) -> None:
    """What was taken in and not received is dropped then."""

    async def main() -> None:
        sender, receiver = await aio.channel(1000)
        for index in range(100):
            await sender.send(index)
        sender.close()
        await until(lambda: receiver._resource.finished)
        assert not receiver.closed
        assert await receiver.recv() == 0
        receiver.close()
        assert receiver.closed
        assert [index async for index in receiver] == []

    run(main)


def test_a_sender_that_is_let_go_of(run: Runner) -> None:
    async def main() -> None:
        sender, receiver = await aio.channel(1000)
        for index in range(600):
            await sender.send(index)
        waiting = asyncio.create_task(receiver.recv())
        assert await waiting == 0
        del sender
        gc.collect()
        # Nobody takes anything: all is taken in all the same, for inside it would not be kept for ever.
        await until(lambda: receiver._resource.finished)
        assert [index async for index in receiver] == list(range(1, 600))

    run(main)


def test_oneshot(run: Runner) -> None:
    async def main() -> None:
        host = aio.current()
        for fate in ("sent", "closed", "twice", "left open"):
            sender: aio.Sender[str]
            receiver: aio.Receiver[str]
            sender, receiver = await aio.oneshot()

            async def answer(_: int, sender: aio.Sender[str] = sender, fate: str = fate) -> None:
                if fate != "closed":
                    await sender.send("answer")
                if fate == "twice":
                    with pytest.raises(quoit.Error, match="EPIPE"):
                        await sender.send("again")
                if fate != "left open":
                    sender.close()

            threads = others(run.driver, 1, answer)
            threads.__enter__()
            if fate == "closed":
                with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                    await receiver.recv()
            else:
                assert await receiver.recv() == "answer"
                with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                    await receiver.recv()
            await ended(threads)
            assert receiver.closed
            await until(lambda: not host.resources)
            assert sender.closed

    run(main)


def test_one_to_one(run: Runner) -> None:
    """The worker that sends first is the only one that may."""

    async def main() -> None:
        sender, receiver = await aio.channel(5, one_to_one=True)
        await sender.send("mine")

        async def intrude(_: int) -> None:
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await sender.send("theirs")

        threads = others(run.driver, 1, intrude)
        threads.__enter__()
        await ended(threads)
        sender.close()
        assert [word async for word in receiver] == ["mine"]

    run(main)


def test_a_receiver_whose_loop_has_ended(driver: str) -> None:
    """Its senders hear of it; what they sent is gone with it."""
    ends: list[aio.Sender[int]] = []

    async def makes() -> None:
        sender: aio.Sender[int]
        sender, receiver = await aio.channel(10)
        await sender.send(1)
        receiver.close()
        ends.append(sender)

    async def sends() -> None:
        with pytest.raises(quoit.Error, match="EPIPE"):
            await ends[0].send(2)
        ends[0].close()

    quoit.run_async(makes(), driver=driver)
    quoit.run_async(sends(), driver=driver)


def test_one_that_is_forgotten(run: Runner) -> None:
    run.expects_warnings = True

    async def main() -> None:
        host = aio.current()
        sender, receiver = await aio.channel(5)
        await sender.send("lost")
        del receiver
        gc.collect()
        await until(lambda: not host.resources)
        with pytest.raises(quoit.Error, match="EPIPE"):
            await sender.send("more")

    run(main)
    assert [warning.split()[1] for warning in run.warnings] == ["<quoit.aio.Receiver"]


def test_wrong_capacities(run: Runner) -> None:
    async def main() -> None:
        for wrong in (0, -1, quoit.CHANNEL_MAX + 1):
            with pytest.raises(ValueError, match="capacity"):
                await aio.channel(wrong)

    run(main)
