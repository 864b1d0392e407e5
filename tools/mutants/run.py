# SPDX-License-Identifier: MIT OR Apache-2.0
"""Breaks the core on purpose, one way at a time; the suite must notice each.

Examples: ./dev mutants    ./dev mutants --only "MORE is lost"    ./dev mutants --list
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/mutants")]

from mutations import MUTATIONS, Mutation  # noqa: E402
from results import BUILD, Result, git  # noqa: E402

TREE = BUILD / "mutants" / "tree"
OBJECTS = BUILD / "mutants" / "build"
DRIVERS = ("epoll", "uring-defer")
SUITE_SECONDS = 400


def shell(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, **more)


def copy_tree() -> None:
    """The tracked files of the checkout as they stand, so that the checkout itself is never touched."""
    shutil.rmtree(TREE, ignore_errors=True)
    names = git(
        "ls-files",
        "--",
        "CMakeLists.txt",
        "CMakePresets.json",
        "cmake",
        "capi",
        "runtime",
        "tests",
        "tools",
        "examples",
    )
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, TREE / name)  # with new times, so that all is compiled anew
    configure = ["cmake", "-S", str(TREE), "-B", str(OBJECTS), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    done = shell([*configure, "-DQUOIT_ASSERT=ON"])
    if done.returncode != 0:
        raise SystemExit(f"./dev mutants: configuring failed:\n{done.stdout}{done.stderr}")


def build() -> str:
    """Empty, or what the compiler said."""
    done = shell(["cmake", "--build", str(OBJECTS), "--target", "quoit-conformance"])
    return "" if done.returncode == 0 else done.stdout[-3000:] + done.stderr[-1000:]


def first_failure(driver: str) -> str:
    """Runs the suite on a driver up to the first test that fails; its line, or empty."""
    command = [str(OBJECTS / "quoit-conformance"), "--driver", driver]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "QUOIT_DRIVER": driver},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(SUITE_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            for line in process.stdout:
                if line.startswith("not ok"):
                    # Nothing more is to be learnt, and tests that hang would take their time.
                    os.killpg(process.pid, signal.SIGKILL)
                    return line.strip()
        finally:
            watchdog.cancel()
        return "" if process.wait() == 0 else f"the suite ended with {process.returncode}"


def suite() -> str:
    """How the suite noticed: a test's line, or empty when it passed everywhere."""
    for driver in DRIVERS:
        line = first_failure(driver)
        if line:
            return f"{driver}: {line}"
    return ""


def try_mutation(mutation: Mutation) -> dict[str, Any]:
    path = TREE / mutation.file
    original = path.read_text()
    row: dict[str, Any] = {"name": mutation.name, "file": mutation.file, "killed": False, "by": ""}
    if original.count(mutation.old) != 1:
        return {**row, "by": f"does not apply: the text stands {original.count(mutation.old)} times in the file"}
    try:
        path.write_text(original.replace(mutation.old, mutation.new))
        errors = build()
        if errors:
            return {**row, "by": f"does not compile: {errors}"}
        row["by"] = suite()
        row["killed"] = row["by"] != ""
        return row
    finally:
        path.write_text(original)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", choices=[m.name for m in MUTATIONS], metavar="NAME", help="one of them"
    )
    parser.add_argument("--list", action="store_true", help="their names")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{m.name}  ({m.file})" for m in MUTATIONS))
        return 0
    result = Result("./dev mutants " + " ".join(sys.argv[1:]))
    copy_tree()
    errors = build()
    if errors or (before := suite()):
        print(f"./dev mutants: the tree as it stands does not pass: {errors or before}", file=sys.stderr)
        return 3
    rows = []
    chosen = [m for m in MUTATIONS if not options.only or m.name in options.only]
    for number, mutation in enumerate(chosen, 1):
        row = try_mutation(mutation)
        rows.append(row)
        print(
            f"{number:2}/{len(chosen)} {'killed  ' if row['killed'] else 'SURVIVED'} {row['name']}: {row['by'][:160]}",
            flush=True,
        )
    killed = sum(row["killed"] for row in rows)
    survivors = [row["name"] for row in rows if not row["killed"]]
    result.write("mutants.json", total=len(rows), killed=killed, survivors=survivors, rows=rows)
    print(f"{killed} passed, {len(survivors)} failed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
