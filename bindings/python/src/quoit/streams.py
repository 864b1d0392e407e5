# SPDX-License-Identifier: MIT OR Apache-2.0
"""Listeners and streams, what is received, and the handler that is told."""

import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import address, const
from .batch import Buffer, Event
from .errors import Error, event_error
from .layout import IOV

if TYPE_CHECKING:
    from .worker import Worker


def nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000_000)


class Lent:
    """Bytes in the receive arena. They are the program's until the next turn, or from `keep` to `release`."""

    __slots__ = ("_kept", "_tick", "_worker", "buffer", "eof", "offset", "size")

    def __init__(self, worker: "Worker", offset: int, size: int, buffer: int, eof: bool = False) -> None:
        self._worker = worker
        self._tick = worker.tick
        self._kept = 0
        self.offset = offset
        self.size = size
        self.buffer = buffer
        self.eof = eof

    @property
    def alive(self) -> bool:
        return self._kept > 0 or self._tick == self._worker.tick

    @property
    def view(self) -> memoryview:
        """The bytes themselves, without a copy; to be let go of before the loan ends."""
        if not self.alive:
            raise Error(const.E_STALE, "lent bytes")
        return self._worker.recv_view[self.offset : self.offset + self.size]

    def __bytes__(self) -> bytes:
        return bytes(self.view)

    def __len__(self) -> int:
        return self.size

    def keep(self, done: "Callable[[Lent | Error], None] | None" = None) -> None:
        """Makes the bytes the program's until `release`; above the cap done gets an error, or it raises."""

        def kept(event: Event) -> None:
            if event[4] >= 0:
                if done:
                    done(self)
                return
            self._kept -= 1
            error = event_error(event[0], event[4], event[7], event[9])
            if done is None:
                raise error
            done(error)

        if not self.alive:
            raise Error(const.E_STALE, "keep")
        self._worker.op(const.OP_KEEP, 0, self.buffer, self._worker.expect(kept))
        self._kept += 1

    def release(self) -> None:
        """Gives kept bytes back; once for each keep."""
        if self._kept == 0:
            raise Error(const.E_STALE, "release")
        self._kept -= 1
        self._worker.op(const.OP_RELEASE, 0, self.buffer)


class Handler:
    """What a program does with the streams of a listener or of a connect. One object may serve many streams."""

    def on_open(self, stream: "Stream") -> None:
        """The stream is connected."""

    def on_data(self, stream: "Stream", data: bytes) -> None:
        """Bytes came."""

    def on_lent(self, stream: "Stream", data: Lent) -> None:
        """Bytes came, not copied: to override instead of on_data."""
        self.on_data(stream, bytes(data))

    def on_eof(self, stream: "Stream") -> None:
        """The peer sends no more; the stream still may. If not overridden it is closed."""
        stream.close()

    def on_close(self, stream: "Stream", error: Error | None) -> None:
        """The stream has ended, after an error or without. Nothing follows."""


class Listener:
    """Accepts streams for a handler."""

    __slots__ = ("_closing", "_worker", "handle", "handler", "port")

    def __init__(self, worker: "Worker", handle: int, handler: Handler, port: int) -> None:
        self._worker = worker
        self._closing = False
        self.handle = handle
        self.handler = handler
        self.port = port
        flags = const.OPF_MULTI | const.OPF_AUTO_RECV
        worker.op(const.OP_ACCEPT, flags, handle, worker.expect(self._accepted))

    @property
    def address(self) -> str:
        """The address it is bound to."""
        return address.of(self._worker.pointer, self.handle, peer=False)

    def close(self) -> None:
        """Accepts no more; the streams stay."""
        if not self._closing:
            self._closing = True
            self._worker.op(const.OP_CLOSE, const.OPF_QUIET, self.handle)

    def _accepted(self, event: Event) -> None:
        if event[4] >= 0:
            self._worker.opened(event[9], self.handler)
        elif not self._closing and event[4] != -errno.ECANCELED:
            raise event_error(event[0], event[4], event[7])


