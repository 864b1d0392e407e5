# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests of quoit.aio share: each runs with the worker alone and with it in a loop of asyncio."""

import asyncio
import contextlib
import gc
import socket
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import quoit
from quoit import aio
from support import LIMIT

T = TypeVar("T")


class Runner:
    """Runs a coroutine function in a mode, on a driver; nothing may be left open or go unreported."""

    def __init__(self, mode: str, driver: str) -> None:
        self.mode = mode
        self.driver = driver
        # What the loop's exception handler and the warnings may say, and did.
        self.expects_reports = False
        self.expects_warnings = False
        self.reports: list[dict[str, Any]] = []
        self.warnings: list[str] = []

    def __call__(self, main: Callable[[], Coroutine[Any, Any, T]], **options: Any) -> T:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result = self._run(main, **options)
            gc.collect()
        self.warnings = [str(warning.message) for warning in told]
        assert self.expects_warnings or self.warnings == []
        assert self.expects_reports or self.reports == []
        return result

    async def _limited(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.reports.append(context))
        host = aio.current()
        assert host.runtime.driver == self.driver
        async with asyncio.timeout(LIMIT):
            return await main()

    def _run(self, main: Callable[[], Coroutine[Any, Any, T]], **options: Any) -> T:
        if self.mode == "alone":
            return quoit.run_async(self._limited(main), driver=self.driver, **options)

        async def hosting() -> T:
            async with aio.hosted(self.driver, **options):
                return await self._limited(main)

        return asyncio.run(hosting())


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[tuple[aio.Stream, aio.Stream]]:
    """Two connected streams."""
    async with await aio.listen("127.0.0.1:0") as listener, await aio.connect(listener.address) as here:
        there = await listener.accept()
        try:
            yield here, there
        finally:
            there.close()


@contextlib.asynccontextmanager
async def beside(small: bool = False) -> AsyncIterator[tuple[aio.Stream, socket.socket]]:
    """A stream, and the plain blocking socket at its other end; small: with little room in the kernel."""
    async with await aio.listen("127.0.0.1:0") as listener:
        with socket.socket() as client:
            client.settimeout(LIMIT)
            if small:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
            host, _, port = listener.address.rpartition(":")
            client.connect((host, int(port)))
            stream = await listener.accept()
            try:
                yield stream, client
            finally:
                client.close()
                await stream.aclose()


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """A blocking call, made by a thread."""
    return await asyncio.to_thread(call, *args)


async def until(holds: Callable[[], object]) -> None:
    """Lets the loop run until something holds."""
    while not holds():
        await aio.sleep(0.001)


async def cancelled(task: "asyncio.Task[Any]") -> BaseException:
    """Cancels a task; the CancelledError that it ends with."""
    task.cancel()
    caught: list[BaseException] = []
    try:
        await task
    except asyncio.CancelledError as error:
        caught.append(error)
    assert task.cancelled() and caught
    return caught[0]


def thread(call: Callable[[], object]) -> threading.Thread:
    started = threading.Thread(target=call)
    started.start()
    return started
