# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two sides of an open object: the Resource that the worker tells of it, and what the program holds of that."""

import asyncio
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from .. import const
from ..batch import Event
from ..errors import Error, event_error

if TYPE_CHECKING:
    from .host import Host


class Resource(ABC):
    """What the worker tells of an open object. The program holds another object, so that it can be forgotten."""

    __slots__ = ("closed", "closers", "ending", "handle", "host")

    # What the program knows it as, and whether leaving it open is worth a warning.
    shown = "Resource"
    warns = True

    def __init__(self, host: "Host", handle: int) -> None:
        self.host = host
        self.handle = handle
        # True from the first close on, and when it has ended.
        self.ending = self.closed = False
        self.closers: list[asyncio.Future[None]] = []
        host.resources.add(self)

    @abstractmethod
    def drop(self) -> None:
        """Ends it at once; on the loop's thread."""

    def gone(self) -> None:
        """It has ended."""
        self.ending = self.closed = True
        self.host.resources.discard(self)
        for waiter in self.closers:
            wake(waiter)
        if not self.host.resources:
            wake(self.host.last)

    async def over(self) -> None:
        """Waits until it has ended. Cancelled, it is dropped."""
        while not self.closed:
            waiter = self.host.loop.create_future()
            self.closers.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self.drop()
                raise
            finally:
                self.closers.remove(waiter)

    def forgotten(self, what: object) -> None:
        """From a finaliser, so from any thread: the program has let go of what it did not close."""
        if self.ending or self.host.closed:
            return
        if self.warns:
            warnings.warn(f"unclosed {what!r}", ResourceWarning, source=what, stacklevel=3)
        self.host.from_anywhere(self.drop)

    def __repr__(self) -> str:
        return f"<quoit.aio.{self.shown} {self.handle:#x}>"


R = TypeVar("R", bound=Resource)
T = TypeVar("T")


def wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class Reply:
    """The last event of one op, for the task that waits for it."""

    __slots__ = ("_loop", "_waiter", "outcome")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self.outcome: Any = None

    def tell(self, outcome: Any) -> None:
        self.outcome = outcome
        wake(self._waiter)

    async def wait(self) -> Any:
        """The outcome; an Error is raised. A wait that is cancelled may be taken up again."""
        while self.outcome is None:
            self._waiter = self._loop.create_future()
            await self._waiter
        if isinstance(self.outcome, Error):
            raise self.outcome
        return self.outcome

    async def settle(self, cancel: Callable[[], object]) -> Any:
        """The same, but cancelled it asks the op to end and waits until it is known how it did.

        The CancelledError then has an attribute sent: the bytes that were done.
        """
        try:
            return await self.wait()
        except asyncio.CancelledError as cancelled:
            if self.outcome is None:
                cancel()
            while self.outcome is None:
                try:
                    await self.wait()
                except asyncio.CancelledError:
                    continue  # the first one is raised below
                except Error:
                    break
            outcome = self.outcome
            cancelled.sent = outcome.done if isinstance(outcome, Error) else outcome  # type: ignore[attr-defined]
            raise


class Making(Reply, Generic[R]):
    """The reply of an op that makes something. When the task that waits for it is cancelled, it is dropped."""

    __slots__ = ("given_up",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.given_up = False

    def made(self, resource: R) -> None:
        if self.given_up:
            resource.drop()
        self.tell(resource)

    async def take(self, cancel: Callable[[], object] | None = None) -> R:
        """What was made; an Error is raised. cancel asks an op that has not ended to do so."""
        try:
            resource: R = await self.wait()
        except asyncio.CancelledError:
            self.given_up = True
            if isinstance(self.outcome, Resource):
                self.outcome.drop()
            elif self.outcome is None and cancel is not None:
                cancel()
            raise
        return resource


class Release(Generic[R]):
    """A detach: what the program has ends, and its descriptor comes back."""

    __slots__ = ("_given_up", "_reply", "_resource")

    def __init__(self, resource: R) -> None:
        self._resource = resource
        self._reply = Reply(resource.host.loop)
        self._given_up = False

    def refuse(self) -> None:
        """Raises that it cannot be now, or not any more."""
        raise Error(const.E_CLOSED if self._resource.ending else const.E_BUSY, "detach")

    def ask(self) -> None:
        """Queues the op, which no other of the object may be in flight with."""
        worker = self._resource.host.worker
        if worker.flags & const.BATCH_DRAINED:
            self.told(Error(const.E_CLOSED, "detach"))
            return

        def detached(event: Event) -> None:
            failed = event[4] < 0
            self.told(event_error(event[0], event[4], event[7]) if failed else event[9])

        worker.op(const.OP_DETACH, 0, self._resource.handle, worker.expect(detached))

    def told(self, outcome: int | Error) -> None:
        if isinstance(outcome, Error):
            self._reply.tell(outcome)
            return
        self._resource.gone()
        if self._given_up:
            os.close(outcome)
        self._reply.tell((outcome,))

    async def fd(self) -> int:
        """The descriptor. Cancelled, it is closed when it comes."""
        try:
            fd: int = (await self._reply.wait())[0]
        except asyncio.CancelledError:
            self._given_up = True
            if isinstance(self._reply.outcome, tuple):
                os.close(self._reply.outcome[0])
            raise
        return fd


class Held(Generic[R]):
    """What the program has of an open object. Use it as an async context manager, or close it."""

    __slots__ = ("__weakref__", "_resource")

    def __init__(self, resource: R) -> None:
        self._resource = resource

    @property
    def handle(self) -> int:
        """The object's handle, for the layers below."""
        return self._resource.handle

    @property
    def closed(self) -> bool:
        """True from the first close on, and after it has ended."""
        return self._resource.ending

    def close(self) -> None:
        """Begins to end it, without waiting. Twice is nothing."""
        self._resource.drop()

    async def aclose(self) -> None:
        """Closes it, and waits until it is."""
        self.close()
        await self._resource.over()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        resource = getattr(self, "_resource", None)
        if resource is not None:
            resource.forgotten(self)

    def __repr__(self) -> str:
        return f"{repr(self._resource)[:-1]}{' closed' if self.closed else ''}>"


class Series(Held[R], ABC, Generic[R, T]):
    """One that brings things, for `async for`, until it is closed or has ended."""

    __slots__ = ()

    @abstractmethod
    async def _next(self) -> T:
        """The next one; QUOIT_E_CLOSED after the close."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self._next()
        except Error as error:
            if error.status == const.E_CLOSED:
                raise StopAsyncIteration from None
            raise
