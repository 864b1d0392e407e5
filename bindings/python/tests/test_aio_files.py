# SPDX-License-Identifier: MIT OR Apache-2.0
"""Awaited files and native calls."""

import asyncio
import gc
import time
from pathlib import Path

import pytest

import quoit
from aio_support import Runner, beside, cancelled, in_thread, until
from quoit import TYPE_DOUBLE, TYPE_I32, TYPE_POINTER, TYPE_U32, TYPE_U64, TYPE_VOID, Function, aio
from support import pattern, receive

NEW = quoit.OPEN_READ | quoit.OPEN_WRITE | quoit.OPEN_CREATE


def test_write_and_read(run: Runner, tmp_path: Path) -> None:
    data = pattern(2_500_000)

    async def main() -> None:
        async with await aio.open_file(str(tmp_path), quoit.OPEN_READ | quoit.OPEN_DIRECTORY) as directory:
            async with await aio.open_file("file", NEW, mode=0o600, directory=directory) as file:
                assert await file.read(0, 100) == b""
                assert await file.write(bytearray(data), 0) == len(data)
                assert await file.write(b"tail", -1) == 4
                await file.fsync()
                await file.fsync(data_only=True)
                assert file.size == len(data) + 4
                assert await file.read(0, 10_000_000) == data + b"tail"
                assert await file.read(len(data), 3) == b"tai"
                assert await file.read(0, 0) == b""
                pieces = await asyncio.gather(*(file.read(at, 1000) for at in range(0, 50_000, 1000)))
                assert b"".join(pieces) == data[:50_000]
            with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                await file.read(0, 1)
            await file.aclose()
            file.close()
        with pytest.raises(quoit.Error, match="ENOENT"):
            await aio.open_file(str(tmp_path / "none"))
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            await aio.open_file("file", directory=directory)

    run(main)
    assert (tmp_path / "file").read_bytes() == data + b"tail"


def test_cancelled(run: Runner, tmp_path: Path) -> None:
    """An open that is given up leaves no descriptor, a write tells what was written."""
    data = pattern(1_000_000)

    async def main() -> None:
        host = aio.current()
        for _ in range(20):
            opening = asyncio.create_task(aio.open_file(str(tmp_path / "file"), NEW))
            await asyncio.sleep(0)
            opening.cancel()
            try:
                await (await opening).aclose()
            except asyncio.CancelledError:
                pass
        await until(lambda: not host.resources)
        async with await aio.open_file(str(tmp_path / "file"), NEW) as file:
            writing = asyncio.create_task(file.write(data, 0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            error = await cancelled(writing)
            written = error.sent  # type: ignore[attr-defined]
            assert await file.read(0, len(data)) == data[:written]

    run(main)


def test_forgotten_file(run: Runner, tmp_path: Path) -> None:
    run.expects_warnings = True

    async def main() -> None:
        file = await aio.open_file(str(tmp_path / "file"), NEW)
        del file
        gc.collect()
        await until(lambda: not aio.current().resources)

    run(main)
    assert len(run.warnings) == 1
    assert "unclosed <quoit.aio.File" in run.warnings[0]


def test_file_to_stream(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pattern(300_000))

    async def main() -> None:
        async with beside() as (stream, client), await aio.open_file(str(tmp_path / "file")) as file:
            got = asyncio.create_task(in_thread(receive, client, 300_000))
            at = 0
            while data := await file.read(at, 64 * 1024):
                await stream.send(data)
                at += len(data)
            await stream.flush()
            assert await got == pattern(300_000)

    run(main)


def test_offload(run: Runner) -> None:
    power = Function.find("libm.so.6", "pow", TYPE_DOUBLE, [TYPE_DOUBLE, TYPE_DOUBLE])
    crc32 = Function.find("libz.so.1", "crc32", TYPE_U64, [TYPE_U64, TYPE_POINTER, TYPE_U32])
    nap = Function.find(None, "usleep", TYPE_I32, [TYPE_U32])

    async def main() -> None:
        assert await aio.offload(power, 2.0, 0.5) == 2.0**0.5
        assert await aio.offload(crc32, 0, b"hello", 5) == 0x3610A686
        assert await aio.offload(Function.find(None, "free", TYPE_VOID, [TYPE_POINTER]), None) is None
        with pytest.raises(TypeError):
            await aio.offload(power, 1.0)
        begun = time.monotonic()
        naps = [asyncio.create_task(aio.offload(nap, 20_000)) for _ in range(3)]
        while not all(task.done() for task in naps):
            await aio.sleep(0.001)
        assert time.monotonic() - begun >= 0.02
        # One that runs is not cut short.
        assert await aio.offload(nap, 20_000, timeout=0.005) == 0
        waiting = asyncio.create_task(aio.offload(nap, 50_000))
        await aio.sleep(0.001)
        await cancelled(waiting)

    run(main)
