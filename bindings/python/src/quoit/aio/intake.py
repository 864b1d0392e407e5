# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a MULTI op brings for the tasks that take it one by one: connections, datagrams, messages."""

import asyncio
import errno
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from .. import const
from ..batch import Event
from ..errors import OPCODES, Error, event_error
from .resource import Release, Resource, wake

if TYPE_CHECKING:
    from .host import Host

T = TypeVar("T")


class Intake(Resource, Generic[T]):
    """An object whose op brings things into a queue, in order. A take that is cancelled takes nothing.

    When those that wait weigh `most`, the op is asked to end, and it is given again when half of that was taken: what
    comes meanwhile stays below. What the library had before it heard of that is taken in all the same.
    """

    __slots__ = ("armed", "detaching", "error", "idle", "most", "pausing", "takers", "waiting", "weight")

    opcode: ClassVar[int]
    flags: int = const.OPF_MULTI
    close_flags: ClassVar[int] = 0
    # The most bytes that one event brings, where the op has such a bound.
    cap: int = 0

    def __init__(self, host: "Host", handle: int, most: int) -> None:
        super().__init__(host, handle)
        self.most = most
        self.waiting: deque[T] = deque()
        self.weight = 0
        self.takers: deque[asyncio.Future[None]] = deque()
        self.error: Error | None = None
        # Woken when the op has ended.
        self.idle: asyncio.Future[None] | None = None
        self.armed = self.pausing = self.detaching = False

    # What a kind of object adds.

    @abstractmethod
    def came(self, event: Event) -> bool:
        """Puts what an event brings; False if it is an error."""

    def weigh(self, item: T) -> int:
        return 1

    def refuse(self) -> None:
        """Raises why there is nothing to wait for, if that is so."""
        if self.error is not None:
            raise Error(self.error.status, OPCODES[self.opcode])
        if self.ending:
            raise Error(const.E_CLOSED, OPCODES[self.opcode])

    def discard(self) -> None:
        """Drops what nobody took."""
        self.waiting.clear()
        self.weight = 0

    # The op.

    def arm(self) -> None:
        self.armed, self.pausing = True, False
        worker = self.host.worker
        worker.op(self.opcode, self.flags, self.handle, worker.expect(self.told), 0, self.cap)

    def told(self, event: Event) -> None:
        more = event[1] & const.EVF_MORE
        if not more:
            self.armed = False
            wake(self.idle)
        fine = self.came(event)
        if more or self.ending:
            return
        if fine or (self.pausing and event[4] == -errno.ECANCELED):
            self.went_on()
            return
        self.error = event_error(event[0], event[4], event[7])
        self.wake_all()

    def went_on(self) -> None:
        """Asks for more when half of what waited was taken."""
        if self.armed or self.ending or self.detaching or self.error is not None:
            return
        if self.weight <= self.most // 2:
            self.arm()

    # The queue.

    def put(self, item: T) -> None:
        if self.ending:
            return
        self.waiting.append(item)
        self.weight += self.weigh(item)
        if self.takers:
            wake(self.takers.popleft())
        if self.weight >= self.most and self.armed and not self.pausing:
            # Those that the cancel comes too late for are taken in all the same.
            self.pausing = True
            self.host.worker.cancel(self.handle, self.opcode)

    async def take(self) -> T:
        """The first that waits; several tasks may."""
        while not self.waiting:
            self.refuse()
            taker = self.host.loop.create_future()
            self.takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker in self.takers:
                    self.takers.remove(taker)
                elif self.waiting and self.takers:
                    wake(self.takers.popleft())
                raise
        item = self.waiting.popleft()
        self.weight -= self.weigh(item)
        self.went_on()
        return item

    async def detach(self) -> int:
        """Ends it without its descriptor, which is given; what waits can still be taken. Failing, it goes on."""
        self.refuse()
        if self.detaching:
            raise Error(const.E_BUSY, "detach")
        self.detaching = True
        try:
            while self.armed and not self.ending:
                if not self.pausing:
                    self.pausing = True
                    self.host.worker.cancel(self.handle, self.opcode)
                self.idle = self.host.loop.create_future()
                await self.idle
            self.refuse()
            release = Release(self)
            release.ask()
            return await release.fd()
        finally:
            self.detaching = False
            self.went_on()

    def wake_all(self) -> None:
        while self.takers:
            wake(self.takers.popleft())

    # The end.

    def drop(self) -> None:
        if self.ending:
            return
        self.ending = True
        worker = self.host.worker
        if not worker.finished:
            worker.op(const.OP_CLOSE, self.close_flags, self.handle, worker.expect_count(self.shut, None))
        self.discard()
        self.wake_all()

    def shut(self, outcome: int | Error) -> None:
        """The worker has closed it."""
        self.gone()

    def gone(self) -> None:
        super().gone()
        wake(self.idle)
        self.wake_all()
