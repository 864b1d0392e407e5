# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the services share: arguments, the signal that ends them, and the line they say goodbye with."""

import argparse
import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from typing import Protocol

import quoit


class Closable(Protocol):
    def close(self) -> None: ...


OnBatch = Callable[[quoit.Worker, Iterator[quoit.Event]], object]


def arguments(*positional: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in positional:
        parser.add_argument(name)
    parser.add_argument(
        "--driver",
        default="auto",
        help="auto, uring, uring-defer, uring-coop, uring-plain or epoll",
    )
    parser.add_argument("--buffers", type=int, default=0, help="receive buffers that wait for data")
    parser.add_argument("--events", type=int, default=0, help="events in a batch")
    return parser.parse_args()


def goodbye(driver: str, stats: dict[str, object], **counters: int) -> None:
    """The last line of output: what the service did, as JSON."""
    farewell = {"language": "python", "driver": driver, **counters, "stats": stats}
    print(json.dumps(farewell), flush=True)


def close_on_signals(what: Closable) -> None:
    """Has SIGTERM and Ctrl-C close what an async service listens on."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, what.close)


def serve(
    args: argparse.Namespace,
    start: Callable[[quoit.Worker], OnBatch | None],
    counters: Callable[[], dict[str, int]],
) -> None:
    """Runs a worker until SIGTERM or Ctrl-C: `start` gives its batch callback, or none to use objects."""
    with (
        quoit.Runtime(args.driver) as runtime,
        runtime.worker(recv_buffers=args.buffers, events_max=args.events) as worker,
    ):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        worker.run(start(worker))
        goodbye(runtime.driver, worker.stats(), **counters())
