#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ends a service of slow answers under load with SIGTERM, with a grace and without. Writes build/drain.json.

Then replaces it under load, five times: no client may notice.

400 clients have sent their request when the signal comes, while others connect and ask all the time. With a grace
every one of the 400 is answered; without one, the service tells how many it cut off, and they were not answered.

Examples: ./dev drain    ./dev drain --requests 100 --driver epoll
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import results  # noqa: E402

SERVICE = results.BUILD / "dev/quoit-example-slow"
DRIVERS = ("uring-defer", "uring-coop", "uring-plain", "epoll")
PATIENCE = 60.0
DELAY_MS = 1000
LOADERS = 20
RESTARTS = 5


class DrainError(Exception):
    """The service did not do what it must."""


@dataclass
class Count:
    answered: int = 0
    lost: int = 0  # connected, and no answer came
    refused: int = 0  # nobody listens any more


async def request(port: int, count: Count, asked: asyncio.Semaphore | None = None) -> bool:
    """One connection, one request. False when nobody listens any more."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        count.refused += 1
        return False
    try:
        writer.write(b"do it")
        await writer.drain()
        if asked is not None:
            asked.release()
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    count.answered += answer == b"done"
    count.lost += answer != b"done"
    return True


async def load(port: int, count: Count, over: asyncio.Event | None = None) -> None:
    while (over is None or not over.is_set()) and await request(port, count):
        pass


async def said(service: asyncio.subprocess.Process, beginning: str) -> str:
    """The next line that begins so, of whichever process of the service; what comes before passes by."""
    assert service.stdout is not None
    while line := (await asyncio.wait_for(service.stdout.readline(), PATIENCE)).decode():
        if line.startswith(beginning):
            return line.removeprefix(beginning).strip()
    raise DrainError(f"the service ended before it said {beginning!r}")


async def start(driver: str, grace_ms: int, delay_ms: int = DELAY_MS) -> tuple[asyncio.subprocess.Process, int]:
    env = os.environ | {"QUOIT_DRIVER": driver}
    service = await asyncio.create_subprocess_exec(
        str(SERVICE), "127.0.0.1:0", str(grace_ms), str(delay_ms), stdout=asyncio.subprocess.PIPE, env=env)  # fmt: skip
    return service, int((await said(service, "listening on ")).rsplit(":", 1)[1])


async def end(service: asyncio.subprocess.Process) -> tuple[dict[str, Any], int]:
    """SIGTERM, and what the service said: its report, and how many connections it had when the drain began."""
    assert service.stdout is not None
    service.send_signal(signal.SIGTERM)
    lines = (await asyncio.wait_for(service.stdout.read(), PATIENCE)).decode().splitlines()
    if await service.wait() != 0:
        raise DrainError(f"the service ended with {service.returncode}")
    report: dict[str, Any] = json.loads(lines[-1])
    return report, int(lines[0].split()[1])


async def scenario(driver: str, grace_ms: int, requests: int) -> dict[str, Any]:
    service, port = await start(driver, grace_ms)
    held, others = Count(), Count()
    try:
        asked = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(request(port, held, asked)) for _ in range(requests)]
        loaders = [asyncio.create_task(load(port, others)) for _ in range(LOADERS)]
        for _ in range(requests):
            await asyncio.wait_for(asked.acquire(), PATIENCE)
        report, connections = await end(service)
        await asyncio.wait_for(asyncio.gather(*tasks, *loaders), PATIENCE)
    finally:
        if service.returncode is None:
            service.kill()
            await service.wait()
    return {
        "driver": driver,
        "grace_ms": grace_ms,
        "requests": requests,
        "answered": held.answered,
        "load_answered": others.answered,
        "load_lost": others.lost,
        "connections_at_drain": connections,
        "told_cut": report["cut"],
        "in_time": report["in_time"],
    }


async def restarts(driver: str) -> dict[str, Any]:
    """Replaced again and again while clients ask; the last one is ended when they have stopped."""
    service, port = await start(driver, 30000, 50)
    count, over = Count(), asyncio.Event()
    pid = service.pid
    loaders = [asyncio.create_task(load(port, count, over)) for _ in range(LOADERS)]
    try:
        for _ in range(RESTARTS):
            answered = count.answered
            os.kill(pid, signal.SIGHUP)
            pid = int(await said(service, "pid "))
            await said(service, '{"answered":')  # the one before has ended
            while count.answered < answered + LOADERS and not all(loader.done() for loader in loaders):
                await asyncio.sleep(0.01)  # the new one answers
        over.set()
        await asyncio.wait_for(asyncio.gather(*loaders), PATIENCE)
    finally:
        os.kill(pid, signal.SIGTERM)
    assert service.stdout is not None
    await asyncio.wait_for(service.stdout.read(), PATIENCE)  # its end: all of them have ended
    await service.wait()
    return {
        "driver": driver,
        "restarts": RESTARTS,
        "answered": count.answered,
        "lost": count.lost,
        "refused": count.refused,
    }


def judge(row: dict[str, Any]) -> str:
    """Empty when the scenario went as it must."""
    if row["grace_ms"]:
        if row["answered"] != row["requests"] or row["told_cut"] or not row["in_time"]:
            return f"{row['answered']} of {row['requests']} answered, {row['told_cut']} cut off"
        return ""
    lost = row["requests"] - row["answered"] + row["load_lost"]
    if row["told_cut"] == 0 or row["told_cut"] > lost or row["in_time"]:
        return f"{row['told_cut']} cut off were told, {lost} requests were not answered"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--driver", choices=DRIVERS, action="append", help="one or more instead of all")
    args = parser.parse_args()
    result = results.Result("./dev drain")
    rows: list[dict[str, Any]] = []
    restarted: list[dict[str, Any]] = []
    failed = 0
    print(f"{'driver':12} {'grace':>8} {'answered':>12} {'cut off':>8} {'load: answered':>15} {'lost':>5}")
    for driver in args.driver or DRIVERS:
        for grace_ms in (30000, 0):
            row = asyncio.run(scenario(driver, grace_ms, args.requests))
            wrong = judge(row)
            rows.append(row | {"ok": not wrong})
            failed += bool(wrong)
            answered = f"{row['answered']}/{row['requests']}"
            print(f"{driver:12} {grace_ms:6} ms {answered:>12} {row['told_cut']:8} {row['load_answered']:15} "
                  f"{row['load_lost']:5}  {wrong}", flush=True)  # fmt: skip
    for driver in args.driver or DRIVERS:
        row = asyncio.run(restarts(driver))
        missed = bool(row["lost"] or row["refused"])
        restarted.append(row | {"ok": not missed})
        failed += missed
        print(f"{driver:12} {row['restarts']} restarts: {row['answered']} answered, {row['lost']} lost, "
              f"{row['refused']} refused", flush=True)  # fmt: skip
    result.write("drain.json", rows=rows, restarts=restarted)
    print(f"drain: {len(rows) + len(restarted) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
