# SPDX-License-Identifier: MIT OR Apache-2.0
"""Socket addresses between text ("127.0.0.1:80", "[::1]:80", "unix:/path") and the library's form."""

from typing import Any

from ._quoit import ffi, lib
from .errors import check, text

SIZE: int = ffi.sizeof("quoit_addr")


def parse(address: str) -> Any:
    """A quoit_addr made from text."""
    written = address.encode()
    out = ffi.new("quoit_addr *")
    check(lib.quoit_addr_parse(written, len(written), out), f"address {address!r}")
    return out


def show(address: Any) -> str:
    """The text of a quoit_addr."""
    room = ffi.new("char[192]")
    check(lib.quoit_addr_text(address, room, 192), "address")
    return text(room)


def of(worker: Any, handle: int, peer: bool) -> str:
    """The peer's or the local address of a stream, or the local one of a listener."""
    out = ffi.new("quoit_addr *")
    ask = lib.quoit_peer_addr if peer else lib.quoit_local_addr
    check(ask(worker, handle, out), "address")
    return show(out)
