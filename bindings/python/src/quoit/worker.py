# SPDX-License-Identifier: MIT OR Apache-2.0
"""The worker with objects: streams, listeners, files, timers and calls, each told by its own callback."""

import errno
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import address, const
from .batch import BatchWorker, Event
from .errors import Error, event_error
from .files import File, open_file
from .layout import CALL
from .offload import Argument, Function
from .runtime import fill, pack_op, post
from .streams import Handler, Listener, Stream, nanoseconds

Completion = Callable[[Event], None]


class Message(NamedTuple):
    """What one worker told another: two words, a 32-bit number, and the receiver's user_data."""

    word1: int
    word2: int
    aux: int
    user_data: int


class Drain(NamedTuple):
    """How far a drain is: accepted streams that are open, whether it is over, and then 0 or why streams are cut off."""

    streams: int
    over: bool
    result: int


def _due(delay: float, clock: int) -> tuple[int, int]:
    """(flag, time) of a timer: from now, where the op alone would count from the last turn."""
    if clock == const.CLOCK_MONOTONIC:
        return const.OPF_ABS, time.monotonic_ns() + nanoseconds(delay)
    return 0, nanoseconds(delay)


class Operation:
    """Something that is waited for and may be cancelled."""

    __slots__ = ("_opcode", "_token", "_worker")

    def __init__(self, worker: "Worker", opcode: int, token: int) -> None:
        self._worker = worker
        self._opcode = opcode
        self._token = token

    def cancel(self) -> None:
        """Asks it to end; its callback still tells how it ended (a timer's is silent)."""
        self._worker.op(const.OP_CANCEL, arg=self._opcode, arg2=self._token)


class Timer(Operation):
    """A timer, from when it was made until it has fired for the last time."""

    __slots__ = ("handle",)

    def __init__(self, worker: "Worker", token: int) -> None:
        super().__init__(worker, const.OP_TIMER, token)
        self.handle = 0

    def rearm(self, delay: float, period: float = 0, clock: int = const.CLOCK_MONOTONIC) -> None:
        """Moves it, after the turn that armed it."""
        if not self.handle:
            raise Error(const.E_STALE, "timer")
        flags, at = _due(delay, clock)
        self._worker.op(const.OP_TIMER, flags, self.handle, 0, 0, 0, clock, at, nanoseconds(period))


