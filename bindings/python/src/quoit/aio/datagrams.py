# SPDX-License-Identifier: MIT OR Apache-2.0
"""Datagram sockets that are awaited, UDP and Unix. What came waits in a queue: a cancelled receive takes nothing."""

import socket
import struct
from typing import Any, NamedTuple

from .. import address as addresses
from .. import const
from ..batch import Buffer, Event
from ..errors import Error, event_error
from ..runtime import fill
from .debt import Debt
from .descriptors import Credentials
from .host import Host, current
from .intake import Intake
from .options import SocketOptions
from .resource import Series

# Bytes of datagrams that may wait to be taken before further ones stay with the kernel, which drops what it has no
# room for; each counts for its data and this much more.
WAITING_BYTES = 256 * 1024
EACH = 256


class Datagram(NamedTuple):
    """A datagram as it came.

    data       its bytes, b"" for an empty one; at most max_bytes of them
    peer       the address of who sent it; "" where that has none, as a Unix socket that is not bound
    length     how many bytes it had: more than data if it was cut
    local      with BIND_PKTINFO the address it was sent to, a group for instance; else ""
    interface  with BIND_PKTINFO the index of the interface it came by; else 0
    credentials  on a Unix socket with that option who sent it; else None
    """

    data: bytes
    peer: str
    length: int
    local: str = ""
    interface: int = 0
    credentials: Credentials | None = None

    @property
    def truncated(self) -> bool:
        """True if it was longer than max_bytes."""
        return self.length > len(self.data)


class _Box(Intake[Datagram]):
    """What the worker tells of a datagram socket."""

    __slots__ = ("cap", "debt", "eof", "info", "port")

    shown = "DatagramSocket"
    opcode = const.OP_RECVMSG

    def __init__(self, host: Host, handle: int, port: int, cap: int, info: bool, most: int) -> None:
        super().__init__(host, handle, most)
        self.port = port
        self.cap = cap
        self.info = info
        # A connection of messages that was adopted: its peer sends no more.
        self.eof = False
        self.debt = Debt(host.loop)
        self.arm()

    def came(self, event: Event) -> bool:
        _, flags, _, _, result, offset, size, segment, _, value = event
        if flags & const.EVF_EOF:
            self.eof = True
            self.wake_all()
            return True
        if result < 0:
            return False
        view = self.host.worker.recv_view
        data = bytes(view[offset : offset + size])
        peer, _ = addresses.read(bytes(view[value : value + addresses.SIZE]))
        to = addresses.read(bytes(view[value + addresses.SIZE : value + 2 * addresses.SIZE])) if self.info else ("", 0)
        if not segment:
            sender = None
            if flags & const.EVF_CREDENTIALS:
                sender = Credentials(*struct.unpack_from("=3i", view, value + addresses.SIZE))
            self.put(Datagram(data, peer, result, *to, sender))
            return True
        # Several that the kernel has joined: all but the last are of one size.
        for at in range(0, result, segment):
            self.put(Datagram(data[at : at + segment], peer, min(segment, result - at), *to))
        return True

    def weigh(self, item: Datagram) -> int:
        return len(item.data) + EACH

    def went_on(self) -> None:
        if not self.eof:
            super().went_on()

    def refuse(self) -> None:
        if self.eof:
            raise Error(const.E_CLOSED, "recvmsg")
        error = self.error
        if error is not None and not self.ending:
            # It says what became of an earlier datagram; the socket is as good as before.
            self.error = None
            self.went_on()
            raise Error(error.status, "recvmsg")
        super().refuse()

    def wake_all(self) -> None:
        super().wake_all()
        if self.ending:
            self.debt.wake()


