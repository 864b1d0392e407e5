#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each public header alone: compiled as C11 and C++11 under the strictest warnings, included twice, for 64 and for
32 bits; then read by the tools of the languages.

    python3 tests/headers/check.py [--include DIR]      exit status 0 when all hold, 1 when one does not
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import languages

ROOT = Path(__file__).resolve().parents[2]
STRICT = ["-Wall", "-Wextra", "-Wpadded", "-Wpedantic", "-Werror", "-fsyntax-only"]
COMPILERS = [
    ("gcc", "c", ["-std=c11", "-Wstrict-prototypes"]),
    ("g++", "c++", ["-std=c++11"]),
    ("clang", "c", ["-std=c11", "-Wstrict-prototypes"]),
    ("clang++", "c++", ["-std=c++11"]),
]
# Freestanding, because a 64-bit system seldom has the 32-bit libc headers; the compiler's own are enough.
NARROW = ["-m32", "-ffreestanding"]
REQUIRED = ("gcc", "g++")  # clang's is a second opinion, asked where it is


class Report:
    def __init__(self) -> None:
        self.passed = self.failed = 0
        self.skipped: list[tuple[str, str]] = []

    def test(self, name: str, body: Callable[..., None], *arguments: Any) -> None:
        try:
            body(*arguments)
        except languages.Missing as reason:
            self.skipped.append((name, str(reason)))
            print(f"skipped {name}: {reason}")
        except AssertionError as problem:
            self.failed += 1
            print(f"FAILED  {name}: {problem}")
        else:
            self.passed += 1


def compile_text(compiler: str, language: str, flags: list[str], include: Path, text: str) -> None:
    command = [compiler, *flags, *STRICT, f"-I{include}", "-x", language, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr[-2000:])


def compilers_here(report: Report) -> list[tuple[str, str, list[str]]]:
    missing = [name for name, _, _ in COMPILERS if shutil.which(name) is None]
    for name in missing:
        if name in REQUIRED:
            report.failed += 1
            print(f"FAILED  there is no {name}")
        else:
            print(f"headers: {name} is not here: its second opinion is not asked")
    return [compiler for compiler in COMPILERS if compiler[0] not in missing]


def check_compilers(report: Report, compilers: list[tuple[str, str, list[str]]], include: Path, header: str) -> None:
    once = f"#include <quoit/{header}>\n"
    for compiler, language, flags in compilers:
        for bits, more in (("64", []), ("32", NARROW)):
            report.test(f"{header} alone and twice, {compiler} {flags[0]} {bits} bits", compile_text, compiler,
                        language, [*flags, *more], include, once + once + "extern int unused;\n")  # fmt: skip


def check_umbrella(include: Path, headers: list[str]) -> None:
    text = (include / "quoit" / "quoit.h").read_text()
    lost = [name for name in headers if name != "quoit.h" and f'#include "{name}"' not in text]
    assert not lost, f"quoit.h does not include {', '.join(lost)}"


def check_refusal(include: Path) -> None:
    """The flags would notice: a struct with a hole is refused by them."""
    hole = "struct hole { char a; int b; };\nextern struct hole hole;\n"
    try:
        compile_text("gcc", "c", ["-std=c11"], include, hole)
    except AssertionError:
        return
    raise AssertionError("a struct with padding was accepted")


def main() -> int:
    parser = argparse.ArgumentParser(description="Check each public header alone.")
    parser.add_argument("--include", type=Path, default=ROOT / "capi" / "include")
    include = parser.parse_args().include.resolve()
    headers = sorted(path.name for path in (include / "quoit").glob("*.h"))
    report = Report()
    report.test("padding is refused", check_refusal, include)
    report.test("the umbrella includes every header", check_umbrella, include, headers)
    compilers = compilers_here(report)
    for header in headers:
        check_compilers(report, compilers, include, header)
        for tool, check in languages.TOOLS.items():
            with tempfile.TemporaryDirectory() as work:
                report.test(f"{header} read by {tool}", check, include, header, Path(work))
    print(f"headers: {report.passed} passed, {report.failed} failed, {len(report.skipped)} skipped")
    return 1 if report.failed or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
