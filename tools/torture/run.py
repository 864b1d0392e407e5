# SPDX-License-Identifier: MIT OR Apache-2.0
"""Random cancels, deadlines, closes, aborts, ends and resets against ops in flight, with an account of every byte.

Each row is one language on one driver: what the cuts met (before, during or after their op's doing), bytes and
datagrams lost, doubled and wrong, and what was left over. A seed repeats a run's choices.

Examples: ./dev torture    ./dev torture --language c --count 40000 --driver epoll --seed 7
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]

from results import BUILD, Result  # noqa: E402
from services import find  # noqa: E402
from services import run as build  # noqa: E402

LANGUAGES = ("c", "python", "rust")
DRIVERS = ("uring-defer", "uring-coop", "uring-plain", "epoll")
OUTCOMES = ("before", "during", "after")
LEFT = ("lost", "doubled", "wrong", "fds_left", "buffers_left", "objects_left", "ops_left")
LEAST_SHARE = 0.05
# Interleavings of each language, all drivers together: of a whole run, and of that in ./dev test.
WHOLE = {"c": 1_000_000, "python": 100_000, "rust": 100_000}
SHORT = {"c": 80_000, "python": 5_000, "rust": 5_000}
SECONDS = 3000


def program_of(language: str) -> list[str]:
    if language == "c":
        return [str(Path(os.environ.get("QUOIT_BUILD", BUILD / "dev")) / "quoit-torture")]
    if language == "python":
        return [sys.executable, str(ROOT / "tests/torture/python/torture.py")]
    source = ROOT / "tests/torture/rust"
    build([find("cargo", "~/.cargo/bin"), "build", "--release", "--quiet"], source)
    target = Path(os.environ.get("CARGO_TARGET_DIR", source / "target"))
    return [str(target / "release/quoit-torture")]


def run(language: str, program: list[str], driver: str, count: int, seed: int, progress: bool) -> dict[str, Any]:
    command = [*program, "--driver", driver, "--count", str(count), "--seed", str(seed)]
    command += ["--progress"] if progress else []
    row: dict[str, Any] = {"language": language, "driver": driver, "seed": seed, "count": count}
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=None if progress else subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {**row, "rc": 1, "reason": f"not over after {SECONDS} s"}
    row["rc"] = done.returncode
    lines = done.stdout.strip().splitlines()
    if lines and lines[-1].startswith("{"):
        row.update(json.loads(lines[-1]))
    if done.returncode != 0 and "interleavings" not in row:
        row["reason"] = (done.stderr or "its error is above").strip()[-2000:]
    return row


def fault_of(row: dict[str, Any]) -> str:
    """What is wrong with a row, or nothing."""
    if "reason" in row:
        return str(row["reason"])
    if row.get("driver_ran") != row["driver"]:
        return f"the driver that ran is {row.get('driver_ran')}"
    if row["interleavings"] < row["count"]:
        return f"only {row['interleavings']} interleavings of {row['count']}"
    # Of C's too few on datagrams would not be seen among all.
    for kind, counts in (("", row), (" on datagrams", row.get("on_datagrams"))):
        if counts is None:
            continue
        total = sum(counts[name] for name in OUTCOMES)
        for name in OUTCOMES:
            if counts[name] <= LEAST_SHARE * total:
                return f"only {counts[name]} of {total}{kind} came {name} the op's doing: not above 5 %"
    left = [f"{row[name]} {name}" for name in LEFT if row[name]]
    return ", ".join(left)


def table(rows: list[dict[str, Any]]) -> str:
    head = ("language", "driver", "interleavings", *OUTCOMES, "lost", "doubled", "fds", "buffers", "seconds")
    lines = [head]
    for row in rows:
        shares = [f"{100 * row.get(name, 0) / max(row.get('interleavings', 0), 1):.1f} %" for name in OUTCOMES]
        numbers = [row.get(n, "-") for n in ("lost", "doubled", "fds_left", "buffers_left", "seconds")]
        lines.append((row["language"], row["driver"], row.get("interleavings", 0), *shares, *numbers))
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(str(v).ljust(w) for v, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def sums_of(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(row.get(name, 0) for row in rows) for name in ("interleavings", *OUTCOMES, *LEFT)}


def by_language(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    languages = dict.fromkeys(row["language"] for row in rows)
    return {name: sums_of([row for row in rows if row["language"] == name]) for name in languages}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./dev torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count", type=int, help="interleavings of each language, all drivers together (C 1000000, else 100000)"
    )
    parser.add_argument("--language", action="append", choices=LANGUAGES, help="only this one")
    parser.add_argument("--driver", action="append", choices=DRIVERS, help="only this one")
    parser.add_argument("--seed", type=int, default=1, help="repeats a run (1)")
    parser.add_argument("--short", action="store_true", help="some thousands of each, nothing is written")
    options = parser.parse_args()
    languages, drivers = options.language or list(LANGUAGES), options.driver or list(DRIVERS)
    counts = {name: options.count or (SHORT if options.short else WHOLE)[name] for name in languages}
    result = Result("./dev torture " + " ".join(sys.argv[1:]))
    programs = {name: program_of(name) for name in languages}
    jobs = [
        (name, programs[name], driver, -(-counts[name] // len(drivers))) for name in languages for driver in drivers
    ]
    with ThreadPoolExecutor(max(1, min(os.cpu_count() or 1, len(jobs)))) as pool:
        rows = list(pool.map(lambda job: run(*job, options.seed, not options.short), jobs))
    for row in rows:
        row["fault"] = fault_of(row)
        row["rc"] = row["rc"] or int(row["fault"] != "")
    print(table(rows))
    failed = [row for row in rows if row["rc"] != 0]
    for row in failed:
        print(f"torture: {row['language']} on {row['driver']} with seed {row['seed']}: {row['fault']}", file=sys.stderr)
    if not options.short:
        result.write("torture.json", seed=options.seed, **sums_of(rows), languages=by_language(rows), rows=rows)
    print(f"torture: {len(rows) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
