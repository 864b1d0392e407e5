#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The programs that the READMEs show: each is taken out of its page, built as the page says, and has to echo.

python3 tests/readme/check.py       needs the environment of ./dev test: PKG_CONFIG_PATH, LD_LIBRARY_PATH,
                                    CARGO_TARGET_DIR; the module quoit in this Python
"""

import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1:7000"
PATIENCE = 60.0


class Wrong(Exception):
    """What a program or its compiler did instead."""


@dataclass
class Program:
    page: str
    language: str
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}, {self.language} program {self.number}"


def programs(page: str, language: str) -> Iterator[Program]:
    """The blocks that listen: the others are pieces, no programs."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    for number, text in enumerate((block for block in blocks if ADDRESS in block), 1):
        yield Program(page, language, number, text)


def run(command: list[str], **more: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **more)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise Wrong(f"{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-1500:]}")
    return str(done.stdout)


def build_c(text: str, work: Path) -> list[str]:
    flags = run(["pkg-config", "--cflags", "--libs", "quoit"]).split()
    (work / "echo.c").write_text(text)
    run(["cc", "-Wall", "-Wextra", "-Werror", "echo.c", "-o", "echo", *flags], cwd=work)
    return [str(work / "echo")]


def build_python(text: str, work: Path) -> list[str]:
    (work / "echo.py").write_text(text)
    return [sys.executable, str(work / "echo.py")]


def build_go(text: str, work: Path) -> list[str]:
    (work / "main.go").write_text(text)
    (work / "go.mod").write_text(
        f"module echo\n\ngo 1.19\n\nrequire quoit v0.0.0\n\nreplace quoit => {ROOT / 'bindings/go'}\n"
    )
    run(["go", "build", "-o", "echo", "."], cwd=work)
    return [str(work / "echo")]


def build_rust(text: str, work: Path) -> list[str]:
    """The page shows the body of a main that may fail."""
    (work / "src").mkdir()
    (work / "Cargo.toml").write_text(
        '[package]\nname = "readme-echo"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n'
        f'[dependencies]\nquoit = {{ path = "{ROOT / "bindings/rust"}" }}\n'
    )
    body = text.rstrip() + ("" if text.rstrip().endswith(";") else ";")
    (work / "src/main.rs").write_text(
        f"fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{body}\n#[allow(unreachable_code)]\nOk(())\n}}\n"
    )
    run(["cargo", "build", "--quiet", "--color", "never"], cwd=work)
    return [str(Path(os.environ["CARGO_TARGET_DIR"], "debug/readme-echo"))]


BUILDERS = {"c": build_c, "python": build_python, "go": build_go, "rust": build_rust}
PAGES = (
    ("README.md", "c"),
    ("bindings/python/README.md", "python"),
    ("bindings/go/README.md", "go"),
    ("bindings/rust/README.md", "rust"),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connect(port: int, process: "subprocess.Popen[str]") -> socket.socket:
    """Once it listens. What ends before that is told with its words."""
    deadline = time.monotonic() + PATIENCE
    ended = os.pidfd_open(process.pid)
    try:
        while time.monotonic() < deadline:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            except ConnectionRefusedError:
                if select.select([ended], [], [], 0.02)[0]:
                    raise Wrong(f"it ended: {process.communicate()[0][-1500:]}") from None
    finally:
        os.close(ended)
    raise Wrong(f"it did not listen within {PATIENCE} s")


def receive(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := client.recv(count - len(data))):
        data += piece
    return data


def echoes(command: list[str], port: int) -> None:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for sent in (b"quoit", bytes(range(256)) * 40):
            with connect(port, process) as client:
                client.sendall(sent)
                if receive(client, len(sent)) != sent:
                    raise Wrong("it did not send back what it was sent")
    finally:
        process.kill()
        process.communicate()


def check(program: Program) -> None:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        text = program.text.replace(ADDRESS, f"127.0.0.1:{port}")
        echoes(BUILDERS[program.language](text, Path(folder)), port)


def main() -> int:
    passed = failed = 0
    for page, language in PAGES:
        found = list(programs(page, language))
        if not found:
            failed += 1
            print(f"FAILED  {page}: it shows no program in {language} that listens on {ADDRESS}")
        for program in found:
            try:
                check(program)
            except (Wrong, OSError, subprocess.SubprocessError) as problem:
                failed += 1
                print(f"FAILED  {program.name}: {problem}")
            else:
                passed += 1
                print(f"ok      {program.name}")
    print(f"readme: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
