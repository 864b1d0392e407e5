# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real container under today's stock seccomp profile of Docker, on an engine of our own, ended by its pid."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from services import find, native_build

PROFILE_MODULE = "github.com/moby/profiles/seccomp@latest"
IMAGE = "quoit-hostile"
START_SECONDS = 60


class ContainerError(Exception):
    """The container could not be had."""


def run(command: list[str], **more: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **more)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise ContainerError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return str(done.stdout)


def need_engine() -> None:
    if shutil.which("dockerd") is None:
        print("installing docker.io with apt", flush=True)
        run(
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", "docker.io"],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )


def stock_profile(folder: Path) -> Path:
    """default.json as the module that Docker is built from has it, by the Go module proxy."""
    text = run([find("go", "/usr/local/go/bin"), "mod", "download", "-json", PROFILE_MODULE], cwd=folder)
    return Path(json.loads(text)["Dir"]) / "default.json"


def libraries(program: Path) -> set[Path]:
    found = set()
    for word in run(["ldd", str(program)]).split():
        if word.startswith("/"):
            found.add(Path(word))
    return found


def image_root(folder: Path) -> Path:
    """A root with our programs at their own paths, and the libraries they need."""
    root = folder / "root"
    programs = [native_build() / "quoit-example-echo", native_build() / "quoit-doctor"]
    for path in {*programs, *(lib for program in programs for lib in libraries(program))}:
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    (root / "tmp").mkdir(exist_ok=True)
    return root


def wait_for(docker: list[str], engine: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and engine.poll() is None:
        done = subprocess.run([*docker, "info"], capture_output=True, check=False)
        if done.returncode == 0:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(0.2)
    raise ContainerError("dockerd did not come up")


def docker_client() -> str:
    """The client of the same package as the engine."""
    return "/usr/bin/docker" if Path("/usr/bin/docker").exists() else find("docker")


@contextlib.contextmanager
def container() -> Iterator[list[str]]:
    """Yields the prefix that runs one of our programs in a container on the host's loopback."""
    need_engine()
    with tempfile.TemporaryDirectory(prefix="quoit-docker-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        profile = stock_profile(folder)
        socket = f"unix://{folder}/docker.sock"
        command = [
            "dockerd",
            "--iptables=false",
            "--bridge=none",
            "-H",
            socket,
            "--data-root",
            f"{folder}/data",
            "--exec-root",
            f"{folder}/exec",
            "--pidfile",
            f"{folder}/pid",
            "--storage-driver",
            "vfs",
        ]
        docker = [docker_client(), "-H", socket]
        with (folder / "log").open("wb") as log:
            engine = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            wait_for(docker, engine)
            tar = folder / "image.tar"
            run(["tar", "-C", str(image_root(folder)), "-cf", str(tar), "."])
            run([*docker, "import", str(tar), IMAGE])
            yield [
                *docker,
                "run",
                "--rm",
                "--network",
                "host",
                "--security-opt",
                f"seccomp={profile}",
                "--env",
                f"LD_LIBRARY_PATH={os.environ.get('LD_LIBRARY_PATH', '')}",
                IMAGE,
            ]
        finally:
            engine.terminate()
            try:
                engine.wait(30)
            except subprocess.TimeoutExpired:
                engine.kill()
                engine.wait()