class Stream:
    """A connected byte stream. `state` is the program's."""

    __slots__ = ("_closing", "_detaching", "_error", "_paused", "_wants_lent", "_worker", "handle", "handler", "state")

    def __init__(self, worker: "Worker", handle: int, handler: Handler) -> None:
        self._worker = worker
        self._closing = False
        self._paused = False
        # Told when the receive has ended, for a detach.
        self._detaching: Callable[[], None] | None = None
        self._error: Error | None = None
        self._wants_lent = type(handler).on_lent is not Handler.on_lent
        self.handle = handle
        self.handler = handler
        self.state: Any = None

    @property
    def worker(self) -> "Worker":
        return self._worker

    @property
    def peer(self) -> str:
        """The peer's address."""
        return address.of(self._worker.pointer, self.handle, peer=True)

    @property
    def local(self) -> str:
        """The local address."""
        return address.of(self._worker.pointer, self.handle, peer=False)

    @property
    def closing(self) -> bool:
        return self._closing

    def send(
        self, data: Buffer | Lent, done: Callable[[int | Error], None] | None = None, *, cork: bool = False,
        borrow: bool = False, timeout: float = 0,
    ) -> int:  # fmt: skip
        """Sends bytes, or lent ones without a copy.

        done gets the count or an error; without it a failed send ends the stream. With borrow the library uses the
        caller's memory until done is called, which then has to be given. Returns the op's user_data, for a cancel; 0
        without done.
        """
        worker = self._worker
        flags, token, arg2 = const.OPF_QUIET, 0, 0
        if done is not None:
            flags, token = 0, worker.expect_count(done, data if borrow else None)
        if isinstance(data, Lent):
            if not data.alive:
                raise Error(const.E_STALE, "send")
            how, addr, size, arg2 = const.OPF_ARENA_RECV, data.offset, data.size, data.buffer
        elif borrow:
            how, addr, size = const.OPF_BORROW, worker.hold(data), memoryview(data).nbytes
        else:
            how, addr, size = worker.payload(data)
        arg = const.SEND_CORK if cork else 0
        worker.op(const.OP_SEND, flags | how, self.handle, token, addr, size, arg, 0, arg2, nanoseconds(timeout))
        return token

    def sendv(self, parts: Sequence[Buffer], done: Callable[[int | Error], None] | None = None) -> None:
        """Sends several pieces as one operation."""
        worker = self._worker
        flags, token = const.OPF_QUIET | const.OPF_IOV, 0
        if done is not None:
            flags, token = const.OPF_IOV, worker.expect_count(done, None)
        slices = b"".join(IOV.pack(worker.hold(part), memoryview(part).nbytes, 0) for part in parts)
        worker.op(const.OP_SENDV, flags, self.handle, token, worker.hold(slices), len(parts))

    def pause(self) -> None:
        """Stops receiving: no on_data until `resume`."""
        self._paused = True
        self._worker.op(const.OP_RECV_PAUSE, const.OPF_QUIET, self.handle)

    def resume(self) -> None:
        self._paused = False
        self._worker.op(const.OP_RECV_RESUME, const.OPF_QUIET, self.handle)

    def shutdown(self, how: int = const.SHUTDOWN_SEND) -> None:
        """Ends one direction, after what is queued was sent."""
        self._worker.op(const.OP_SHUTDOWN, const.OPF_QUIET, self.handle, arg=how)

    def detach(self, done: Callable[[int | Error], None]) -> None:
        """Ends the stream but not its connection: done gets the descriptor, which is the program's to close.

        on_data is told before of all that came; on_close is not. It fails with QUOIT_E_BUSY while something that was
        sent has not left, and then the stream goes on.
        """
        worker = self._worker

        def ended() -> None:
            if self._detaching is None:
                return
            self._detaching = None
            if worker.flags & const.BATCH_DRAINED:
                done(Error(const.E_CLOSED, "detach"))
                return
            worker.op(const.OP_DETACH, 0, self.handle, worker.expect(detached))

        def detached(event: Event) -> None:
            if event[4] >= 0:
                self._closing = True
                worker.gone(self.handle)
                done(event[9])
                return
            if not self._closing:
                worker.op(const.OP_RECV, const.OPF_MULTI, self.handle)
            done(event_error(event[0], event[4], event[7]))

        def cancelled(event: Event) -> None:
            # Nothing was received any more: the peer had ended its half.
            if event[4] < 0:
                ended()

        if self._closing or self._detaching is not None:
            raise Error(const.E_CLOSING if self._closing else const.E_BUSY, "detach")
        self._detaching = ended
        if self._paused:
            self.resume()
        worker.op(const.OP_CANCEL, 0, self.handle, worker.expect(cancelled), arg=const.OP_RECV)

    def close(self, timeout: float = 0) -> None:
        """Sends what is queued, says goodbye and ends the stream; nothing more is received."""
        self._close(0, nanoseconds(timeout))

    def abort(self, error: Error | None = None) -> None:
        """Ends the stream at once; on_close is given the error."""
        self._error = self._error or error
        self._close(const.OPF_ABORT, 0)

    def _close(self, flags: int, timeout_ns: int) -> None:
        if not self._closing:
            self._closing = True
            token = self._worker.expect(self._closed)
            self._worker.op(const.OP_CLOSE, flags, self.handle, token, timeout_ns=timeout_ns)
        elif flags:
            # The first close answers; this one only hurries it.
            self._worker.op(const.OP_CLOSE, flags | const.OPF_QUIET, self.handle)

    # Told by the worker.

    def received(self, event: Event) -> None:
        _, flags, _, _, result, offset, length, _, buffer, _ = event
        if self._closing or self._worker.failing:
            return
        if length:
            if self._wants_lent:
                self.handler.on_lent(self, Lent(self._worker, offset, length, buffer))
            else:
                self.handler.on_data(self, bytes(self._worker.recv_view[offset : offset + length]))
        if not flags & const.EVF_MORE and not self._closing:
            if self._detaching is not None:
                self._detaching()
            elif flags & const.EVF_EOF:
                self.handler.on_eof(self)
            elif result < 0:
                self.failed(event)

    def failed(self, event: Event) -> None:
        """Something that nobody waits for failed: the stream is of no more use."""
        if not self._closing:
            self.abort(event_error(event[0], event[4], event[7], event[9]))

    def _closed(self, event: Event | None) -> None:
        if self._worker.gone(self.handle):
            self._closing = True
            self.handler.on_close(self, self._error)

    def lost(self, error: Error) -> None:
        """The worker has stopped."""
        self._error = self._error or error
        self._closed(None)

    def __repr__(self) -> str:
        return f"<quoit.Stream {self.handle:#x}{' closing' if self._closing else ''}>"
