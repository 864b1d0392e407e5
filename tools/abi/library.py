# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what the gate looks at: libquoit.so.1 with debug info, the types-only object, the layout and compat programs.

CMake says how the library is built (flags, map, SONAME, sources); the gate only asks it for -g -Og, which is what
abi-dumper wants. Objects are cached by what the preprocessor makes of a source, so the self-test, which builds the
library some twenty times from copies that differ by a line, compiles only what that line reaches."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import headers
import make_stubs

CC = os.environ.get("CC", "gcc")
GATE_FLAGS = "-g -Og"
# The library's own layout assertions are taken out: a break must reach the step that names it instead of stopping
# the compiler. Warnings are the business of the other builds.
EXTRA_FLAGS = ["-w", "-D_Static_assert(...)="]
# Objects that were not used for so long are dropped.
CACHE_DAYS = 7
# What a copy of the checkout needs for the library to be built from it.
PARTS = ("CMakeLists.txt", "cmake", "capi", "runtime")

_LINE_MARKER = re.compile(rb'^# \d+ ("[^"\n]*")[ \d]*$', re.M)


Command = Sequence[str | Path]
Done = subprocess.CompletedProcess[str]


class BuildError(Exception):
    """Something could not be built; the text is what the tool said."""


def run(command: Command, cwd: Path | None = None, env: dict[str, str] | None = None) -> Done:
    """Runs a command to its end, within two minutes; returns the completed process with text output."""
    words = [str(c) for c in command]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)


def must(command: Command, cwd: Path | None = None) -> str:
    """Runs a command that has to work; returns its output."""
    done = run(command, cwd)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise BuildError(f"{' '.join(str(c) for c in command[:3])} …: exit {done.returncode}\n{said}")
    return done.stdout


@dataclass
class Recipe:
    """How CMake builds the library, with every path relative to the tree."""

    compile_flags: dict[str, list[str]]  # source -> flags
    link_flags: list[str]
    libraries: list[str]
    soname: str


def recipe(tree: Path, folder: Path) -> Recipe:
    """Asks CMake for the recipe of a tree; folder is a scratch place for its files."""
    tree, folder = tree.resolve(), folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    must(
        [
            "cmake",
            "-S",
            tree,
            "-B",
            folder,
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=None",
            f"-DCMAKE_C_COMPILER={CC}",
            f"-DCMAKE_C_FLAGS={GATE_FLAGS}",
            "-DBUILD_TESTING=OFF",
            "-DQUOIT_WERROR=OFF",
        ]
    )

    def words(command: str) -> list[str]:
        return shlex.split(command.replace(f"{tree}/", "").replace(str(tree), "."))

    compile_flags = {}
    for entry in json.loads(must(["ninja", "-t", "compdb"], cwd=folder)):
        if "quoit_objects.dir/" in entry["output"] and entry["file"].endswith(".c"):
            source = words(entry["file"])[0]
            compile_flags[source] = _flags_only(words(entry["command"]))
    if not compile_flags:
        raise BuildError("CMake builds no quoit_objects: the library has no sources")
    link = next(
        line for line in must(["ninja", "-t", "commands", "quoit"], cwd=folder).splitlines() if " -shared " in line
    )
    parts = [w for w in words(link) if w not in (":", "&&")][1:]
    names = [w for w in parts if w.startswith("-Wl,-soname,")]
    if len(names) != 1:
        raise BuildError("CMake gives the library no SONAME")
    position = parts.index("-o")
    after = [w for w in parts[position + 2 :] if not w.endswith(".o")]
    return Recipe(compile_flags, parts[:position], after, names[0].removeprefix("-Wl,-soname,"))


def _flags_only(words: list[str]) -> list[str]:
    """A compile command without compiler, input, output and dependency files."""
    flags, skip = [], False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-MF", "-MT"):
            skip = True
        elif word not in ("-MD", "-MMD"):
            flags.append(word)
    return flags


