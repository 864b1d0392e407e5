# SPDX-License-Identifier: MIT OR Apache-2.0
"""What both services share: arguments, the signal that ends them, and the line they say goodbye with."""

import argparse
import json
import signal
from collections.abc import Callable, Iterator

import quoit

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
        farewell = {
            "language": "python",
            "driver": runtime.driver,
            **counters(),
            "stats": worker.stats(),
        }
        print(json.dumps(farewell), flush=True)