class DatagramSocket(SocketOptions[_Box], Series[_Box, Datagram]):
    """A UDP or Unix datagram socket. Close it, or use it as an async context manager; else a ResourceWarning tells.

    Any number of tasks may receive, first come first served, and send. A receive that is cancelled or timed out takes
    nothing: what arrived goes to the next one. A send that is cancelled has left whole or not at all (with `segment`:
    so many bytes of it as the CancelledError's attribute `sent` tells).

    When more wait to be taken than the bound given to `bind`, receiving stops until half of them were: then the kernel
    keeps what it has room for, drops further ones of UDP, and lets Unix senders wait.

    Errors: quoit.Error with the system's errno, and QUOIT_E_CLOSED after the close. ECONNREFUSED tells, once, that the
    peer of a connected socket refused an earlier datagram: the socket lives on.
    """

    __slots__ = ()

    # Receiving.

    async def recv(self) -> Datagram:
        """The next datagram, with all that is known of it; an empty one is a datagram like others, never an end."""
        return await self._resource.take()

    _next = recv

    async def recv_from(self) -> tuple[bytes, str]:
        """The next datagram's bytes and the address of who sent it. `recv` tells too whether it was cut."""
        datagram = await self._resource.take()
        return datagram.data, datagram.peer

    @property
    def waiting(self) -> int:
        """How many datagrams have come and were not taken."""
        return len(self._resource.waiting)

    # Sending.

    async def send(self, data: Buffer, *, segment: int = 0, source: str = "", interface: int | str = 0) -> int:
        """Sends one datagram to the peer that the socket is connected to; the rest as `send_to`."""
        return await self._send(data, "", segment, source, interface)

    async def send_to(
        self, data: Buffer, peer: str, *, segment: int = 0, source: str = "", interface: int | str = 0
    ) -> int:
        """Sends one datagram, and waits until it has left; gives its bytes. data may be b"", and change meanwhile.

        segment: bytes of each of many datagrams that data is made of, all for this peer (UDP; GSO where there is such
        a thing). source: the address to send from, without a port; interface: the one to leave by, its index or name.
        Waits first while the socket owes much. Errors: EMSGSIZE for what is too long, EDESTADDRREQ without a peer;
        ValueError for an address that is none.
        """
        return await self._send(data, peer, segment, source, interface)

    async def _send(self, data: Buffer, peer: str, segment: int, source: str, interface: int | str) -> int:
        box = self._resource
        whole = data if isinstance(data, bytes) else bytes(data)
        if not 0 <= segment <= 0xFFFF:
            raise ValueError(f"segment is from 0 to 65535, not {segment}")
        self._check_send()
        if box.debt.full:
            await box.debt.room(self._check_send)
        worker = box.host.worker
        there = worker.hold_struct(addresses.parse(peer)) if peer else 0
        info = worker.hold_struct(_packet_info(source, interface)) if source or interface else 0
        size = len(whole) + EACH
        reply = box.host.reply()

        def told(outcome: int | Error) -> None:
            box.debt.paid(size)
            reply.tell(outcome)

        box.debt.owe(size)
        token = worker.expect_count(told, None)
        worker.op(const.OP_SENDMSG, 0, self.handle, token, worker.hold(whole), len(whole), segment, info, there)
        count: int = await reply.settle(lambda: worker.cancel(self.handle, const.OP_SENDMSG, token))
        return count

    def _check_send(self) -> None:
        if self.closed:
            raise Error(const.E_CLOSED, "sendmsg")

    # Groups.

    async def join(self, group: str, *, interface: int | str = 0) -> None:
        """Has the socket receive what is sent to a multicast group ("239.1.2.3", "ff02::1") at its port.

        interface: its index or its name, 0 the system's choice. Errors: EADDRINUSE if it has joined already.
        """
        await self._multicast(const.MULTICAST_JOIN, group, interface)

    async def leave(self, group: str, *, interface: int | str = 0) -> None:
        """The opposite of `join`, with the same arguments. Errors: EADDRNOTAVAIL if it has not joined."""
        await self._multicast(const.MULTICAST_LEAVE, group, interface)

    async def _multicast(self, how: int, group: str, interface: int | str) -> None:
        box = self._resource
        if self.closed:
            raise Error(const.E_CLOSED, "multicast")
        worker = box.host.worker
        where = addresses.bare(group)
        where.scope = _index(interface) or where.scope
        reply = box.host.reply()
        at = worker.hold_struct(where)
        worker.op(const.OP_MULTICAST, 0, self.handle, worker.expect_count(reply.tell, None), at, addresses.SIZE, how)
        await reply.wait()

    # What it is.

    @property
    def peer(self) -> str:
        """The address it is connected to. Errors: ENOTCONN if it is not; QUOIT_E_STALE after the end."""
        return self._address(peer=True)

    @property
    def port(self) -> int:
        """The port it is bound to; 0 for a Unix socket."""
        return self._resource.port

    @property
    def bytes_queued(self) -> int:
        """What the socket owes: the bytes of datagrams that have not left, and some more for each."""
        return self._resource.debt.bytes

    async def detach(self) -> int:
        """Ends the socket here and gives its descriptor, bound as it is, to be closed by the caller.

        What came before can still be received, then `recv` ends. Errors: QUOIT_E_BUSY while datagrams that were sent
        have not left; the socket goes on.
        """
        return await self._resource.detach()

    def close(self) -> None:
        """Begins to end it: what was sent still leaves, what nobody took is dropped. Twice is nothing."""
        super().close()


