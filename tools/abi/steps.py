# SPDX-License-Identifier: MIT OR Apache-2.0
"""The gate's steps. Each looks at one thing that the others do not see, and says in a sentence why it refuses."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from pathlib import Path

import check_layout
import dumps
import headers
import make_layout
from headers import HeaderError
from library import Builder, BuildError, run
from prototypes import Dump, changed

# What a step finds. GROWTH is a difference that a re-baseline in the same commit makes right; FAILED means that a
# tool could not do its work, which passes for nothing.
ACCEPTED, GROWTH, REFUSED, FAILED = "accepted", "growth", "refused", "failed"
Finding = tuple[str, list[str]]  # one of these, and why

SWIG_LANGUAGES = ("python", "lua", "ruby", "java", "perl5", "tcl")
# Exit bits of abidiff and abicompat: 1 and 2 the tool failed, 4 something changed, 8 it is incompatible for sure.
_TOOL_FAILED, _INCOMPATIBLE = 3, 8


@dataclass
class Subject:
    """What is judged: a library and the tree it was built from, against a baseline."""

    tree: Path
    build: Callable[[], Path]  # makes the library when a step first looks at it; several steps never do
    builder: Builder
    baseline: Path  # folder of the dumps to hold
    fresh: Path  # folder for the dumps of this library
    programs: list[Path] = field(default_factory=list)  # folders with an old program and its old library
    program_source: Path | None = None  # today's program, when there is no old one
    _made: dict[str, Path] = field(default_factory=dict)
    _library: Path | None = None
    _layouts: Finding | None = None

    @property
    def library(self) -> Path:
        """The shared library."""
        if self._library is None:
            self._library = self.build()
        return self._library

    def dump(self, name: str) -> Path:
        """Path of a fresh dump, made when first asked for."""
        if name not in self._made:
            self.fresh.mkdir(parents=True, exist_ok=True)
            target = self.fresh / name
            target.unlink(missing_ok=True)
            self._make(name, target)
            self._made[name] = target
        return self._made[name]

    def _make(self, name: str, target: Path) -> None:
        if name == dumps.LIBRARY_DUMP:
            dumps.library_dump(self.tree, self.library, target)
        elif name == dumps.TYPES_DUMP:
            dumps.types_dump(self.builder.types(self.tree, self.fresh), target)
        elif name == dumps.SECOND_DUMP:
            dumps.second_dump(self.tree, self.library, target)
        elif name == dumps.MACROS:
            target.write_text(dumps.macros(self.tree))
        elif name == dumps.SYMBOLS:
            target.write_text(dumps.symbols(self.library))
        elif name == dumps.LAYOUT:
            # From the headers as they are now; whether capi/layout.c keeps up with them is the layout step's to say.
            source = self.fresh / "layout.c"
            source.write_text(make_layout.generate(headers.parse(self.tree / "capi/include")))
            target.write_text(self.builder.layout(self.tree, source, self.fresh))
        else:
            raise ValueError(name)

    def old(self, name: str) -> Path:
        """Path of the baseline's dump."""
        path = self.baseline / name
        if not path.exists():
            raise BuildError(f"the baseline has no {path}")
        return path

    def layouts(self) -> Finding:
        """(verdict, reasons) of the layout comparison; both the layout step and abidiff's ask."""
        if self._layouts is None:
            old, new = (json.loads(path.read_text()) for path in (self.old(dumps.LAYOUT), self.dump(dumps.LAYOUT)))
            self._layouts = check_layout.compare(old, new)
        return self._layouts


def debug_info(subject: Subject) -> Finding:
    """a: abidiff passes a library that describes nothing; so look whether it describes all it exports."""
    if not dumps.has_debug_info(subject.library):
        return REFUSED, ["the library carries no debug info, so no dump of it would show a change"]
    dump = Dump(subject.dump(dumps.LIBRARY_DUMP))
    missing = sorted(dump.symbols - dump.prototypes().keys())
    if missing:
        return REFUSED, [f"no debug info describes {', '.join(missing)}"]
    return ACCEPTED, []


def dump_complete(subject: Subject) -> Finding:
    """b: the dumps hold every function and struct that the headers declare."""
    parsed = headers.parse(subject.tree / "capi/include")
    library, types = Dump(subject.dump(dumps.LIBRARY_DUMP)), Dump(subject.dump(dumps.TYPES_DUMP))
    described = {symbol.split("@")[0] for symbol in library.prototypes()}
    reasons = [
        f"the dump lacks the function {f.name}, which {dumps.LIBRARY_DUMP} needs: is it in quoit.map?"
        for f in parsed.functions
        if f.name not in described
    ]
    kept = types.struct_names()
    reasons += [f"{dumps.TYPES_DUMP} lacks struct {s.name}" for s in parsed.structs if s.name not in kept]
    return (REFUSED if reasons else ACCEPTED), reasons


