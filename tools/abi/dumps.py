# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the dumps that abi-dump/<architecture>/ keeps, from a built library and the headers it was built with."""

import platform
import re
from pathlib import Path

from library import CC, BuildError, must, run

LIBRARY_DUMP = "quoit-1.abi"  # abidw: functions and the types they reach
TYPES_DUMP = "types.abi"  # abidw: every public type
SECOND_DUMP = "quoit-1.dump"  # abi-dumper: the second opinion's own format
MACROS = "macros.txt"
SYMBOLS = "symbols.txt"
LAYOUT = "layout.json"
FILES = (LIBRARY_DUMP, TYPES_DUMP, SECOND_DUMP, MACROS, SYMBOLS, LAYOUT)
TOOLS = (
    CC,
    "cmake",
    "ninja",
    "nm",
    "abidw",
    "abidiff",
    "abicompat",
    "abi-dumper",
    "ctags",
    "abi-compliance-checker",
    "swig",
)

# What makes two dumps of the same source equal, whatever folder they were made in.
_ABIDW = [
    "abidw",
    "--no-elf-needed",
    "--no-corpus-path",
    "--no-comp-dir-path",
    "--no-show-locs",
    "--type-id-style",
    "hash",
]


_NO_NUMBER = re.compile(r"^#define (QUOIT_API\b.*|QUOIT_\w+_H)$")


def architecture() -> str:
    """The folder's name under abi-dump/."""
    return platform.machine()


def has_debug_info(library: Path) -> bool:
    """Whether a shared object describes types and functions at all; abidiff passes one that does not."""
    return "<abi-instr" in must(["abidw", library])


def library_dump(tree: Path, library: Path, target: Path) -> None:
    public: list[str | Path] = [
        "--headers-dir",
        tree / "capi/include/quoit",
        "--drop-private-types",
        "--exported-interfaces-only",
    ]
    must([*_ABIDW, *public, "--out-file", target, library])


def types_dump(types_library: Path, target: Path) -> None:
    must([*_ABIDW, "--load-all-types", "--out-file", target, types_library])


def second_dump(tree: Path, library: Path, target: Path) -> None:
    """abi-dumper writes a folder of its own beside the current directory and may leave nothing behind."""
    done = run(
        ["abi-dumper", library, "-o", target, "-lver", "1", "-public-headers", (tree / "capi/include/quoit").resolve()],
        cwd=target.parent,
    )
    if done.returncode != 0 or not target.exists():
        raise BuildError(f"abi-dumper: exit {done.returncode}\n{done.stdout}{done.stderr}")


def macros(tree: Path) -> str:
    """The public macros, sorted, without include guards and without QUOIT_API, which is no number."""
    text = must(
        [CC, "-E", "-dM", "-Icapi/include", "-include", "capi/include/quoit/quoit.h", "-x", "c", "/dev/null"], cwd=tree
    )
    lines = [line.rstrip() for line in text.splitlines() if line.startswith("#define QUOIT_")]
    return "\n".join(sorted(line for line in lines if not _NO_NUMBER.match(line))) + "\n"


def symbols(library: Path) -> str:
    """Exported symbols with their types and nodes, sorted."""
    text = must(["nm", "-D", "--defined-only", "--with-symbol-versions", library])
    return "\n".join(sorted(" ".join(line.split()[1:]) for line in text.splitlines())) + "\n"
