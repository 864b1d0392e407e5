# SPDX-License-Identifier: MIT OR Apache-2.0
"""Streams that bring descriptors, each with some of their bytes.

The kernel gives the bytes before a descriptor's together with it, and does not tell where they end: what is known is
that a piece with descriptors ends within the bytes of the send that they came with.
"""

import errno
import os
import struct
from collections import deque
from typing import NamedTuple

from .. import const
from ..batch import Event
from ..streams import Stream as Plain
from .host import Host
from .inlet import PAUSE_ABOVE, RESUME_BELOW, Inlet, Tell
from .resource import Release, wake

# Pieces with descriptors that may wait before no more is received, and at which it goes on.
MARKS_ABOVE = 16
MARKS_BELOW = 4

# Why a descriptor alone is not sent, with the stream as good as before.
FD_REFUSED = (errno.EOPNOTSUPP, errno.EBADF, errno.ETOOMANYREFS, errno.EMFILE)


class Parcel(NamedTuple):
    """Bytes, b"" at the end, and the descriptors that came with them: the program's, close-on-exec.

    truncated: more had come than quoit.FDS_MAX, or than this process may have open; they were closed.
    """

    data: bytes
    fds: list[int]
    truncated: bool = False


class Credentials(NamedTuple):
    """The process that made an end of a Unix stream, or that sent a message, and its user and group."""

    pid: int
    uid: int
    gid: int


class Detached(NamedTuple):
    """A stream's descriptor, the program's to close, and the bytes that had come from it and that nobody took."""

    fd: int
    unread: bytes


class _Mark(NamedTuple):
    """Descriptors that came with one of the stream's bytes from `at` on, before `end`."""

    at: int
    end: int
    fds: list[int]
    truncated: bool


class FdInlet(Inlet):
    """One that receives descriptors too. One receive is armed at a time, and it waits for no task that asks."""

    __slots__ = ("armed", "came", "credentials", "detaching", "marks", "taken")

    counts = True

    def __init__(self, host: Host, plain: Plain) -> None:
        super().__init__(host, plain)
        self.credentials: Credentials | None = None
        # Bytes that came and that were taken, since the beginning.
        self.came = self.taken = 0
        self.marks: deque[_Mark] = deque()
        self.armed = self.detaching = False
        self._arm()

    def _arm(self) -> None:
        self.armed = True
        worker = self.host.worker
        worker.op(const.OP_RECV_FD, 0, self.handle, worker.expect(self._told))

    def _told(self, event: Event) -> None:
        _, flags, _, _, result, offset, size, count, _, value = event
        self.armed = False
        view = self.host.worker.recv_view
        if result > 0:
            words = struct.unpack_from(f"={3 + count}i", view, value)
            if self.ending:
                _close_all(words[3:])
                return
            self.credentials = Credentials(*words[:3])
            if count:
                self.marks.append(_Mark(self.came, self.came + size, list(words[3:]), bool(flags & const.EVF_TRUNC)))
            self.came += size
            self.buffer += view[offset : offset + size]
            self._go_on()
        elif flags & const.EVF_EOF:
            self.eof = True
        elif not self.ending and not (self.detaching and result == -errno.ECANCELED):
            self.plain.failed(event)
        wake(self.reader)

    def _go_on(self) -> None:
        if self.detaching or self.ending or self.eof or self.armed:
            return
        self.paused = len(self.buffer) > max(PAUSE_ABOVE, self.wanted) or len(self.marks) >= MARKS_ABOVE
        if not self.paused:
            self._arm()

    def took(self) -> None:
        few = len(self.buffer) <= max(RESUME_BELOW, self.wanted - 1)
        # Whoever waits for more bytes than are there takes them all, with their descriptors.
        if self.paused and few and (len(self.marks) <= MARKS_BELOW or self.wanted > len(self.buffer)):
            self.paused = False
            if not (self.armed or self.ending or self.eof or self.detaching):
                self._arm()

    # What is taken.

    def first(self, most: int) -> tuple[list[int], bool, int]:
        """The descriptors that are due, whether some were closed, and how far the bytes without others go."""
        fds: list[int] = []
        truncated = False
        if self.marks and self.marks[0].at <= self.taken:
            _, _, fds, truncated = self.marks.popleft()
        if self.marks:
            most = min(most, self.marks[0].at - self.taken)
        return fds, truncated, most

    def passed(self, count: int) -> None:
        self.taken += count
        while self.marks and self.marks[0].end <= self.taken:
            _close_all(self.marks.popleft().fds)

    # The ends.

    async def detach(self) -> int:
        release = Release(self)
        if self.marks:
            release.refuse()
        self.detaching = True
        try:
            if self.armed:
                self.host.worker.cancel(self.handle, const.OP_RECV_FD)
            while self.armed and not self.closed:
                self.reader = self.host.loop.create_future()
                try:
                    await self.reader
                finally:
                    self.reader = None
            if self.marks or self.closed:
                release.refuse()
            release.ask()
            return await release.fd()
        finally:
            self.detaching = False
            self._go_on()

    def gone(self) -> None:
        self.host.worker.gone(self.handle)
        super().gone()

    def close(self) -> None:
        self._drop_marks()
        super().close()

    def drop(self) -> None:
        self._drop_marks()
        super().drop()

    def _drop_marks(self) -> None:
        while self.marks:
            _close_all(self.marks.popleft().fds)

    def __del__(self) -> None:
        # The stream ended by itself, and nobody took them.
        if hasattr(self, "marks"):
            self._drop_marks()


class Opening(Tell):
    """A connect, or an adoption, that one task waits for."""

    def __init__(self, host: Host, descriptors: bool) -> None:
        self.host = host
        self.inlet = FdInlet if descriptors else Inlet
        self.making = host.making(Inlet)

    def on_open(self, stream: Plain) -> None:
        self.making.made(self.inlet(self.host, stream))


def _close_all(fds: tuple[int, ...] | list[int]) -> None:
    for fd in fds:
        os.close(fd)