class Builder:
    """Builds from a tree (a checkout, or a copy of its PARTS) into an output folder."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.cache.mkdir(parents=True, exist_ok=True)
        for path in self.cache.iterdir():
            if path.stat().st_mtime < time.time() - CACHE_DAYS * 86400:
                path.unlink(missing_ok=True)
        self.jobs = len(os.sched_getaffinity(0))
        self.compiler = must([CC, "--version"])
        self.compiled = 0

    def _object(self, tree: Path, source: str, flags: list[str]) -> Path:
        """The object file of one source, out of the cache if the preprocessed text was compiled before."""
        flags = [*flags, *EXTRA_FLAGS]
        done = subprocess.run([CC, *flags, "-E", source], cwd=tree, capture_output=True, timeout=120, check=False)
        if done.returncode != 0:
            raise BuildError(done.stderr.decode())
        # Line numbers are left out of the key: the dumps do not show them, and a longer comment changes them all.
        text = _LINE_MARKER.sub(rb"# \1", done.stdout)
        key = hashlib.sha256("\0".join([self.compiler, *flags, source]).encode() + text).hexdigest()
        target = self.cache / f"{key}.o"
        if target.exists():
            os.utime(target)
        else:
            fresh = self.cache / f"{key}.{os.getpid()}.new"
            command = [CC, *flags, f"-ffile-prefix-map={tree}=.", "-x", "cpp-output", "-c", "-", "-o", str(fresh)]
            compiled = subprocess.run(
                command, cwd=tree, input=done.stdout, capture_output=True, timeout=120, check=False
            )
            if compiled.returncode != 0:
                raise BuildError(compiled.stderr.decode())
            fresh.rename(target)
            self.compiled += 1
        return target

    def library(self, tree: Path, out: Path, how: Recipe, change: tuple[str, str, str] | None = None) -> Path:
        """Builds the shared library of a tree into out by a recipe; returns its path. `change`, if there is one, is
        (prefix of sources, flag, replacement): the self-test's way to lose debug info."""
        tree, out = tree.resolve(), out.resolve()
        out.mkdir(parents=True, exist_ok=True)
        prefix, old, new = change or ("", "", "")

        def compile_one(item: tuple[str, list[str]]) -> Path:
            source, flags = item
            if change and source.startswith(prefix):
                flags = [new if flag == old else flag for flag in flags]
            return self._object(tree, source, flags)

        with ThreadPoolExecutor(self.jobs) as pool:
            objects = list(pool.map(compile_one, sorted(how.compile_flags.items())))
        target = out / how.soname
        must([CC, *how.link_flags, "-o", target, *objects, *how.libraries], cwd=tree)
        return target

    def stub_library(self, tree: Path, out: Path) -> Path:
        """The same from generated empty bodies: for bringing the gate up where the library itself does not build."""
        tree, out = tree.resolve(), out.resolve()
        out.mkdir(parents=True, exist_ok=True)
        source, target = out / "stubs.c", out / "libquoit.so.1"
        source.write_text(make_stubs.generate(headers.parse(tree / "capi/include")))
        must(
            [
                CC,
                *GATE_FLAGS.split(),
                "-w",
                "-fPIC",
                "-fvisibility=hidden",
                "-Icapi/include",
                "-shared",
                "-Wl,--version-script=capi/quoit.map",
                "-Wl,--no-undefined-version",
                f"-Wl,-soname,{target.name}",
                "-o",
                target,
                source,
            ],
            cwd=tree,
        )
        return target

    def types(self, tree: Path, out: Path) -> Path:
        """Builds the types-only object. Freestanding, so that <stdint.h> is the compiler's own: no libc types in it."""
        target = out.resolve() / "libquoit-types.so"
        must(
            [
                CC,
                "-g",
                "-ffreestanding",
                "-fno-eliminate-unused-debug-types",
                "-fPIC",
                "-shared",
                "-nostdlib",
                "-Wl,-soname,libquoit-types.so",
                "-Icapi/include",
                "-o",
                target,
                "capi/anchor.c",
            ],
            cwd=tree,
        )
        return target

    def layout(self, tree: Path, source: Path, out: Path) -> str:
        """Builds a layout.c against a tree's headers and runs it; returns what it printed."""
        target = out.resolve() / "layout"
        must([CC, "-std=c11", "-Icapi/include", source.resolve(), "-o", target], cwd=tree)
        return must([target])

    def program(self, source: Path, include: Path, library: Path, target: Path) -> Path:
        """Builds a test program against a library; it finds libquoit by LD_LIBRARY_PATH only."""
        must(
            [
                CC,
                "-std=gnu17",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pthread",
                f"-I{include}",
                source,
                library,
                "-o",
                target,
            ]
        )
        return target
