# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds quoit._quoit, the extension, and what is generated from the public headers.

The cdef text is the public headers after the preprocessor, cut to the lines that come from them, and their macros
that are plain numbers; nothing of the ABI is written down a second time by hand.

Where the native code comes from:
  default                 runtime/ and capi/src/ are compiled into the extension, with hidden symbols
  QUOIT_PREFIX=DIR        the extension links libquoit.so.1 of DIR (an installed prefix or a CMake build folder)
  QUOIT_SYSTEM=1          the same, found by pkg-config

`python build_ffi.py --write` rewrites the two generated files of the package; `--check` tells if they are stale.
"""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
# A source distribution carries the native code in native/; a checkout has it two folders up.
NATIVE = HERE / "native" if (HERE / "native").is_dir() else HERE.parents[1]
PACKAGE = HERE / "src" / "quoit"

# A turn, and at which place of its batch the worker's own wake-up event is (plus one, in the high half). Found here
# because a program's batch callback shall not see that event and a scan in Python would cost more than the turn.
PREAMBLE = """
#include <quoit/quoit.h>

static int64_t quoit_py_turn(quoit_worker *worker, const quoit_batch *batch, uint32_t nops, int64_t timeout_ns,
                             uint64_t wake)
{
    quoit_status n = quoit_turn(worker, nops, timeout_ns);
    for (int32_t i = 0; wake != 0 && i < n; i++) {
        const quoit_event *event = (const quoit_event *)(uintptr_t)batch->events + i;
        if (event->user_data == wake && event->kind == QUOIT_OP_POLL)
            return ((int64_t)(i + 1) << 32) | n;
    }
    return n;
}
"""
HELPERS = """
static int64_t quoit_py_turn(quoit_worker *worker, const quoit_batch *batch, uint32_t nops, int64_t timeout_ns,
                             uint64_t wake);
"""

MACRO = re.compile(r"^#define\s+(QUOIT_\w+)\s+(-?(?:0[xX][0-9a-fA-F]+|\d+)|\"[^\"]*\")\s*$", re.MULTILINE)
FUNCTION = re.compile(r"^(?P<result>[\w ]+?[ *]+)(?P<name>quoit_\w+)\((?P<args>[^()]*)\)$")


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def pkg_config(*args: str) -> list[str]:
    run = subprocess.run(["pkg-config", *args, "quoit"], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"QUOIT_SYSTEM=1 wants the quoit that pkg-config finds, and it finds none:\n{run.stderr}")
    return shlex.split(run.stdout)


def include_dir() -> Path:
    """The folder that holds quoit/quoit.h for the chosen way of building."""
    candidates = []
    if prefix := os.environ.get("QUOIT_PREFIX"):
        candidates.append(Path(prefix) / "include")
    elif os.environ.get("QUOIT_SYSTEM") == "1":
        candidates += [Path(folder) for folder in pkg_config("--variable=includedir")]
    candidates.append(NATIVE / "capi" / "include")
    for candidate in candidates:
        if (candidate / "quoit" / "quoit.h").is_file():
            return candidate.resolve()
    raise SystemExit(f"quoit/quoit.h is in none of {', '.join(map(str, candidates))}")


def read_headers(include: Path) -> tuple[str, list[tuple[str, str]]]:
    """The declarations of the public headers as plain C, and their constants as (name, text), in order."""
    run = subprocess.run(
        [*compiler(), "-E", "-DQUOIT_API=", "-I", str(include), "-x", "c", "-"],
        input="#include <quoit/quoit.h>\n", capture_output=True, text=True,
    )  # fmt: skip
    if run.returncode:
        raise SystemExit(f"cannot preprocess the headers:\n{run.stderr}")
    ours = False
    lines: list[str] = []
    files: list[Path] = []
    for line in run.stdout.splitlines():
        if marker := re.match(r'# \d+ "([^"]*)"', line):
            path = Path(marker[1])
            ours = path.parent.name == "quoit"
            if ours and path not in files:
                files.append(path)
        elif ours and line.strip():
            lines.append(line)
    macros = [m.groups() for path in files for m in MACRO.finditer(path.read_text())]
    return "\n".join(lines) + "\n", [(name, text) for name, text in macros]


def cdef_text(include: Path) -> str:
    declarations, macros = read_headers(include)
    numbers = "".join(f"#define {name} {text}\n" for name, text in macros if not text.startswith('"'))
    return declarations + numbers


def functions(declarations: str) -> Iterator[tuple[str, str, list[str]]]:
    """(name, result type, argument declarations) of each function."""
    flat = re.sub(r"\{[^}]*\}", "{}", re.sub(r"\s+", " ", declarations))
    for statement in flat.split(";"):
        if found := FUNCTION.match(statement.strip()):
            args = [arg.strip() for arg in found["args"].split(",")]
            yield found["name"], found["result"].strip(), [] if args == ["void"] else args


def write_constants(macros: list[tuple[str, str]]) -> str:
    names = [name.removeprefix("QUOIT_") for name, _ in macros]
    return (
        "# SPDX-License-Identifier: MIT OR Apache-2.0\n"
        "# Generated from the public headers by build_ffi.py --write.\n"
        '"""The constants of the ABI, without their QUOIT_."""\n\n'
        "from typing import Final\n\n"
        + "".join(f"{name}: Final = {text}\n" for name, (_, text) in zip(names, macros, strict=True))
    )


def write_stub(declarations: str, macros: list[tuple[str, str]]) -> str:
    def python(declaration: str) -> str:
        return "Any" if "*" in declaration or "quoit_batch_fn" in declaration else "int"

    lines = [
        "# SPDX-License-Identifier: MIT OR Apache-2.0",
        "# Generated from the public headers by build_ffi.py --write.",
        "from typing import Any",
        "",
        "ffi: Any",
        "",
        "class _Lib:",
    ]
    lines += [f"    {name}: int" for name, text in macros if not text.startswith('"')]
    for name, result, args in functions(declarations + HELPERS.replace("static ", "")):
        named = ["".join(re.findall(r"\w+", arg)[-1:]) + ": " + python(arg) for arg in args]
        lines.append(f"    def {name}({', '.join(['self', *named])}) -> {python(result)}: ...")
    return "\n".join([*lines, "", "lib: _Lib"]) + "\n"


def generated(include: Path) -> dict[Path, str]:
    declarations, macros = read_headers(include)
    return {PACKAGE / "const.py": write_constants(macros), PACKAGE / "_quoit.pyi": write_stub(declarations, macros)}


def links(flags: list[str]) -> bool:
    """True if a shared object links with these flags."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text("#include <liburing.h>\n#include <ffi.h>\nint f(void);\nint f(void) {\n"
                          "    struct io_uring ring;\n    ffi_cif cif;\n    return io_uring_queue_init(2, &ring, 0) +\n"
                          "        (int)ffi_prep_cif(&cif, FFI_DEFAULT_ABI, 0, &ffi_type_void, 0);\n}\n")  # fmt: skip
        command = [*compiler(), "-shared", "-fPIC", str(source), "-o", str(Path(folder, "try.so")), "-Wl,-z,defs"]
        return subprocess.run([*command, *flags], capture_output=True).returncode == 0


