# SPDX-License-Identifier: MIT OR Apache-2.0
"""A TCP echo of async functions: `async_echo.py HOST:PORT [--driver D] [--buffers N] [--events N]`.

The worker is the event loop: each round is one call into C, whatever it brings.
"""

import asyncio
import json
import signal

import quoit
import service
from quoit import aio

messages = received = 0


async def echo(stream: aio.Stream) -> None:
    global messages, received
    async for data in stream:
        messages += 1
        received += len(data)
        await stream.send_all(data)


async def main() -> None:
    loop = asyncio.get_running_loop()
    host = aio.current()
    async with await aio.listen(args.address) as listener:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, listener.close)
        print("listening on", listener.address, flush=True)
        await listener.serve(echo, grace=1)
    farewell = {"language": "python", "driver": host.runtime.driver, "stats": host.stats()}
    counted = {"handler_messages": messages, "handler_bytes": received}
    print(json.dumps({**farewell, **counted}), flush=True)


if __name__ == "__main__":
    args = service.arguments("address")
    quoit.run_async(main(), driver=args.driver, recv_buffers=args.buffers, events_max=args.events)
