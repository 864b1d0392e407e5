# SPDX-License-Identifier: MIT OR Apache-2.0
"""Listeners that are awaited, and the tasks that serve what they accept."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from .. import address as addresses
from .. import const
from ..batch import Event
from ..errors import Error, event_error
from ..runtime import fill
from ..streams import Stream as Plain
from .host import Host, Resource, current, wake
from .streams import Inlet, Stream, Tell
from .tasks import spawn

# Streams that may wait to be taken by the program before the listener leaves further ones to the kernel's queue.
WAITING_MAX = 64


class _Door(Resource, Tell):
    """What the worker tells of a listener."""

    def __init__(self, host: Host, handle: int, port: int) -> None:
        super().__init__(host)
        self.handle = handle
        self.port = port
        self.waiting: deque[Inlet] = deque()
        self.takers: deque[asyncio.Future[None]] = deque()
        self.error: Error | None = None
        self.armed = self.pausing = self.closed = False
        self.arm()

    def arm(self) -> None:
        self.armed, self.pausing = True, False
        worker = self.host.worker
        flags = const.OPF_MULTI | const.OPF_AUTO_RECV
        worker.op(const.OP_ACCEPT, flags, self.handle, worker.expect(self.accepted))

    def accepted(self, event: Event) -> None:
        if event[4] >= 0:
            self.host.worker.opened(event[9], self)
        if event[1] & const.EVF_MORE:
            return
        self.armed = False
        if self.ending:
            return
        if self.pausing or event[4] >= 0:
            self.went_on()
            return
        self.error = event_error(event[0], event[4], event[7])
        self.wake_all()

    def on_open(self, stream: Plain) -> None:
        inlet = Inlet(self.host, stream)
        if self.ending:
            inlet.drop()
            return
        self.waiting.append(inlet)
        if self.takers:
            wake(self.takers.popleft())
        if len(self.waiting) >= WAITING_MAX and self.armed and not self.pausing:
            # Those that the cancel comes too late for are taken all the same.
            self.pausing = True
            self.host.worker.cancel(self.handle, const.OP_ACCEPT)

    def went_on(self) -> None:
        """Accepts again when half of those that waited were taken."""
        if not self.armed and not self.ending and self.error is None and len(self.waiting) <= WAITING_MAX // 2:
            self.arm()

    def wake_all(self) -> None:
        while self.takers:
            wake(self.takers.popleft())

    def drop(self) -> None:
        if self.ending:
            return
        self.ending = True
        worker = self.host.worker
        if not worker.finished:
            worker.op(const.OP_CLOSE, 0, self.handle, worker.expect_count(self.shut, None))
        for inlet in self.waiting:
            inlet.drop()
        self.waiting.clear()
        self.wake_all()

    def shut(self, outcome: int | Error) -> None:
        """The worker has closed it."""
        self.gone()

    def gone(self) -> None:
        super().gone()
        self.closed = True
        self.wake_all()

    def __repr__(self) -> str:
        return f"<quoit.aio.Listener {self.handle:#x}>"


class Listener:
    """Accepts streams: `async for stream in listener`, `accept`, or `serve`. Close it, or a ResourceWarning tells."""

    __slots__ = ("__weakref__", "_door")

    def __init__(self, door: _Door) -> None:
        self._door = door

    @property
    def address(self) -> str:
        """The address that it is bound to. Errors: QUOIT_E_STALE after the close."""
        return addresses.of(self._door.host.worker.pointer, self._door.handle, peer=False)

    @property
    def port(self) -> int:
        """The port that was bound; 0 for a Unix socket."""
        return self._door.port

    @property
    def closed(self) -> bool:
        return self._door.ending

    async def accept(self) -> Stream:
        """The next stream, which is the caller's to close. Cancelled it takes none; several tasks may wait.

        Errors: QUOIT_E_CLOSED after the close, else that of accept(2).
        """
        door = self._door
        while not door.waiting:
            if door.error is not None:
                raise Error(door.error.status, "accept")
            if door.ending:
                raise Error(const.E_CLOSED, "accept")
            taker = door.host.loop.create_future()
            door.takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker in door.takers:
                    door.takers.remove(taker)
                elif door.waiting and door.takers:
                    wake(door.takers.popleft())
                raise
        inlet = door.waiting.popleft()
        door.went_on()
        return Stream(inlet)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Stream:
        try:
            return await self.accept()
        except Error as error:
            if error.status == const.E_CLOSED and self.closed:
                raise StopAsyncIteration from None
            raise

    async def serve(
        self, handler: Callable[[Stream], Coroutine[Any, Any, object]], *, grace: float = 5.0
    ) -> None:  # fmt: skip
        """Runs handler(stream) as a task for each stream, until the listener is closed.

        Then the handlers that run have grace seconds to end, and are cancelled after that; at once if this is
        cancelled. A stream that its handler has left open is closed after it; a handler that raises is reported to
        the loop's exception handler and its stream aborted: the others go on.
        """

        async def one(stream: Stream) -> None:
            try:
                await handler(stream)
                await stream.aclose()
            except BaseException:
                stream.abort()
                raise

        tasks: set[asyncio.Task[None]] = set()
        try:
            async for stream in self:
                task = spawn(one(stream))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.wait(tasks, timeout=grace)
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def close(self) -> None:
        """Accepts no more, and drops what nobody took; the streams that were taken stay. Twice is nothing."""
        self._door.drop()

    async def aclose(self) -> None:
        """Closes and waits until it is: from then on connects are refused."""
        door = self._door
        door.drop()
        while not door.closed:
            taker = door.host.loop.create_future()
            door.takers.append(taker)
            await taker

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        door = getattr(self, "_door", None)
        if door is not None:
            door.forgotten(self)

    def __repr__(self) -> str:
        return f"<quoit.aio.Listener {self._door.handle:#x}{' closed' if self.closed else ''}>"


async def listen(address: str, *, backlog: int = 0, flags: int = 0, host: Host | None = None) -> Listener:
    """Listens at "127.0.0.1:80", "[::1]:80" or "unix:/path"; port 0 takes a free one.

    backlog: connections that wait in the kernel, 0 for 1024; flags: quoit.LISTEN_*. Errors: quoit.Error with the errno
    of bind(2) or listen(2).
    """
    host = host or current()
    host.check("listen")
    worker = host.worker
    reply = host.reply()
    given_up = False

    def listening(event: Event) -> None:
        if event[4] < 0:
            reply.tell(event_error(event[0], event[4], event[7], event[9]))
            return
        door = _Door(host, event[9], event[7])
        if given_up:
            door.drop()
        reply.tell(door)

    at = worker.hold_struct(addresses.parse(address))
    options = worker.hold_struct(fill("quoit_listen_options", flags=flags))
    worker.op(const.OP_LISTEN, 0, 0, worker.expect(listening), at, addresses.SIZE, backlog, 0, options)
    try:
        return Listener(await reply.wait())
    except asyncio.CancelledError:
        given_up = True
        if isinstance(reply.outcome, _Door):
            reply.outcome.drop()
        raise
