# SPDX-License-Identifier: MIT OR Apache-2.0
"""Socket addresses between text ("127.0.0.1:80", "[::1]:80", "unix:/path") and the library's form."""

from functools import lru_cache
from typing import Any

from . import const
from ._quoit import ffi, lib
from .errors import Error, check, text

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


def bare(host: str) -> Any:
    """A quoit_addr made from an address without a port: "127.0.0.1", "ff02::1" or "fe80::1%2"."""
    try:
        return parse(f"[{host}]:0" if ":" in host else f"{host}:0")
    except Error:
        raise ValueError(f"{host!r} is no address of IPv4 or IPv6 without a port") from None


@lru_cache(maxsize=1024)
def read(raw: bytes) -> tuple[str, int]:
    """(text, scope) of the bytes of a quoit_addr; "" for one that names nobody."""
    struct = ffi.new("quoit_addr *")
    ffi.memmove(struct, raw, SIZE)
    scope: int = struct.scope
    if struct.family == const.FAMILY_V6 and not _needs_scope(struct.bytes[0], struct.bytes[1]):
        struct.scope = 0  # the interface that it came by; the address is the same on all
    return (show(struct) if struct.family and struct.len else "", scope)


def _needs_scope(first: int, second: int) -> bool:
    """True for an IPv6 address that means another host on another interface: link-local ones, and such groups."""
    return (first == 0xFE and second & 0xC0 == 0x80) or (first == 0xFF and second & 0x0F in (1, 2))


def _ask(worker: Any, handle: int, peer: bool) -> Any:
    out = ffi.new("quoit_addr *")
    ask = lib.quoit_peer_addr if peer else lib.quoit_local_addr
    check(ask(worker, handle, out), "address")
    return out


def of(worker: Any, handle: int, peer: bool) -> str:
    """The peer's or the local address of a stream or datagram socket, or the local one of a listener."""
    return show(_ask(worker, handle, peer))


def port_of(worker: Any, handle: int) -> int:
    """The port that a socket is bound to; 0 for a Unix socket."""
    port: int = _ask(worker, handle, False).port
    return port