def dependencies() -> list[str]:
    """How to link liburing and libffi: into the extension where their archives allow it."""
    choices = [
        ["-l:liburing.a", "-l:libffi_pic.a"], ["-l:liburing.a", "-l:libffi.a"], ["-l:liburing.a", "-lffi"],
        ["-luring", "-lffi"],
    ]  # fmt: skip
    for flags in choices:
        if links(flags):
            return flags
    raise SystemExit("liburing and libffi with their headers are needed (Debian: liburing-dev libffi-dev)")


def shared_library() -> dict[str, list[str]]:
    if os.environ.get("QUOIT_SYSTEM") == "1" and "QUOIT_PREFIX" not in os.environ:
        return {"extra_link_args": pkg_config("--libs")}
    prefix = Path(os.environ["QUOIT_PREFIX"]).resolve()
    arch = sysconfig.get_config_var("MULTIARCH") or ""
    for folder in (prefix / "lib", prefix / "lib64", prefix / "lib" / arch, prefix):
        if (folder / "libquoit.so").exists() or (folder / "libquoit.so.1").exists():
            return {"extra_link_args": [f"-L{folder}", "-l:libquoit.so.1", f"-Wl,-rpath,{folder}"]}
    raise SystemExit(f"no libquoit.so.1 under {prefix}")


def uses_shared_library() -> bool:
    return "QUOIT_PREFIX" in os.environ or os.environ.get("QUOIT_SYSTEM") == "1"


def native_sources() -> list[str]:
    """The C files that setup.py compiles into the extension."""
    if uses_shared_library():
        return []
    sources = [*sorted((NATIVE / "runtime").rglob("*.c")), *sorted((NATIVE / "capi" / "src").glob("*.c"))]
    if not sources:
        raise SystemExit(f"no C sources under {NATIVE}")
    return [str(path) for path in sources]


def native_flags() -> list[str]:
    return ["-std=gnu17", "-O2", "-g", "-D_GNU_SOURCE", "-DNDEBUG", "-fvisibility=hidden", "-DQUOIT_API=",
            f"-ffile-prefix-map={NATIVE}/=", f"-I{NATIVE / 'capi' / 'include'}", f"-I{NATIVE}",
            f"-I{NATIVE / 'runtime'}"]  # fmt: skip


def vendored() -> dict[str, list[str]]:
    return {
        "extra_compile_args": ["-fvisibility=hidden", "-DQUOIT_API="],
        "extra_link_args": [*dependencies(), "-pthread", "-ldl", "-Wl,--exclude-libs,ALL", "-Wl,-z,nodelete"],
    }


def make_builder() -> FFI:
    include = include_dir()
    settings = shared_library() if uses_shared_library() else vendored()
    settings["include_dirs"] = [str(include)]
    builder = FFI()
    builder.cdef(cdef_text(include) + HELPERS)
    builder.set_source(
        "quoit._quoit", PREAMBLE, py_limited_api=True, define_macros=[("Py_LIMITED_API", "0x030b0000")], **settings
    )
    return builder


def main(args: list[str]) -> int:
    if args not in (["--write"], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for path, text in generated(include_dir()).items():
        if path.is_file() and path.read_text() == text:
            continue
        if args == ["--write"]:
            path.write_text(text)
        else:
            print(f"{path.name} is not what the headers give: run build_ffi.py --write", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
elif __name__ == "__cffi__":
    ffibuilder = make_builder()