def _only_growth(subject: Subject, name: str) -> list[str]:
    """Why a dump's difference is more than growth; empty if the layouts explain it and all else is as it was."""
    old, new = Dump(subject.old(name)), Dump(subject.dump(name))
    reasons = changed(old.prototypes(), new.prototypes()) + changed(old.typedefs(), new.typedefs())
    verdict, found = subject.layouts()
    if verdict == check_layout.BREAK:
        reasons += found
    if verdict == check_layout.SAME and not reasons:
        reasons.append("something changed that neither the layouts nor the prototypes explain")
    return reasons


def _abidiff(subject: Subject, name: str, options: list[str], never_bits: int) -> Finding:
    done = run(["abidiff", *options, subject.old(name), subject.dump(name)])
    report = subject.fresh / f"abidiff-{name}.txt"
    report.write_text(done.stdout + done.stderr)
    if done.returncode & _TOOL_FAILED:
        return FAILED, [f"abidiff exits {done.returncode}: {(done.stderr or done.stdout).strip()}"]
    if done.returncode == 0:
        return ACCEPTED, []
    if done.returncode & never_bits:
        return REFUSED, [f"abidiff exits {done.returncode}: incompatible for sure", *_summary(done.stdout)]
    reasons = _only_growth(subject, name)
    if reasons:
        return REFUSED, [f"abidiff exits {done.returncode}, and it is not growth", *reasons]
    return GROWTH, [f"abidiff exits {done.returncode}: growth only", *subject.layouts()[1]]


def _summary(text: str) -> list[str]:
    """The lines of an abidiff report that name a change."""
    return [line.strip() for line in text.splitlines() if re.search(r"\[[CDA]\]|SONAME|soname|changed from", line)][:6]


def abidiff(subject: Subject) -> Finding:
    """c: functions, the types they reach, the SONAME."""
    return _abidiff(subject, dumps.LIBRARY_DUMP, ["--no-added-syms", "--harmless"], _INCOMPATIBLE)


def types(subject: Subject) -> Finding:
    """d: structs that travel as an address in a u64, which no function reaches. abidiff says 12 here to growth too."""
    return _abidiff(subject, dumps.TYPES_DUMP, ["--non-reachable-types", "--harmless"], 0)


def _macros(text: str) -> dict[str, str]:
    parts = (line.removeprefix("#define ").partition(" ") for line in text.splitlines())
    return {name: value for name, _, value in parts}


def macros(subject: Subject) -> Finding:
    """e: constants; no dump tool sees a #define."""
    old, new = (_macros(path.read_text()) for path in (subject.old(dumps.MACROS), subject.dump(dumps.MACROS)))
    reasons = []
    number = headers.VERSION_MACROS[0]
    if int(new.get(number, "0"), 0) < int(old.get(number, "0"), 0):
        reasons.append(f"{number} goes back from {old[number]} to {new.get(number)}")
    for name, value in old.items():
        if name not in new:
            reasons.append(f"{name} is gone")
        elif value != new[name] and name not in headers.VERSION_MACROS:
            reasons.append(f"{name} was {value} and is {new[name]}")
    if reasons:
        return REFUSED, reasons
    added = [f"{name} is new" for name in new if name not in old]
    return (GROWTH, added) if added else (ACCEPTED, [])


def second_opinion(subject: Subject) -> Finding:
    """f: abi-compliance-checker; it alone calls a renamed field what it is to a program's source."""
    report = subject.fresh / "second-opinion.html"
    old, new = subject.old(dumps.SECOND_DUMP).resolve(), subject.dump(dumps.SECOND_DUMP).resolve()
    command: list[str | Path] = [
        "abi-compliance-checker",
        "-l",
        "quoit",
        "-old",
        old,
        "-new",
        new,
        "-report-path",
        report.resolve(),
    ]
    done = run(command, cwd=subject.fresh)
    if done.returncode > 1:
        return FAILED, [f"abi-compliance-checker exits {done.returncode}: {(done.stderr or done.stdout).strip()}"]
    if done.returncode == 0:
        return ACCEPTED, []
    totals = re.findall(r"^Total .*problems: [1-9].*$", done.stdout, flags=re.M)
    return REFUSED, [f"abi-compliance-checker finds problems, listed in {report}", *totals]


def _nodes(lines: Set[str]) -> set[str]:
    return {line.rpartition("@")[2] for line in lines}


def symbols(subject: Subject) -> Finding:
    """g: exported symbols and their nodes. A node that the baseline knows is closed: a program linked against an
    addition to it would start on the old library and die at the first call; with a node of its own it is refused at
    load."""
    paths = (subject.old(dumps.SYMBOLS), subject.dump(dumps.SYMBOLS))
    old, new = (set(path.read_text().splitlines()) for path in paths)
    reasons = [f"'{symbol}' is gone" for symbol in sorted(old - new)]
    closed = _nodes(old)
    for symbol in sorted(new - old):
        if symbol.rpartition("@")[2] in closed:
            reasons.append(f"'{symbol}' is new, in a node that is closed")
    return (REFUSED if reasons else ACCEPTED), reasons


