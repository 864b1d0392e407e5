# SPDX-License-Identifier: MIT OR Apache-2.0
"""The list of suites, cheap ones first. A suite whose folder holds no tests yet is not in the list."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import outcome

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PYTHON = sys.executable
# Places where the conformance tests run too, how they are entered, and the driver that must be the outcome there.
LAUNCHED: list[tuple[str, list[str], str | None]] = [
    ("seccomp-EPERM", ["noring", "EPERM"], "epoll"),
    ("seccomp-ENOSYS", ["noring", "ENOSYS"], "epoll"),
    ("memlock-0", ["droplock", "0"], None),
]
SANITIZERS = {"asan-ubsan": "address,undefined", "tsan": "thread"}
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1:exitcode=66",
}


@dataclass
class Suite:
    name: str
    language: str
    commands: list[list[str]]
    reader: outcome.Reader = outcome.read_lines
    cwd: Path = ROOT
    env: dict[str, str] = field(default_factory=dict)
    driver: str | None = None  # the one that must have run
    sanitizer: str = ""
    preset: str = "dev"  # built before the suite runs
    timeout: int = 300
    slow: bool = False  # left out by --quick
    lacking: str = ""  # why it cannot run on this machine


def build_of(preset: str) -> Path:
    return BUILD / preset


def unit(preset: str) -> Iterator[Suite]:
    stems = sorted(path.stem for path in (ROOT / "tests/unit").glob("*.c"))
    if stems:
        commands = [[*prefix(preset), str(build_of(preset) / f"quoit-unit-{stem}")] for stem in stems]
        name = "unit" if preset == "dev" else f"unit-{preset}"
        yield Suite(name, "c", commands, outcome.read_cmocka, preset=preset)


def prefix(preset: str) -> list[str]:
    """The thread sanitizer of gcc 12 cannot place its shadow where newer kernels put things at random."""
    fixed = ["setarch", platform.machine(), "-R"]
    if preset != "tsan" or not shutil.which("setarch"):
        return []
    return fixed if subprocess.run([*fixed, "true"], capture_output=True, check=False).returncode == 0 else []


def conformance(preset: str) -> Iterator[Suite]:
    """The same list of tests on every driver and rung; each suite says which one must have run."""
    if not list((ROOT / "tests/conformance").glob("*.c")):
        return
    program = [*prefix(preset), str(build_of(preset) / "quoit-conformance")]
    tail = "" if preset == "dev" else f"-{preset}"
    for driver in outcome.DRIVERS:
        yield Suite(f"conformance-{driver}{tail}", "c", [program], preset=preset, env={"QUOIT_DRIVER": driver},
                    driver=driver, timeout=900)  # fmt: skip
    if preset != "dev":
        return
    # Batches of one event, and events of kinds that a program does not know.
    for driver in ("uring-defer", "epoll"):
        for name, option in (("events-1", ["--events", "1"]), ("grease", ["--grease"])):
            yield Suite(f"conformance-{driver}-{name}", "c", [[*program, *option]], env={"QUOIT_DRIVER": driver},
                        driver=driver, timeout=900, slow=True)  # fmt: skip
    # No option and no variable names a driver here: the library must find its way by itself.
    for name, launcher, must_run in LAUNCHED:
        if (ROOT / "tests/launch" / f"{launcher[0]}.c").is_file():
            started = [str(build_of(preset) / f"quoit-launch-{launcher[0]}"), *launcher[1:], *program]
            yield Suite(f"conformance-{name}", "c", [started], driver=must_run, timeout=900)
    # Room for few rings: the workers share it by taking smaller ones.
    if (ROOT / "tests/launch/droplock.c").is_file():
        started = [str(build_of(preset) / "quoit-launch-droplock"), "65536", *program, "--filter", "four_workers"]
        yield Suite("conformance-memlock-64K", "c", [started])


def matrix() -> Iterator[Suite]:
    """Judges what the conformance suites before it went through; a list that did not run is run."""
    yield Suite("matrix", "c", [[PYTHON, "tools/matrix/run.py", "--collected"]], timeout=900)


def torture() -> Iterator[Suite]:
    yield Suite("torture", "all", [[PYTHON, "tools/torture/run.py", "--short"]], timeout=400)


def churn() -> Iterator[Suite]:
    yield Suite("churn", "c", [[PYTHON, "tools/churn/run.py", "--short"]], timeout=400)


def drain() -> Iterator[Suite]:
    yield Suite("drain", "c", [[PYTHON, "tools/drain/run.py"]], timeout=300)


def model() -> Iterator[Suite]:
    """Not C but its protocol: every state of the mailbox, the wakes and the worker's descriptor, by spin."""
    if list((ROOT / "tests/model").glob("*.pml")):
        yield Suite("model", "all", [[PYTHON, "tools/model/run.py"]], timeout=900)


