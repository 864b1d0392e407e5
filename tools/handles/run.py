# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stale and foreign handles, a million of them, from each language: a clear error each time, and nothing crashes.

The C program runs under AddressSanitizer and UndefinedBehaviorSanitizer. Example: ./dev handles --tries 100000
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]

from results import BUILD, Result  # noqa: E402
from services import find  # noqa: E402

DRIVERS = ("uring", "epoll")
# Shares of the tries; Go's and Rust's tests take theirs on each rung they find.
SHARES = {"c": 0.7, "python": 0.1, "go": 0.1, "rust": 0.1}
RUNGS = 4


def sources() -> list[str]:
    return sorted(str(path) for folder in ("runtime", "capi/src") for path in (ROOT / folder).rglob("*.c"))


def build_c() -> Path:
    program = BUILD / "handles" / "handles"
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = [
        "-std=gnu17",
        "-D_GNU_SOURCE=",
        "-g",
        "-O1",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
    ]
    include = [f"-I{ROOT}/capi/include", f"-I{ROOT}/runtime"]
    program_source = str(ROOT / "tools/handles/handles.c")
    command = ["cc", *flags, *include, *sources(), program_source, "-o", str(program), "-luring", "-lffi", "-lpthread"]
    subprocess.run(command, check=True)
    return program


def run(language: str, driver: str, command: list[str], cwd: Path = ROOT, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=1500, check=False
    )
    row: dict[str, Any] = {"language": language, "driver": driver, "rc": done.returncode}
    last = done.stdout.strip().splitlines()[-1:] or [""]
    if last[0].startswith("{"):
        row.update(json.loads(last[0]))
    if done.returncode != 0:
        row["output"] = (done.stdout + done.stderr)[-2000:]
    return row


def all_rows(tries: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    program = str(build_c())
    python = str(ROOT / "tools/handles/handles.py")
    for seed, driver in enumerate(DRIVERS, 1):
        share = str(int(tries * SHARES["c"] / len(DRIVERS)) + 1)
        # The peers' sockets stay open to the end on purpose: only leaks of the library are of interest.
        rows.append(run("c", driver, [program, share, str(seed)], QUOIT_DRIVER=driver))
        share = str(int(tries * SHARES["python"] / len(DRIVERS)) + 1)
        rows.append(run("python", driver, [sys.executable, python, share, str(seed)], QUOIT_DRIVER=driver))
    each = int(tries * SHARES["go"] / RUNGS) + 1
    for language, folder, command in (
        ("go", "bindings/go", [find("go", "/usr/local/go/bin"), "test", "-count=1", "-run", "TestHandles", "."]),
        ("rust", "bindings/rust", [find("cargo", "~/.cargo/bin"), "test", "--quiet", "--test", "handles"]),
    ):
        row = run(language, "each", command, ROOT / folder, QUOIT_HANDLE_TRIES=str(each))
        rows.append({**row, "tries": each * RUNGS, "not_refused": 0 if row["rc"] == 0 else 1})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev handles", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tries", type=int, default=1_000_000, help="in all languages together (1000000)")
    options = parser.parse_args()
    result = Result("./dev handles " + " ".join(sys.argv[1:]))
    rows = all_rows(options.tries)
    for row in rows:
        print({key: value for key, value in row.items() if key != "output"}, flush=True)
        if row["rc"] != 0:
            print(row["output"], file=sys.stderr)
    total = sum(row.get("tries", 0) for row in rows)
    failed = sum(row["rc"] != 0 for row in rows)
    result.write("handles.json", tries=total, not_refused=sum(row.get("not_refused", 1) for row in rows), rows=rows)
    print(f"{total} tries; {len(rows) - failed} passed, {failed} failed")
    return 1 if failed or total < options.tries else 0


if __name__ == "__main__":
    sys.exit(main())
