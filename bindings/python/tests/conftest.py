# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every test that touches the network or files runs on every driver and rung; QUOIT_DRIVER narrows that to one."""

import os
from collections.abc import Iterator

import pytest

import quoit
import support


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "driver" in metafunc.fixturenames:
        chosen = os.environ.get("QUOIT_DRIVER", "auto")
        metafunc.parametrize("driver", support.DRIVERS if chosen == "auto" else [chosen])


@pytest.fixture
def runtime(driver: str) -> Iterator[quoit.Runtime]:
    with quoit.Runtime(driver) as runtime:
        assert runtime.driver == driver
        yield runtime


@pytest.fixture
def worker(runtime: quoit.Runtime) -> Iterator[quoit.Worker]:
    with runtime.worker() as worker:
        yield worker
