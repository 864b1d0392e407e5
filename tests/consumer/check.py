#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds consumer.c against an installed prefix as its users would: by pkg-config and by the CMake package, with the
shared and with the static library, where it was installed and after the prefix was moved. Each program is run.

    python3 tests/consumer/check.py PREFIX      exit status 0 when all hold, 1 when one does not
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAP = HERE.parents[1] / "capi" / "quoit.map"


def run(command, **extra):
    env = {**os.environ, **{name: str(value) for name, value in extra.items()}}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, env=env,
                          check=False)  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def lib(prefix):
    return next(path.parent for path in prefix.rglob("libquoit.so.1"))


def needed(program):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", run(["readelf", "-d", program]))


def judge(program, prefix, shared):
    """The program runs, and links what it should."""
    out = run([program], LD_LIBRARY_PATH=lib(prefix) if shared else "")
    assert "1 op, 1 event" in out, out
    assert ("libquoit.so.1" in needed(program)) == shared, f"{program} needs {needed(program)}"


def by_pkg_config(prefix, work, shared):
    more = [] if shared else ["--static"]
    flags = run(["pkg-config", *more, "--cflags", "--libs", "quoit"],
                PKG_CONFIG_PATH=lib(prefix) / "pkgconfig").split()  # fmt: skip
    if not shared:
        flags = ["-l:libquoit.a" if flag == "-lquoit" else flag for flag in flags]
    program = work / "consumer"
    run(["cc", "-Wall", "-Wextra", "-Werror", HERE / "consumer.c", "-o", program, *flags])
    judge(program, prefix, shared)


def by_cmake(prefix, work):
    run(["cmake", "-G", "Ninja", "-S", HERE, "-B", work / "b", f"-DCMAKE_PREFIX_PATH={prefix}"])
    run(["cmake", "--build", work / "b"])
    judge(work / "b" / "consumer-shared", prefix, True)
    judge(work / "b" / "consumer-static", prefix, False)


def library_as_promised(prefix):
    """SONAME, flags, and exactly the symbols of the map."""
    library = lib(prefix) / "libquoit.so.1"
    dynamic = run(["readelf", "-d", library])
    assert "Library soname: [libquoit.so.1]" in dynamic, dynamic
    for flag in ("NODELETE", "NOW"):
        assert flag in dynamic, f"{library} is not linked with -z {flag.lower()}"
    assert "Build ID" in run(["readelf", "-n", library]), f"{library} has no build id"
    listed = run(["nm", "-D", "--defined-only", library])
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines() if " A " not in line}
    promised = set(re.findall(r"^\s+(quoit_\w+);", MAP.read_text(), re.M))
    assert exported == promised, f"exported and not in the map, or the reverse: {sorted(exported ^ promised)}"


def doctor_runs(prefix):
    doctor = prefix / "bin" / "quoit-doctor"
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    done = subprocess.run([doctor], capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.returncode in (0, 10, 11), f"quoit-doctor ended with {done.returncode}: {done.stdout}{done.stderr}"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    installed = Path(sys.argv[1]).resolve()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        moved = Path(scratch, "moved", "here")
        shutil.copytree(installed, moved, symlinks=True)
        tests = {"the library is as promised": lambda work: library_as_promised(installed)}
        for place, prefix in (("installed", installed), ("moved", moved)):
            tests |= {
                f"pkg-config, shared, {place}": lambda work, at=prefix: by_pkg_config(at, work, True),
                f"pkg-config, static, {place}": lambda work, at=prefix: by_pkg_config(at, work, False),
                f"CMake package, {place}": lambda work, at=prefix: by_cmake(at, work),
                f"quoit-doctor, {place}": lambda work, at=prefix: doctor_runs(at),
            }
        for number, (name, body) in enumerate(tests.items()):
            work = Path(scratch, str(number))
            work.mkdir()
            try:
                body(work)
            except (AssertionError, StopIteration, OSError) as problem:
                failed += 1
                print(f"FAILED  {name}: {problem}")
            else:
                passed += 1
    print(f"consumer: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
