# SPDX-License-Identifier: MIT OR Apache-2.0
"""Listeners that are awaited, and the tasks that serve what they accept."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .. import address as addresses
from .. import const
from ..batch import Event
from ..errors import event_error
from ..runtime import fill
from ..streams import Stream as Plain
from .descriptors import FdInlet
from .host import Host, current
from .inlet import Inlet, Tell
from .intake import Intake
from .options import SocketOptions
from .resource import Series
from .streams import Stream
from .tasks import spawn

# Streams that may wait to be taken by the program before the listener leaves further ones to the kernel's queue.
WAITING_MAX = 64


class _Door(Intake[Inlet], Tell):
    """What the worker tells of a listener."""

    __slots__ = ("flags", "inlet", "port")

    shown = "Listener"
    opcode = const.OP_ACCEPT

    def __init__(self, host: Host, handle: int, port: int, descriptors: bool) -> None:
        super().__init__(host, handle, WAITING_MAX)
        self.port = port
        self.flags = const.OPF_MULTI | (0 if descriptors else const.OPF_AUTO_RECV)
        self.inlet = FdInlet if descriptors else Inlet
        self.arm()

    def came(self, event: Event) -> bool:
        if event[4] < 0:
            return False
        self.host.worker.opened(event[9], self)
        return True

    def on_open(self, stream: Plain) -> None:
        inlet = self.inlet(self.host, stream)
        if self.ending:
            inlet.drop()
        else:
            self.put(inlet)

    def discard(self) -> None:
        for inlet in self.waiting:
            inlet.drop()
        super().discard()


class Listener(SocketOptions[_Door], Series[_Door, Stream]):
    """Accepts streams: `async for stream in listener`, `accept`, or `serve`. Close it, or a ResourceWarning tells."""

    __slots__ = ()

    @property
    def address(self) -> str:
        """The address that it is bound to. Errors: QUOIT_E_STALE after the close."""
        return self.local

    @property
    def port(self) -> int:
        """The port that was bound; 0 for a Unix socket."""
        return self._resource.port

    async def accept(self) -> Stream:
        """The next stream, which is the caller's to close. Cancelled it takes none; several tasks may wait.

        Errors: QUOIT_E_CLOSED after the close, else that of accept(2).
        """
        return Stream(await self._resource.take())

    _next = accept

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

    async def detach(self) -> int:
        """Ends the listener here and gives its descriptor, which goes on listening, to be closed by the caller.

        What was accepted before can still be taken, then `accept` ends. Errors: quoit.Error; then it goes on.
        """
        return await self._resource.detach()

    def close(self) -> None:
        """Accepts no more, and drops what nobody took; the streams that were taken stay. Twice is nothing."""
        super().close()

    async def aclose(self) -> None:
        """Closes and waits until it is: from then on connects are refused."""
        await super().aclose()


async def listen(
    address: str, *, backlog: int = 0, flags: int = 0, streams_max: int = 0, skew_percent: int = 0,
    descriptors: bool = False, host: Host | None = None,
) -> Listener:  # fmt: skip
    """Listens at "127.0.0.1:80", "[::1]:80" or "unix:/path"; port 0 takes a free one.

    backlog: connections that wait in the kernel, 0 for 1024; flags: quoit.LISTEN_*; streams_max and skew_percent: as
    for quoit.Worker.listen; descriptors: its streams, of a Unix socket, are for `recv_fds`. Errors: quoit.Error with
    the errno of bind(2) or listen(2).
    """
    if flags & const.LISTEN_SEQPACKET:
        raise ValueError("connections of messages (LISTEN_SEQPACKET) are no streams: quoit.aio has none")
    host = host or current()
    host.check("listen")
    worker = host.worker
    making = host.making(_Door)

    def listening(event: Event) -> None:
        if event[4] < 0:
            making.tell(event_error(event[0], event[4], event[7], event[9]))
        else:
            making.made(_Door(host, event[9], event[7], descriptors))

    at = worker.hold_struct(addresses.parse(address))
    chosen = fill("quoit_listen_options", flags=flags, streams_max=streams_max, skew_percent=skew_percent)
    options = worker.hold_struct(chosen)
    worker.op(const.OP_LISTEN, 0, 0, worker.expect(listening), at, addresses.SIZE, backlog, 0, options)
    return Listener(await making.take())
