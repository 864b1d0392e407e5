# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two services in each language: how they are built, started and stopped."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
OUT = BUILD / "demo"
LANGUAGES = ("c", "python", "go", "rust")
START_SECONDS = 30
STOP_SECONDS = 30


class DemoError(Exception):
    """What the demo promises did not hold."""


def native_build() -> Path:
    return Path(os.environ.get("QUOIT_BUILD", BUILD / "release"))


def run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoError(f"{' '.join(command)} failed in {cwd}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def find(name: str, *folders: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), *(str(Path(f).expanduser()) for f in folders)])
    for folder in path.split(os.pathsep):
        if folder and os.access(Path(folder) / name, os.X_OK):
            return str(Path(folder) / name)
    raise DemoError(f"{name} is not on PATH. ./dev demo installs it; run that instead of this script.")


def build_clients() -> Path:
    OUT.mkdir(parents=True, exist_ok=True)
    client = OUT / "client"
    run(["cc", "-O2", "-Wall", "-Wextra", "-o", str(client), str(ROOT / "tools/demo/client.c"), "-luring"], ROOT)
    return client


def build_go() -> None:
    for name in ("echo", "files"):
        run(
            [find("go", "/usr/local/go/bin"), "build", "-o", str(OUT / f"go-{name}"), f"./{name}"], ROOT / "examples/go"
        )


def build_rust() -> None:
    run([find("cargo", "~/.cargo/bin"), "build", "--release", "--quiet"], ROOT / "examples/rust")


def command_of(language: str, service: str) -> list[str]:
    if language == "c":
        return [str(native_build() / f"quoit-example-{service}")]
    if language == "python":
        return [sys.executable, str(ROOT / f"examples/python/{service}.py")]
    if language == "go":
        return [str(OUT / f"go-{service}")]
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "examples/rust/target"))
    return [str(target / "release" / service)]


def build_id(path: str) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    match = re.search(r"Build ID: ([0-9a-f]+)", notes)
    if match is None:
        raise DemoError(f"{path} has no build id.")
    return match.group(1)


@dataclass
class Service:
    """One process of a service, from its first line to its report."""

    language: str
    name: str
    driver: str
    arguments: list[str] = field(default_factory=list)
    prefix: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> "Service":
        options = ["--driver", self.driver] if self.driver else []
        command = [*self.prefix, *command_of(self.language, self.name), "127.0.0.1:0", *self.arguments, *options]
        environment = {**os.environ, **self.environment}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment
        )
        assert self.process.stdout is not None
        signal.alarm(START_SECONDS)
        line = self.process.stdout.readline()
        signal.alarm(0)
        match = re.match(r"listening on .*:(\d+)$", line.strip())
        if match is None:
            self.process.kill()
            self.process.wait()
            raise DemoError(f"{' '.join(command)} did not start: {line!r}")
        self.port = int(match.group(1))
        return self

    def library(self) -> str:
        """The build id of the libquoit.so.1 that this process has mapped."""
        for line in Path(f"/proc/{self.process.pid}/maps").read_text().splitlines():
            path = line.split(maxsplit=5)[-1]
            if "/libquoit.so" in path:
                return build_id(path)
        raise DemoError(f"the {self.language} service has no libquoit.so.1 mapped")

    def stop(self) -> dict[str, Any]:
        """Ends the service by SIGTERM; its report."""
        self.process.send_signal(signal.SIGTERM)
        try:
            output, _ = self.process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise DemoError(f"the {self.language} {self.name} service did not stop on SIGTERM") from error
        if self.process.returncode != 0:
            raise DemoError(f"the {self.language} {self.name} service ended with {self.process.returncode}: {output}")
        report: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
        return report

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
