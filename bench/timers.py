# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a timer costs when 1,000,000 are armed, and what it costs among 1,000: arming, cancelling, expiring, memory.

Nanoseconds of the thread's own time for each, events taken; medians of interleaved rounds, and the ratio of the two.
The first arming is told by itself: it brings its memory with it. Memory is what it added to the process.

Examples: ./dev bench timers    ./dev bench timers --count 100000 --rounds 5
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools")]

from results import BUILD, Result  # noqa: E402

PROGRAM = Path(os.environ.get("QUOIT_BUILD", BUILD / "release")) / "quoit-bench-timers"
DRIVERS = ("uring", "epoll")
FEW = 1000
COSTS = ("arm_ns", "cancel_ns", "expire_ns")


def measure(driver: str, count: int, rounds: int) -> dict[str, float]:
    done = subprocess.run(
        [str(PROGRAM), str(count), str(rounds)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "QUOIT_DRIVER": driver},
    )
    told: dict[str, float] = json.loads(done.stdout)
    return told


def row_of(driver: str, count: int, measured: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"driver": driver, "count": count, "rounds": len(measured)}
    for name in ("first_ns", *COSTS, "bytes"):
        row[name] = statistics.median(one[name] for one in measured)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev bench timers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000_000, help="armed at once (1000000)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--driver", action="append", choices=DRIVERS, help="only this one")
    options = parser.parse_args()
    result = Result("./dev bench timers " + " ".join(sys.argv[1:]))
    rows = []
    try:
        for driver in options.driver or DRIVERS:
            few, many = [], []
            for _ in range(options.rounds):
                few.append(measure(driver, FEW, 200))
                many.append(measure(driver, options.count, 1))
            rows += [row_of(driver, FEW, few), row_of(driver, options.count, many)]
            rows[-1]["ratios"] = {name: round(rows[-1][name] / rows[-2][name], 2) for name in COSTS}
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"./dev bench timers: {error}: {getattr(error, 'stderr', '')}", file=sys.stderr)
        return 3
    print("driver      armed  first ns  arm ns  cancel ns  expire ns   bytes   ratio to 1,000: arm, cancel, expire")
    for row in rows:
        ratios = "  ".join(f"{ratio:.2f}" for ratio in row.get("ratios", {}).values())
        print(
            f"{row['driver']:<6} {row['count']:>10} {row['first_ns']:>9.0f} {row['arm_ns']:>7.0f}"
            f" {row['cancel_ns']:>10.0f} {row['expire_ns']:>10.0f} {row['bytes']:>7.0f}   {ratios}"
        )
    result.write("bench-timers.json", machine={"cpus": os.cpu_count(), "kernel": os.uname().release}, rows=rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
