# SPDX-License-Identifier: MIT OR Apache-2.0
"""Echo: every language, every rung, the same bytes."""

import contextlib
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo import client as drive
from services import Service

Start = Callable[..., Service]


def connect(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=20)


def receive(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        assert piece, f"the stream ended after {len(data)} of {count} bytes"
        data += piece
    return bytes(data)


def ends_clean(service: Service, driver: str) -> dict[str, Any]:
    """Its report, which must name the rung that was asked for and leave nothing behind."""
    report = service.stop()
    assert report["driver"] == driver
    assert report["stats"]["send_bytes_queued"] == 0
    return report


def test_sizes(start: Start, client: Path, driver: str) -> None:
    service = start("echo")
    told = drive(client, service.port, 20, 60, 1, "1,2,63,64,65,2047,2048,2049,65536,1048576")
    assert told["mismatches"] == 0
    report = ends_clean(service, driver)
    assert report["handler_bytes"] == told["bytes"]


def test_sixteen_buffers(start: Start, client: Path, driver: str) -> None:
    service = start("echo", "--buffers", "16")
    told = drive(client, service.port, 64, 60, 1, "1,100000")
    report = ends_clean(service, driver)
    assert told["mismatches"] == 0
    assert report["stats"]["recv_nobufs"] > 0


def test_one_event_a_batch(start: Start, client: Path, driver: str) -> None:
    service = start("echo", "--events", "1")
    told = drive(client, service.port, 8, 60, 1, "1,1000,100000")
    assert told["mismatches"] == 0
    ends_clean(service, driver)


def test_a_thousand_connections(start: Start, client: Path, driver: str) -> None:
    service = start("echo")
    told = drive(client, service.port, 1000, 60, 1, "100")
    report = ends_clean(service, driver)
    assert told["messages"] == 1000
    assert report["stats"]["accepts"] == 1000
    assert report["handler_messages"] == 1000


def test_byte_at_a_time_and_slow(start: Start, client: Path, driver: str) -> None:
    service = start("echo")
    assert drive(client, service.port, 2, 60, 1, "16384", "chunk=1")["mismatches"] == 0
    assert drive(client, service.port, 2, 60, 1, "2097152", "rcvbuf=4096", "chunk=4096")["mismatches"] == 0
    ends_clean(service, driver)


def test_half_close(start: Start, driver: str) -> None:
    """The peer has said its end: what it sent still comes back, then our end."""
    service = start("echo")
    with connect(service) as connection:
        data = bytes(range(256)) * 1000
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        assert receive(connection, len(data)) == data
        assert connection.recv(1) == b""
    ends_clean(service, driver)


def test_reset(start: Start, driver: str) -> None:
    """Peers that vanish harm no one else."""
    service = start("echo")
    with connect(service) as steady:
        for _ in range(20):
            with connect(service) as rude:
                rude.sendall(b"x" * 100_000)
                rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        steady.sendall(b"still here")
        assert receive(steady, 10) == b"still here"
    ends_clean(service, driver)


def test_stops_with_connections_open(start: Start, driver: str) -> None:
    service = start("echo")
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            connection = stack.enter_context(connect(service))
            connection.sendall(b"hello")
            assert receive(connection, 5) == b"hello"
        report = ends_clean(service, driver)
    assert report["handler_messages"] == 10


def test_crossings_counted_from_outside(start: Start, client: Path, counter: Path, driver: str, tmp_path: Path) -> None:
    """What the library says of crossings is what a stranger counts at its door."""
    count = tmp_path / "crossings"
    service = start("echo", environment={"LD_PRELOAD": str(counter), "QUOIT_COUNT_FILE": str(count)})
    told = drive(client, service.port, 50, 1, 0, "64", "busy")
    report = ends_clean(service, driver)
    outside = int.from_bytes(count.read_bytes(), sys.byteorder)
    inside = report["stats"]["crossings"]
    # Turns after the report was taken (the end of the worker) are counted outside only.
    assert inside <= outside <= inside + 50
    assert inside < told["messages"] * 1.2


def test_system_calls_counted_from_outside(
    start: Start, client: Path, language: str, driver: str, tmp_path: Path
) -> None:
    if language != "c":
        pytest.skip("a language's own runtime makes system calls too; the C service makes only the library's")
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "strace"
    service = start("echo", prefix=["strace", "-f", "-c", "-o", str(log)])
    drive(client, service.port, 4, 60, 200, "64")
    child = int(Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()[0])
    subprocess.run(["kill", "-TERM", str(child)], check=True)
    output, _ = service.process.communicate(timeout=20)
    match = re.search(r'"system_calls":(\d+)', output)
    assert match, output
    inside = int(match.group(1))
    total = re.search(r"^100\.00\s+\S+\s+(?:\S+\s+)?(\d+)", log.read_text(), re.MULTILINE)
    assert total, log.read_text()
    # Outside there are also the program's start and end, and the trial of the driver.
    assert inside <= int(total.group(1)) <= inside + 400
