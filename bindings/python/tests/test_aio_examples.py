# SPDX-License-Identifier: MIT OR Apache-2.0
"""The services of examples/python that are made of async functions, run as programs."""

import json
import socket
import subprocess
import sys

import pytest

import support
from support import pattern
from test_services import EXAMPLES, echo_at_once, service

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not beside the tests")


@pytest.mark.parametrize("name", ["async_echo.py", "asyncio_host.py"])
@pytest.mark.parametrize("pressure", [(), ("--buffers", "16", "--events", "1")], ids=" ".join)
def test_echo(driver: str, name: str, pressure: tuple[str, ...]) -> None:
    data = pattern(200_000)
    with service(name, "127.0.0.1:0", "--driver", driver, *pressure) as echo:
        echo_at_once(echo.address, [data[number * 1000 :] for number in range(10)])
    told = echo.farewell
    assert (told["language"], told["driver"]) == ("python", driver)
    assert told["handler_bytes"] == sum(len(data) - number * 1000 for number in range(10))
    assert told["handler_messages"] >= 10
    assert told["stats"]["ticks"] == told["stats"]["crossings"]


@pytest.mark.parametrize("pressure", [(), ("--events", "1")], ids=" ".join)
def test_udp(driver: str, pressure: tuple[str, ...]) -> None:
    with service("async_udp.py", "127.0.0.1:0", "--driver", driver, *pressure) as udp:
        host, _, port = udp.address.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(support.LIMIT)
            client.connect((host, int(port)))
            for size in (0, 1, 1400):
                client.send(pattern(size))
                assert client.recv(2000) == pattern(size)
            client.send(bytes(60_000))
            assert client.recv(2000) == b"60000"
    assert (udp.farewell["driver"], udp.farewell["handler_messages"]) == (driver, 4)
    assert udp.farewell["handler_bytes"] == 61_401


def test_workers(driver: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "async_workers.py"), "--driver", driver], text=True,
        capture_output=True, timeout=support.LIMIT, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    told = json.loads(run.stdout)
    assert told == {"driver": driver, "answers": 400, "right": True, "shares": [134, 133, 133]}


def test_handover(driver: str) -> None:
    """Also with more bytes than the front reads, and all clients at once."""
    data = pattern(300_000)
    with service("async_handover.py", "127.0.0.1:0", "--driver", driver) as front:
        echo_at_once(front.address, [data[: 1 + number * 20_000] for number in range(8)])
    assert (front.farewell["driver"], front.farewell["handed"], front.farewell["status"]) == (driver, 8, 0)
