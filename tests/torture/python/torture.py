# SPDX-License-Identifier: MIT OR Apache-2.0
"""Torture from Python: cancelled tasks, time-outs, closes, aborts, ends and resets against awaited calls of quoit.aio.

What became of a call is told by how it ended: before - the cut had its way, nothing had come about; during - the call
was cut in the middle, or was done although the cut had been asked for, or what it waited for is there for the next
one; after - it had ended before. Every byte, stream, datagram, descriptor and buffer is accounted for. Prints one JSON
object; a seed repeats the choices of a run. Example: torture.py --driver epoll --count 5000 --seed 7
"""

import argparse
import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from typing import Any

import quoit
from lanes import Lane
from ledger import OUTCOMES, Fault, Totals
from peers import open_fds
from post import Post
from quoit import aio

PER_WORLD = 2500
LEFT = ("fds_left", "buffers_left", "objects_left", "ops_left")
WRONG = ("lost", "doubled", "wrong", *LEFT)
# How long what is closing at the end of a world may take.
END_SECONDS = 20


class World:
    """A loop with a worker with random options, and its lanes."""

    def __init__(self, number: int, seed: int, goal: int, totals: Totals) -> None:
        self.number = number
        self.chance = random.Random(seed * 1000003 + number)
        self.goal = goal
        self.totals = totals
        self.began = totals.interleavings
        self.seeds = (seed * 65536 + number) * 65536

    @property
    def over(self) -> bool:
        return self.totals.interleavings - self.began >= self.goal

    def next_seed(self) -> int:
        self.seeds += 2
        return self.seeds

    def options(self) -> dict[str, Any]:
        chance = self.chance
        return {
            "events_max": chance.choice((1, 3, 16, 64, 256, 256)),
            "ops_max": chance.choice((16, 64, 256)),
            "recv_buffers": chance.choice((16, 64, 256)),
            "recv_buffer_size": chance.choice((256, 2048, 2048, 16384)),
            "ring_entries": chance.choice((0, 16, 64)),
        }

    def run(self, driver: str) -> None:
        fds = open_fds()
        with tempfile.TemporaryDirectory() as folder:
            if self.chance.random() < 0.5:
                quoit.run_async(self._main(driver, folder), driver=driver, **self.options())
            else:
                asyncio.run(self._hosted(driver, folder))
        gc.collect()
        self.totals.fds_left += open_fds() - fds
        self.totals.worlds += 1

    async def _hosted(self, driver: str, folder: str) -> None:
        async with aio.hosted(driver, **self.options()):
            await self._main(driver, folder)

    async def _main(self, driver: str, folder: str) -> None:
        host = aio.current()
        if host.runtime.driver != driver:
            raise Fault(f"the driver that runs is {host.runtime.driver}")
        reports: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        await aio.sleep(0.001)
        before = host.stats()
        lanes = self.chance.choice((4, 12, 24))
        kinds = [Post if self.chance.random() < 0.35 else Lane for _ in range(lanes)]
        async with asyncio.TaskGroup() as group:
            for number, kind in enumerate(kinds):
                group.create_task(kind(number, self, folder).run())
        deadline = time.monotonic() + END_SECONDS
        while any(self._left(host, before).values()) and time.monotonic() < deadline:
            await aio.sleep(0.001)
        for name, count in self._left(host, before).items():
            setattr(self.totals, name, getattr(self.totals, name) + count)
        if reports:
            raise Fault(f"the loop was told of {reports[0]}")

    def _left(self, host: aio.Host, before: dict[str, Any]) -> dict[str, int]:
        now = host.stats()
        buffers = now["buffers_total"] - now["buffers_free"] + now["leaked"]
        return {
            "buffers_left": buffers + now["buffers_kept"] + (now["send_bytes_queued"] != 0),
            "objects_left": max(0, now["objects_live"] - before["objects_live"]) + len(host.resources),
            # The waits for the time that this takes.
            "ops_left": max(0, now["ops_live"] - before["ops_live"]),
        }


def report(totals: Totals, driver: str, seed: int, seconds: float) -> dict[str, Any]:
    by: dict[str, list[int]] = {}
    for (subject, cut, outcome), count in sorted(totals.outcomes.items()):
        by.setdefault(f"{subject} by {cut}", [0, 0, 0])[outcome] = count
    sums = {name: sum(row[at] for row in by.values()) for at, name in enumerate(OUTCOMES)}
    numbers = {name: value for name, value in vars(totals).items() if isinstance(value, int)}
    return {"language": "python", "driver_ran": driver, "seed": seed, "by": by, **sums, **numbers,
            "seconds": round(seconds, 1)}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default="auto", choices=sorted(quoit.runtime.DRIVERS))
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", type=int, help="only this one of the run's worlds, to see a fault again")
    parser.add_argument("--progress", action="store_true", help="a line on standard error now and then")
    options = parser.parse_args()
    driver = options.driver
    if driver in ("auto", "uring"):
        with quoit.Runtime(driver) as runtime:
            driver = runtime.driver
    totals, began, number, said = Totals(), time.monotonic(), options.world or 0, time.monotonic()
    while totals.interleavings < options.count:
        try:
            World(number, options.seed, min(PER_WORLD, options.count - totals.interleavings), totals).run(driver)
        except BaseExceptionGroup as group:
            faults, others = group.split(Fault)
            if others is not None or faults is None:
                raise
            print(f"torture: {faults.exceptions[0]}", file=sys.stderr)
            print(f"torture: again with --driver {driver} --seed {options.seed} --world {number}", file=sys.stderr)
            return 1
        number += 1
        if options.progress and time.monotonic() - said > 5:
            said = time.monotonic()
            print(f"torture python {driver}: {totals.interleavings} of {options.count}", file=sys.stderr)
        if options.world is not None:
            break
    print(json.dumps(report(totals, driver, options.seed, time.monotonic() - began)))
    return int(any(getattr(totals, name) for name in WRONG))


if __name__ == "__main__":
    sys.exit(main())
