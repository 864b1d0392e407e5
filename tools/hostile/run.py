# SPDX-License-Identifier: MIT OR Apache-2.0
"""The echo service in restricted places: it must serve in each, and say why it runs as it does.

Examples: ./dev hostile    ./dev hostile --place seccomp-eperm --place nofile-64
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo"), str(ROOT / "tools/hostile")]

from container import ContainerError, container  # noqa: E402
from demo import client  # noqa: E402
from results import Result  # noqa: E402
from services import DemoError, Service, build_clients, native_build  # noqa: E402

SIZES = "1,100,10000,100000"
WORKERS = 4
DOCTOR_DRIVER = {0: "uring-defer", 10: "lesser rung", 11: "epoll"}


class Place:
    """How commands are started there, and what driver must be the outcome (None: either)."""

    def __init__(
        self, name: str, prefix: list[str], expect: str | None, connections: int = 20, services: int = 1
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.expect = expect
        self.connections = connections
        self.services = services


def launcher(name: str) -> str:
    return str(native_build() / f"quoit-launch-{name}")


def doctor(prefix: list[str]) -> tuple[int, dict[str, Any]]:
    command = [*prefix, str(native_build() / "quoit-doctor"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode not in DOCTOR_DRIVER:
        raise DemoError(f"quoit-doctor ended with {done.returncode}: {done.stdout}{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def reason_of(report: dict[str, Any]) -> str:
    refused = [f"{f['name']}: {f['reason']} {f['fix']}" for f in report["features"] if f["state"] == "refused"]
    return " | ".join(refused) or "nothing was refused: io_uring whole"


def serve(place: Place, binary: Path) -> dict[str, Any]:
    """Echoes through as many services at once as the place wants, each byte checked."""
    code, report = doctor(place.prefix)
    verified = 0
    ran: list[str] = []
    with contextlib.ExitStack() as stack:
        services = [stack.enter_context(Service("c", "echo", "", prefix=place.prefix)) for _ in range(place.services)]
        for service in services:
            verified += client(binary, service.port, place.connections, 60, 1, SIZES)["bytes"]
        ran = [service.stop()["driver"] for service in services]
    if place.expect is not None and any(driver != place.expect for driver in ran):
        raise DemoError(f"{place.name}: ran on {', '.join(ran)}; {place.expect} was expected")
    if place.expect == "epoll" and code != 11:
        raise DemoError(f"{place.name}: quoit-doctor ended with {code}, not with 11")
    return {
        "place": place.name,
        "driver_ran": ", ".join(ran),
        "doctor_rc": code,
        "reason": reason_of(report),
        "bytes_verified": verified,
        "rc": 0,
    }


@contextlib.contextmanager
def half_cpu() -> Iterator[list[str]]:
    """A cgroup worth half a CPU (v1 here, v2 where there is no v1); the prefix joins it and then runs the command."""
    v1 = Path("/sys/fs/cgroup/cpu")
    parent = v1 if (v1 / "cpu.cfs_quota_us").exists() else Path("/sys/fs/cgroup")
    group = Path(tempfile.mkdtemp(prefix="quoit-half-", dir=parent))
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text("50000")
        else:
            (group / "cpu.max").write_text("50000 100000")
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "half-cpu"]
    finally:
        group.rmdir()


def places() -> dict[str, Callable[[Path], dict[str, Any]]]:
    plain = [
        Place("seccomp-eperm", [launcher("noring"), "EPERM"], "epoll"),
        Place("seccomp-enosys", [launcher("noring"), "ENOSYS"], "epoll"),
        Place("memlock-0", [launcher("droplock"), "0"], "epoll"),
        Place("memlock-64k-x4", [launcher("droplock"), "65536"], None, services=WORKERS),
        Place("nofile-64", ["prlimit", "--nofile=64:64"], None, connections=30),
    ]
    made: dict[str, Callable[[Path], dict[str, Any]]] = {}
    for place in plain:
        made[place.name] = lambda binary, place=place: serve(place, binary)  # type: ignore[misc]

    def in_half_cpu(binary: Path) -> dict[str, Any]:
        with half_cpu() as prefix:
            row = serve(Place("half-cpu", prefix, None), binary)
            _, report = doctor(prefix)
        quota = [f for f in report["features"] if f["name"] == "cgroup_cpu"]
        if not quota or quota[0]["number"] != 500:
            raise DemoError(f"half-cpu: quoit-doctor did not see the quota: {quota}")
        return {**row, "reason": f"{quota[0]['reason']} {row['reason']}"}

    def in_docker(binary: Path) -> dict[str, Any]:
        with container() as prefix:
            return serve(Place("docker-stock-profile", prefix, "epoll"), binary)

    made["half-cpu"] = in_half_cpu
    made["docker-stock-profile"] = in_docker
    return made


def main() -> int:
    known = places()
    parser = argparse.ArgumentParser(
        prog="./dev hostile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--place", action="append", choices=list(known), help="only this one (may be given again)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("./dev hostile: limits, cgroups and containers need root. Run it with sudo.", file=sys.stderr)
        return 3
    result = Result("./dev hostile " + " ".join(sys.argv[1:]))
    binary = build_clients()
    rows: list[dict[str, Any]] = []
    for name in options.place or list(known):
        try:
            row = known[name](binary)
        except (DemoError, ContainerError, OSError, subprocess.SubprocessError) as error:
            row = {"place": name, "driver_ran": "", "reason": str(error), "bytes_verified": 0, "rc": 1}
        rows.append(row)
        print(
            f"{name:<22} rc {row['rc']}  {row['driver_ran']:<24} {row['bytes_verified']:>9} bytes  {row['reason']}",
            flush=True,
        )
    result.write("hostile.json", rows=rows)
    failed = sum(row["rc"] != 0 for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
