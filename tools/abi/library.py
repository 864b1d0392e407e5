# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds what the gate looks at: libquoit.so.1 with debug info, the types-only object, the layout and compat programs.

Objects are cached by what the preprocessor makes of a source, so the self-test, which builds the library some twenty
times from copies that differ by a line, compiles only what that line reaches."""

import hashlib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import make_stubs
import headers

CC = os.environ.get("CC", "gcc")
# -g -Og is what abi-dumper asks for. The library's own layout assertions are taken out: a break must reach the step
# that names it instead of stopping the compiler.
CODE_FLAGS = ["-std=gnu17", "-g", "-Og", "-fPIC", "-fvisibility=hidden", "-fno-semantic-interposition", "-pthread", "-w"]
CPP_FLAGS = ["-D_GNU_SOURCE", "-D_Static_assert(...)=", "-Icapi/include", "-I."]
LINK_FLAGS = ["-shared", "-pthread", "-Wl,-z,defs", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,--no-undefined-version"]
PACKAGES = ["liburing", "libffi"]
SOURCES = ["capi/src", "runtime"]
MAP = "capi/quoit.map"

_LINE_MARKER = re.compile(rb'^# \d+ ("[^"\n]*")[ \d]*$', re.M)


class BuildError(Exception):
    """Something could not be built; the text is what the tool said."""


def run(command, cwd=None, **options):
    """Runs a command to its end, within two minutes; returns the completed process with text output."""
    return subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
                          **options)


def must(command, cwd=None):
    """Runs a command that has to work; returns its output."""
    done = run(command, cwd)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(str(c) for c in command[:3])} …: exit {done.returncode}\n{done.stderr or done.stdout}")
    return done.stdout


def soname(tree):
    """The SONAME as CMake gives it: the build's own file is the one place that says it."""
    text = (Path(tree) / "CMakeLists.txt").read_text()
    versions = set(re.findall(r"\bSOVERSION\s+(\d+)", text))
    if len(versions) != 1:
        raise BuildError(f"CMakeLists.txt should name one SOVERSION, it names {sorted(versions)}")
    return f"libquoit.so.{versions.pop()}"


def package_flags(kind):
    """pkg-config flags of the libraries that the library links."""
    return must(["pkg-config", kind, *PACKAGES]).split()


class Builder:
    """Builds from a tree (a checkout, or a copy of its capi/, runtime/ and CMakeLists.txt) into an output folder."""

    def __init__(self, cache):
        self.cache = Path(cache)
        self.cache.mkdir(parents=True, exist_ok=True)
        self.jobs = len(os.sched_getaffinity(0))
        self.compiler = must([CC, "--version"])
        self.compiled = 0

    def _object(self, tree, source, replace_flags):
        """The object file of one source, out of the cache if the preprocessed text was compiled before."""
        code = [replace_flags.get(flag, flag) for flag in CODE_FLAGS]
        cpp = CPP_FLAGS + package_flags("--cflags")
        done = subprocess.run([CC, *code, *cpp, "-E", source], cwd=tree, capture_output=True, timeout=120, check=False)
        if done.returncode != 0:
            raise BuildError(done.stderr.decode())
        # Line numbers are left out of the key: the dumps do not show them, and a longer comment changes them all.
        text = _LINE_MARKER.sub(rb"# \1", done.stdout)
        key = hashlib.sha256("\0".join([self.compiler, *code, source]).encode() + text).hexdigest()
        target = self.cache / f"{key}.o"
        if not target.exists():
            fresh = self.cache / f"{key}.{os.getpid()}.new"
            must([CC, *code, *cpp, f"-ffile-prefix-map={tree}=.", "-c", source, "-o", fresh], cwd=tree)
            fresh.rename(target)
            self.compiled += 1
        return target

    def library(self, tree, out, stubs=False, replace_flags=None):
        """Builds libquoit.so.N of a tree into out; returns its path."""
        tree, out = Path(tree).resolve(), Path(out).resolve()
        out.mkdir(parents=True, exist_ok=True)
        name = soname(tree) if not stubs else "libquoit.so.1"
        if stubs:
            (out / "stubs.c").write_text(make_stubs.generate(headers.parse(tree / "capi/include")))
            sources = [str(out / "stubs.c")]
        else:
            sources = sorted(str(p.relative_to(tree)) for s in SOURCES for p in (tree / s).rglob("*.c"))
        with ThreadPoolExecutor(self.jobs) as pool:
            objects = list(pool.map(lambda s: self._object(tree, s, replace_flags or {}), sources))
        library = out / name
        must([CC, *LINK_FLAGS, f"-Wl,-soname,{name}", f"-Wl,--version-script={tree / MAP}", "-o", library, *objects,
              *package_flags("--libs")])
        return library

    def types(self, tree, out):
        """Builds the types-only object. Freestanding, so that <stdint.h> is the compiler's own: no libc types in it."""
        target = Path(out) / "libquoit-types.so"
        must([CC, "-g", "-ffreestanding", "-fno-eliminate-unused-debug-types", "-fPIC", "-shared", "-nostdlib",
              "-Wl,-soname,libquoit-types.so", "-Icapi/include", "-o", target.resolve(), "capi/anchor.c"], cwd=tree)
        return target

    def layout(self, tree, out):
        """Builds and runs capi/layout.c; returns what it printed."""
        target = Path(out).resolve() / "layout"
        must([CC, "-std=c11", "-Icapi/include", "capi/layout.c", "-o", target], cwd=tree)
        return must([target])

    def program(self, source, include, library, target):
        """Builds a test program against a library; it finds libquoit by LD_LIBRARY_PATH only."""
        must([CC, "-std=gnu17", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{include}", source, library,
              "-o", target])
        return Path(target)
