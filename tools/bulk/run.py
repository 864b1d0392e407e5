# SPDX-License-Identifier: MIT OR Apache-2.0
"""Many connections that each send and get back a large message: every byte, and no stall.

Examples: ./dev bulk    ./dev bulk --runs 2 --connections 1000 --driver epoll
"""

import argparse
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]

from demo import client  # noqa: E402
from results import Result  # noqa: E402
from services import DemoError, Service, build_clients  # noqa: E402

MIB = 1 << 20
DRIVERS = ("uring", "epoll")


def one_run(binary: Path, driver: str, connections: int, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"driver": driver, "run": number, "connections": connections, "rc": 1, "reason": ""}
    try:
        with Service("c", "echo", driver) as service:
            told = client(binary, service.port, connections, 100, 1, str(MIB))
            report = service.stop()
    except (DemoError, OSError, subprocess.TimeoutExpired) as error:
        return {**row, "reason": str(error)}
    whole = told["bytes"] == connections * MIB and told["mismatches"] == 0 and report["handler_bytes"] == told["bytes"]
    stats = report["stats"]
    return {
        **row,
        "rc": 0 if whole else 1,
        "driver_ran": report["driver"],
        "bytes_verified": told["bytes"],
        "mismatches": told["mismatches"],
        "run_seconds": told["seconds"],
        **{
            name: stats[name]
            for name in ("recv_nobufs", "sends_partial", "recv_paused", "cq_overflows", "system_calls")
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev bulk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=5000, help="5000")
    parser.add_argument("--runs", type=int, default=10, help="on each driver (10)")
    parser.add_argument("--driver", action="append", choices=DRIVERS, help="only this one")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < options.connections + 100:
        print(
            f"./dev bulk: {hard} open files are allowed; raise RLIMIT_NOFILE or lower --connections.", file=sys.stderr
        )
        return 3
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(options.connections + 100, hard)), hard))
    result = Result("./dev bulk " + " ".join(sys.argv[1:]))
    binary = build_clients()
    rows = []
    for number in range(1, options.runs + 1):
        for driver in options.driver or DRIVERS:
            row = one_run(binary, driver, options.connections, number)
            rows.append(row)
            print({key: value for key, value in row.items() if value != ""}, flush=True)
    failed = sum(row["rc"] != 0 for row in rows)
    result.write("bulk.json", rows=rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
