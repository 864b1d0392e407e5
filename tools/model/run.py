#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Searches every state of tests/model/wake.pml with spin: no lost wake, nothing lost, doubled or out of order, no
deadlock, nothing that goes round for ever.

Then breaks the model in each way that it knows: every FAULT_* must be found and no SAME_* may be. Writes
build/model.json with the number of states of each search.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import results  # noqa: E402

MODEL = results.ROOT / "tests/model/wake.pml"
SECONDS = 240
DEPTH = 100_000
# How the worker sleeps, on which kind of ring, and what happens to it.
WHOLE = [
    "PARKED DEFER",
    "PARKED POSTS=2 COMPLETIONS=0",
    "PARKED COMPLETIONS=0 STOP",
    "PARKED COMPLETIONS=2 EVENTS_MAX=2",
    "LEVEL DEFER",
    "EDGE DEFER",
    "EDGE COMPLETIONS=0 STOP",
    "NETPOLL",
    "MIXED COMPLETIONS=0",
    "PARKED COMPLETIONS=0 NUDGE",
    "EDGE COMPLETIONS=0 NUDGE",
]
# The same in search of cycles: the worker must not go round without end.
CYCLES = ["PARKED", "LEVEL", "EDGE COMPLETIONS=0", "NETPOLL COMPLETIONS=0"]
FAULTS = [
    ("SLEEPING_LATE", "PARKED", "the mailbox is looked at before the worker says that it sleeps"),
    ("SLEEPING_PLAIN", "PARKED", "that it sleeps is a plain store, seen later"),
    ("WAITING_LATE", "PARKED", "wakes are looked at before the driver says that it waits"),
    ("WAITING_PLAIN", "PARKED", "that it waits is a plain store, seen later"),
    ("WAKE_UNCOUNTED", "PARKED", "a wake between two enters leaves no trace"),
    ("TAKE_IN_TWO", "PARKED", "the mailbox is read, then emptied"),
    ("NEWEST_FIRST", "PARKED POSTS=2", "letters are opened in the order of the list"),
    ("NUDGE_UNSEEN", "PARKED COMPLETIONS=0 NUDGE", "a nudge is not looked at before the worker sleeps"),
    ("SHUT", "PARKED STOP", "a drained worker leaves its mailbox open"),
    ("NO_FENCE", "LEVEL DEFER", "no fence between enabling the signal and looking again"),
    ("NO_RECHECK", "LEVEL DEFER", "nobody looks again after the signal is enabled"),
    ("NO_RECHECK_RING", "EDGE", "nobody looks at the ring again"),
    ("NO_RECHECK_WAKES", "LEVEL DEFER", "nobody looks for wakes again"),
    ("NO_TASKRUN", "LEVEL DEFER", "deferred work is not looked at"),
    ("CLEAR_LAST", "LEVEL DEFER", "the signal is enabled and all looked at before the descriptor is cleared"),
    ("HOST_SLEEPING_LATE", "NETPOLL DEFER", "hosted: the mailbox is looked at before the worker says that it sleeps"),
    ("LEFT_UNTOLD", "LEVEL", "events that are left do not make the descriptor readable"),
    ("HOST_LATE", "LEVEL", "a descriptor that is asked for late forgets earlier wakes"),
    ("NO_CLEAR", "LEVEL CYCLES", "the descriptor is never cleared"),
]
SAME = [
    ("ENABLE_FIRST", "LEVEL DEFER", "the signal is enabled before the descriptor is cleared, all is looked at after"),
    ("FLAG_AFTER_MAILBOX", "PARKED", "the flag falls after the mailbox is read: the wake is counted"),
    ("FLAG_AFTER_MAILBOX", "LEVEL", "the same with a host"),
]


@dataclass
class Search:
    name: str
    defines: list[str]
    error_wanted: bool = False
    why: str = ""
    states: int = 0
    depth: int = 0
    found: str = ""
    wrong: str = ""
    trail: list[str] = field(default_factory=list)


def defines_of(text: str) -> list[str]:
    words = text.split()
    for name, value in (("POSTS", 1), ("COMPLETIONS", 1)):
        if not any(word.startswith(f"{name}=") for word in words):
            words.append(f"{name}={value}")
    return words


