# SPDX-License-Identifier: MIT OR Apache-2.0
"""quoit from Python: a thread-per-core I/O runtime behind one C ABI.

Four layers, each over the one below:
  quoit.lib, quoit.ffi   the C ABI, 1:1
  Worker.turn, .op       batches: ops in, events out, one crossing a tick
  Worker.run             objects: listeners, streams, files, timers, offloaded calls, each with its callbacks
  quoit.aio, run_async   the same objects for async functions, alone or in an asyncio loop
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import address, const
from ._quoit import ffi, lib
from .batch import Event
from .const import *  # noqa: F403
from .descriptors import inherited_fds
from .errors import Error, status_name
from .files import File
from .layout import EVENT, FORMATS, IOV, OP
from .offload import Function
from .runtime import Runtime, drain, pack_op, post, stop
from .streams import Handler, Lent, Listener, Stream
from .worker import Drain, Message, Operation, Timer, Worker, send_message

if TYPE_CHECKING:
    from . import aio as aio
    from .aio import run_async as run_async

__version__ = const.VERSION_TEXT

__all__ = [
    "EVENT", "FORMATS", "IOV", "OP", "Drain", "Error", "Event", "File", "Function", "Handler", "Lent", "Listener",
    "Message", "Operation", "Runtime", "Stream", "Timer", "Worker", "address", "aio", "const", "drain", "ffi",
    "inherited_fds", "lib", "now", "pack_op", "post", "probe", "run_async", "send_message", "status_name", "stop",
    "version",
]  # fmt: skip
__all__ += [name for name in vars(const) if name.isupper()]


def __getattr__(name: str) -> Any:
    # Only those who use it wait for asyncio to be imported.
    if name in ("aio", "run_async"):
        aio = importlib.import_module(".aio", __name__)
        return aio if name == "aio" else aio.run_async
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def version() -> str:
    """Version of the loaded library."""
    return bytes(ffi.string(lib.quoit_version_text())).decode()


def now(clock: int = const.CLOCK_MONOTONIC) -> int:
    """A clock's time in nanoseconds."""
    return lib.quoit_now(clock)


def probe() -> list[dict[str, object]]:
    """What this machine lets quoit use, and why not where it does not: one dict per thing that was tried."""
    count = lib.quoit_probe(ffi.NULL, 0)
    entries = ffi.new("quoit_probe_entry[]", count)
    words = {const.PROBE_USED: "used", const.PROBE_REFUSED: "refused", const.PROBE_UNUSED: "unused",
             const.PROBE_FACT: "fact"}  # fmt: skip
    return [
        {
            "state": words.get(entry.state, str(entry.state)),
            "status": entry.status,
            "number": entry.number,
            **{name: bytes(ffi.string(getattr(entry, name))).decode() for name in ("name", "reason", "fix")},
        }
        for entry in entries[0 : min(count, lib.quoit_probe(entries, count))]
    ]