def _index(interface: int | str) -> int:
    return interface if isinstance(interface, int) else socket.if_nametoindex(interface)


def _packet_info(source: str, interface: int | str) -> Any:
    info = fill("quoit_packet_info")
    if source:
        info.source = addresses.bare(source)[0]
    info.source.scope = _index(interface) or info.source.scope
    return info


async def bind(
    address: str = "", *, peer: str = "", flags: int = 0, max_bytes: int = 0, waiting_bytes: int = WAITING_BYTES,
    host: Host | None = None,
) -> DatagramSocket:  # fmt: skip
    """A datagram socket bound to "127.0.0.1:53", "[::1]:53" or "unix:/path"; port 0 takes a free one.

    peer: connects it, so that it takes what that peer sends and nothing else; then the address may be left to the
    system. flags: quoit.BIND_*, of which BIND_GRO lets the kernel join datagrams (they are told one by one all the
    same) and BIND_PKTINFO tells where each was sent to. max_bytes: what is longer is cut and told so; 0 takes what a
    receive buffer has room for, at least 1500. waiting_bytes: the bound of what waits to be taken.

    The socket is the caller's to close. Errors: quoit.Error with the errno of bind(2) or connect(2).
    """
    if not address and not peer:
        raise ValueError("bind takes an address, a peer or both")
    if not 0 <= max_bytes <= const.DATAGRAM_MAX:
        raise ValueError(f"max_bytes is from 0 to {const.DATAGRAM_MAX}, not {max_bytes}")
    if waiting_bytes < 1:
        raise ValueError("waiting_bytes must be at least 1")
    host = host or current()
    host.check("bind")
    making = host.making(_Box)
    info = bool(flags & const.BIND_PKTINFO)

    def bound(event: Event) -> None:
        if event[4] < 0:
            making.tell(event_error(event[0], event[4], event[7], event[9]))
        else:
            making.made(_Box(host, event[9], event[7], max_bytes, info, waiting_bytes))

    worker = host.worker
    options = fill("quoit_bind_options", flags=flags)
    if peer:
        options.peer = addresses.parse(peer)[0]
    at, size = (worker.hold_struct(addresses.parse(address)), addresses.SIZE) if address else (0, 0)
    worker.op(const.OP_BIND, 0, 0, worker.expect(bound), at, size, arg2=worker.hold_struct(options))
    return DatagramSocket(await making.take())


async def connect_datagrams(
    peer: str, *, local: str = "", flags: int = 0, max_bytes: int = 0, waiting_bytes: int = WAITING_BYTES,
    host: Host | None = None,
) -> DatagramSocket:  # fmt: skip
    """A datagram socket that is connected to a peer: `bind` with the words in the other order."""
    return await bind(local, peer=peer, flags=flags, max_bytes=max_bytes, waiting_bytes=waiting_bytes, host=host)
