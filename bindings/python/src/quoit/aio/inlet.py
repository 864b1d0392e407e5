# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the worker tells of a stream, and where it waits for the program."""

import asyncio

from ..errors import Error
from ..streams import Handler, Lent
from ..streams import Stream as Plain
from .debt import Debt
from .host import Host
from .resource import Release, Resource, wake

# Received bytes above which a stream that nobody reads is paused, and below which it goes on.
PAUSE_ABOVE = 256 * 1024
RESUME_BELOW = 64 * 1024


class Inlet(Resource):
    """What the worker tells of a stream."""

    __slots__ = ("buffer", "debt", "eof", "error", "paused", "plain", "reader", "send_error", "sent",
                 "wanted")  # fmt: skip

    shown = "Stream"
    # True for one that is told how many bytes were taken.
    counts = False

    def __init__(self, host: Host, plain: Plain) -> None:
        super().__init__(host, plain.handle)
        self.plain = plain
        plain.state = self
        self.buffer = bytearray()
        self.eof = self.paused = False
        # What ended it, and why sending failed.
        self.error: Error | None = None
        self.send_error: Error | None = None
        # How many bytes the reader waits for at once.
        self.wanted = 0
        self.debt = Debt(host.loop)
        self.sent = 0
        self.reader: asyncio.Future[None] | None = None

    def got(self, data: Lent) -> None:
        self.buffer += data.view
        if len(self.buffer) > max(PAUSE_ABOVE, self.wanted) and not self.paused:
            self.paused = True
            self.plain.pause()
        wake(self.reader)

    def took(self) -> None:
        """There is room again."""
        if self.paused and len(self.buffer) <= max(RESUME_BELOW, self.wanted - 1) and not self.ending:
            self.paused = False
            self.plain.resume()

    def ended(self, error: Error | None) -> None:
        self.error = error
        self.gone()
        wake(self.reader)
        self.debt.wake()

    def close(self) -> None:
        if not self.ending:
            self.ending = True
            self.plain.close()
            wake(self.reader)
            self.debt.wake()

    def drop(self) -> None:
        self.ending = True
        if not self.closed and not self.host.worker.finished:
            self.plain.abort()

    def told(self, size: int, outcome: int | Error) -> None:
        """How a queued send ended."""
        if isinstance(outcome, Error):
            self.sent += outcome.done
            self.send_error = self.send_error or outcome
            self.debt.wake()
        else:
            self.sent += outcome
        self.debt.paid(size)

    def passed(self, count: int) -> None:
        """So many bytes were taken."""

    async def detach(self) -> int:
        """Ends it without its descriptor, which is given."""
        release = Release(self)
        # What comes till then is taken in, however much waits.
        self.paused = True
        self.plain.detach(release.told)
        try:
            return await release.fd()
        except Error:
            self.paused = False
            raise


class Tell(Handler):
    """Passes what a worker tells of streams on to their inlets."""

    def on_lent(self, stream: Plain, data: Lent) -> None:
        stream.state.got(data)

    def on_eof(self, stream: Plain) -> None:
        stream.state.eof = True
        wake(stream.state.reader)

    def on_close(self, stream: Plain, error: Error | None) -> None:
        stream.state.ended(error)
