# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files and native calls that are awaited."""

import asyncio
from typing import Any

from .. import const
from ..batch import Buffer
from ..errors import Error
from ..files import File as Plain
from ..offload import Argument, Function
from ..streams import Lent
from .host import Host, current
from .resource import Held, Release, Resource
from .streams import BORROW_FROM


class _Opened(Resource):
    """What the worker tells of a file."""

    __slots__ = ("error", "plain")

    shown = "File"

    def __init__(self, host: Host, plain: Plain) -> None:
        super().__init__(host, plain.handle)
        self.plain = plain
        self.error: Error | None = None

    def drop(self) -> None:
        if not self.ending:
            self.ending = True
            if not self.host.worker.finished:
                self.plain.close(self.shut)

    def shut(self, outcome: int | Error) -> None:
        self.error = outcome if isinstance(outcome, Error) else None
        self.gone()

    def gone(self) -> None:
        super().gone()
        # It is this object that warns of a file that was not closed.
        self.plain._open = False


class File(Held[_Opened]):
    """An open file or directory. It has no cursor: each read and write names its position, in bytes.

    Use it as an async context manager, or close it; else a ResourceWarning tells. Errors: quoit.Error with the
    system's errno; QUOIT_E_CLOSED after the close.
    """

    __slots__ = ()

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        self._check("size")
        return self._resource.plain.size

    def _check(self, operation: str) -> None:
        if self._resource.ending:
            raise Error(const.E_CLOSED, operation)

    async def read(self, position: int, count: int) -> bytes:
        """At most count bytes from a position on; fewer, or b"", at the end of the file."""
        if count < 0:
            raise ValueError("count must not be negative")
        self._check("read")
        pieces: list[bytes] = []
        while count > 0:
            data = await self._piece(position, min(count, const.READ_MAX))
            pieces.append(data)
            if not data:
                break
            position += len(data)
            count -= len(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _piece(self, position: int, count: int) -> bytes:
        self._check("read")
        reply = self._resource.host.reply()
        # The bytes are lent until the next turn, so they are copied as they are told.
        self._resource.plain.read(position, count, lambda got: reply.tell(bytes(got) if isinstance(got, Lent) else got))
        data: bytes = await reply.wait()
        return data

    async def write(self, data: Buffer, position: int) -> int:
        """Writes data at a position, -1 appends, and gives how many bytes; until then data must not change.

        Cancelled it waits for the write, and the CancelledError's attribute `sent` is how many bytes were written.
        """
        self._check("write")
        reply = self._resource.host.reply()
        worker, handle = self._resource.host.worker, self._resource.plain.handle
        borrow = memoryview(data).nbytes >= BORROW_FROM
        token = self._resource.plain.write(data, position, reply.tell, borrow=borrow)
        count: int = await reply.settle(lambda: worker.cancel(handle, const.OP_WRITE, token))
        return count

    async def fsync(self, *, data_only: bool = False) -> None:
        """Waits until the file, or its data alone, is on the disk."""
        self._check("fsync")
        reply = self._resource.host.reply()
        self._resource.plain.fsync(reply.tell, data_only=data_only)
        await reply.wait()

    async def detach(self) -> int:
        """Ends the file here and gives its descriptor, to be closed by the caller. QUOIT_E_BUSY while it is in use."""
        self._check("detach")
        release = Release(self._resource)
        release.ask()
        return await release.fd()

    async def aclose(self) -> None:
        """Closes the file, and waits until it is. Errors: that of close(2)."""
        await super().aclose()
        if self._resource.error is not None:
            raise self._resource.error


async def open_file(
    path: str | bytes, flags: int = const.OPEN_READ, *, mode: int = 0o666, directory: File | None = None,
    host: Host | None = None,
) -> File:  # fmt: skip
    """Opens a file, relative to a directory if one is given. flags: quoit.OPEN_*. It is the caller's to close.

    Errors: quoit.Error with the errno of open(2). Cancelled, a file that was opened meanwhile is closed.
    """
    host = host or current()
    host.check("open")
    if directory is not None:
        directory._check("open")
    making = host.making(_Opened)

    def opened(outcome: Plain | Error) -> None:
        if isinstance(outcome, Plain):
            making.made(_Opened(host, outcome))
        else:
            making.tell(outcome)

    inside = directory._resource.plain if directory is not None else None
    asked = host.worker.open(path, flags, opened, mode=mode, directory=inside)
    return File(await making.take(asked.cancel))


async def offload(function: Function, *args: Argument, timeout: float = 0, host: Host | None = None) -> Any:
    """Calls a native function on the blocking pool and gives what it returns; Python runs meanwhile.

    Memory that is given for a pointer must not change until the call is over. timeout: seconds that it may wait for a
    thread, 0 none; a call that runs is never cut short. Cancelled, one that runs goes on, unheard, and one that waits
    is not made. Python functions go to asyncio.to_thread. Errors: quoit.Error, EAGAIN when the pool's queue is full,
    ETIMEDOUT.
    """
    host = host or current()
    host.check("offload")
    reply = host.reply()
    asked = host.worker.offload(function, args, lambda outcome: reply.tell((outcome,)), timeout=timeout)
    try:
        (outcome,) = await reply.wait()
    except asyncio.CancelledError:
        if reply.outcome is None:
            asked.cancel()
        raise
    if isinstance(outcome, Error):
        raise outcome
    return outcome
