# SPDX-License-Identifier: MIT OR Apache-2.0
"""The demo: echo and file service in C, Python, Go and Rust over one libquoit.so.1, driven and checked."""

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from results import Result
from services import LANGUAGES, OUT, DemoError, Service, build_clients, build_go, build_rust

DRIVERS = {"io_uring": "uring", "epoll": "epoll"}
MIB = 1 << 20
BIG_FILE = 64 * MIB
AT_LEAST_VERIFIED = 1 << 30
ECHO_SIZES = "1,10,100,1000,10000,100000,1048576"
CLIENT_SECONDS = 120


def say(text: str) -> None:
    print(text, flush=True)


def client(
    binary: Path,
    port: int,
    connections: int,
    seconds: int,
    rounds: int,
    sizes: str,
    *more: str,
    prefix: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs the echo client; what it told."""
    command = [*prefix, str(binary), str(port), str(connections), str(seconds), str(rounds), sizes, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False)
    if done.returncode != 0:
        raise DemoError(f"the echo client failed: {done.stderr or done.stdout}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class Row:
    """What one language on one driver showed."""

    def __init__(self, language: str, driver: str) -> None:
        self.language = language
        self.driver = driver
        self.ran = ""
        self.verified = 0
        self.mismatches = 0
        self.nobufs = 0
        self.partial = 0
        self.libraries: set[str] = set()
        self.measured: dict[str, Any] = {}

    def add(self, report: dict[str, Any], told: dict[str, Any]) -> None:
        self.verified += told["bytes"]
        self.mismatches += told["mismatches"]
        self.nobufs += report["stats"]["recv_nobufs"]
        self.partial += report["stats"]["sends_partial"]
        self.ran = report["driver"]
        if report["handler_bytes"] != told["bytes"]:
            raise DemoError(
                f"{self.language} on {self.driver}: the handler saw {report['handler_bytes']} bytes,"
                f" the clients sent {told['bytes']}"
            )

    def as_json(self) -> dict[str, Any]:
        return {
            "language": self.language,
            "driver": self.driver,
            "driver_ran": self.ran,
            **self.measured,
            "bytes_verified": self.verified,
            "mismatches": self.mismatches,
            "recv_nobufs": self.nobufs,
            "sends_partial": self.partial,
        }


def echo_rounds(binary: Path, row: Row) -> None:
    """Sizes from 1 B to 1 MiB on 200 connections; byte-at-a-time and slow readers; then all with 16 buffers."""
    with Service(row.language, "echo", DRIVERS[row.driver]) as service:
        row.libraries.add(service.library())
        told = client(binary, service.port, 200, CLIENT_SECONDS, 1, ECHO_SIZES)
        for extra in (
            client(binary, service.port, 2, CLIENT_SECONDS, 1, "65536", "chunk=1"),
            client(binary, service.port, 4, CLIENT_SECONDS, 1, str(4 * MIB), "rcvbuf=4096", "chunk=4096"),
        ):
            told["bytes"] += extra["bytes"]
            told["mismatches"] += extra["mismatches"]
        row.add(service.stop(), told)
    with Service(row.language, "echo", DRIVERS[row.driver], ["--buffers", "16"]) as service:
        told = client(binary, service.port, 200, CLIENT_SECONDS, 1, "1,1000,100000")
        row.add(service.stop(), told)


def echo_measured(binary: Path, row: Row, seconds: int) -> None:
    """50 connections, a client that never sleeps, 64-byte messages one at a time: each message is one handler call."""
    server, load = (["taskset", "-c", "0"], ["taskset", "-c", "1"]) if (os.cpu_count() or 1) > 1 else ([], [])
    with Service(row.language, "echo", DRIVERS[row.driver], prefix=server) as service:
        told = client(binary, service.port, 50, seconds, 0, "64", "busy", prefix=load)
        report = service.stop()
    row.add(report, told)
    requests = told["messages"]
    if report["handler_messages"] != requests:
        raise DemoError(
            f"{row.language} on {row.driver}: the handler counted {report['handler_messages']} messages of {requests}"
        )
    row.measured = {
        "requests": requests,
        "requests_per_s": round(requests / told["seconds"]),
        "syscalls_per_request": round(report["stats"]["system_calls"] / requests, 4),
        "crossings_per_request": round(report["stats"]["crossings"] / requests, 4),
        "p50_us": told["p50_us"],
        "p99_us": told["p99_us"],
        "handler_messages": report["handler_messages"],
    }


def digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def receive_file(stream: Any) -> tuple[int, str]:
    line = stream.readline()
    length = int(line)
    sha = hashlib.sha256()
    left = length
    while left:
        piece = stream.read1(min(left, MIB))
        if not piece:
            raise DemoError("the file service closed in the middle of a file")
        sha.update(piece)
        left -= len(piece)
    return length, sha.hexdigest()


def fetch_files(row: Row, folder: Path, wanted: dict[str, tuple[int, str]]) -> None:
    """Every file of the folder, all requests pipelined on one connection, compared by length and SHA-256."""
    with Service(row.language, "files", DRIVERS[row.driver], [str(folder)]) as service:
        row.libraries.add(service.library())
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
            connection.sendall("".join(f"GET {name}\n" for name in wanted).encode())
            with connection.makefile("rb", buffering=MIB) as stream:
                for _name, expected in wanted.items():
                    if receive_file(stream) != expected:
                        row.mismatches += 1
                    row.verified += expected[0]
        report = service.stop()
    row.nobufs += report["stats"]["recv_nobufs"]
    row.partial += report["stats"]["sends_partial"]
    if report["handler_messages"] != len(wanted):
        raise DemoError(f"{row.language} files: {report['handler_messages']} requests counted of {len(wanted)}")


def make_folder(source: Path) -> Path:
    """A folder with the source's files by symbolic links and a generated file of 64 MiB."""
    folder = OUT / "files"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for path in sorted(source.iterdir()):
        if path.is_file():
            (folder / path.name).symlink_to(path.resolve())
    block = hashlib.shake_256(b"quoit").digest(MIB)
    with (folder / "generated-64MiB").open("wb") as big:
        for i in range(BIG_FILE // MIB):
            big.write(block[i:] + block[:i])
    return folder


def table(rows: list[Row]) -> None:
    say("")
    say("language driver      ran          requests/s  syscalls/req  crossings/req   p50 us    p99 us   verified MiB")
    for row in rows:
        m = row.measured
        say(
            f"{row.language:<8} {row.driver:<11} {row.ran:<12} {m['requests_per_s']:>10}"
            f" {m['syscalls_per_request']:>13.3f} {m['crossings_per_request']:>14.3f} {m['p50_us']:>8.0f}"
            f" {m['p99_us']:>9.0f} {row.verified / MIB:>14.0f}"
        )


def check_whole(rows: list[Row]) -> list[str]:
    wrong = [f"{r.language} on {r.driver}: {r.mismatches} mismatches" for r in rows if r.mismatches]
    libraries = set().union(*(r.libraries for r in rows))
    if len(libraries) != 1:
        wrong.append(f"the services mapped {len(libraries)} different libquoit.so.1")
    total = sum(r.verified for r in rows)
    if total < AT_LEAST_VERIFIED:
        wrong.append(f"only {total} bytes were verified")
    if not any(r.nobufs for r in rows):
        wrong.append("no receive ever found the buffer pool empty: that path was not tried")
    if not any(r.partial for r in rows):
        wrong.append("no send was ever partial: that path was not tried")
    say(f"\n{total / (1 << 30):.2f} GiB verified; one libquoit.so.1 (build id {', '.join(sorted(libraries))}).")
    return wrong


BY_HAND = """
Try it by hand:
  build/release/quoit-example-echo 127.0.0.1:7000        then, elsewhere: nc 127.0.0.1 7000
  build/venv/bin/python examples/python/files.py 127.0.0.1:7001 /usr/share/common-licenses
                                                         then: printf 'GET GPL-3\\n' | nc -q1 127.0.0.1 7001
  build/release/quoit-doctor                             what this machine lets quoit use
"""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev demo",
        description=__doc__,
        epilog="Examples: ./dev demo    ./dev demo --language python --driver epoll    ./dev demo --directory DIR",
    )
    parser.add_argument("--language", choices=LANGUAGES, action="append", help="only this one (may be given again)")
    parser.add_argument("--driver", choices=list(DRIVERS), action="append", help="only this one (may be given again)")
    parser.add_argument(
        "--directory", type=Path, default=Path("/usr/share/common-licenses"), help="whose files are fetched"
    )
    parser.add_argument("--seconds", type=int, default=2, help="of each measured phase (2)")
    return parser.parse_args(arguments)


def run_all(options: argparse.Namespace, rows: list[Row]) -> None:
    languages = options.language or list(LANGUAGES)
    say(
        "building the client"
        + " and the Go services" * ("go" in languages)
        + " and the Rust services" * ("rust" in languages)
    )
    binary = build_clients()
    if "go" in languages:
        build_go()
    if "rust" in languages:
        build_rust()
    folder = make_folder(options.directory)
    wanted = {path.name: digest(path) for path in sorted(folder.iterdir())}
    for driver in options.driver or list(DRIVERS):
        for language in languages:
            row = Row(language, driver)
            begun = time.monotonic()
            echo_rounds(binary, row)
            fetch_files(row, folder, wanted)
            echo_measured(binary, row, options.seconds)
            rows.append(row)
            say(
                f"{language:<7} {driver:<9} {row.verified / MIB:5.0f} MiB and {len(wanted)} files verified"
                f" in {time.monotonic() - begun:4.1f} s, {row.measured['requests_per_s']} requests/s"
            )


def main() -> int:
    options = parse(sys.argv[1:])
    if not options.directory.is_dir():
        print(f"./dev demo: {options.directory} is not a directory.", file=sys.stderr)
        return 2
    result = Result("./dev demo " + " ".join(sys.argv[1:]))
    rows: list[Row] = []
    try:
        run_all(options, rows)
    except (DemoError, OSError, subprocess.TimeoutExpired) as error:
        print(f"./dev demo: {error}", file=sys.stderr)
        result.write("demo.json", holds=False, error=str(error), rows=[r.as_json() for r in rows])
        return 1
    table(rows)
    whole = not (options.language or options.driver)
    wrong = check_whole(rows) if whole else [f"{r.language}: mismatches" for r in rows if r.mismatches]
    path = result.write("demo.json", holds=not wrong, rows=[r.as_json() for r in rows])
    for line in wrong:
        print(f"./dev demo: {line}", file=sys.stderr)
    say(f"Written to {path.relative_to(path.parents[1])}.")
    say(BY_HAND)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
