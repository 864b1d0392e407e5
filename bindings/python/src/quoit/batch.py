# SPDX-License-Identifier: MIT OR Apache-2.0
"""The worker as the ABI has it: an array of ops in, an array of events out, one crossing a tick."""

import contextlib
import os
import signal
import socket
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import const
from ._quoit import ffi, lib
from .errors import Error, check
from .layout import BATCH_NEWS, EVENT, OP, SIZE, address
from .runtime import destroy, drain, fill, leave

if TYPE_CHECKING:
    from .runtime import Runtime

# kind, flags, source, user_data, result, offset, len, aux, buffer, value
Event = tuple[Any, ...]
Buffer = bytes | bytearray | memoryview

# user_data of the op that polls the signal wake-up socket; its events never reach a program.
WAKE = 0x71756F6974_77616B
NO_EVENTS: Iterator[Event] = iter(())

# Workers of the main thread that signals wake now.
_waking: "weakref.WeakSet[BatchWorker]" = weakref.WeakSet()

_pack = OP.pack_into
_unpack_news = BATCH_NEWS.unpack_from
_iter_events = EVENT.iter_unpack


class BatchWorker:
    """Ops are queued with `op` and its like, taken by the next turn; a turn gives the events of one tick.

    Options are the fields of quoit_worker_options. All methods belong to the thread that makes the first turn, but
    `stop`, `stats` and what is said to be for any thread.

    flags, now_ns, tick, next_ns   of the batch that is being read
    recv_view, send_view           the arenas; an event's bytes are recv_view[offset : offset + len] until the next turn
    """

    def __init__(self, runtime: "Runtime", **options: int) -> None:
        out = ffi.new("quoit_worker **")
        check(lib.quoit_worker_create(runtime.pointer, fill("quoit_worker_options", **options), out), "worker")
        self.runtime = runtime
        self._worker = out[0]
        self.handle = lib.quoit_worker_handle(self._worker)
        self._batch = lib.quoit_worker_batch(self._worker)
        if self._batch.stride != SIZE:
            raise ImportError("the loaded libquoit has another stride than this package was made for")
        self.ops_max: int = self._batch.ops_max
        self.events_max: int = self._batch.events_max
        self._nops = 0
        self._held: list[Any] = []
        # The thread that made the first turn.
        self.owner = 0
        self._turning = False
        self._in_batch = False
        self._wake = 0
        # How often a signal ended a wait.
        self.woken = 0
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._last = NO_EVENTS
        # What the views are of; and of those that were given up, what the program still holds.
        self._buffers: list[Any] = []
        self._lent_out: list[weakref.ref[Any]] = []
        self.make_views()
        self._read_news()

    def make_views(self) -> None:
        """Looks at the library's memory; `release_views` ends that."""
        if self._worker == ffi.NULL or self._buffers:
            return

        def view(start: int, size: int) -> memoryview:
            buffer = ffi.buffer(ffi.cast("char *", start), size)
            self._buffers.append(buffer)
            return memoryview(buffer).cast("B")

        batch = self._batch
        self._ops = view(batch.ops, batch.ops_max * SIZE)
        self._events = view(batch.events, batch.events_max * SIZE).toreadonly()
        self._news = view(int(ffi.cast("uintptr_t", batch)), ffi.sizeof("quoit_batch")).toreadonly()
        self.recv_view = view(batch.recv_base, batch.recv_size).toreadonly()
        self.send_view = view(batch.send_base, batch.send_size)

    def _read_news(self) -> None:
        self.flags, self._room, self._cursor, self.now_ns, self.tick, self.next_ns = _unpack_news(self._news)

    # The tick.

    def turn(self, timeout_ns: int = -1) -> Iterator[Event]:
        """Takes the queued ops, waits up to timeout_ns (-1 for ever, 0 not at all) and gives the events there are.

        The events are tuples (kind, flags, source, user_data, result, offset, len, aux, buffer, value), readable until
        the next turn, as the bytes they name.
        """
        if self._in_batch:
            raise Error(const.E_REENTER, "turn")
        nops = self._nops
        self._nops = 0
        self._turning = True
        try:
            got = lib.quoit_py_turn(self._worker, self._batch, nops, timeout_ns, self._wake)
        finally:
            self._turning = False
        if got < 0:
            self._nops = nops
            raise Error(const.E_CLOSED if self.closed else got, "turn")
        self.owner = self.owner or get_ident()
        if self._held:
            self._held.clear()
        self.flags, self._room, self._cursor, self.now_ns, self.tick, self.next_ns = _unpack_news(self._news)
        if got >> 32:
            self._last = self._woken(got & 0xFFFFFFFF, (got >> 32) - 1)
        elif got:
            self._last = _iter_events(self._events[: got * SIZE])
        else:
            self._last = NO_EVENTS
        return self._last

    def submit(self) -> None:
        """Has the queued ops taken now, in mid-batch: no system call, no events, the loans stay."""
        nops = self._nops
        got = lib.quoit_submit(self._worker, nops)
        if got < 0:
            raise Error(const.E_CLOSED if self.closed else got, "submit")
        self._nops = 0
        self.owner = self.owner or get_ident()
        self._held.clear()

    def run(self, on_batch: Callable[[Any, Iterator[Event]], object]) -> None:
        """Turns until `stop` has ended everything, and calls on_batch(worker, events) once per tick that has events.

        on_batch may return a true value to leave at once, with all in flight. If it raises, the worker is stopped,
        what is in flight ends untold, and the exception comes out of here.
        """
        try:
            with self.wakeups():
                while True:
                    events = self.turn()
                    if events is not NO_EVENTS:
                        self._in_batch = True
                        leave = on_batch(self, events)
                        self._in_batch = False
                        if leave:
                            return
                    if self.flags & const.BATCH_DRAINED:
                        return
        except BaseException:
            self._in_batch = False
            self._wind_down()
            raise

    def _wind_down(self) -> None:
        """Ends all that is in flight after a failure."""
        if self.owner != get_ident():
            return
        try:
            self.stop()
        except Error:
            # The worker has ended already, or this is the child of a fork.
            deque(self._last, maxlen=0)
            return
        self._ended(self._last)
        try:
            while not self.flags & const.BATCH_DRAINED:
                self._ended(self.turn())
        except Exception:
            traceback.print_exc()

    def _ended(self, events: Iterator[Event]) -> None:
        """Events that come after a failure."""
        deque(events, maxlen=0)

    def stop(self) -> None:
        """Asks the worker to stop: everything in flight ends, then `run` returns. Any thread."""
        check(lib.quoit_stop(self.handle), "stop")

    def drain(self, grace: float) -> None:
        """Asks the worker to end in order. Any thread, and a handler of signals (SIGTERM).

        It accepts what waits, closes its listeners, tells KIND_DRAIN (`Worker.on_drain`), and stops when every accepted
        stream is closed or grace seconds are over. Asked again, the shorter grace counts.
        """
        drain(self.handle, grace)

    # Operations.

    def op(
        self, opcode: int, flags: int = 0, target: int = 0, user_data: int = 0, addr: int = 0, len: int = 0,
        arg: int = 0, offset: int = 0, arg2: int = 0, timeout_ns: int = 0,
    ) -> None:  # fmt: skip
        """Queues one operation; when the array is full the queued ones are submitted first."""
        if get_ident() != self.owner and self.owner:
            raise Error(const.E_THREAD, "op")
        nops = self._nops
        if nops >= self.ops_max:
            held = self._held.copy()
            self.submit()
            self._held += held  # what this op points at is among it
            nops = 0
        _pack(self._ops, nops * SIZE, opcode, flags, target, user_data, addr, len, arg, offset, arg2, timeout_ns)
        self._nops = nops + 1

    def payload(self, data: Buffer) -> tuple[int, int, int]:
        """(flag, addr, len) of an op that carries data: through the scratch region if it fits, else copied."""
        if not isinstance(data, bytes):
            data = memoryview(data).cast("B")
        size = len(data)
        if size <= self._room:
            at = self._cursor
            end = at + size
            self.send_view[at:end] = data
            self._cursor = end
            self._room -= size
            return const.OPF_ARENA_SEND, at, size
        return 0, self.hold(data), size

    def hold(self, data: Any) -> int:
        """The address of a buffer that is kept alive until the queued ops are taken."""
        held, where, _ = address(data)
        self._held.append(held)
        return where

    def hold_struct(self, struct: Any) -> int:
        """The same for a struct of the library."""
        self._held.append(struct)
        return int(ffi.cast("uintptr_t", struct))

    def send(self, target: int, data: Buffer, flags: int = const.OPF_QUIET, user_data: int = 0) -> None:
        """Queues a send of bytes."""
        how, addr, size = self.payload(data)
        self.op(const.OP_SEND, flags | how, target, user_data, addr, size)

    # Waking and looking.

    @contextlib.contextmanager
    def wakeups(self) -> Iterator[None]:
        """While this is entered, in the main thread, a signal ends the wait of a turn, whoever caught it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self._pair is None:
            self._pair = socket.socketpair()
            for end in self._pair:
                end.setblocking(False)
            self._wake = WAKE
            self._poll_wakeups()
        before = signal.set_wakeup_fd(self._pair[1].fileno(), warn_on_full_buffer=False)
        _waking.add(self)
        try:
            yield
        finally:
            _waking.discard(self)
            signal.set_wakeup_fd(before)

    def _poll_wakeups(self) -> None:
        assert self._pair is not None
        self.op(const.OP_POLL, 0, 0, WAKE, arg=const.POLL_IN, offset=self._pair[0].fileno())

    def _woken(self, n: int, at: int) -> Iterator[Event]:
        """The events of a batch without the wake-up's, which is armed again."""
        result = EVENT.unpack_from(self._events, at * SIZE)[4]
        if result < 0:
            self._wake = 0
        else:
            assert self._pair is not None
            self.woken += 1
            with contextlib.suppress(BlockingIOError):
                while len(self._pair[0].recv(4096)) == 4096:
                    pass
            self._poll_wakeups()
        if n == 1:
            return NO_EVENTS
        before, after = self._events[: at * SIZE], self._events[(at + 1) * SIZE : n * SIZE]
        return chain(_iter_events(before), _iter_events(after))

    def fileno(self) -> int:
        """A descriptor that is readable when a turn would have something to do; poll it, nothing else."""
        return check(lib.quoit_worker_fd(self._worker), "worker fd")

    def stats(self) -> dict[str, Any]:
        """The worker's counters. Any thread."""
        counters = fill("quoit_stats")
        check(lib.quoit_stats_read(self.handle, counters), "stats")
        names = [name for name, _ in ffi.typeof("quoit_stats").fields if name != "struct_size"]
        return {name: getattr(counters, name) for name in names} | {"tick_ns_hist": list(counters.tick_ns_hist)}

    # The end.

    @property
    def closed(self) -> bool:
        return not self._buffers

    def release_views(self) -> None:
        """Lets go of the library's memory; BufferError if the program still holds a part of it."""
        if self._turning:
            raise Error(const.E_BUSY, "worker close")
        if self.closed:
            return
        deque(self._last, maxlen=0)
        self._last = NO_EVENTS
        self._lent_out += [weakref.ref(buffer) for buffer in self._buffers]
        self._buffers.clear()
        del self._ops, self._events, self._news, self.recv_view, self.send_view
        self._lent_out = [ref for ref in self._lent_out if ref() is not None]
        if self._lent_out:
            self.make_views()
            raise BufferError("a memoryview of a worker's arena is still in use")

    def forget(self) -> None:
        """The library's worker is gone."""
        self._worker = ffi.NULL
        self.ops_max = self._nops = 0
        self._held.clear()
        for end in self._pair or ():
            end.close()
        self._pair = None

    def close(self) -> None:
        """Destroys the worker; what is in flight ends untold. BufferError as Runtime.close."""
        if self._worker == ffi.NULL:
            return
        self.release_views()
        status = destroy(lib.quoit_worker_destroy, self._worker, {self.owner})
        if status < 0:
            self.make_views()
            raise Error(status, "worker close")
        self.forget()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self.close, self._close_quietly, trace)

    def _close_quietly(self) -> None:
        with contextlib.suppress(BufferError):
            self.close()

    def __repr__(self) -> str:
        return f"<quoit.Worker {self.handle:#x}{' closed' if self._worker == ffi.NULL else ''}>"


def _in_the_child() -> None:
    """After a fork the child's signals shall not wake the parent's worker."""
    if _waking:
        _waking.clear()
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_in_the_child)
