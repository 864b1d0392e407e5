# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a suite's output says: how many passed, failed and were skipped, why, and its own closing line."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CLOSING = re.compile(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?")
SKIPPED = re.compile(r"^\s*skipped:? (.+?): (.+)$", re.M | re.I)
DRIVERS = ("uring-defer", "uring-coop", "uring-plain", "epoll")
DRIVER = re.compile(rf"\bdriver(?:[ _]ran)?[ :=]+({'|'.join(DRIVERS)})\b")
CARGO = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
CARGO_IGNORED = re.compile(r"^test (.+?) ... ignored(?:, (.+))?$", re.M)
PYTEST = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+ in [\d.]+s.*?)\s*=*$", re.M)


@dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)
    driver_ran: str | None = None

    def add(self, other: "Outcome") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.closing += other.closing
        self.driver_ran = self.driver_ran or other.driver_ran

    def skip(self, name: str, reason: str) -> None:
        self.skipped.append({"name": name, "reason": reason})


def drivers_in(names: list[str]) -> str | None:
    """Suites that run each test on every driver name it in the test; which of them passed at least one?"""
    found = [driver for driver in DRIVERS if any(driver in name for name in names)]
    return ",".join(found) or None


Reader = Callable[[str, Path], Outcome]


def read_lines(text: str, work: Path) -> Outcome:
    """Suites of ours end with 'NAME: N passed, N failed, N skipped' and print 'skipped TEST: reason' before it."""
    outcome = Outcome()
    if drivers := DRIVER.findall(text):
        outcome.driver_ran = drivers[-1]
    closings = [line for line in text.splitlines() if CLOSING.search(line)]
    if not closings:
        return outcome
    outcome.closing = [closings[-1].strip()]
    match = CLOSING.search(closings[-1])
    assert match is not None
    outcome.passed, outcome.failed = int(match[1]), int(match[2])
    for name, reason in SKIPPED.findall(text):
        outcome.skip(name, reason)
    while len(outcome.skipped) < int(match[3] or 0):
        outcome.skip("?", "no reason printed")
    return outcome


def read_cmocka(text: str, work: Path) -> Outcome:
    """The report of cmocka: one bracketed line a test, then totals; a program may run several groups."""
    outcome = Outcome()
    for mark, rest in re.findall(r"^\[\s+(OK|FAILED|SKIPPED|PASSED)\s+\] (.+)$", text, re.M):
        if mark == "PASSED":
            outcome.closing.append(f"[  PASSED  ] {rest}")
        elif mark == "SKIPPED" and "test(s)" not in rest:
            outcome.skip(rest.strip(), reason_of(rest.strip(), text))
        elif mark == "OK":
            outcome.passed += 1
        elif mark == "FAILED" and "test(s)" not in rest:
            outcome.failed += 1
    # A failed test is named twice: where it happened and in the list at the end.
    outcome.failed = max((int(n) for n in re.findall(r"(\d+) FAILED TEST", text)), default=outcome.failed)
    if not outcome.passed and not outcome.failed:
        return read_lines(text, work)
    if drivers := DRIVER.findall(text):
        outcome.driver_ran = drivers[-1]
    return outcome


def reason_of(name: str, text: str) -> str:
    return {str(test): str(reason) for test, reason in SKIPPED.findall(text)}.get(name, "no reason printed")


def read_pytest(text: str, work: Path) -> Outcome:
    """The JUnit file that pytest was told to write, and its closing line."""
    outcome = Outcome()
    passed: list[str] = []
    report = work / "junit.xml"
    if not report.is_file():
        return outcome
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif skipped is not None:
            outcome.skip(name, skipped.get("message") or "no reason printed")
        else:
            passed.append(name)
    outcome.passed, outcome.driver_ran = len(passed), drivers_in(passed)
    outcome.closing = PYTEST.findall(text)[-1:]
    return outcome


def read_go(text: str, work: Path) -> Outcome:
    """The events of `go test -json`; top-level tests and subtests both count."""
    outcome = Outcome()
    passed: list[str] = []
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name = f"{event.get('Package', '')}.{event.get('Test', '')}"
        action = event.get("Action")
        if action == "output":
            said.setdefault(name, []).append(event["Output"].strip())
            if "Test" not in event and event["Output"].startswith(("ok ", "FAIL\t", "ok\t")):
                outcome.closing.append(" ".join(event["Output"].split()))
        elif "Test" in event and action == "pass":
            passed.append(name)
        elif "Test" in event and action == "fail":
            outcome.failed += 1
        elif "Test" in event and action == "skip":
            reasons = [text for text in said.get(name, []) if text and not text.startswith(("===", "---"))]
            outcome.skip(name, reasons[-1] if reasons else "no reason printed")
    outcome.passed, outcome.driver_ran = len(passed), drivers_in(passed)
    return outcome


def readable(text: str) -> list[str]:
    """The lines of an output to show for a failure: what `go test -json` wraps is unwrapped."""
    lines = []
    for line in text.splitlines():
        if line.startswith('{"Time"'):
            line = json.loads(line).get("Output", "").rstrip("\n")
            if not line or line.lstrip().startswith(("=== ", "--- PASS")):
                continue
        lines.append(line)
    return lines


def read_cargo(text: str, work: Path) -> Outcome:
    """One 'test result' line for each test program and for the examples in the documentation."""
    outcome = Outcome()
    for match in CARGO.finditer(text):
        outcome.passed += int(match[1])
        outcome.failed += int(match[2])
        if int(match[1]) + int(match[2]) + int(match[3]):
            outcome.closing.append(match[0])
    for name, reason in CARGO_IGNORED.findall(text):
        outcome.skip(name, reason or "no reason printed")
    return outcome


def read_abi(text: str, work: Path) -> Outcome:
    """build/abi.json, which the gate has just written."""
    outcome = read_lines(text, work)
    report = json.loads((work.parents[1] / "abi.json").read_text())
    good = bool(report["clean_accepted"]) + report["breaks_refused"] + report["controls_accepted"]
    outcome.passed = good
    outcome.failed = 1 + report["breaks_total"] + report["controls_total"] - good
    outcome.closing = [line for line in text.splitlines() if line.startswith("abi: ")][-1:]
    return outcome
