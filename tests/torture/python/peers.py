# SPDX-License-Identifier: MIT OR Apache-2.0
"""The peers: plain sockets that never wait."""

import os
import socket
import struct

from ledger import Fault, Flow


def plain_address(text: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """An address as quoit writes it, for the standard library."""
    if text.startswith("unix:"):
        return socket.AF_UNIX, text.removeprefix("unix:").replace("@", "\0", 1)
    host, _, port = text.rpartition(":")
    return socket.AF_INET, (host, int(port))


def own_host(lane: int) -> str:
    """A loopback address that no other lane has: nobody else binds a port that was closed here."""
    pid = os.getpid()
    return f"127.{1 + lane}.{pid >> 8 & 255}.{pid & 255}"


def plain_socket(address: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    return socket.socket(plain_address(address)[0], kind)


class Peer:
    """The other end of a stream. A narrow one makes the kernels hold little: its segments and its window are small."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.gone = self.ended = self.fin = False
        sock.setblocking(False)

    @classmethod
    def dial(cls, address: str, narrow: bool) -> "Peer | None":
        """None if nobody listens."""
        family, where = plain_address(address)
        sock = plain_socket(address)
        if narrow and family == socket.AF_INET:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        try:
            sock.connect(where)
        except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError):
            sock.close()
            return None
        return cls(sock)

    def send(self, flow: Flow, size: int) -> None:
        if self.gone or self.fin:
            return
        try:
            flow.sent += self.socket.send(flow.next(size))
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self.fin = True

    def recv(self, flow: Flow | None, most: int = 1 << 24) -> int:
        """What is there, up to most bytes; how many. Nothing may come without a flow."""
        got = 0
        while not self.ended and not self.gone and got < most:
            try:
                data = self.socket.recv(min(most - got, 1 << 17))
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            self.ended = not data
            if data and flow is None:
                raise Fault("bytes from a connection that was not accepted")
            if flow is not None:
                flow.came(data)
            got += len(data)
        return got

    def end(self) -> None:
        if not self.gone:
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        self.fin = True

    def reset(self) -> None:
        """On a Unix socket it is a close: the other side sees the end, or a reset if it was not read."""
        if not self.gone:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.gone = True
        self.socket.close()


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))
