# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files on every driver and rung."""

import gc
from pathlib import Path

import pytest

import quoit
from support import drive, pattern


def opened(worker: quoit.Worker, path: Path | str, flags: int, directory: quoit.File | None = None) -> quoit.File:
    outcome = open_outcome(worker, path, flags, directory)
    assert isinstance(outcome, quoit.File), outcome
    return outcome


def open_outcome(
    worker: quoit.Worker, path: Path | str, flags: int, directory: quoit.File | None = None
) -> quoit.File | quoit.Error:
    outcomes: list[quoit.File | quoit.Error] = []
    worker.open(str(path), flags, outcomes.append, directory=directory)
    drive(worker, lambda: bool(outcomes))
    return outcomes.pop()


def closed(worker: quoit.Worker, file: quoit.File) -> None:
    outcomes: list[int | quoit.Error] = []
    file.close(outcomes.append)
    file.close(outcomes.append)
    drive(worker, lambda: bool(outcomes))
    assert outcomes == [0]


def read(worker: quoit.Worker, file: quoit.File, position: int, length: int) -> tuple[bytes, bool]:
    outcomes: list[tuple[bytes, bool]] = []

    def done(data: quoit.Lent | quoit.Error) -> None:
        assert isinstance(data, quoit.Lent), data
        outcomes.append((bytes(data), data.eof))

    file.read(position, length, done)
    drive(worker, lambda: bool(outcomes))
    return outcomes[0]


def test_read_whole_file(worker: quoit.Worker, tmp_path: Path) -> None:
    data = pattern(700_000)
    path = tmp_path / "file"
    path.write_bytes(data)
    file = opened(worker, path, quoit.OPEN_READ)
    assert file.size == len(data)
    got = b""
    while True:
        piece, eof = read(worker, file, len(got), 256 * 1024)
        got += piece
        if eof:
            break
    assert got == data
    assert read(worker, file, 12345, 10)[0] == data[12345:12355]
    assert read(worker, file, 1 << 30, 10) == (b"", True)
    memory = bytearray(100_000)
    counts: list[int | quoit.Error] = []
    file.read_into(memory, 50_000, counts.append)
    drive(worker, lambda: bool(counts))
    assert counts == [100_000]
    assert memory == data[50_000:150_000]
    closed(worker, file)


def test_write_fsync_and_append(worker: quoit.Worker, tmp_path: Path) -> None:
    path = tmp_path / "new"
    data = pattern(2_000_000)
    file = opened(worker, path, quoit.OPEN_WRITE | quoit.OPEN_CREATE | quoit.OPEN_EXCLUSIVE)
    counts: list[int | quoit.Error] = []
    file.write(data, 0, counts.append)
    file.write(b"small", 2_000_000, counts.append)
    drive(worker, lambda: len(counts) == 2)
    file.write(bytearray(b"borrowed"), 2_000_005, counts.append, borrow=True)
    file.write(b"!", -1, counts.append)
    drive(worker, lambda: len(counts) == 4)
    file.fsync(counts.append)
    file.fsync(counts.append, data_only=True)
    drive(worker, lambda: len(counts) == 6)
    assert set(counts[:2]) == {5, 2_000_000}
    assert set(counts[2:4]) == {1, 8}
    assert counts[4:] == [0, 0]
    closed(worker, file)
    written = path.read_bytes()
    assert written[:2_000_005] == data + b"small"
    assert len(written) in (2_000_013, 2_000_014)
    refused = open_outcome(worker, path, quoit.OPEN_WRITE | quoit.OPEN_CREATE | quoit.OPEN_EXCLUSIVE)
    assert isinstance(refused, quoit.Error)
    assert refused.name == "EEXIST"


def test_directories(worker: quoit.Worker, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"content")
    directory = opened(worker, tmp_path, quoit.OPEN_READ | quoit.OPEN_DIRECTORY)
    assert quoit.lib.quoit_handle_kind(directory.handle) == quoit.HANDLE_DIRECTORY
    file = opened(worker, "inner/file", quoit.OPEN_READ, directory)
    assert read(worker, file, 0, 100)[0] == b"content"
    missing = open_outcome(worker, "inner/none", quoit.OPEN_READ, directory)
    assert isinstance(missing, quoit.Error)
    assert (missing.name, missing.operation) == ("ENOENT", "open")
    closed(worker, file)
    closed(worker, directory)


def test_read_after_close_is_refused(worker: quoit.Worker, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    file = opened(worker, tmp_path / "file", quoit.OPEN_READ)
    closed(worker, file)
    errors: list[quoit.Lent | quoit.Error] = []
    file.read(0, 1, errors.append)
    drive(worker, lambda: bool(errors))
    assert isinstance(errors[0], quoit.Error)
    assert (errors[0].name, errors[0].field) == ("QUOIT_E_STALE", "target")
    with pytest.raises(quoit.Error, match="QUOIT_E_STALE"):
        _ = file.size


def test_forgotten_file_is_closed_by_a_post(worker: quoit.Worker, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    before = worker.stats()["objects_live"]
    file = opened(worker, tmp_path / "file", quoit.OPEN_READ)
    with pytest.warns(ResourceWarning, match=r"unclosed <quoit.File"):
        del file
        gc.collect()
    drive(worker, lambda: worker.stats()["objects_live"] == before)
    assert worker.stats()["posts_in"] == 1
