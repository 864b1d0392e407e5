# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two services of examples/python, run as programs."""

import hashlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import support
from support import dial, echo_once, lines_of, pattern, receive, receive_all

EXAMPLES = support.ROOT / "examples" / "python"
pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not beside the tests")


class Service:
    def __init__(self, *args: str) -> None:
        command = [sys.executable, "-W", "error", *args]
        self.process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = next(lines_of(self.process), "")
        assert line.startswith("listening on "), (line, self.process.communicate(timeout=support.LIMIT))
        self.address = line.removeprefix("listening on ")
        self.farewell: dict[str, Any] = {}

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        status, out, err = support.finished(self.process)
        assert (status, err) == (0, "")
        self.farewell = json.loads(out)


@contextmanager
def service(name: str, *args: str) -> Iterator[Service]:
    running = Service(str(EXAMPLES / name), *args)
    try:
        yield running
    except BaseException:
        running.process.kill()
        running.process.communicate()
        raise
    running.end()


def echo_at_once(address: str, pieces: list[bytes]) -> None:
    """A client for each piece, all at the same time; each gets its own back."""
    failed: list[int] = []

    def client(number: int) -> None:
        if echo_once(address, pieces[number]) != pieces[number]:
            failed.append(number)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(len(pieces))]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join(support.LIMIT)
        assert not thread.is_alive()
    assert failed == []


@pytest.mark.parametrize("pressure", [(), ("--buffers", "16"), ("--events", "1")], ids=" ".join)
def test_echo(driver: str, pressure: tuple[str, ...]) -> None:
    data = pattern(300_000)
    with service("echo.py", "127.0.0.1:0", "--driver", driver, *pressure) as echo:
        echo_at_once(echo.address, [data[number * 1000 :] for number in range(20)])
        # Connections that are still open do not keep it from ending.
        idle = dial(echo.address)
    idle.close()
    told = echo.farewell
    assert (told["language"], told["driver"]) == ("python", driver)
    assert told["handler_bytes"] == sum(len(data) - number * 1000 for number in range(20))
    assert told["handler_messages"] >= 20
    stats = told["stats"]
    assert stats["bytes_received"] == stats["bytes_sent"] == told["handler_bytes"]
    assert {"ticks", "system_calls", "crossings", "recv_nobufs", "sends_partial"} <= stats.keys()
    if "--buffers" in pressure:
        assert stats["recv_nobufs"] > 0


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    for name, size in (("empty", 0), ("one", 1), ("big", 3_000_001), ("piece", 256 * 1024), ("inner/deep", 5000)):
        (tmp_path / name).write_bytes(pattern(size, len(name)))
    (tmp_path / "secret").touch(mode=0o000)
    return tmp_path


def answer(client: Any) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = client.recv(1)
        assert byte, f"the connection ended after {line!r}"
        line += byte
    if line.startswith(b"-1 "):
        return line
    return receive(client, int(line))


def test_files(driver: str, directory: Path) -> None:
    names = ["empty", "one", "big", "piece", "inner/deep", "inner/../nothing", "big"]
    with service("files.py", "127.0.0.1:0", str(directory), "--driver", driver) as files:
        with dial(files.address) as client:
            for name in names[:5]:
                client.sendall(f"GET {name}\n".encode())
                got = answer(client)
                want = (directory / name).read_bytes()
                assert hashlib.sha256(got).digest() == hashlib.sha256(want).digest()
        with dial(files.address) as client:
            # All at once, and then the end: everything is answered, in order.
            client.sendall("".join(f"GET {name}\n" for name in names).encode())
            client.shutdown(1)
            got_all = receive_all(client)
        want = b""
        for name in names:
            if ".." in name:
                want += b"-1 not a request for a file here\n"
            else:
                data = (directory / name).read_bytes()
                want += b"%d\n" % len(data) + data
        assert got_all == want
    assert files.farewell["handler_messages"] == 12


def test_files_that_cannot_be_had(driver: str, directory: Path) -> None:
    requests = [
        b"GET ../etc/passwd",
        b"GET /etc/passwd",
        b"GET none",
        b"GET inner",
        b"PUT one",
        b"GET ",
        b"",
        b"GET a\0b",
    ]
    with service("files.py", "127.0.0.1:0", str(directory), "--driver", driver) as files:
        with dial(files.address) as client:
            for request in requests:
                client.sendall(request + b"\n")
                assert answer(client).startswith(b"-1 "), request
            client.sendall(b"GET one\n")
            assert answer(client) == (directory / "one").read_bytes()
        with dial(files.address) as client:
            client.sendall(b"x" * 100_000)
            try:
                assert receive_all(client) == b""
            except ConnectionResetError:
                pass
        with dial(files.address) as client:
            # Gone in the midst of an answer.
            client.sendall(b"GET big\nGET big\n")
            receive(client, 1000)
        with dial(files.address) as client:
            client.sendall(b"GET big\n")
            assert answer(client) == (directory / "big").read_bytes()
    assert files.farewell["stats"]["leaked"] == 0
