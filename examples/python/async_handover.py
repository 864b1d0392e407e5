# SPDX-License-Identifier: MIT OR Apache-2.0
"""Connections that go to another process: `async_handover.py HOST:PORT [--driver D] [--buffers N] [--events N]`.

The front accepts, looks at the first bytes, and hands each connection over a Unix stream to a second process, with what
was read of it. That one makes it a stream of its own and is the echo; the front has nothing to do with it any more.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import quoit
import service
from quoit import aio


async def echo(stream: aio.Stream, unread: bytes) -> None:
    async with stream:
        await stream.send_all(unread)
        async for data in stream:
            await stream.send_all(data)


async def behind(path: str) -> None:
    """The second process: an echo for the connections that come, until the front ends."""
    async with await aio.connect(path, descriptors=True) as front, asyncio.TaskGroup() as echoes:
        while (parcel := await front.recv_fds(4)).data:
            # A descriptor comes with the first byte of its header: how much of the connection was read, and that.
            head = parcel.data + await front.recv_exactly(4 - len(parcel.data))
            unread = await front.recv_exactly(int.from_bytes(head, "big"))
            echoes.create_task(echo(await aio.adopt_stream(parcel.fds[0]), unread))
        await front.send(b"end")


async def hand_over(stream: aio.Stream, back: aio.Stream) -> None:
    try:
        first = await stream.recv(100)
        fd, unread = await stream.detach()
    except quoit.Error:
        stream.abort()  # gone before it could be handed over
        return
    try:
        known = first + unread
        await back.send_fd(len(known).to_bytes(4, "big") + known, fd)
    finally:
        os.close(fd)


async def main() -> None:
    host = aio.current()
    handed = 0
    with tempfile.TemporaryDirectory() as folder:
        inside = await aio.listen(f"unix:{Path(folder, 'handover')}")
        command = [sys.executable, __file__, inside.address, "--driver", host.runtime.driver]
        child = await asyncio.create_subprocess_exec(*command, env={**os.environ, "BEHIND": "1"})
        async with inside, await inside.accept() as back:
            async with await aio.listen(args.address) as listener, asyncio.TaskGroup() as handing:
                service.close_on_signals(listener)
                print("listening on", listener.address, flush=True)
                async for stream in listener:
                    handed += 1
                    handing.create_task(hand_over(stream, back))
            await back.send_eof()
            await back.recv_until(b"end")
        status = await child.wait()
    service.goodbye(host.runtime.driver, host.stats(), handed=handed, status=status)


if __name__ == "__main__":
    args = service.arguments("address")
    coroutine = behind(args.address) if "BEHIND" in os.environ else main()
    quoit.run_async(coroutine, driver=args.driver, recv_buffers=args.buffers, events_max=args.events)
