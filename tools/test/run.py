#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the test suites one after another, prints each one's closing line, and writes build/test.json.

A suite fails when a test fails, when it ends with an error, when it ran no test, or when another driver ran than
the one it is for. Whole outputs are kept in build/test-logs/SUITE/output.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import results  # noqa: E402
import suites  # noqa: E402
from outcome import Outcome, readable  # noqa: E402

LOGS = results.BUILD / "test-logs"
TAIL = 60


def take_interrupts() -> None:
    """A script that starts this program in its background has it ignore SIGINT, and all its children with it: some
    tests send themselves one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_command(command: list[str], suite: suites.Suite, env: dict[str, str], log: IO[str]) -> str:
    """Runs one command with its output in the log; returns what was wrong with its end, or an empty string."""
    log.write(f"$ {' '.join(command)}\n")
    log.flush()
    try:
        process = subprocess.Popen(command, cwd=suite.cwd, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror}"
    status = None
    try:
        status = process.wait(timeout=suite.timeout)
    except subprocess.TimeoutExpired:
        return f"{Path(command[0]).name} was ended after {suite.timeout} s"
    finally:
        # Also what a finished suite left running, and when this program itself is told to end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if status is None:
            process.wait()
    if status < 0:
        return f"{Path(command[0]).name} died of {signal.Signals(-status).name}"
    return f"{Path(command[0]).name} ended with {status}" if status else ""


def build(preset: str) -> str:
    """Configures and builds a preset; returns what was wrong. The preset dev is built by ./dev already."""
    folder = LOGS / f"build-{preset}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output").open("w") as log:
        for command in (["cmake", "--preset", preset], ["cmake", "--build", f"build/{preset}"]):
            if subprocess.run(command, cwd=results.ROOT, stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT, check=False).returncode:  # fmt: skip
                return f"{' '.join(command)} failed: {folder.relative_to(results.ROOT)}/output"
    return ""


def run_suite(suite: suites.Suite) -> Outcome:
    """Runs all commands of the suite; what else is wrong than failed tests is counted as one failure and said."""
    work = LOGS / suite.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    total = Outcome()
    if suite.lacking:
        total.skip(suite.name, suite.lacking)
        return total
    env = suites.environment() | suite.env | {"QUOIT_TEST_CELLS": str(work / "cells")}
    wrongs = []
    for number, command in enumerate(suite.commands):
        path = work / (f"output-{number}" if len(suite.commands) > 1 else "output")
        with path.open("w", errors="replace") as log:
            wrong = run_command(command, suite, env, log)
        part = suite.reader(path.read_text(errors="replace"), work)
        name = Path(command[-1]).name
        if part.passed + part.failed == 0:
            wrong = wrong or f"{name} ran no test"
        if wrong and not part.failed:
            part.failed = 1
        if part.failed:
            wrongs.append(f"{wrong or name + ': tests failed'}; the end of {path.relative_to(results.ROOT)}:")
            wrongs += readable(path.read_text(errors="replace"))[-TAIL:]
        total.add(part)
    if suite.driver and total.driver_ran != suite.driver:
        total.failed += 1
        wrongs.append(f"the driver that ran is {total.driver_ran}, it must be {suite.driver}")
    for line in wrongs:
        print(f"    {line}")
    return total


def closing_lines(suite: suites.Suite, found: Outcome) -> list[str]:
    """The suite's own closing lines; of many programs only a count is of use."""
    if len(suite.commands) > 1:
        return [f"{len(suite.commands)} programs"]
    return found.closing


def run_all(chosen: list[suites.Suite]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    built: dict[str, str] = {"dev": ""}
    for suite in chosen:
        start = time.monotonic()
        print(f"== {suite.name}", flush=True)
        if suite.preset not in built:
            built[suite.preset] = build(suite.preset)
        if wrong := built[suite.preset]:
            print(f"    {wrong}")
            found = Outcome(failed=1)
        else:
            found = run_suite(suite)
        seconds = round(time.monotonic() - start, 1)
        for line in closing_lines(suite, found):
            print(f"   {line}")
        for skip in found.skipped:
            print(f"   skipped {skip['name']}: {skip['reason']}")
        print(f"   {suite.name}: {found.passed} passed, {found.failed} failed, {len(found.skipped)} skipped"
              f" ({seconds} s)", flush=True)  # fmt: skip
        rows.append({"suite": suite.name, "language": suite.language, "driver_ran": found.driver_ran,
                     "sanitizer": suite.sanitizer, "passed": found.passed, "failed": found.failed,
                     "skipped": found.skipped, "seconds": seconds})  # fmt: skip
    return rows


def choose(arguments: argparse.Namespace) -> list[suites.Suite]:
    found = suites.all_suites()
    if arguments.only:
        names = [suite.name for suite in found]
        wanted: set[str] = set()
        for name in arguments.only:
            matching = [name] if name in names else [known for known in names if known.startswith(name)]
            if not matching:
                raise SystemExit(f"there is no suite {name}; there are: {' '.join(names)}")
            wanted.update(matching)
        return [suite for suite in found if suite.name in wanted]
    return [suite for suite in found if not (arguments.quick and suite.slow)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test", description="Run the test suites.")
    parser.add_argument("--only", metavar="SUITE", action="append", help="this suite, or all that begin so")
    parser.add_argument("--quick", action="store_true", help="without sanitizers and other slow suites")
    parser.add_argument("--list", action="store_true", help="name the suites")
    arguments = parser.parse_args()
    take_interrupts()
    try:
        chosen = choose(arguments)
    except SystemExit as error:
        print(f"./dev test: {error}", file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(suite.name for suite in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    result = results.Result(" ".join(["./dev test", *sys.argv[1:]]))
    rows = run_all(chosen)
    passed = sum(row["passed"] for row in rows)
    failed = sum(row["failed"] for row in rows)
    skipped = sum(len(row["skipped"]) for row in rows)
    path = result.write("test.json", rows=rows)
    bad = [str(row["suite"]) for row in rows if row["failed"]]
    if bad:
        print(f"FAILED: {' '.join(bad)}")
    print(f"{len(rows)} suites: {passed} passed, {failed} failed, {skipped} skipped; {path.relative_to(results.ROOT)}")
    return 1 if failed else 0 if passed else 3


if __name__ == "__main__":
    sys.exit(main())
