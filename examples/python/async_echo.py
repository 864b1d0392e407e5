# SPDX-License-Identifier: MIT OR Apache-2.0
"""A TCP echo of async functions: `async_echo.py HOST:PORT [--driver D] [--buffers N] [--events N]`.

The worker is the event loop: each round is one call into C, whatever it brings.
"""

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
    host = aio.current()
    async with await aio.listen(args.address) as listener:
        service.close_on_signals(listener)
        print("listening on", listener.address, flush=True)
        await listener.serve(echo, grace=1)
    service.goodbye(host.runtime.driver, host.stats(), handler_messages=messages, handler_bytes=received)


if __name__ == "__main__":
    args = service.arguments("address")
    quoit.run_async(main(), driver=args.driver, recv_buffers=args.buffers, events_max=args.events)