class Worker(BatchWorker):
    """Runs on the thread that calls `run`; its methods belong to that thread (`post`, `stop` and `stats` to any).

    A callback named done is called once, with the result or an Error. Errors that no callback asked for come out of
    `run`, as exceptions of callbacks do, after the worker was stopped.
    """

    def __init__(self, runtime: Any, **options: int) -> None:
        super().__init__(runtime, **options)
        self._token = 0
        self._expected: dict[int, Completion] = {}
        self._streams: dict[int, Stream] = {}
        self._finished = False
        self._objects = False
        # True after an exception: no more data or streams are told, only how things end.
        self.failing = False
        # Gets the messages of other threads and workers.
        self.on_message: Callable[[Message], None] | None = None
        # Told when a drain begins and when it is over.
        self.on_drain: Callable[[Drain], None] | None = None

    # Making things.

    def listen(
        self, where: str, handler: Handler, ready: Callable[[Listener], None] | None = None, *, backlog: int = 0,
        flags: int = 0, streams_max: int = 0, skew_percent: int = 0,
        failed: Callable[[Error], None] | None = None,
    ) -> None:  # fmt: skip
        """Listens at "127.0.0.1:80", "[::1]:80" or "unix:/path"; ready gets the Listener. flags: quoit.LISTEN_*.

        streams_max bounds the streams at one time. skew_percent, with LISTEN_REUSEPORT on each worker of the runtime:
        one that has more than so many percent more streams than the one with the fewest hands new ones over to it.
        """

        def listening(event: Event) -> None:
            if event[4] >= 0:
                listener = Listener(self, event[9], handler, event[7])
                if ready:
                    ready(listener)
            else:
                self._refused(event, failed)

        at = self.hold_struct(address.parse(where))
        options = fill("quoit_listen_options", flags=flags, streams_max=streams_max, skew_percent=skew_percent)
        self.op(const.OP_LISTEN, 0, 0, self.expect(listening), at, address.SIZE, backlog, 0, self.hold_struct(options))

    def connect(
        self, where: str, handler: Handler, failed: Callable[[Error], None] | None = None, *, local: str | None = None,
        flags: int = 0, timeout: float = 0, receive: bool = True,
    ) -> Operation:  # fmt: skip
        """Connects; the handler is told of the stream, failed of an error. flags: quoit.CONNECT_*.

        receive: False leaves it to the program to queue a receive, of descriptors for instance.
        """

        def connected(event: Event) -> None:
            if event[4] < 0:
                self._refused(event, failed)
                return
            if receive:
                self.op(const.OP_RECV, const.OPF_MULTI, event[9])
            self.opened(event[9], handler)

        token = self.expect(connected)
        here = self.hold_struct(address.parse(local)) if local else 0
        there = self.hold_struct(address.parse(where))
        self.op(const.OP_CONNECT, 0, 0, token, there, address.SIZE, flags, 0, here, nanoseconds(timeout))
        return Operation(self, const.OP_CONNECT, token)

    def open(
        self, path: str | bytes, flags: int, done: Callable[[File | Error], None], *, mode: int = 0o666,
        directory: File | None = None, timeout: float = 0,
    ) -> Operation:  # fmt: skip
        """Opens a file, relative to a directory if one is given. flags: quoit.OPEN_*."""
        return Operation(self, const.OP_OPEN, open_file(self, path, flags, mode, directory, done, timeout))

    def timer(
        self, delay: float, fired: Callable[[int], None], *, period: float = 0, clock: int = const.CLOCK_MONOTONIC,
        absolute: bool = False,
    ) -> Timer:  # fmt: skip
        """Calls fired(expirations) after delay seconds and then every period; absolute: at that time of the clock."""

        def ticked(event: Event) -> None:
            _, flags, _, _, result, _, _, _, _, value = event
            timer.handle = value if flags & const.EVF_MORE else 0
            if result > 0:
                fired(result)
            elif result < 0 and result != -errno.ECANCELED:
                self._refused(event, None)

        timer = Timer(self, self.expect(ticked))
        flags, at = (const.OPF_ABS, nanoseconds(delay)) if absolute else _due(delay, clock)
        self.op(const.OP_TIMER, flags | const.OPF_ARMED, 0, timer._token, 0, 0, clock, at, nanoseconds(period))
        return timer

    def poll(self, fd: int, mask: int, done: Callable[[int | Error], None], *, timeout: float = 0) -> Operation:
        """Waits once until a foreign descriptor is ready for one of quoit.POLL_*; done gets the mask."""
        token = self.expect_count(done, None)
        self.op(const.OP_POLL, 0, 0, token, 0, 0, mask, fd, 0, nanoseconds(timeout))
        return Operation(self, const.OP_POLL, token)

    def offload(
        self, function: Function, args: tuple[Argument, ...], done: Callable[[Any], None], *, timeout: float = 0
    ) -> Operation:
        """Calls a native function on the blocking pool; done gets what it returns, or an Error.

        Memory that is given for a pointer stays alive and is the function's until done is called.
        """
        memory, held = function.pack(args)

        def finished(event: Event, held: object = held) -> None:
            kind, _, _, _, result, _, _, aux, _, value = event
            done(event_error(kind, result, aux) if result < 0 else function.unpack(value))

        token = self.expect(finished)
        at = self.hold_struct(memory)
        self.op(const.OP_OFFLOAD, const.OPF_ARGS, 0, token, at, CALL.size, timeout_ns=nanoseconds(timeout))
        return Operation(self, const.OP_OFFLOAD, token)

    def cancel(self, handle: int, opcode: int = 0, user_data: int = 0) -> None:
        """Asks the ops of an object, or those of one opcode and one user_data, to end; each tells how it did.

        With handle 0 it is those that have no object: an opcode and a user_data name them.
        """
        self.op(const.OP_CANCEL, 0, handle, arg=opcode, arg2=user_data)

    def message(self, worker: int, word1: int = 0, word2: int = 0, aux: int = 0, user_data: int = 0) -> None:
        """Sends a message to a worker, named by its handle. From another thread: `send_message`."""
        self.op(const.OP_POST, const.OPF_QUIET, worker, 0, word1, 0, aux, word2, user_data)

    # What the objects use.

    @property
    def pointer(self) -> Any:
        return self._worker

    @property
    def finished(self) -> bool:
        """True when the worker has stopped or was closed."""
        return self._finished or self.closed

    def expect(self, completion: Completion) -> int:
        """The user_data of an op whose events go to a callback."""
        self._token += 1
        self._expected[self._token] = completion
        return self._token

    def expect_count(self, done: Callable[[int | Error], None], held: Any) -> int:
        """The same for an op that ends with a number; held stays alive until then."""

        def finished(event: Event, held: Any = held) -> None:
            kind, _, _, _, result, _, _, aux, _, value = event
            done(event_error(kind, result, aux, value) if result < 0 else result)

        return self.expect(finished)

    def opened(self, handle: int, handler: Handler) -> None:
        """A stream is connected."""
        if self.failing:
            return
        stream = Stream(self, handle, handler)
        self._streams[handle] = stream
        handler.on_open(stream)

    def gone(self, handle: int) -> bool:
        """A stream has ended; False if that was told before."""
        return self._streams.pop(handle, None) is not None

    def _refused(self, event: Event, failed: Callable[[Error], None] | None) -> None:
        error = event_error(event[0], event[4], event[7], event[9])
        if failed is not None:
            failed(error)
        elif event[4] not in (-errno.ECANCELED, const.E_CLOSING):
            raise error

    def _unexpected(self, event: Event) -> None:
        """An error that no callback waits for."""
        if event[0] == const.OP_CANCEL:
            return  # there was nothing left to cancel
        stream = self._streams.get(event[2])
        if stream is not None:
            stream.failed(event)
        elif event[0] in (const.OP_RELEASE, const.OP_POST) and not self.failing:
            raise event_error(event[0], event[4], event[7], event[9])

    # The tick.

    def run(self, on_batch: Callable[[Any, Iterator[Event]], object] | None = None) -> None:
        """Runs until stopped. With on_batch that gets the events (see BatchWorker.run), else the objects' callbacks."""
        self._objects = on_batch is None
        try:
            super().run(on_batch or Worker.dispatch)
        finally:
            if self.flags & const.BATCH_DRAINED:
                self.finish()

    def finish(self) -> None:
        """The worker has stopped and told all, or will never: what streams are left have ended."""
        self._finished = True
        self._lose_streams()

    def _ended(self, events: Iterator[Event]) -> None:
        self.failing = True
        if not self._objects:
            super()._ended(events)
            return
        while True:
            try:
                self.dispatch(events)
                return
            except Exception:
                traceback.print_exc()

    def _lose_streams(self) -> None:
        for stream in list(self._streams.values()):
            try:
                stream.lost(Error(-errno.ECANCELED, "stop"))
            except Exception:
                traceback.print_exc()

    def dispatch(self, events: Iterator[Event]) -> None:
        """Tells the events of a batch to the objects."""
        streams = self._streams
        expected = self._expected
        for event in events:
            kind = event[0]
            if kind == const.OP_RECV:
                stream = streams.get(event[2])
                if stream is not None:
                    stream.received(event)
                continue
            if kind == const.KIND_MESSAGE:
                if self.on_message is not None:
                    self.on_message(Message(event[9], event[4], event[7], event[3]))
                continue
            if kind == const.KIND_DRAIN:
                if self.on_drain is not None:
                    _, flags, _, _, result, _, _, _, _, streams = event
                    self.on_drain(Drain(streams, not flags & const.EVF_MORE, result))
                continue
            more = event[1] & const.EVF_MORE
            completion = expected.get(event[3]) if more else expected.pop(event[3], None)
            if completion is not None:
                completion(event)
            elif event[4] < 0 and kind < const.KIND_BAD_OP:
                self._unexpected(event)


def send_message(worker: int, word1: int = 0, word2: int = 0, aux: int = 0, user_data: int = 0) -> bool:
    """Sends a message to a worker, named by its handle, from any thread. False if its mailbox is full."""
    op = pack_op(const.OP_POST, const.OPF_QUIET, worker, 0, word1, 0, aux, word2, user_data)
    return post(worker, op) == 1
