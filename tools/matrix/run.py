#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The matrix: for each opcode every way it can end, on every rung and on epoll where io_uring is blocked.

The conformance list is run once for each place; every test writes down which cells it went through
(tests/support/cells.c). A cell that no passing list went through is missing, unless it cannot be and the table says
why. Writes build/matrix.json.
"""

import argparse
import collections
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import results  # noqa: E402
import table  # noqa: E402

BUILD = results.BUILD / "dev"
PROGRAM = BUILD / "quoit-conformance"
RUNGS = ("uring-defer", "uring-coop", "uring-plain", "epoll")
# The suite of ./dev test that runs the list there, how it is started, and the driver that must be the outcome.
PLACES: dict[str, tuple[list[str], dict[str, str], str]] = {
    rung: ([str(PROGRAM)], {"QUOIT_DRIVER": rung}, rung) for rung in RUNGS
} | {"seccomp-EPERM": ([str(BUILD / "quoit-launch-noring"), "EPERM", str(PROGRAM)], {}, "epoll")}
Cells = dict[tuple[int, str], str]


def run_list(place: str, file: Path) -> bool:
    """Runs the conformance list with its cells in the file; false when a test failed."""
    command, extra, _ = PLACES[place]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("QUOIT_")}
    print(f"matrix: running the conformance list on {place}", file=sys.stderr, flush=True)
    done = subprocess.run(command, env=env | extra | {"QUOIT_TEST_CELLS": str(file)}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=900, check=False)  # fmt: skip
    if done.returncode:
        print("\n".join(line for line in done.stdout.splitlines() if line.startswith("not ok")), file=sys.stderr)
    return done.returncode == 0


def read_cells(file: Path, driver: str) -> Cells:
    """Each cell and the first test that went through it; lines of another driver do not count."""
    cells: Cells = {}
    for line in file.read_text().splitlines():
        test, ran, opcode, case = line.split(" ", 3)
        if ran == driver:
            cells.setdefault((int(opcode), case), test)
    return cells


def gather(collected: bool) -> dict[str, Cells] | None:
    """The cells of every place; None when a list failed."""
    found: dict[str, Cells] = {}
    for place, (_, _, driver) in PLACES.items():
        file = results.BUILD / "test-logs" / f"conformance-{place}" / "cells"
        fresh = collected and file.is_file() and file.stat().st_mtime > PROGRAM.stat().st_mtime
        if not fresh:
            file = results.BUILD / "matrix" / place
            if not run_list(place, file):
                return None
        found[place] = read_cells(file, driver)
    return found


def judge(found: dict[str, Cells]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows of the matrix, and those that are missing."""
    rows, missing = [], []
    for op in table.read_ops():
        for case in table.cases(op):
            for place, cells in found.items():
                reason = table.cannot(op.name, case, place)
                test = cells.get((op.number, case))
                result = f"passed in {test}" if test else f"cannot be: {reason}" if reason else "missing"
                row = {"opcode": op.name, "case": case, "driver": place, "result": result}
                rows.append(row)
                if result == "missing":
                    missing.append(row)
    return rows, missing


def tell(rows: list[dict[str, str]], missing: list[dict[str, str]]) -> None:
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row["opcode"]][row["result"].split(" ")[0]] += 1
    print(f"{'opcode':<14}{'cells':>7}{'passed':>8}{'cannot':>8}{'missing':>9}")
    for opcode, count in counts.items():
        print(f"{opcode:<14}{count.total():>7}{count['passed']:>8}{count['cannot']:>8}{count['missing']:>9}")
    where: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for row in missing:
        where[row["opcode"], row["case"]].append(row["driver"])
    cannot = {(row["opcode"], row["case"]): row["result"] for row in rows if row["result"].startswith("cannot")}
    for (opcode, case), why in cannot.items():
        print(f"{opcode}, {case}: {why}")
    for (opcode, case), places in where.items():
        print(f"missing: {opcode}, {case}: {'everywhere' if len(places) == len(PLACES) else ', '.join(places)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev matrix", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="examples:\n  ./dev matrix\n  ./dev matrix --collected")  # fmt: skip
    parser.add_argument("--collected", action="store_true",
                        help="take the cells of the last ./dev test where they are newer than the build")  # fmt: skip
    chosen = parser.parse_args()
    if not PROGRAM.is_file():
        print(f"matrix: {PROGRAM} is not built: run ./dev matrix", file=sys.stderr)
        return 3
    result = results.Result("./dev matrix")
    found = gather(chosen.collected)
    if found is None:
        print("matrix: a test of the conformance list failed: nothing to judge", file=sys.stderr)
        return 1
    rows, missing = judge(found)
    tell(rows, missing)
    result.write("matrix.json", missing=missing, rows=rows)
    cannot = sum(row["result"].startswith("cannot") for row in rows)
    print(f"matrix: {len(rows) - len(missing) - cannot} passed, {len(missing)} failed")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
