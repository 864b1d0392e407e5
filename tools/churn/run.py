# SPDX-License-Identifier: MIT OR Apache-2.0
"""Connections opened and closed by the hundred thousand, the client killed again and again: nothing stays behind.

A server and a client, two processes. After each client, killed or not, the server's descriptors, objects, operations
and buffers must be back at what they were when it was idle, and its memory must not grow. Then 10,000 connections are
held at once and served.

Examples: ./dev churn    ./dev churn --connections 30000 --driver epoll
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools")]

from results import BUILD, Result  # noqa: E402

RAN = {"uring-defer": 2, "uring-coop": 3, "uring-plain": 4, "epoll": 5}  # QUOIT_DRIVER_*
DRIVERS = tuple(RAN)
FOLDER = Path(os.environ.get("QUOIT_BUILD", BUILD / "dev"))
SECONDS = 60  # for the server to become idle again, or for the client's next line
MIB = 1 << 20
# Memory may rise with the fullest moment so far, which differs from part to part; what each connection loses adds up.
GROWTH = 2 * MIB
GROWTH_EACH = 32


class ChurnError(Exception):
    """A sentence about what went wrong."""


class Server:
    def __init__(self, driver: str) -> None:
        self.process = subprocess.Popen(
            [str(FOLDER / "quoit-churn-server")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "QUOIT_DRIVER": driver},
        )
        head = self.line()
        self.port = int(head["port"])
        if head["driver"] != RAN[driver]:
            raise ChurnError(f"driver {head['driver']} ran, not {driver}")

    def line(self) -> dict[str, int]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise ChurnError(f"the server ended with {self.process.wait()}")
        found: dict[str, int] = json.loads(text)
        return found

    def stats(self) -> dict[str, int]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def idle(self, base: dict[str, int]) -> dict[str, int]:
        """Waits until every connection is gone; what then is there besides the counts of what was done."""
        deadline = time.monotonic() + SECONDS
        while True:
            now = self.stats()
            same = all(now[name] == base[name] for name in ("fds", "objects", "ops"))
            if same and now["owed"] == 0 and now["buffers_free"] == now["buffers_total"]:
                return now
            if time.monotonic() > deadline:
                raise ChurnError(f"after {SECONDS} s the server has {now}, idle it had {base}")
            time.sleep(0.05)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.process.wait(timeout=SECONDS) != 0:
            raise ChurnError(f"the server ended with {self.process.returncode}")


def client(*arguments: object) -> subprocess.Popen[str]:
    command = [str(FOLDER / "quoit-churn-client"), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def opened_by(process: subprocess.Popen[str], least: int) -> int:
    """Reads the client's lines until it has opened so many; how many it has."""
    assert process.stdout is not None
    for line in process.stdout:
        word, number = line.split()
        if word == "opened" and int(number) >= least:
            return int(number)
    raise ChurnError(f"the client ended with {process.wait()} before it had opened {least}")


def churn_part(server: Server, count: int, at_once: int, kill: bool) -> None:
    process = client("churn", server.port, count, at_once)
    try:
        if kill:
            opened_by(process, count - at_once // 2)
            process.send_signal(signal.SIGKILL)
            process.wait()
        elif (process.communicate(timeout=1200), process.returncode)[1] != 0:
            raise ChurnError(f"the client ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def hold(server: Server, count: int) -> dict[str, int]:
    process = client("hold", server.port, count)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().split()
        if line != ["served", str(count)]:
            raise ChurnError(f"the client that holds {count} connections said {' '.join(line)!r}")
        held = server.stats()
        process.communicate(timeout=SECONDS)
        return held
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def run(driver: str, options: argparse.Namespace) -> dict[str, Any]:
    row: dict[str, Any] = {"driver": driver, "rc": 1, "reason": "", "kills": options.kills, "idle": []}
    start = time.monotonic()
    server = Server(driver)
    try:
        base = server.stats()
        row["base"] = base
        parts = options.kills + 1
        for part in range(parts):
            # Enough beyond the share for what a killed client did not open.
            churn_part(server, options.connections // parts + options.at_once, options.at_once, part < options.kills)
            row["idle"].append(server.idle(base))
        row["connections"] = row["idle"][-1]["accepts"]
        row["held"] = hold(server, options.hold)["objects"] - base["objects"]
        row["after_hold"] = server.idle(base)
        server.stop()
        grown = row["idle"][-1]["rss"] - row["idle"][0]["rss"]
        row["rss_grown"] = grown
        later = row["connections"] - row["idle"][0]["accepts"]
        if grown > max(GROWTH, GROWTH_EACH * later):
            row["reason"] = f"memory grew by {grown} bytes from the first idle moment to the last"
        elif row["connections"] < options.connections:
            row["reason"] = f"only {row['connections']} connections"
        elif row["held"] < options.hold:
            row["reason"] = f"only {row['held']} connections were held"
        elif any(idle["leaked"] or idle["buffers_kept"] for idle in row["idle"]):
            row["reason"] = "buffers were leaked or are kept"
        row["rc"] = 1 if row["reason"] else 0
    except (ChurnError, OSError, subprocess.TimeoutExpired) as error:
        row["reason"] = str(error)
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    row["seconds"] = round(time.monotonic() - start, 1)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev churn", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=250_000, help="on each driver (250000)")
    parser.add_argument("--at-once", type=int, default=5000, help="5000")
    parser.add_argument("--kills", type=int, default=6, help="of the client, at its fullest (6)")
    parser.add_argument("--hold", type=int, default=10_000, help="connections held at the end (10000)")
    parser.add_argument("--driver", action="append", choices=DRIVERS, help="only this one")
    parser.add_argument("--short", action="store_true", help="5000 connections and one kill; nothing is written")
    options = parser.parse_args()
    if options.short:
        options.connections, options.at_once, options.kills, options.hold = 5000, 500, 1, 500
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    need = max(options.hold, options.at_once) + 100
    if hard != resource.RLIM_INFINITY and hard < need:
        print(f"./dev churn: {hard} open files are allowed, {need} are needed: raise RLIMIT_NOFILE.", file=sys.stderr)
        return 3
    result = Result("./dev churn " + " ".join(sys.argv[1:]))
    rows = [run(driver, options) for driver in options.driver or DRIVERS]
    for row in rows:
        last = row["idle"][-1] if row["idle"] else {}
        print(
            f"{row['driver']:11} {row.get('connections', 0)} connections, {options.at_once} at once,"
            f" {row['kills']} kills; fds {row.get('base', {}).get('fds')} -> {last.get('fds')},"
            f" memory {row.get('rss_grown', 0) / MIB:+.2f} MiB;"
            f" held {row.get('held', 0)}; {row['seconds']} s {row['reason']}",
            flush=True,
        )
    failed = sum(row["rc"] != 0 for row in rows)
    if not options.short:
        result.write("churn.json", at_once=options.at_once, rows=rows)
    print(f"churn: {len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
