# SPDX-License-Identifier: MIT OR Apache-2.0
"""The JSON files under build/: one object each, with the commit, the command, when it began and how long it took."""

import datetime
import json
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"


def git(*arguments: str) -> str:
    """What git says about the checkout, whoever owns it; nothing outside of git."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


class Result:
    """Started when the work begins, written when it ends."""

    def __init__(self, command: str) -> None:
        self.start = time.monotonic()
        self.head: dict[str, object] = {
            "commit": git("rev-parse", "HEAD") or "unknown",
            "uncommitted_changes": bool(git("status", "--porcelain")),
            "command": command,
            "started_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }

    def write(self, name: str, **fields: object) -> Path:
        path = BUILD / name
        seconds = round(time.monotonic() - self.start, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**self.head, "seconds": seconds, **fields}, indent=1) + "\n")
        return path
