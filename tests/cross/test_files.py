# SPDX-License-Identifier: MIT OR Apache-2.0
"""The file service: every language, every rung."""

import hashlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from demo import receive_file
from services import Service

Start = Callable[..., Service]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    place.mkdir()
    (place / "empty").write_bytes(b"")
    (place / "small").write_bytes(b"hello\n")
    (place / "large").write_bytes(hashlib.shake_256(b"large").digest(5_000_001))
    (place / "in").mkdir()
    (place / "in" / "side").write_bytes(b"deeper")
    (tmp_path / "secret").write_bytes(b"not for you")
    return place


def ask(service: Service, lines: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    connection.sendall(lines)
    return connection


def digest(path: Path) -> tuple[int, str]:
    data = path.read_bytes()
    return len(data), hashlib.sha256(data).hexdigest()


def test_pipelined(start: Start, folder: Path) -> None:
    service = start("files", str(folder))
    names = ["small", "large", "empty", "in/side", "large", "small"]
    with ask(service, "".join(f"GET {name}\n" for name in names).encode()) as connection:
        with connection.makefile("rb") as stream:
            for name in names:
                assert receive_file(stream) == digest(folder / name), name
            connection.shutdown(socket.SHUT_WR)
            assert stream.read() == b""
    assert service.stop()["handler_messages"] == len(names)


def test_refusals(start: Start, folder: Path) -> None:
    """What cannot be served is said in a line, and the connection goes on."""
    service = start("files", str(folder))
    bad = ["GET nope", "GET ../secret", "GET /etc/passwd", "GET in/../../secret", "PUT small", "GET in"]
    with ask(service, ("\n".join(bad) + "\nGET small\n").encode()) as connection, connection.makefile("rb") as stream:
        for line in bad:
            answer = stream.readline()
            assert answer.startswith(b"-1 "), (line, answer)
        assert receive_file(stream) == digest(folder / "small")


def test_split_request(start: Start, folder: Path) -> None:
    service = start("files", str(folder))
    with ask(service, b"G") as connection, connection.makefile("rb") as stream:
        for piece in (b"ET sm", b"all", b"\nGET empty\n"):
            connection.sendall(piece)
        assert receive_file(stream) == digest(folder / "small")
        assert receive_file(stream) == digest(folder / "empty")


def test_client_leaves(start: Start, folder: Path) -> None:
    """Clients that go in the middle of a file or a request leave nothing open."""
    service = start("files", str(folder))
    for lines in (b"GET lar", b"GET large\n", b"GET large\nGET large\n"):
        with ask(service, lines) as connection:
            connection.recv(10) if lines.endswith(b"\n") else None
    with ask(service, b"GET small\n") as connection, connection.makefile("rb") as stream:
        assert receive_file(stream) == digest(folder / "small")
    service.stop()
