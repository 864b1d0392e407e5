# SPDX-License-Identifier: MIT OR Apache-2.0
"""Streams that are awaited. What came waits in a buffer, so a receive that is cancelled takes nothing."""

from typing import Self

from .. import const
from ..batch import Buffer
from ..errors import Error
from .descriptors import FD_REFUSED, Credentials, Detached, FdInlet, Opening, Parcel
from .host import Host, current
from .inlet import Inlet
from .options import SocketOptions
from .resource import Held

# Sends from this size on are not copied.
BORROW_FROM = 32 * 1024


class Incomplete(EOFError):
    """The stream ended before what was asked for was there. `partial` is what is there; it can still be received."""

    def __init__(self, partial: bytes, wanted: str) -> None:
        super().__init__(f"the stream ended after {len(partial)} bytes, before {wanted}")
        self.partial = partial


class TooLong(ValueError):
    """The separator is not within the bytes that were allowed; they can still be received."""


class Stream(SocketOptions[Inlet], Held[Inlet]):
    """A connected byte stream. Use it as an async context manager, or close it; else a ResourceWarning tells.

    One task may receive at a time, and any number may send; what each sends stays together. A task that is cancelled
    or timed out loses nothing: a receive leaves the bytes for the next one, `send` was taken whole or not at all, and
    `send_all` tells what left, in `bytes_sent` and in the CancelledError's attribute `sent`.

    Errors: quoit.Error, with the system's errno where the system refused; QUOIT_E_CLOSED after a close, QUOIT_E_BUSY
    when another task is receiving.
    """

    __slots__ = ()

    # Receiving.

    async def recv(self, max_bytes: int = 65536) -> bytes:
        """At least one byte and at most max_bytes, as soon as there are any; b"" when the peer sends no more."""
        if max_bytes < 1:
            raise ValueError("max_bytes must be at least 1")
        inlet = self._resource
        if not inlet.buffer or inlet.ending or inlet.reader is not None:
            await self._until(1, "recv")
        return self._take(max_bytes)

    async def recv_exactly(self, count: int) -> bytes:
        """Exactly count bytes. Incomplete, with nothing taken, if the stream ends before."""
        if count < 0:
            raise ValueError("count must not be negative")
        await self._until(count, "recv_exactly")
        if len(self._resource.buffer) < count:
            raise Incomplete(bytes(self._resource.buffer), f"the {count} that were asked for")
        return self._take(count)

    async def recv_until(self, separator: bytes, max_bytes: int = 65536) -> bytes:
        """All up to the separator and with it, at most max_bytes.

        Incomplete if the stream ends before, TooLong if it is not within max_bytes; both take nothing.
        """
        if not separator:
            raise ValueError("separator must not be empty")
        inlet = self._resource
        seen = 0
        while True:
            at = inlet.buffer.find(separator, max(0, seen - len(separator) + 1), max_bytes)
            if at >= 0:
                await self._until(0, "recv_until")
                return self._take(at + len(separator))
            seen = len(inlet.buffer)
            if seen >= max_bytes:
                raise TooLong(f"{separator!r} is not within {max_bytes} bytes")
            await self._until(seen + 1, "recv_until")
            if len(inlet.buffer) == seen:
                raise Incomplete(bytes(inlet.buffer), f"{separator!r}")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        data = await self.recv()
        if not data:
            raise StopAsyncIteration
        return data

    def _check(self, operation: str) -> None:
        inlet = self._resource
        if inlet.ending and not inlet.error:
            raise Error(const.E_CLOSED, operation)

    async def recv_fds(self, max_bytes: int = 65536) -> Parcel:
        """What `recv` gives, and the descriptors that came with these bytes, which are the caller's to close.

        For a Unix stream that was made with descriptors=True, else TypeError. A descriptor comes no later than the
        first byte that it was sent with; the bytes just before that may be in the same parcel, as the kernel does not
        part them: read what goes before with `recv_exactly`. Other receives leave descriptors for this one, and close
        those of which they took the last byte that they can belong to.
        """
        inlet = self._resource
        if not isinstance(inlet, FdInlet):
            raise TypeError("recv_fds is for streams that were made with descriptors=True")
        if max_bytes < 1:
            raise ValueError("max_bytes must be at least 1")
        await self._until(1, "recv_fds")
        fds, truncated, most = inlet.first(max_bytes)
        return Parcel(self._take(most), fds, truncated)

    @property
    def credentials(self) -> Credentials | None:
        """Who made the peer's end of a Unix stream with descriptors=True; None until bytes have come.

        The system tells it: the process and user that connected, or that listened; with the option of that name those
        that sent what came last.
        """
        inlet = self._resource
        return inlet.credentials if isinstance(inlet, FdInlet) else None

    def _take(self, most: int) -> bytes:
        inlet = self._resource
        buffer = inlet.buffer
        if len(buffer) <= most:
            data = bytes(buffer)
            buffer.clear()
        else:
            data = bytes(memoryview(buffer)[:most])
            del buffer[:most]
        if inlet.counts:
            inlet.passed(len(data))
        if inlet.paused:
            inlet.took()
        return data

    async def _until(self, count: int, operation: str) -> None:
        """Waits until so many bytes are there, or no more will come; an error counts when too few came before it."""
        inlet = self._resource
        if inlet.reader is not None:
            raise Error(const.E_BUSY, operation)
        inlet.wanted = count
        try:
            while True:
                self._check(operation)
                if len(inlet.buffer) >= count or inlet.eof:
                    return
                if inlet.error is not None:
                    raise Error(inlet.error.status, operation)
                inlet.took()
                inlet.reader = inlet.host.loop.create_future()
                await inlet.reader
        finally:
            inlet.reader = None
            inlet.wanted = 0

    # Sending.

    async def send(self, data: Buffer) -> None:
        """Queues data, after waiting until the stream owes less than SEND_ABOVE bytes. The data may change afterwards.

        Cancelled, it has taken nothing. That it failed to leave is told by the next send, `flush` or `aclose`.
        """
        inlet = self._resource
        self._check_send("send")
        if inlet.debt.full:
            await inlet.debt.room(lambda: self._check_send("send"))
        whole = data if isinstance(data, bytes) else bytes(data)
        size = len(whole)
        if not size:
            return
        inlet.debt.owe(size)
        inlet.plain.send(whole, lambda outcome: inlet.told(size, outcome), borrow=size >= BORROW_FROM)

    async def send_all(self, data: Buffer) -> None:
        """Sends data and waits until all of it has left for the kernel; until then it must not change.

        Cancelled, what had not left is taken back; the CancelledError's attribute `sent` is how many bytes left.
        """
        inlet = self._resource
        self._check_send("send_all")
        size = memoryview(data).nbytes
        if not size:
            return
        reply = inlet.host.reply()

        def told(outcome: int | Error) -> None:
            inlet.debt.owe(size)  # `told` takes it off, and this send has no part in the back-pressure of `send`
            self._left(size, outcome)
            reply.tell(outcome)

        token = inlet.plain.send(data, told, borrow=size >= BORROW_FROM)
        worker, handle = inlet.host.worker, inlet.plain.handle
        await reply.settle(lambda: worker.cancel(handle, const.OP_SEND, token))

    async def send_fd(self, data: Buffer, fd: int) -> None:
        """Sends a descriptor with data, at least one byte of it, over a Unix stream; both are the caller's still.

        Cancelled, it has left if the CancelledError's attribute `sent` is more than 0. Errors: ValueError without data;
        EOPNOTSUPP if it is no Unix stream, EBADF for the descriptor, ETOOMANYREFS when too many are on their way.
        """
        whole = bytes(data)
        if not whole:
            raise ValueError("a descriptor is sent with at least one byte of data")
        inlet = self._resource
        self._check_send("send_fd")
        if inlet.debt.full:
            await inlet.debt.room(lambda: self._check_send("send_fd"))
        reply = inlet.host.reply()
        worker, handle = inlet.host.worker, inlet.handle

        def told(outcome: int | Error) -> None:
            if isinstance(outcome, Error) and not outcome.done and outcome.errno in FD_REFUSED:
                inlet.debt.paid(len(whole))  # it alone did not leave: the stream is as it was
            else:
                self._left(len(whole), outcome)
            reply.tell(outcome)

        inlet.debt.owe(len(whole))
        token = worker.expect_count(told, None)
        worker.op(const.OP_SEND_FD, 0, handle, token, worker.hold(whole), len(whole), 0, fd)
        await reply.settle(lambda: worker.cancel(handle, const.OP_SEND_FD, token))

    def _left(self, size: int, outcome: int | Error) -> None:
        """How a send ended that could be cancelled: that is no failure of the stream."""
        if isinstance(outcome, Error) and outcome.kind == const.CLASS_CANCELLED:
            self._resource.told(size, outcome.done)
        else:
            self._resource.told(size, outcome)

    async def flush(self) -> None:
        """Waits until all that `send` queued has left. Errors: that of a send that failed."""
        inlet = self._resource
        while inlet.debt.bytes and not inlet.send_error and not inlet.closed:
            await self._ordered(const.OP_SEND)
        failed = inlet.send_error or inlet.error
        if failed is not None:
            raise Error(failed.status, "flush")

    async def send_eof(self) -> None:
        """Tells the peer that no more is sent, after what is queued has left; receiving goes on."""
        self._check_send("send_eof")
        await self._ordered(const.OP_SHUTDOWN, const.SHUTDOWN_SEND)

    async def stop_recv(self) -> None:
        """The other half: takes no more from the peer. What came before can be received, then the end."""
        self._check("stop_recv")
        await self._ordered(const.OP_SHUTDOWN, const.SHUTDOWN_RECV)

    async def _ordered(self, opcode: int, arg: int = 0) -> None:
        """An op that ends after the sends before it: an empty send, or the shutdown."""
        inlet = self._resource
        reply = inlet.host.reply()
        worker = inlet.host.worker

        def told(outcome: int | Error) -> None:
            reply.tell(outcome if isinstance(outcome, Error) else True)

        worker.op(opcode, 0, inlet.plain.handle, worker.expect_count(told, None), arg=arg)
        await reply.wait()

    def _check_send(self, operation: str) -> None:
        self._check(operation)
        failed = self._resource.send_error or self._resource.error
        if failed is not None:
            raise Error(failed.status, operation)

    @property
    def bytes_sent(self) -> int:
        """Bytes of finished sends that have left for the kernel since the stream was made."""
        return self._resource.sent

    @property
    def bytes_queued(self) -> int:
        """Bytes that `send` queued and that are not known to have left."""
        return self._resource.debt.bytes

    # The ends.

    @property
    def peer(self) -> str:
        """The peer's address. Errors: QUOIT_E_STALE after the end."""
        return self._address(peer=True)

    def close(self) -> None:
        """Begins to end the stream: what is queued is still sent, nothing more is received. Twice is nothing."""
        self._resource.close()

    def abort(self) -> None:
        """Ends the stream at once; what is queued is dropped."""
        self._resource.drop()

    async def detach(self) -> Detached:
        """Ends the stream here and gives its descriptor, connected, blocking and close-on-exec; the caller closes it.

        With it the bytes that were received and that nobody took. Waits first until all that was sent has left.
        Cancelled once it has begun, the descriptor is closed. Errors: QUOIT_E_BUSY while another task receives or
        sends, or when descriptors wait to be received: the stream goes on.
        """
        inlet = self._resource
        self._check("detach")
        await self.flush()
        if inlet.reader is not None:
            raise Error(const.E_BUSY, "detach")
        fd = await inlet.detach()
        unread = bytes(inlet.buffer)
        inlet.buffer.clear()
        return Detached(fd, unread)

    async def aclose(self) -> None:
        """Closes and waits for the end: all sent, and the peer's end seen or awaited for the worker's close timeout.

        Cancelled, it aborts the stream.
        """
        await super().aclose()


async def connect(
    address: str, *, local: str | None = None, flags: int = 0, timeout: float = 0, descriptors: bool = False,
    host: Host | None = None,
) -> Stream:  # fmt: skip
    """Connects to "127.0.0.1:80", "[::1]:80" or "unix:/path". The stream is the caller's to close.

    local: the address to connect from; flags: quoit.CONNECT_*; timeout: seconds, 0 none; descriptors: of a Unix
    stream, `recv_fds` is wanted. Cancelled, a connection that was made meanwhile is dropped. Errors: quoit.Error with
    the errno of connect(2), ETIMEDOUT for the timeout.
    """
    if flags & const.CONNECT_SEQPACKET:
        raise ValueError("connections of messages (CONNECT_SEQPACKET) are no streams: quoit.aio has none")
    host = host or current()
    host.check("connect")
    opening = Opening(host, descriptors)
    asked = host.worker.connect(
        address, opening, opening.making.tell, local=local, flags=flags, timeout=timeout, receive=not descriptors
    )
    return Stream(await opening.making.take(asked.cancel))
