# SPDX-License-Identifier: MIT OR Apache-2.0
"""A worker inside of a loop that is there already: asyncio's own, uvloop's, any with add_reader."""

import asyncio
from types import TracebackType
from typing import Any

from .. import const
from ..errors import Error
from ..runtime import Runtime
from ..worker import Worker
from . import host as hosts
from .host import Host


class _Guest(Worker):
    """Ops that are queued between turns are taken by a turn that the loop makes soon."""

    host: Host | None = None
    due = False

    def op(self, *args: Any, **named: Any) -> None:
        super().op(*args, **named)
        if not self.due and self.host is not None:
            self.due = True
            self.host.loop.call_soon(self.flush)

    def flush(self) -> None:
        if self.due:
            self.ready()

    def ready(self) -> None:
        """Called by the loop when the worker fd is readable, and when ops wait. Never blocks."""
        host = self.host
        if host is None or host.closed:
            return
        if not self.flags & const.BATCH_DRAINED:
            self.due = False
            host.turn(0)
        if self.flags & const.BATCH_DRAINED:
            # Stopped from elsewhere.
            host.loop.remove_reader(self.fileno())
            host.ended()


class hosted:
    """`async with quoit.aio.hosted() as host:` gives the running loop a worker, for all of its tasks.

    driver and options are those of quoit.Runtime and of its workers; with runtime the worker becomes one of that
    runtime, which stays open. The worker's descriptor is watched by the loop, which thus also hears of timers and
    deadlines; ops that tasks ask for in one round of the loop go in together. Leaving the block ends the worker:
    streams that are closing are awaited for some seconds, what is open is aborted with a ResourceWarning.

    Errors: RuntimeError if the loop has a worker already; quoit.Error as quoit.Runtime.
    """

    def __init__(self, driver: str = "auto", *, runtime: Runtime | None = None, **options: int) -> None:
        self._driver = driver
        self._runtime = runtime
        self._options = options
        self._host: Host | None = None

    async def __aenter__(self) -> Host:
        loop = asyncio.get_running_loop()
        if loop in hosts._hosts:
            raise RuntimeError("this loop has a quoit worker already")
        runtime = self._runtime or Runtime(self._driver)
        try:
            worker = runtime.adopt(_Guest(runtime, **self._options))
        except Error:
            if self._runtime is None:
                runtime.close()
            raise
        host = worker.host = self._host = Host(loop, runtime, worker, self._runtime is None)
        loop.add_reader(worker.fileno(), worker.ready)
        return host

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        host = self._host
        assert host is not None
        try:
            await self._settle(host)
        finally:
            if not host.worker.finished:
                host.loop.remove_reader(host.worker.fileno())
            host.shut(0)

    async def _settle(self, host: Host) -> None:
        """Lets streams that are closing end, while the loop runs."""
        host.leak_check()
        if host.resources:
            host.last = host.loop.create_future()
            await asyncio.wait([host.last], timeout=hosts.SETTLE_SECONDS)
