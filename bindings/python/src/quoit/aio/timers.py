# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sleeping, and what comes again and again: timers of the worker."""

import asyncio
import errno

from .. import const
from ..batch import Event
from ..errors import Error, event_error
from ..streams import nanoseconds
from ..worker import _due
from .host import Host, current
from .resource import Resource, Series, wake


async def sleep(seconds: float, clock: int = const.CLOCK_MONOTONIC) -> None:
    """Waits so many seconds of a clock (quoit.CLOCK_*); zero or less lets the other tasks run once."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    flags, at = _due(seconds, clock)
    await _wait(flags, at, clock)


async def sleep_until(when: float, clock: int = const.CLOCK_MONOTONIC) -> None:
    """Waits until a clock (quoit.CLOCK_*) shows so many seconds: `quoit.now(clock) / 1e9` is its time."""
    await _wait(const.OPF_ABS, nanoseconds(when), clock)


async def _wait(flags: int, at: int, clock: int) -> None:
    host = current()
    host.check("sleep")
    worker = host.worker
    reply = host.reply()

    def fired(event: Event) -> None:
        reply.tell(event_error(event[0], event[4], event[7]) if event[4] < 0 else True)

    token = worker.expect(fired)
    worker.op(const.OP_TIMER, flags, 0, token, 0, 0, clock, at)
    try:
        await reply.wait()
    except asyncio.CancelledError:
        if reply.outcome is None and not worker.finished:
            worker.cancel(0, const.OP_TIMER, token)
        raise


class _Beat(Resource):
    """What the worker tells of a periodic timer."""

    __slots__ = ("count", "error", "token", "waiter")

    shown = "Ticker"
    warns = False  # `async for tick in every(1)` that is left by a break is ordinary

    def __init__(self, host: Host, period: float, first: float | None, clock: int) -> None:
        super().__init__(host, 0)
        self.count = 0
        self.error: Error | None = None
        self.waiter: asyncio.Future[None] | None = None
        worker = host.worker
        self.token = worker.expect(self.fired)
        flags, at = _due(period if first is None else max(first, 0), clock)
        worker.op(const.OP_TIMER, flags, 0, self.token, 0, 0, clock, at, nanoseconds(period))

    def fired(self, event: Event) -> None:
        result = event[4]
        if result > 0:
            self.count += result
        elif result < 0 and result != -errno.ECANCELED:
            self.error = event_error(event[0], result, event[7])
        if not event[1] & const.EVF_MORE:
            self.gone()
        wake(self.waiter)

    def drop(self) -> None:
        if not self.ending:
            self.ending = True
            if not self.host.worker.finished:
                self.host.worker.cancel(0, const.OP_TIMER, self.token)
            wake(self.waiter)


class Ticker(Series[_Beat, int]):
    """A periodic timer. Its times do not drift: the n-th is n periods after the start, however late one was told."""

    __slots__ = ()

    async def tick(self) -> int:
        """Waits for the next time; returns how many have passed since the last one that was told, mostly 1.

        Cancelled it loses none. Errors: QUOIT_E_CLOSED after the close.
        """
        beat = self._resource
        if beat.waiter is not None:
            raise Error(const.E_BUSY, "tick")
        while not beat.count:
            if beat.error is not None or beat.ending:
                raise beat.error or Error(const.E_CLOSED, "tick")
            beat.waiter = beat.host.loop.create_future()
            try:
                await beat.waiter
            finally:
                beat.waiter = None
        count, beat.count = beat.count, 0
        return count

    _next = tick

    def close(self) -> None:
        """Ends the timer. Twice is nothing; a ticker that is let go of is closed."""
        super().close()


def every(period: float, *, first: float | None = None, clock: int = const.CLOCK_MONOTONIC) -> Ticker:
    """A timer that fires every period seconds, first after `first` seconds (a period, if not given).

    `async for count in every(0.5)` gives the number of periods that passed since the last round.
    """
    if period <= 0:
        raise ValueError("period must be more than 0")
    host = current()
    host.check("every")
    return Ticker(_Beat(host, period, first, clock))
