# SPDX-License-Identifier: MIT OR Apache-2.0
"""A worker as the event loop itself: asyncio's machinery of tasks over the worker's turn, one crossing a tick."""

import asyncio
import errno
import math
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from .. import const
from ..batch import Event
from ..runtime import Runtime
from ..worker import Worker
from .host import SETTLE_SECONDS, Host

T = TypeVar("T")
FileObject = Any

_IN = const.POLL_IN | const.POLL_ERR | const.POLL_HUP
_OUT = const.POLL_OUT | const.POLL_ERR | const.POLL_HUP


def _descriptor(fileobj: FileObject) -> int:
    fd = fileobj if isinstance(fileobj, int) else int(fileobj.fileno())
    if fd < 0:
        raise ValueError(f"invalid file descriptor {fd}")
    return fd


class WorkerSelector(selectors.BaseSelector):
    """What asyncio asks for foreign descriptors, answered by polls of the worker: its select is the worker's turn."""

    def __init__(self) -> None:
        self.host: Host | None = None
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._tokens: dict[int, int] = {}
        self._ready: dict[int, int] = {}

    @property
    def _worker(self) -> Worker | None:
        return None if self.host is None or self.host.worker.finished else self.host.worker

    def begin(self, host: Host) -> None:
        """From now on there is a worker: what was registered before is polled."""
        self.host = host
        for fd, key in self._keys.items():
            self._arm(fd, key.events)

    def register(self, fileobj: FileObject, events: int, data: Any = None) -> selectors.SelectorKey:
        if not events or events & ~(selectors.EVENT_READ | selectors.EVENT_WRITE):
            raise ValueError(f"invalid events: {events!r}")
        fd = _descriptor(fileobj)
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} (descriptor {fd}) is registered already")
        self._keys[fd] = key = selectors.SelectorKey(fileobj, fd, events, data)
        self._arm(fd, events)
        return key

    def unregister(self, fileobj: FileObject) -> selectors.SelectorKey:
        try:
            fd = _descriptor(fileobj)
        except ValueError:
            # Closed before it was unregistered.
            fd = next((key.fd for key in self._keys.values() if key.fileobj is fileobj), -1)
        key = self._keys.pop(fd, None)
        if key is None:
            raise KeyError(f"{fileobj!r} is not registered")
        self._disarm(fd)
        return key

    def modify(self, fileobj: FileObject, events: int, data: Any = None) -> selectors.SelectorKey:
        before = self._keys.get(_descriptor(fileobj))
        if before is None:
            raise KeyError(f"{fileobj!r} is not registered")
        key = self._keys[before.fd] = before._replace(events=events, data=data)
        if events != before.events:
            self._disarm(before.fd)
            self._arm(before.fd, events)
        return key

    def _arm(self, fd: int, events: int) -> None:
        worker = self._worker
        if worker is None:
            return
        mask = const.POLL_IN if events & selectors.EVENT_READ else 0
        if events & selectors.EVENT_WRITE:
            mask |= const.POLL_OUT

        def polled(event: Event) -> None:
            # A poll that failed is told as ready: the call that follows finds out why.
            if self._tokens.get(fd) == token and event[4] != -errno.ECANCELED:
                self._ready[fd] = self._ready.get(fd, 0) | (event[4] if event[4] > 0 else _IN | _OUT)

        token = self._tokens[fd] = worker.expect(polled)
        worker.op(const.OP_POLL, const.OPF_MULTI, 0, token, arg=mask, offset=fd)

    def _disarm(self, fd: int) -> None:
        token = self._tokens.pop(fd, None)
        self._ready.pop(fd, None)
        worker = self._worker
        if worker is not None and token is not None:
            worker.op(const.OP_CANCEL, const.OPF_QUIET, arg=const.OP_POLL, arg2=token)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._worker is None:
            return self._select_alone(timeout)
        assert self.host is not None
        self.host.turn(-1 if timeout is None else max(0, math.ceil(timeout * 1e9)))
        if self.host.drained:
            self.host.ended()
        if not self._ready:
            return []
        ready, self._ready = self._ready, {}
        return [
            (key, told)
            for fd, mask in ready.items()
            if (key := self._keys.get(fd)) is not None
            and (
                told := key.events
                & ((selectors.EVENT_READ if mask & _IN else 0) | (selectors.EVENT_WRITE if mask & _OUT else 0))
            )
        ]

    def _select_alone(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """The worker was stopped: the loop lives on for what its tasks do about that."""
        with selectors.DefaultSelector() as selector:
            for key in self._keys.values():
                selector.register(key.fd, key.events, key)
            return [(key.data, events) for key, events in selector.select(timeout)]

    def get_map(self) -> Mapping[FileObject, selectors.SelectorKey]:
        return self._keys

    def get_key(self, fileobj: FileObject) -> selectors.SelectorKey:
        return self._keys[_descriptor(fileobj)]

    def close(self) -> None:
        self._keys.clear()
        self._tokens.clear()


class WorkerLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose wait is a turn of a worker: everything of asyncio works on it, and quoit.aio besides.

    Signals end its wait at once, whichever thread takes them, while it runs in the main thread. `host` is its worker's.
    """

    _csock: socket.socket

    def __init__(self, runtime: Runtime, worker: Worker, owns_runtime: bool = True) -> None:
        selector = WorkerSelector()
        super().__init__(selector)
        self.host = Host(self, runtime, worker, owns_runtime)
        selector.begin(self.host)

    def run_forever(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            super().run_forever()
            return
        before = signal.set_wakeup_fd(self._csock.fileno(), warn_on_full_buffer=False)
        try:
            super().run_forever()
        finally:
            signal.set_wakeup_fd(before)

    def close(self) -> None:
        """Ends the worker too: streams that are closing are awaited for some seconds, open ones are aborted."""
        if self.is_running() or self.is_closed():
            super().close()
            return
        try:
            self.host.shut(SETTLE_SECONDS)
        finally:
            super().close()


def new_event_loop(driver: str = "auto", *, runtime: Runtime | None = None, **options: int) -> WorkerLoop:
    """A loop over a new worker, for asyncio.Runner(loop_factory=...). Closing it ends the worker.

    driver and options are those of quoit.Runtime and of its workers; with runtime the worker becomes one of that
    runtime, which stays open. Errors: quoit.Error as quoit.Runtime.
    """
    owner = runtime or Runtime(driver)
    try:
        return WorkerLoop(owner, owner.worker(**options), runtime is None)
    except BaseException:
        if runtime is None:
            owner.close()
        raise


def run_async(
    main: Coroutine[Any, Any, T], *, driver: str = "auto", runtime: Runtime | None = None, debug: bool | None = None,
    **options: int,
) -> T:  # fmt: skip
    """Runs a coroutine on a worker that is the event loop, and gives what it returns.

    All of asyncio's tasks, locks, timeouts, streams and subprocesses work inside, and everything of quoit.aio. Ctrl-C
    cancels the coroutine and becomes KeyboardInterrupt. At the end the tasks that are left are cancelled and streams
    that are closing are awaited for some seconds. driver, runtime and options: see `new_event_loop`.
    """
    factory: Callable[[], asyncio.AbstractEventLoop] = lambda: new_event_loop(driver, runtime=runtime, **options)  # noqa: E731
    try:
        with asyncio.Runner(debug=debug, loop_factory=factory) as runner:
            return runner.run(main)
    except BaseException:
        # It may be that it never began.
        main.close()
        raise
