# SPDX-License-Identifier: MIT OR Apache-2.0
"""A UDP echo of async functions: `async_udp.py HOST:PORT [--driver D] [--buffers N] [--events N]`.

A datagram that was longer than there was room for is answered by its length alone.
"""

import quoit
import service
from quoit import aio


async def main() -> None:
    host = aio.current()
    messages = received = 0
    async with await aio.bind(args.address) as sock:
        service.close_on_signals(sock)
        print("listening on", sock.local, flush=True)
        async for datagram in sock:
            messages += 1
            received += datagram.length
            answer = str(datagram.length).encode() if datagram.truncated else datagram.data
            try:
                await sock.send_to(answer, datagram.peer)
            except quoit.Error as error:
                # One that cannot be answered, or the end.
                if not sock.closed:
                    print("no answer to", datagram.peer, error, flush=True)
    service.goodbye(host.runtime.driver, host.stats(), handler_messages=messages, handler_bytes=received)


if __name__ == "__main__":
    args = service.arguments("address")
    quoit.run_async(main(), driver=args.driver, recv_buffers=args.buffers, events_max=args.events)
