# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every test that touches the network or files runs on every driver and rung; QUOIT_DRIVER narrows that to one."""

import os
from collections.abc import Iterator

import pytest

import quoit
import support
from aio_support import Runner


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = os.environ.get("QUOIT_DRIVER", "auto")
    drivers = support.DRIVERS if chosen == "auto" else [chosen]
    if "run" in metafunc.fixturenames:
        # In a foreign loop each rung has its own way of telling; alone only the two drivers differ.
        modes = [("alone", driver) for driver in drivers if driver in ("uring-defer", "epoll") or driver == chosen]
        metafunc.parametrize(("way", "driver"), modes + [("hosted", driver) for driver in drivers])
    elif "driver" in metafunc.fixturenames:
        metafunc.parametrize("driver", drivers)


@pytest.fixture
def runtime(driver: str) -> Iterator[quoit.Runtime]:
    with quoit.Runtime(driver) as runtime:
        assert runtime.driver == driver
        yield runtime


@pytest.fixture
def worker(runtime: quoit.Runtime) -> Iterator[quoit.Worker]:
    with runtime.worker() as worker:
        yield worker


@pytest.fixture
def run(way: str, driver: str) -> Runner:
    """Runs a coroutine function on the driver: the worker alone, and in a loop of asyncio."""
    return Runner(way, driver)