def all_searches() -> list[Search]:
    found = [Search(text, defines_of(text)) for text in WHOLE]
    found += [Search(f"{text} CYCLES", defines_of(f"{text} CYCLES")) for text in CYCLES]
    found += [Search(f"FAULT_{name}: {text}", defines_of(f"{text} FAULT_{name}"), True, why)
              for name, text, why in FAULTS]  # fmt: skip
    found += [Search(f"SAME_{name}: {text}", defines_of(f"{text} SAME_{name}"), why=why) for name, text, why in SAME]
    return found


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=SECONDS)  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def search(one: Search) -> None:
    """Has spin write the program that searches, gcc compile it, and reads what it found."""
    defines = [f"-D{word}" for word in one.defines]
    cycles = "CYCLES" in one.defines
    with tempfile.TemporaryDirectory(prefix="quoit-model-") as name:
        folder = Path(name)
        shutil.copy(MODEL, folder)
        run(["spin", *defines, "-a", MODEL.name], folder)
        run(["gcc", "-w", "-O1" if one.error_wanted else "-O2", "-DNP" if cycles else "-DSAFETY", "-DMEMLIM=3000",
             "-o", "pan", "pan.c"], folder)  # fmt: skip
        text = run(["./pan", "-E", f"-m{DEPTH}", *(["-l"] if cycles else [])], folder)
        if not one.error_wanted and " errors: 0" not in text:
            one.trail = run(["spin", *defines, "-t", "-p", MODEL.name], folder).splitlines()
    states = re.search(r"^\s*(\d+) states, stored", text, re.M)
    depth = re.search(r"depth reached (\d+), errors: (\d+)", text)
    if not states or not depth:
        raise RuntimeError(f"the search said nothing of its states: {text[-1500:]}")
    one.states, one.depth = int(states[1]), int(depth[1])
    if depth[2] != "0":
        reason = re.search(r"^pan:\d+: (.+?)(?: \(at depth \d+\))?$", text, re.M)
        one.found = reason[1] if reason else "an error"
    elif re.search(r"max search depth too small|reached.*limit|Search not completed", text, re.I):
        raise RuntimeError("the search was cut short")


def judge(one: Search) -> None:
    try:
        search(one)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        one.wrong = str(error)
        return
    if one.error_wanted and not one.found:
        one.wrong = "the fault was not found"
    elif one.found and not one.error_wanted:
        one.wrong = f"{one.found}; the end of the way there:\n      " + "\n      ".join(one.trail[-40:])


def row(one: Search) -> dict[str, object]:
    return {"search": one.name, "states": one.states, "depth": one.depth, "found": one.found, "wanted":
            "fault" if one.error_wanted else "nothing", "why": one.why, "passed": not one.wrong}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="model", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", metavar="WORD", help="searches whose name holds this word")
    arguments = parser.parse_args()
    lacking = [tool for tool in ("spin", "gcc") if not shutil.which(tool)]
    if lacking:
        print(f"skipped model: there is no {' and no '.join(lacking)} here (Debian's packages have those names)")
        print("model: 0 passed, 0 failed, 1 skipped")
        return 3
    chosen = [one for one in all_searches() if not arguments.only or arguments.only in one.name]
    result = results.Result(" ".join(["tools/model/run.py", *sys.argv[1:]]))
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for one, _ in zip(chosen, pool.map(judge, chosen), strict=True):
            said = f"found: {one.found}" if one.found else "no fault"
            print(f"  {one.name}: {one.states:,} states, {said}" if not one.wrong else f"  {one.name}: {one.wrong}",
                  flush=True)  # fmt: skip
    whole = sum(one.states for one in chosen if not one.error_wanted)
    failed = sum(bool(one.wrong) for one in chosen)
    path = result.write("model.json", states=whole, searches=[row(one) for one in chosen])
    faults = [one for one in chosen if one.error_wanted]
    print(f"  {whole:,} states searched; {sum(bool(one.found) for one in faults)} of {len(faults)} faults found;"
          f" {path.relative_to(results.ROOT)}")  # fmt: skip
    print(f"model: {len(chosen) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0 if chosen else 3


if __name__ == "__main__":
    sys.exit(main())
