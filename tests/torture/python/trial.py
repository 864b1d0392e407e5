# SPDX-License-Identifier: MIT OR Apache-2.0
"""A trial: an awaited call, what it waits for, and a cut that meets it at a random moment."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ledger import AFTER, BEFORE, DURING, Fault, Totals

EARLY, RANDOM, LATE = range(3)
STALL_SECONDS = 30.0
_SOON = (0, 0.00001, 0.00005, 0.0001, 0.0003, 0.001)


class Clock:
    """Lets the loop run on; nothing may take for ever."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.end = time.monotonic() + STALL_SECONDS

    @property
    def late(self) -> bool:
        """So late that what has not arrived is lost."""
        return time.monotonic() > self.end - STALL_SECONDS / 2

    async def tick(self) -> None:
        await asyncio.sleep(0)
        if time.monotonic() > self.end:
            raise Fault(f"nothing has happened for {STALL_SECONDS} s: {self.what}")


async def _limited(coroutine: Coroutine[Any, Any, Any], seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        return await coroutine


class Trial:
    def __init__(self, subject: str, cut: str, chance: random.Random) -> None:
        self.subject = subject
        self.cut = cut
        self.moment = chance.randrange(3)
        self.chance = chance
        self.clock = Clock(f"{subject} by {cut}")
        self.told_first = False  # it had ended before the cut was asked for
        self.value: Any = None
        self.error: BaseException | None = None

    def _begin(self, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        if self.cut != "timeout":
            return asyncio.create_task(call)
        seconds = 0.003 if self.moment == LATE else self.chance.choice(_SOON)
        if self.chance.random() < 0.5:
            return asyncio.create_task(_limited(call, seconds))
        return asyncio.create_task(asyncio.wait_for(call, seconds))

    async def run(
        self,
        call: Coroutine[Any, Any, Any],
        cause: Callable[[bool], None],
        cut: Callable[[], object] | None,
        until: Callable[[], bool] = lambda: True,
    ) -> None:
        """cause(first) is called again and again, and cut once; None cancels the task.

        The trial lasts until all three are there, and `until` holds.
        """
        cause_at, cut_at = self.chance.randrange(4), self.chance.randrange(4)
        task = self._begin(call)
        caused, asked, turn = False, self.cut == "timeout", 0
        due = False
        while not (caused and asked and task.done() and until()):
            due = due or (task.done() if self.moment == EARLY else turn >= cause_at)
            if due:
                cause(not caused)
                caused = True
            if not asked and (task.done() if self.moment == LATE else turn >= cut_at):
                self.told_first = task.done()
                asked = True
                task.cancel() if cut is None else cut()
                due |= cut is not None  # a close may wait for what the call waits for
            turn += 1
            await self.clock.tick()
        try:
            self.value = await task
        except (Exception, asyncio.CancelledError) as error:
            self.error = error
        if self.cut == "timeout":
            self.told_first = self.error is None

    @property
    def cancelled(self) -> bool:
        """The cut was a cancel or a time-out, and had its way."""
        return isinstance(self.error, asyncio.CancelledError | TimeoutError)

    @property
    def sent(self) -> int:
        """Of a send: what its end tells to have left."""
        error = self.error
        if isinstance(error, TimeoutError):
            error = error.__cause__
        return int(getattr(error, "sent", getattr(error, "done", 0)))

    def count(self, totals: Totals, something: bool, nothing: bool = False) -> None:
        """Tells what became of the call, and counts it.

        something: in spite of the cut a part was done, or what it waited for is there. nothing: it told only the end.
        """
        cut_down = not something and (self.error is not None or nothing)
        outcome = AFTER if self.told_first else BEFORE if cut_down else DURING
        totals.count(self.subject, self.cut, outcome)


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """What an awaited call gives without waiting; None if it would wait."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    try:
        call.throw(asyncio.CancelledError())
    except asyncio.CancelledError:
        return None
    raise Fault("a call went on that was cancelled")
