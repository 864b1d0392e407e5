# SPDX-License-Identifier: MIT OR Apache-2.0
"""The bound on what an object owes: those who want to send more wait."""

import asyncio
from collections import deque
from collections.abc import Callable

# Bytes that an object may owe before a send waits.
SEND_ABOVE = 64 * 1024


class Debt:
    """Bytes that are queued to be sent."""

    __slots__ = ("_loop", "bytes", "waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.bytes = 0
        self.waiters: deque[asyncio.Future[None]] = deque()

    @property
    def full(self) -> bool:
        """True when a send has to wait for `room`."""
        return self.bytes > SEND_ABOVE

    async def room(self, check: Callable[[], object]) -> None:
        """Waits while more than SEND_ABOVE is owed; check raises if there is no point in waiting."""
        while self.full:
            waiter = self._loop.create_future()
            self.waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self.waiters:
                    self.waiters.remove(waiter)
            check()

    def owe(self, size: int) -> None:
        self.bytes += size

    def paid(self, size: int) -> None:
        self.bytes -= size
        if not self.full:
            self.wake()

    def wake(self) -> None:
        """Has all who wait look again."""
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
