# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sleeping and ticking, through timers of the worker."""

import asyncio
import time

import pytest

import quoit
from aio_support import Runner, cancelled, until
from quoit import aio


def test_sleeps_are_never_early_and_in_order(run: Runner) -> None:
    async def main() -> None:
        woken: list[float] = []

        async def one(seconds: float) -> None:
            begun = time.monotonic()
            await aio.sleep(seconds)
            assert time.monotonic() - begun >= seconds
            woken.append(seconds)

        await asyncio.gather(*(one(seconds) for seconds in (0.03, 0.01, 0.02, 0.005)))
        assert woken == sorted(woken)
        await aio.sleep(0)
        await aio.sleep(-1)

    run(main)


def test_sleep_until(run: Runner) -> None:
    async def main() -> None:
        for clock in (quoit.CLOCK_MONOTONIC, quoit.CLOCK_BOOT, quoit.CLOCK_WALL):
            at = quoit.now(clock) / 1e9 + 0.01
            await aio.sleep_until(at, clock)
            assert quoit.now(clock) / 1e9 >= at - 0.000_001
            await aio.sleep_until(at - 100, clock)
        with pytest.raises(quoit.Error, match="field arg"):
            await aio.sleep(0.001, clock=99)

    run(main)


def test_a_sleep_that_is_cancelled_leaves_nothing(run: Runner) -> None:
    async def main() -> None:
        await aio.sleep(0.001)
        before = aio.current().stats()["ops_live"]
        sleepers = [asyncio.create_task(aio.sleep(3600)) for _ in range(50)]
        await until(lambda: aio.current().stats()["ops_live"] >= before + 50)
        for sleeper in sleepers:
            await cancelled(sleeper)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(aio.sleep(3600), 0.005)
        await until(lambda: aio.current().stats()["ops_live"] <= before)

    run(main)


def test_every_does_not_drift(run: Runner) -> None:
    """The n-th tick is never before n periods, and one that dawdles is told how many it missed."""
    period = 0.004

    async def main() -> None:
        begun = time.monotonic()
        ticker = aio.every(period)
        count = rounds = 0
        async for passed in ticker:
            now = time.monotonic()
            count += passed
            rounds += 1
            assert now - begun >= count * period
            if rounds == 5:
                # Blocks the loop for five periods: they are told, not lost.
                while time.monotonic() < now + 5 * period:
                    pass
            elif rounds == 6:
                assert passed >= 5
            if count >= 20:
                break
        ticker.close()
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            await ticker.tick()
        assert [passed async for passed in ticker] == []

    run(main)


def test_ticks_are_not_lost_to_a_cancel(run: Runner) -> None:
    period = 0.003

    async def main() -> None:
        begun = time.monotonic()
        count = 0
        async with aio.every(period, first=0) as ticker:
            while count < 30:
                try:
                    count += await asyncio.wait_for(ticker.tick(), 0.002)
                except TimeoutError:
                    pass
                # One at the start, one each period since.
                assert count <= (time.monotonic() - begun) / period + 1
            told_at = time.monotonic()
            count += await ticker.tick()
        assert count >= (told_at - begun) / period - 2

    run(main)


def test_ticker_closed_by_another_task(run: Runner) -> None:
    async def main() -> None:
        ticker = aio.every(3600)
        waiting = asyncio.create_task(ticker.tick())
        await asyncio.sleep(0)
        with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
            await ticker.tick()
        ticker.close()
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            await waiting
        with pytest.raises(ValueError, match="period"):
            aio.every(0)
        # Let go of without a close, it ends without a word.
        async for _ in aio.every(0.001):
            break
        await until(lambda: not aio.current().resources)

    run(main)


def test_timeouts_of_asyncio(run: Runner) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.005):
                await aio.sleep(3600)
        async with asyncio.timeout(3600):
            await aio.sleep(0.001)
        loop = asyncio.get_running_loop()
        fired: list[float] = []
        loop.call_later(0.01, lambda: fired.append(loop.time()))
        begun = loop.time()
        await until(lambda: fired)
        assert fired[0] - begun >= 0.009

    run(main)
