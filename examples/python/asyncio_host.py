# SPDX-License-Identifier: MIT OR Apache-2.0
"""A worker as a guest of asyncio: `asyncio_host.py HOST:PORT [--driver D] [--buffers N] [--events N]`.

asyncio's loop runs, and the worker's listener answers in it. What a client sends goes on to a server of asyncio's own
and comes back, so each byte passes through both.
"""

import asyncio

import service
from quoit import aio

messages = received = 0
answering: set[asyncio.Task[None]] = set()


async def behind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The server of asyncio: an echo."""
    task = asyncio.current_task()
    assert task is not None
    answering.add(task)
    task.add_done_callback(answering.discard)
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def forward(source: aio.Stream, target: aio.Stream) -> None:
    global messages, received
    async for data in source:
        messages += 1
        received += len(data)
        await target.send_all(data)
    await target.send_eof()


async def back(source: aio.Stream, target: aio.Stream) -> None:
    async for data in source:
        await target.send_all(data)


async def main() -> None:
    server = await asyncio.start_server(behind, "127.0.0.1", 0)
    inner = "{}:{}".format(*server.sockets[0].getsockname())

    async def relay(client: aio.Stream) -> None:
        async with await aio.connect(inner) as inside, asyncio.TaskGroup() as group:
            group.create_task(forward(client, inside))
            group.create_task(back(inside, client))

    options = {"recv_buffers": args.buffers, "events_max": args.events}
    async with aio.hosted(args.driver, **options) as host, await aio.listen(args.address) as listener:
        service.close_on_signals(listener)
        print("listening on", listener.address, flush=True)
        await listener.serve(relay, grace=1)
        service.goodbye(host.runtime.driver, host.stats(), handler_messages=messages, handler_bytes=received)
    server.close()
    await asyncio.gather(*answering)


if __name__ == "__main__":
    args = service.arguments("address")
    asyncio.run(main())
