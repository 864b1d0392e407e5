# SPDX-License-Identifier: MIT OR Apache-2.0
"""Channels between workers, each of a thread of its own: Python objects, a bound, and an end."""

import errno
import itertools
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from .. import const
from ..batch import Event
from ..errors import Error, event_error
from .host import Host, current
from .intake import Intake
from .resource import Series

T = TypeVar("T")

# Messages that the receiver of a larger channel has in hand before the others stay in the channel.
AHEAD = 64
# What a send to a channel that has ended comes to.
_GONE = (-errno.EPIPE, const.E_STALE, const.E_CLOSING)


class _Line(Intake[T]):
    """What the worker of the receiver tells of a channel. Its messages name objects of `sent`, which are under way."""

    __slots__ = ("finished", "finishing", "flags", "sent", "tokens")

    shown = "Receiver"
    opcode = const.OP_CHANNEL_RECV
    close_flags = const.OPF_ABORT

    def __init__(self, host: Host, handle: int, capacity: int) -> None:
        many = capacity >= AHEAD
        super().__init__(host, handle, AHEAD if many else 1)
        self.flags = const.OPF_MULTI if many else 0
        # Filled by the threads that send.
        self.sent: dict[int, T] = {}
        self.tokens = itertools.count(1)
        # Closed by a sender, and: there will be no more.
        self.finishing = self.finished = False
        self.arm()

    def came(self, event: Event) -> bool:
        flags = event[1]
        if flags & const.EVF_MESSAGE:
            self.put(self.sent.pop(event[9]))
        elif not flags & const.EVF_EOF and not (self.finishing and event[4] in _GONE):
            return False
        if not flags & const.EVF_MESSAGE or flags & const.EVF_EOF:
            # It has ended by itself: the close only follows.
            self.finished = self.ending = True
            if not self.finishing:
                self.gone()  # a oneshot has brought its message
            self.wake_all()
        return True

    def went_on(self) -> None:
        if not self.finished:
            super().went_on()

    def refuse(self) -> None:
        if self.finished:
            raise Error(const.E_CLOSED, "channel_recv")
        super().refuse()

    def finish(self) -> None:
        """No sender sends any more: what is inside is taken in, for it does not wait for ever there."""
        if self.ending or self.finishing or self.host.worker.finished:
            return
        self.finishing = True
        self.most = const.CHANNEL_MAX * 4
        self.flags = const.OPF_MULTI
        self.went_on()
        worker = self.host.worker
        worker.op(const.OP_CLOSE, 0, self.handle, worker.expect_count(self.shut, None))

    def shut(self, outcome: int | Error) -> None:
        # A oneshot that was closed by its message is told by that.
        if self.ending or self.finished or not isinstance(outcome, Error):
            self.gone()

    def drop(self) -> None:
        super().drop()
        self.discard()  # what waits may have outlived the channel

    def gone(self) -> None:
        super().gone()
        self.sent.clear()


class Sender(Generic[T]):
    """The end of a channel that puts objects in. Any thread whose loop has a worker may use it, in any number of tasks.

    `close`, the end of a `with` block, or letting go of it closes the channel: the receiver gets what is inside, then
    the end. An object that was sent is the receiver's: both threads see the same one.
    """

    __slots__ = ("__weakref__", "_closed", "_line")

    def __init__(self, line: _Line[T]) -> None:
        self._line = line
        self._closed = False

    async def send(self, value: T) -> None:
        """Puts an object in, after waiting for room. Those of one sender arrive in order.

        Cancelled it is in the channel or not, as the CancelledError's attribute `sent` tells, 1 or 0. Errors: EPIPE
        when the channel has ended or ends meanwhile, QUOIT_E_BUSY in one that another worker sends to (one_to_one);
        then the object is not in it.
        """
        host = current()
        host.check("send")
        line = self._line
        if self._closed:
            raise Error(-errno.EPIPE, "channel_send")
        token = next(line.tokens)
        line.sent[token] = value
        reply = host.reply()

        def told(event: Event) -> None:
            status = event[4]
            if status >= 0:
                reply.tell(1)
                return
            line.sent.pop(token, None)
            reply.tell(Error(-errno.EPIPE, "channel_send") if status in _GONE else event_error(event[0], status))

        worker = host.worker
        asked = worker.expect(told)
        worker.op(const.OP_CHANNEL_SEND, 0, line.handle, asked, token)
        await reply.settle(lambda: worker.cancel(0, const.OP_CHANNEL_SEND, asked))

    @property
    def closed(self) -> bool:
        """True after this end's close, and when the channel has ended."""
        return self._closed or self._line.ending

    def close(self) -> None:
        """Closes the channel, from any thread: sends that wait for room end with EPIPE. Twice is nothing."""
        if not self._closed:
            self._closed = True
            self._line.host.from_anywhere(self._line.finish)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_closed", True) is False:
            self.close()

    def __repr__(self) -> str:
        return f"<quoit.aio.Sender {self._line.handle:#x}{' closed' if self.closed else ''}>"


class Receiver(Series[_Line[T], T], Generic[T]):
    """The end of a channel that takes objects out, on the loop that made it: `recv`, or `async for`.

    Use it as an async context manager, or close it, or receive up to the end; else a ResourceWarning tells.
    """

    __slots__ = ()

    @property
    def closed(self) -> bool:
        """True after the close of this end, and when all up to the end was received."""
        line = self._resource
        return (line.ending or line.finished) and not line.waiting

    async def recv(self) -> T:
        """The next object; several tasks may wait, first come first served. Cancelled it takes none.

        Errors: QUOIT_E_CLOSED at the end.
        """
        return await self._resource.take()

    _next = recv

    def close(self) -> None:
        """Ends the channel: what is inside is dropped, and sends end with EPIPE. Twice is nothing."""
        super().close()


async def _make(kind: int, capacity: int, host: Host | None) -> tuple[Sender[Any], Receiver[Any]]:
    host = host or current()
    host.check("channel")
    making = host.making(_Line[Any])

    def made(event: Event) -> None:
        if event[4] < 0:
            making.tell(event_error(event[0], event[4], event[7], event[9]))
        else:
            making.made(_Line(host, event[9], capacity))

    worker = host.worker
    worker.op(const.OP_CHANNEL, 0, 0, worker.expect(made), 0, capacity, kind)
    line = await making.take()
    return Sender(line), Receiver(line)


async def channel(
    capacity: int, *, one_to_one: bool = False, host: Host | None = None
) -> tuple[Sender[Any], Receiver[Any]]:
    """A channel that this loop receives from. capacity: how many objects wait in it (1 to quoit.CHANNEL_MAX).

    A send beyond that waits. The receiver has some more in hand: one, or from a capacity of AHEAD on AHEAD and what one
    batch brings. one_to_one: only the worker that sends first may send.
    """
    if not 1 <= capacity <= const.CHANNEL_MAX:
        raise ValueError(f"capacity is from 1 to {const.CHANNEL_MAX}, not {capacity}")
    return await _make(const.CHANNEL_ONE_TO_ONE if one_to_one else const.CHANNEL_MANY_TO_ONE, capacity, host)


async def oneshot(*, host: Host | None = None) -> tuple[Sender[Any], Receiver[Any]]:
    """A channel for one object, which closes it. One that was closed without it ends the `recv`: QUOIT_E_CLOSED."""
    return await _make(const.CHANNEL_ONESHOT, 1, host)
