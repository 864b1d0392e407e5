# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files and directories. A file has no cursor: each read and write names its position."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import const
from ._quoit import lib
from .batch import Buffer, Event
from .errors import Error, check, event_error
from .runtime import pack_op, post
from .streams import Lent, nanoseconds

if TYPE_CHECKING:
    from .worker import Worker


class File:
    """An open file or directory of a worker."""

    __slots__ = ("__weakref__", "_open", "_worker", "handle")

    def __init__(self, worker: "Worker", handle: int) -> None:
        self._worker = worker
        self._open = True
        self.handle = handle

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        return check(lib.quoit_file_size(self._worker.pointer, self.handle), "file size")

    def read(self, position: int, length: int, done: Callable[[Lent | Error], None], *, timeout: float = 0) -> None:
        """Reads at most length bytes, up to quoit.READ_MAX, into memory that is lent to done. At the end eof is set."""
        worker = self._worker

        def finished(event: Event) -> None:
            kind, flags, _, _, result, offset, size, aux, buffer, value = event
            if result < 0:
                done(event_error(kind, result, aux, value))
            else:
                done(Lent(worker, offset, size, buffer, bool(flags & const.EVF_EOF)))

        worker.op(
            const.OP_READ, 0, self.handle, worker.expect(finished), 0, length, 0, position, 0, nanoseconds(timeout)
        )

    def read_into(self, memory: bytearray | memoryview, position: int, done: Callable[[int | Error], None]) -> None:
        """Reads into the caller's memory, which is the library's until done is called."""
        worker = self._worker
        token = worker.expect_count(done, memory)
        size = memoryview(memory).nbytes
        worker.op(const.OP_READ, const.OPF_BORROW, self.handle, token, worker.hold(memory), size, offset=position)

    def write(
        self, data: Buffer, position: int, done: Callable[[int | Error], None], *, borrow: bool = False,
        timeout: float = 0,
    ) -> int:  # fmt: skip
        """Writes at the position, -1 appends. With borrow the memory is the library's until done is called.

        Returns the op's user_data, for a cancel.
        """
        worker = self._worker
        token = worker.expect_count(done, data if borrow else None)
        if borrow:
            how, addr, size = const.OPF_BORROW, worker.hold(data), memoryview(data).nbytes
        else:
            how, addr, size = worker.payload(data)
        worker.op(const.OP_WRITE, how, self.handle, token, addr, size, 0, position, 0, nanoseconds(timeout))
        return token

    def fsync(self, done: Callable[[int | Error], None], *, data_only: bool = False) -> None:
        """Waits until the file, or its data alone, is on the disk."""
        self._worker.op(const.OP_FSYNC, 0, self.handle, self._worker.expect_count(done, None), arg=int(data_only))

    def close(self, done: Callable[[int | Error], None] | None = None) -> None:
        """Closes the file. Twice is nothing."""
        if not self._open:
            return
        self._open = False
        if done is None:
            self._worker.op(const.OP_CLOSE, const.OPF_QUIET, self.handle)
        else:
            self._worker.op(const.OP_CLOSE, 0, self.handle, self._worker.expect_count(done, None))

    def __del__(self) -> None:
        if not getattr(self, "_open", False) or self._worker.finished:
            return
        warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        try:
            # A finaliser runs on any thread, so the close is posted.
            post(self._worker.handle, pack_op(const.OP_CLOSE, const.OPF_QUIET, self.handle))
        except Error:
            pass

    def __repr__(self) -> str:
        return f"<quoit.File {self.handle:#x}{'' if self._open else ' closed'}>"


def open_file(
    worker: "Worker", path: str | bytes, flags: int, mode: int, directory: File | None,
    done: Callable[[File | Error], None], timeout: float,
) -> int:  # fmt: skip
    """Queues an open; returns its token."""

    def finished(event: Event) -> None:
        kind, _, _, _, result, _, _, aux, _, value = event
        done(event_error(kind, result, aux) if result < 0 else File(worker, value))

    name: Any = path.encode() if isinstance(path, str) else path
    token = worker.expect(finished)
    worker.op(
        const.OP_OPEN, 0, directory.handle if directory else 0, token, worker.hold(name), len(name), flags, mode, 0,
        nanoseconds(timeout),
    )  # fmt: skip
    return token
