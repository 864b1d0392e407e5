# SPDX-License-Identifier: MIT OR Apache-2.0
"""A worker and the asyncio loop whose tasks wait for it: what both ways to run have in common."""

import asyncio
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .. import const
from ..batch import NO_EVENTS, Event
from ..errors import Error
from ..runtime import Runtime
from ..worker import Message, Worker, send_message
from .resource import Making, Reply, Resource, wake

# How long the end waits for streams that are closing, before it aborts them.
SETTLE_SECONDS = 5.0

R = TypeVar("R", bound=Resource)

_hosts: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Host]" = weakref.WeakKeyDictionary()


class Host:
    """A worker in the service of an asyncio loop; `current()` finds that of the running one.

    All methods belong to the loop's thread, but `message`, `from_anywhere` and `stats`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, runtime: Runtime, worker: Worker, owns_runtime: bool) -> None:
        self.loop = loop
        self.runtime = runtime
        self.worker = worker
        self.resources: set[Resource] = set()
        self.closed = False
        # The batches that were asked for.
        self.ticks = 0
        # Woken when nothing is open any more.
        self.last: asyncio.Future[None] | None = None
        self._owns_runtime = owns_runtime
        self._messages: deque[Message] = deque()
        self._reader: asyncio.Future[None] | None = None
        worker.on_message = self._arrived
        _hosts[loop] = self

    # The tick.

    def turn(self, timeout_ns: int) -> None:
        """One crossing; what it brings is told to those who wait."""
        self.ticks += 1
        self.dispatch(self.worker.turn(timeout_ns))

    def dispatch(self, events: Iterator[Event]) -> None:
        while events is not NO_EVENTS:
            try:
                self.worker.dispatch(events)
                return
            except Exception as error:
                # Whatever one event did, the others of the batch are told.
                self.loop.call_exception_handler({"message": "quoit: an event could not be told", "exception": error})

    @property
    def drained(self) -> bool:
        """True when the worker was stopped and has told all."""
        return bool(self.worker.flags & const.BATCH_DRAINED)

    # Words from elsewhere.

    def message(self, word1: int = 0, word2: int = 0, aux: int = 0, user_data: int = 0) -> bool:
        """Sends a message to this host's worker, from any thread. False if its mailbox is full."""
        return send_message(self.worker.handle, word1, word2, aux, user_data)

    async def receive_message(self) -> Message:
        """The next message that a thread or a worker sent, in order per sender. Cancelled it takes none."""
        if self._reader is not None:
            raise Error(const.E_BUSY, "receive message")
        while not self._messages:
            self.check("receive message")
            self._reader = self.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._messages.popleft()

    def _arrived(self, message: Message) -> None:
        self._messages.append(message)
        wake(self._reader)

    def from_anywhere(self, call: Callable[..., object], *args: Any) -> None:
        """Has something called on the loop's thread, from any thread; nothing if the loop has ended."""
        try:
            self.loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            pass

    # What the objects use.

    def check(self, operation: str) -> None:
        if self.closed or self.worker.finished:
            raise Error(const.E_CLOSED, operation)

    def reply(self) -> Reply:
        return Reply(self.loop)

    def making(self, what: type[R]) -> Making[R]:
        """The reply of an op that makes an object."""
        return Making(self.loop)

    def stats(self) -> dict[str, Any]:
        """The worker's counters. Any thread."""
        return self.worker.stats()

    # The end.

    def leak_check(self) -> None:
        """Ends what nobody closed, with a warning."""
        left = [resource for resource in self.resources if not resource.ending]
        for resource in left:
            resource.drop()
        for resource in left:
            if resource.warns:
                warnings.warn(f"unclosed {resource!r} at the end", ResourceWarning, source=resource, stacklevel=3)

    def shut(self, grace: float) -> None:
        """Ends everything: what is closing is awaited for grace seconds, what is open is aborted."""
        if self.closed:
            return
        try:
            if not self.worker.finished:
                self.leak_check()
                deadline = time.monotonic_ns() + round(grace * 1e9)
                while self.resources and not self.drained and (left := deadline - time.monotonic_ns()) > 0:
                    self.turn(left)
                if not self.drained:
                    self.worker.stop()
                while not self.drained:
                    self.turn(-1)
        except Error as error:
            # In the child of a fork there is nothing to end.
            if error.status != const.E_FORKED:
                raise
        finally:
            self.ended()
            self.closed = True
            _hosts.pop(self.loop, None)
            if self._owns_runtime:
                self.runtime.close()
            else:
                self.worker.close()

    def ended(self) -> None:
        """The worker has stopped: whoever waits hears of it."""
        self.worker.on_message = None
        self.worker.finish()
        for resource in list(self.resources):
            resource.gone()
        wake(self._reader)

    def __repr__(self) -> str:
        return f"<quoit.aio.Host {self.worker!r}{' closed' if self.closed else ''}>"


def current() -> Host:
    """The host of the running loop. RuntimeError if it has none."""
    host = _hosts.get(asyncio.get_running_loop())
    if host is None:
        raise RuntimeError(
            "no quoit worker serves this loop: run the program with quoit.run_async(main()), or enter"
            " `async with quoit.aio.hosted():` first"
        )
    return host
