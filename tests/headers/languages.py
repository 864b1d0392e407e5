# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the public headers as each language's own tool does: cffi, cgo, bindgen, SWIG. Every function, struct and
plain constant of the headers must be seen by the tool, so that nothing is lost on the way into a language."""

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"\bQUOIT_API\b[^;(]*?\b(quoit_\w+)\s*\(")
STRUCT = re.compile(r"\btypedef\s+struct\s+(quoit_\w+)\s*\{")
CONSTANT = re.compile(r"^#define[ \t]+(QUOIT_\w+)[ \t]+(-?(?:0x[0-9A-Fa-f]+|\d+))[ \t]*$", re.M)
SWIG_LANGUAGES = ("python", "lua", "perl5", "ruby", "tcl", "java")


class Missing(Exception):
    """The tool is not on this machine; the text says what would bring it."""


@dataclass
class Names:
    functions: list[str]
    structs: list[str]
    constants: dict[str, int]


def read_names(include: Path) -> Names:
    text = "".join(COMMENT.sub(" ", path.read_text()) for path in sorted((include / "quoit").glob("*.h")))
    constants = {name: int(value, 0) for name, value in CONSTANT.findall(text)}
    return Names(FUNCTION.findall(text), STRUCT.findall(text), constants)


def run(command: list[str], cwd: Path | None = None) -> str:
    """The command's output; a failure carries what it said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=cwd)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command[:4])} ... failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def need(tool: str, how: str) -> None:
    if shutil.which(tool) is None:
        raise Missing(f"there is no {tool} here: {how}")


def own_lines(include: Path, header: str) -> str:
    """What the preprocessor leaves of the header, without what came from the system's headers."""
    text = run(["cc", "-E", "-DQUOIT_API=", f"-I{include}", str(include / "quoit" / header)])
    kept, ours = [], False
    for line in text.splitlines():
        if mark := re.match(r'# \d+ "([^"]*)"', line):
            ours = Path(mark[1]).parent == include / "quoit"
        elif ours:
            kept.append(line)
    return "\n".join(kept)


def check_cffi(include: Path, header: str, work: Path) -> None:
    if importlib.util.find_spec("cffi") is None:
        raise Missing("this Python has no cffi: pip install cffi")
    from cffi import FFI  # type: ignore[import-untyped]

    ffi = FFI()
    ffi.cdef(own_lines(include, header))
    if header == "quoit.h":
        names = read_names(include)
        for name in names.structs:
            assert ffi.sizeof(name) > 0, f"cffi does not know the size of {name}"
        known = {name.removeprefix("function ") for name in ffi._parser._declarations}
        lost = [name for name in names.functions if name not in known]
        assert not lost, f"cffi did not see {', '.join(lost)}"


def check_cgo(include: Path, header: str, work: Path) -> None:
    need("go", "apt install golang-go")
    names = read_names(include) if header == "quoit.h" else Names([], [], {})
    uses = [f"var _ = C.{name}\n" for name in names.constants]
    uses += [f"var _ [unsafe.Sizeof(C.{name}{{}})]byte\n" for name in names.structs]
    # A use, never a call: the library is not linked here.
    uses += [f"var _ = unsafe.Pointer(C.{name})\n" for name in names.functions]
    text = f'package p\n\n// #include <quoit/{header}>\nimport "C"\nimport "unsafe"\n\n'
    (work / "p.go").write_text(text + "var _ unsafe.Pointer\nvar _ C.int\n" + "".join(uses))
    (work / "objects").mkdir()
    run(["go", "tool", "cgo", "-objdir", "objects", "--", f"-I{include}", "p.go"], cwd=work)


def check_bindgen(include: Path, header: str, work: Path) -> None:
    need("bindgen", "apt install bindgen libclang1-14 libclang-common-14-dev")
    path = include / "quoit" / header
    text = run(["bindgen", str(path), "--allowlist-function", "quoit_.*", "--allowlist-type", "quoit_.*",
                "--allowlist-var", "QUOIT_.*", "--", "-std=c11", f"-I{include}"])  # fmt: skip
    if header == "quoit.h":
        names = read_names(include)
        # Without rustfmt everything stands on few lines, with other spaces.
        lost = [name for name in names.functions if not re.search(rf"\bpub fn {name}\b", text)]
        lost += [name for name in names.structs if not re.search(rf"\bpub struct {name}\b", text)]
        lost += [name for name in names.constants if not re.search(rf"\bpub const {name}\b", text)]
        assert not lost, f"bindgen did not see {', '.join(lost)}"


def check_swig(include: Path, header: str, work: Path) -> None:
    need("swig", "apt install swig")
    headers = sorted(path.name for path in (include / "quoit").glob("*.h")) if header == "quoit.h" else [header]
    lines = ["%module quoit", "%{", f"#include <quoit/{header}>", "%}", "%include <stdint.i>"]
    lines += [f'%include "quoit/{name}"' for name in headers]
    (work / "quoit.i").write_text("\n".join(lines) + "\n")
    for language in SWIG_LANGUAGES:
        folder = work / language
        folder.mkdir()
        wrapper = folder / "wrap.c"
        # 801: Ruby wants class names to begin with a capital and SWIG gives them one.
        run(["swig", f"-{language}", "-Wextra", "-Werror", "-w801", "-DQUOIT_API=", f"-I{include}", "-outdir",
             str(folder), "-o", str(wrapper), "quoit.i"], cwd=work)  # fmt: skip
        if header == "quoit.h":
            text = wrapper.read_text()
            lost = [name for name in read_names(include).functions if not re.search(rf"\b{name}\(", text)]
            assert not lost, f"SWIG for {language} did not see {', '.join(lost)}"


TOOLS = {"cffi": check_cffi, "cgo": check_cgo, "bindgen": check_bindgen, "swig": check_swig}
