# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes build/clean-root.json from what run.sh left in its folder: report.py FOLDER STARTED_AT SECONDS COMMAND..."""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import results  # noqa: E402


def words(path: Path) -> set[str]:
    return set(path.read_text().splitlines()) if path.is_file() else set()


def main() -> int:
    work, started, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    rows = []
    worst: dict[str, int | None] = {"demo": None, "test": None}
    for line in (work / "rows").read_text().splitlines():
        user, number, command, status, took = line.split()
        rows.append({"user": user, "round": int(number), "command": command, "rc": int(status), "seconds": int(took)})
        worst[command] = max(worst[command] or 0, int(status))
    users = sorted({str(row["user"]) for row in rows})
    brought = {user: words(work / f"{user}-after") - words(work / f"{user}-before") for user in users}
    document = {
        "commit": results.git("rev-parse", "HEAD") or "unknown",
        "command": " ".join(sys.argv[4:]),
        "started_at": started,
        "seconds": seconds,
        "demo_rc": worst["demo"],
        "test_rc": worst["test"],
        # What ./dev asked apt and pip for; packages_added counts what came with it.
        "installed": sorted(set().union(*(words(work / f"{user}-asked") for user in users))),
        "packages_added": {user: len(names) for user, names in brought.items()},
        "rows": rows,
    }
    (results.BUILD / "clean-root.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"clean-root: demo_rc {worst['demo']}, test_rc {worst['test']}, {seconds} s; build/clean-root.json")
    return 1 if any(row["rc"] for row in rows) or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