def run_program(program: Path, library: Path) -> str | None:
    """Runs a compat program against a library; returns a reason if it does not succeed."""
    environment = {**os.environ, "LD_BIND_NOW": "1", "LD_LIBRARY_PATH": str(library.resolve().parent)}
    try:
        done = run([program], env=environment)
    except subprocess.TimeoutExpired:
        return f"{program} did not end within two minutes"
    if done.returncode == 0:
        return None
    return f"{program} exits {done.returncode}: {(done.stderr or done.stdout).strip()}"


def _old_program(subject: Subject, folder: Path) -> Finding:
    """(verdict, reasons) for one kept program: folder holds app, the library and the layout.json of its release."""
    done = run(["abicompat", folder / "app", folder / "libquoit.so.1", subject.library])
    if done.returncode & _TOOL_FAILED:
        return FAILED, [f"abicompat exits {done.returncode}: {(done.stderr or done.stdout).strip()}"]
    reasons = []
    old, new = (json.loads(path.read_text()) for path in (folder / dumps.LAYOUT, subject.dump(dumps.LAYOUT)))
    grown, found = check_layout.compare(old, new)
    # abicompat says 4 to a struct that grew at its end as to any other change; the prefix rule tells them apart.
    if done.returncode & _INCOMPATIBLE or (done.returncode and grown != check_layout.GROWTH):
        reasons += [f"abicompat exits {done.returncode} for {folder / 'app'}", *found]
    reasons += filter(None, [run_program(folder / "app", subject.library)])
    return (REFUSED if reasons else ACCEPTED), reasons


def old_program(subject: Subject) -> Finding:
    """h: programs compiled with each release, still right in the values they assert."""
    results = [_old_program(subject, folder) for folder in subject.programs]
    for verdict in (FAILED, REFUSED):
        reasons = [reason for kind, found in results for reason in found if kind == verdict]
        if reasons:
            return verdict, reasons
    if results:
        return ACCEPTED, []
    if subject.program_source is None:
        return ACCEPTED, ["empty bodies were built, which no program can run on: nothing was run"]
    include, target = subject.tree / "capi/include", subject.fresh / "app"
    today = subject.builder.program(subject.program_source, include, subject.library, target)
    problem = run_program(today, subject.library)
    if problem:
        return REFUSED, [problem]
    return ACCEPTED, ["there is no release yet, so no old program: today's runs, which proves nothing about old ones"]


def layout(subject: Subject) -> Finding:
    """l: structs by the prefix rule, and capi/layout.c up to date with the headers."""
    try:
        text = make_layout.generate(headers.parse(subject.tree / "capi/include"))
    except HeaderError as error:
        return REFUSED, [str(error)]
    if (subject.tree / "capi/layout.c").read_text() != text:
        return REFUSED, ["capi/layout.c is older than the headers: run tools/abi/make_layout.py capi"]
    verdict, reasons = subject.layouts()
    return {check_layout.SAME: ACCEPTED, check_layout.GROWTH: GROWTH, check_layout.BREAK: REFUSED}[verdict], reasons


def swig(subject: Subject) -> Finding:
    """s: capi/quoit.i parses for every language it serves, without a warning."""
    folder = subject.fresh / "swig"
    reasons = []
    for language in SWIG_LANGUAGES:
        (folder / language).mkdir(parents=True, exist_ok=True)
        command: list[str | Path] = [
            "swig",
            "-Wall",
            "-Werror",
            f"-{language}",
            "-Icapi/include",
            "-outdir",
            folder / language,
            "-o",
        ]
        done = run([*command, folder / language / "wrap.c", "capi/quoit.i"], cwd=subject.tree)
        if done.returncode:
            reasons.append(f"{language}: {done.stderr.strip()}")
    return (REFUSED if reasons else ACCEPTED), reasons


STEPS: dict[str, tuple[str, Callable[[Subject], Finding]]] = {
    "a": ("debug-info", debug_info),
    "b": ("dump", dump_complete),
    "c": ("abidiff", abidiff),
    "d": ("types", types),
    "e": ("macros", macros),
    "f": ("second-opinion", second_opinion),
    "g": ("symbols", symbols),
    "h": ("old-program", old_program),
    "l": ("layout", layout),
    "s": ("swig", swig),
}


def judge(subject: Subject, letter: str) -> Finding:
    """(verdict, reasons) of one step; a tool that fails is a verdict too."""
    try:
        return STEPS[letter][1](subject)
    except (BuildError, HeaderError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        return FAILED, [str(error)]
