# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runtimes, the any-thread calls, and what happens at fork and at exit."""

import atexit
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import const
from ._quoit import ffi, lib
from .errors import Error, check, text
from .layout import OP, SIZE

if TYPE_CHECKING:
    from .worker import Worker

W = TypeVar("W", bound="Worker")

DRIVERS = {
    "auto": const.DRIVER_AUTO,
    "uring": const.DRIVER_URING,
    "uring-defer": const.DRIVER_URING_DEFER,
    "uring-coop": const.DRIVER_URING_COOP,
    "uring-plain": const.DRIVER_URING_PLAIN,
    "epoll": const.DRIVER_EPOLL,
}
_NAMES = {value: name for name, value in DRIVERS.items()}
_live: "weakref.WeakSet[Runtime]" = weakref.WeakSet()


def destroy(call: Callable[[Any], int], pointer: Any, owners: Collection[int]) -> int:
    """Destroys a worker or runtime; awaits threads that were joined but are still on their way out of the system."""
    deadline = time.monotonic() + 5
    while True:
        status = call(pointer)
        if status not in (const.E_THREAD, const.E_BUSY) or time.monotonic() > deadline:
            return status
        if any(thread.ident in owners for thread in threading.enumerate()):
            return status
        time.sleep(0.0005)


def fill(ctype: str, **values: int) -> Any:
    """A struct of the library with struct_size set."""
    struct = ffi.new(f"{ctype} *", values)
    struct.struct_size = ffi.sizeof(ctype)
    return struct


def leave(close: Callable[[], None], quietly: Callable[[], None], trace: TracebackType | None) -> None:
    """Closes at the end of a block. What failing frames still hold of an arena shall not hide why they failed."""
    try:
        close()
    except BufferError:
        if trace is None:
            raise
        traceback.clear_frames(trace)
        quietly()


class Runtime:
    """The set of workers of a program, and the driver they run on.

    driver is "auto" (then the environment's QUOIT_DRIVER decides), "uring", "uring-defer", "uring-coop",
    "uring-plain" or "epoll"; all but "auto" are that one or an error. Close it when its workers have stopped.
    """

    _runtime: Any = None

    def __init__(self, driver: str = "auto", *, pool_threads: int = 0, pool_queue: int = 0, log: bool = False) -> None:
        if driver not in DRIVERS:
            raise ValueError(f"driver is one of {', '.join(DRIVERS)}, not {driver!r}")
        options = fill(
            "quoit_runtime_options", driver=DRIVERS[driver], pool_threads=pool_threads, pool_queue=pool_queue,
            flags=const.RUNTIME_LOG_STDERR if log else 0,
        )  # fmt: skip
        out = ffi.new("quoit_runtime **")
        check(lib.quoit_runtime_create(options, out), "runtime")
        self._runtime = out[0]
        self._workers: list[Worker] = []
        _live.add(self)
        # The driver that was chosen, by name.
        self.driver = _NAMES[check(lib.quoit_runtime_driver(self._runtime), "driver")]

    def worker(self, **options: int) -> "Worker":
        """A new worker; options are the fields of quoit_worker_options."""
        from .worker import Worker

        return self.adopt(Worker(self, **options))

    def adopt(self, worker: W) -> W:
        """Takes charge of a worker that was made with this runtime."""
        self._workers.append(worker)
        return worker

    @property
    def reason(self) -> str:
        """Why it was chosen."""
        sentence = ffi.new("char[1024]")
        check(lib.quoit_runtime_driver_reason(self.pointer, sentence, 1024), "driver reason")
        return text(sentence)

    def log(self) -> Iterator[tuple[int, str]]:
        """Takes the lines that wait in the log: (level, text)."""
        line, level = ffi.new("char[1024]"), ffi.new("uint32_t *")
        while check(lib.quoit_log_read(self.pointer, line, 1024, level), "log"):
            yield level[0], text(line)

    @property
    def pointer(self) -> Any:
        if self._runtime is None:
            raise Error(const.E_CLOSED, "runtime")
        return self._runtime

    @property
    def closed(self) -> bool:
        return self._runtime is None

    def close(self) -> None:
        """Ends the runtime and its workers, none of which may be running.

        BufferError: the program still holds a memoryview of an arena; the memory goes with the runtime.
        """
        if self._runtime is None:
            return
        for worker in self._workers:
            worker.release_views()
        owners = {worker.owner for worker in self._workers}
        status = destroy(lib.quoit_runtime_destroy, self._runtime, owners)
        if status < 0:
            for worker in self._workers:
                worker.make_views()
            raise Error(status, "runtime close")
        self._runtime = None
        for worker in self._workers:
            worker.forget()
        self._workers.clear()

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self.close, self.close_quietly, trace)

    def __del__(self) -> None:
        if self._runtime is None:
            return
        warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        self.close_quietly()

    def close_quietly(self) -> None:
        """At the end of the program: a runtime that still runs or whose memory is in use is left as it is."""
        try:
            self.close()
        except (Error, BufferError):
            self._runtime = None

    def __repr__(self) -> str:
        return "<quoit.Runtime closed>" if self.closed else f"<quoit.Runtime {self.driver}>"


@atexit.register
def _close_all() -> None:
    for runtime in list(_live):
        runtime.close_quietly()


def pack_op(
    opcode: int, flags: int = 0, target: int = 0, user_data: int = 0, addr: int = 0, len: int = 0, arg: int = 0,
    offset: int = 0, arg2: int = 0, timeout_ns: int = 0,
) -> bytes:  # fmt: skip
    """One operation as the 64 bytes that `post` takes."""
    return OP.pack(opcode, flags, target, user_data, addr, len, arg, offset, arg2, timeout_ns)


def post(worker: int, ops: bytes) -> int:
    """Has a worker, named by its handle, execute packed ops; from any thread. Returns how many it took."""
    if len(ops) % SIZE:
        raise ValueError("ops are not whole operations")
    array = ffi.new("quoit_op[]", len(ops) // SIZE)
    ffi.memmove(array, ops, len(ops))
    return check(lib.quoit_post(worker, array, len(array)), "post")


def stop(worker: int) -> None:
    """Asks a worker, named by its handle, to stop; from any thread."""
    check(lib.quoit_stop(worker), "stop")


def drain(worker: int, grace: float) -> None:
    """Asks a worker, named by its handle, to end in order within grace seconds (`Worker.drain`); from any thread."""
    check(lib.quoit_drain(worker, max(0, round(grace * 1e9))), "drain")
