# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same cases through the services of every language, on every rung. `./dev test --only cross`."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools/demo")]

from services import LANGUAGES, OUT, Service, build_clients, build_go, build_rust, run  # noqa: E402

DRIVERS = ("uring-defer", "uring-coop", "uring-plain", "epoll")


@pytest.fixture(scope="session")
def client() -> Path:
    """The echo client of the demo, and the services that are compiled."""
    binary = build_clients()
    build_go()
    build_rust()
    return binary


@pytest.fixture(scope="session")
def counter() -> Path:
    """The library that counts crossings from outside."""
    OUT.mkdir(parents=True, exist_ok=True)
    library = OUT / "count_calls.so"
    source = ROOT / "tests/cross/count_calls.c"
    include = f"-I{ROOT / 'capi/include'}"
    run(["cc", "-shared", "-fPIC", "-O2", "-Wall", include, str(source), "-o", str(library), "-ldl"], ROOT)
    return library


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(client: Path, language: str, driver: str) -> Iterator[Callable[..., Service]]:
    """start(name, arguments...): a running service; whatever is still running at the end is ended."""
    running: list[Service] = []

    def begin(name: str, *arguments: str, **more: Any) -> Service:
        service = Service(language, name, driver, list(arguments), **more)
        service.__enter__()
        running.append(service)
        return service

    yield begin
    for service in running:
        service.__exit__()