def checks() -> Iterator[Suite]:
    yield Suite("deps", "all", [[PYTHON, "tests/deps/check.py"]])
    yield Suite("headers", "all", [[PYTHON, "tests/headers/check.py"]])
    yield Suite("operations", "all", [[PYTHON, "tools/operations/run.py", "--check"]])
    yield Suite("consumer", "c", [[PYTHON, "tests/consumer/check.py", str(BUILD / "dev/prefix")]])


def pytest(name: str, folder: str, language: str, **more: Any) -> Iterator[Suite]:
    if list((ROOT / folder).rglob("test_*.py")):
        command = [PYTHON, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "--junitxml",
                   str(BUILD / "test-logs" / name / "junit.xml"), "."]  # fmt: skip
        yield Suite(name, language, [command], outcome.read_pytest, cwd=ROOT / folder, timeout=900, **more)


def has_race_detector() -> bool:
    done = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=False)
    return any(Path(done.stdout.strip(), "src/runtime/race").rglob("race_linux*.syso"))


def go_version() -> tuple[int, ...]:
    done = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in done.stdout.strip().removeprefix("go").split(".")[:2] if part.isdigit())


def go() -> Iterator[Suite]:
    test = ["go", "test", "-json", "-count=1", "-timeout", "5m"]
    for name, folder in (("go", "bindings/go"), ("go-examples", "examples/go")):
        if not list((ROOT / folder).rglob("*_test.go")):
            continue
        yield Suite(name, "go", [[*test, "./..."]], outcome.read_go, cwd=ROOT / folder, timeout=400)
        if name != "go":
            continue
        lacking = "" if has_race_detector() else "this Go comes without the race detector's runtime"
        yield Suite("go-race", "go", [[*test, "-race", "./..."]], outcome.read_go, cwd=ROOT / folder, timeout=400,
                    sanitizer="race", slow=True, lacking=lacking)  # fmt: skip
        lacking = "" if go_version() >= (1, 21) else "cgocheck2 came with Go 1.21"
        yield Suite("go-cgocheck2", "go", [[*test, "./..."]], outcome.read_go, cwd=ROOT / folder, timeout=400,
                    env={"GOEXPERIMENT": "cgocheck2"}, sanitizer="cgocheck2", slow=True, lacking=lacking)  # fmt: skip


def rust() -> Iterator[Suite]:
    for name, features in (("rust-sys", ""), ("rust", "futures-io,tokio-io")):
        folder = ROOT / "bindings" / name
        if (folder / "Cargo.toml").is_file():
            command = ["cargo", "test", "--no-fail-fast", "--color", "never", "--features", features]
            yield Suite(name, "rust", [command], outcome.read_cargo, cwd=folder, timeout=900)


def readme() -> Iterator[Suite]:
    yield Suite("readme", "all", [[PYTHON, "tests/readme/check.py"]], timeout=900)


def abi() -> Iterator[Suite]:
    if (ROOT / "tools/abi/gate").is_file():
        yield Suite("abi", "all", [[PYTHON, "tools/abi/gate"]], outcome.read_abi, timeout=1200, slow=True)


def all_suites() -> list[Suite]:
    found = [*checks(), *model(), *unit("dev"), *conformance("dev"), *matrix(), *torture(), *churn(), *drain()]
    found += [*pytest("python", "bindings/python/tests", "python"), *go(), *rust(), *readme()]
    found += [*pytest("cross", "tests/cross", "all", slow=True), *abi()]
    for preset, sanitizer in SANITIZERS.items():
        for suite in (*unit(preset), *conformance(preset)):
            suite.sanitizer, suite.slow = sanitizer, True
            # Without this the programs would take the library of the preset dev, which is not sanitized.
            suite.env |= SANITIZER_ENV | {"LD_LIBRARY_PATH": str(build_of(preset))}
            found.append(suite)
    return found


def environment() -> dict[str, str]:
    """What every suite gets: the installed library of the preset dev, and no driver chosen."""
    prefix_dir = BUILD / "dev/prefix"
    env = {name: value for name, value in os.environ.items() if not name.startswith("QUOIT_")}
    return env | {
        "CI": env.get("CI", "true"),
        "QUOIT_PREFIX": str(prefix_dir),
        "QUOIT_BUILD": str(BUILD / "dev"),
        "PKG_CONFIG_PATH": str(prefix_dir / "lib/pkgconfig"),
        "LD_LIBRARY_PATH": str(prefix_dir / "lib"),
        "CARGO_TARGET_DIR": str(BUILD / "cargo"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
