#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the conformance tests on Debian's kernels 5.10, 6.1, 6.12 and the newest one, in machines of qemu's without KVM.

On each kernel every rung that quoit finds there, and epoll, is run; what a kernel lacks is told with the kernel's own
reason. Writes build/kernels.json; the outputs are in build/kernels/. Slow: an hour and more for the whole list.

Examples: ./dev kernels --kernel 5.10    ./dev kernels --filter timers
"""

import argparse
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "test")]

import results  # noqa: E402
from archive import Archive, ArchiveError  # noqa: E402
from guest import Guest  # noqa: E402
from outcome import DRIVERS, read_lines  # noqa: E402

WORK = results.BUILD / "kernels"
KERNELS = {
    "5.10": ["bullseye"],
    "6.1": ["bookworm"],
    "6.12": ["bookworm-backports"],
    "newest": ["trixie-backports", "sid"],
}
FAILED = re.compile(r"^not ok \d+ - (\S+) \(", re.M)


@dataclass
class KnownFailure:
    """A test that cannot pass on some kernels, and what of the kernel makes it so."""

    kernel: str
    rung: str
    test: str
    reason: str


EXCEPTIONS: list[KnownFailure] = []


def excuse(kernel: str, rung: str, test: str) -> str:
    for one in EXCEPTIONS:
        if one.kernel == kernel and one.rung in ("", rung) and one.test == test:
            return one.reason
    return ""


def look(guest: Guest, kernel: str, image: Path) -> dict[str, Any]:
    """What quoit-doctor says there."""
    ended = guest.run(image, ["/quoit-doctor", "--json"], WORK / f"{kernel}-doctor.log", 180)
    start, end = ended.text.find("{"), ended.text.rfind("}")
    if start < 0 or ended.status is None:
        raise ArchiveError(f"the guest with {kernel} said nothing of use: {ended.text[-400:]}")
    found: dict[str, Any] = json.loads(ended.text[start : end + 1])
    return found


def test(guest: Guest, kernel: str, image: Path, rung: str, options: argparse.Namespace) -> dict[str, Any]:
    command = ["/quoit-conformance", "--driver", rung, "--expect-driver", rung, "--seconds", str(options.seconds)]
    if options.filter:
        command += ["--filter", options.filter]
    ended = guest.run(image, command, WORK / f"{kernel}-{rung}.log", options.limit)
    found = read_lines(ended.text, WORK)
    failed = FAILED.findall(ended.text)
    excused = {name: reason for name in failed if (reason := excuse(kernel, rung, name))}
    wrong = "" if ended.status is not None else "the guest did not come to its end"
    if not wrong and found.passed + found.failed == 0:
        wrong = "no test ran"
    return {"kernel": kernel, "rung": rung, "passed": found.passed, "failed": max(found.failed, len(failed)) -
            len(excused), "failures": [name for name in failed if name not in excused], "exceptions": excused,
            "skipped": found.skipped, "seconds": ended.seconds, "wrong": wrong}  # fmt: skip


def rungs(report: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """The rungs that can be had, and why the others cannot."""
    entries = {entry["name"]: entry for entry in report["features"]}
    lacking = {name: entries[name]["reason"] for name in DRIVERS if entries[name]["state"] == "refused"}
    return [name for name in DRIVERS if name not in lacking], lacking


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'kernel':<8} {'version':<22} {'rung':<12} {'passed':>6} {'failed':>6} {'skipped':>7} {'seconds':>8}")
    for row in rows:
        print(f"{row['kernel']:<8} {row['version']:<22} {row['rung']:<12} {row['passed']:>6} {row['failed']:>6}"
              f" {len(row['skipped']):>7} {row['seconds']:>8}  {row['wrong']}")  # fmt: skip


def one_kernel(guest: Guest, archive: Archive, kernel: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    image, version, suite = archive.kernel(KERNELS[kernel])
    print(f"{kernel}: {version} of {suite}", flush=True)
    report = look(guest, kernel, image)
    having, lacking = rungs(report)
    for name, why in lacking.items():
        print(f"  no {name}: {why}")
    rows = []
    for rung in having:
        if options.rung and rung not in options.rung:
            continue
        row = {"version": version, "driver_by_choice": report["driver"], "lacking": lacking,
               **test(guest, kernel, image, rung, options)}  # fmt: skip
        rows.append(row)
        print(f"  {rung}: {row['passed']} passed, {row['failed']} failed, {len(row['skipped'])} skipped"
              f" ({row['seconds']} s) {row['wrong']}", flush=True)  # fmt: skip
        for name in row["failures"]:
            print(f"    failed: {name}")
        for name, reason in row["exceptions"].items():
            print(f"    cannot pass: {name}: {reason}")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev kernels", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--kernel", action="append", choices=KERNELS, help="only this one")
    parser.add_argument("--rung", action="append", choices=DRIVERS, help="only this one")
    parser.add_argument("--filter", help="only tests whose name holds this")
    parser.add_argument("--seconds", type=int, default=120, help="a test may take so long (120)")
    parser.add_argument("--limit", type=int, default=5400, help="one rung on one kernel may take so long (5400)")
    parser.add_argument("--build", type=Path, default=results.BUILD / "dev", help="where the programs are")
    options = parser.parse_args()
    lacking = [tool for tool in ("qemu-system-x86_64", "apt-get", "dpkg-deb", "gcc") if not shutil.which(tool)]
    if lacking:
        print(f"./dev kernels: there is no {', '.join(lacking)} here; it needs a Debian and qemu-system-x86")
        return 3
    WORK.mkdir(parents=True, exist_ok=True)
    result = results.Result(" ".join(["./dev kernels", *sys.argv[1:]]))
    rows: list[dict[str, Any]] = []
    broken: list[str] = []
    try:
        archive = Archive(WORK / "apt", sorted({suite for suites in KERNELS.values() for suite in suites}))
        guest = Guest(WORK, [options.build / "quoit-conformance", options.build / "quoit-doctor"])
    except (ArchiveError, OSError) as error:
        print(f"./dev kernels: {error}", file=sys.stderr)
        return 3
    for kernel in options.kernel or list(KERNELS):
        try:
            rows += one_kernel(guest, archive, kernel, options)
        except (ArchiveError, OSError, ValueError) as error:
            broken.append(f"{kernel}: {error}")
            print(f"  {error}")
        result.write("kernels.json", filter=options.filter or "", broken=broken, rows=rows)
    show(rows)
    passed = sum(row["passed"] for row in rows)
    failed = sum(row["failed"] + bool(row["wrong"]) for row in rows) + len(broken)
    print(f"kernels: {passed} passed, {failed} failed, {sum(len(row['skipped']) for row in rows)} skipped")
    return 1 if failed else 0 if passed else 3


if __name__ == "__main__":
    sys.exit(main())
