# SPDX-License-Identifier: MIT OR Apache-2.0
"""Echo of 64 bytes in each language on each driver: server on one core, a client that never sleeps on the other.

Two lines each: saturated (50 connections) and one connection, where a tick serves one request and costs a call. Rounds
are interleaved; medians are printed with the spread. Compare within one run only.

Examples: ./dev bench    ./dev bench --rounds 7 --language c    ./dev bench --seconds 1
"""

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]

from demo import client  # noqa: E402
from results import Result  # noqa: E402
from services import LANGUAGES, DemoError, Service, build_clients, build_go, build_rust  # noqa: E402

DRIVERS = ("uring", "epoll")
LOADS = {"saturated": 50, "one connection": 1}
TICK = os.sysconf("SC_CLK_TCK")
Key = tuple[str, str, str]


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def pinned(cpu: int) -> list[str]:
    return ["taskset", "-c", str(cpu)] if (os.cpu_count() or 1) > 1 else []


def to_the_front(pid: int) -> None:
    """Out of the shadow of other login groups, where the scheduler groups them and we may."""
    path = Path(f"/proc/{pid}/autogroup")
    if path.exists() and os.geteuid() == 0:
        path.write_text("-20")


def measure(binary: Path, language: str, driver: str, connections: int, seconds: int) -> dict[str, float]:
    with Service(language, "echo", driver, prefix=pinned(0)) as service:
        to_the_front(service.process.pid)
        before = cpu_seconds(service.process.pid)
        told = client(binary, service.port, connections, seconds, 0, "64", "busy", prefix=pinned(1))
        used = cpu_seconds(service.process.pid) - before
        report = service.stop()
    requests = told["messages"]
    return {
        "requests_per_s": requests / told["seconds"],
        "cpu_us": used * 1e6 / requests,
        "syscalls_per_request": report["stats"]["system_calls"] / requests,
        "crossings_per_request": report["stats"]["crossings"] / requests,
        "p50_us": told["p50_us"],
        "p99_us": told["p99_us"],
    }


def summary(key: Key, rounds: list[dict[str, float]]) -> dict[str, Any]:
    load, language, driver = key
    row: dict[str, Any] = {
        "workload": f"echo 64 B, {load}",
        "language": language,
        "driver": driver,
        "rounds": len(rounds),
    }
    for name in rounds[0]:
        row[name] = round(statistics.median(r[name] for r in rounds), 4)
    rates = [r["requests_per_s"] for r in rounds]
    row["spread"] = round((max(rates) - min(rates)) / row["requests_per_s"], 3)
    return row


def show(rows: list[dict[str, Any]]) -> None:
    print(
        "\nworkload                   language driver  requests/s  CPU us  calls/req  crossings/req"
        "   p50 us   p99 us spread"
    )
    for r in rows:
        print(
            f"{r['workload']:<26} {r['language']:<8} {r['driver']:<6} {r['requests_per_s']:>11.0f} {r['cpu_us']:>7.2f}"
            f" {r['syscalls_per_request']:>10.3f} {r['crossings_per_request']:>14.3f} {r['p50_us']:>8.1f}"
            f" {r['p99_us']:>8.1f} {r['spread']:>6.0%}{' wide' if r['spread'] >= 0.1 else ''}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", action="append", choices=LANGUAGES, help="only this one (may be given again)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement (2)")
    options = parser.parse_args()
    languages = options.language or list(LANGUAGES)
    result = Result("./dev bench " + " ".join(sys.argv[1:]))
    measured: dict[Key, list[dict[str, float]]] = {}
    try:
        binary = build_clients()
        if "go" in languages:
            build_go()
        if "rust" in languages:
            build_rust()
        for number in range(options.rounds):
            for load, connections in LOADS.items():
                for language in languages:
                    for driver in DRIVERS:
                        one = measure(binary, language, driver, connections, options.seconds)
                        measured.setdefault((load, language, driver), []).append(one)
            print(f"round {number + 1} of {options.rounds} done", flush=True)
    except (DemoError, OSError) as error:
        print(f"./dev bench: {error}", file=sys.stderr)
        return 3
    rows = [summary(key, rounds) for key, rounds in measured.items()]
    show(rows)
    result.write("bench.json", machine={"cpus": os.cpu_count(), "kernel": os.uname().release}, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
