# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of sockets by our names, as the kernel has them, on streams, listeners and datagram sockets."""

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

import quoit
from aio_support import Runner, pair
from quoit import aio

TCP, SOL, IP = socket.IPPROTO_TCP, socket.SOL_SOCKET, socket.IPPROTO_IP


def kernel(sock: Any, level: int, option: int) -> int:
    """What the kernel says of the socket of this process that has the same address."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if not os.path.exists(path) or not stat.S_ISSOCK(os.stat(path).st_mode):
            continue
        with socket.socket(fileno=os.dup(int(name))) as other:
            is_inet = other.family in (socket.AF_INET, socket.AF_INET6)
            if is_inet and "{}:{}".format(*other.getsockname()[:2]) == sock.local:
                found.append(other.getsockopt(level, option))
    assert len(found) == 1
    return found[0]


def test_of_a_stream(run: Runner) -> None:
    async def main() -> None:
        async with pair() as (here, _):
            assert here.get_option("nodelay") is True
            assert here.get_option("keepalive") is False
            await here.set_options(
                nodelay=False, keepalive=True, keepalive_idle=70, keepalive_interval=5, keepalive_count=4,
                user_timeout=1.5, tos=0x10, priority=3, linger=0, send_buffer=100_000,
            )  # fmt: skip
            for option, name, level, want in (
                (socket.TCP_NODELAY, "nodelay", TCP, 0),
                (socket.SO_KEEPALIVE, "keepalive", SOL, 1),
                (socket.TCP_KEEPIDLE, "keepalive_idle", TCP, 70),
                (socket.TCP_KEEPINTVL, "keepalive_interval", TCP, 5),
                (socket.TCP_KEEPCNT, "keepalive_count", TCP, 4),
                (socket.IP_TOS, "tos", IP, 0x10),
                (socket.SO_PRIORITY, "priority", SOL, 3),
            ):
                assert kernel(here, level, option) == want
                assert here.get_option(name) == want  # type: ignore[call-overload]
            assert kernel(here, TCP, socket.TCP_USER_TIMEOUT) == 1500
            assert here.get_option("user_timeout") == 1.5
            assert here.get_option("linger") == 0
            assert here.get_option("send_buffer") == kernel(here, SOL, socket.SO_SNDBUF) >= 100_000
            assert here.get_option("incoming_cpu") >= 0

    run(main)


def test_of_a_listener(run: Runner) -> None:
    """Its streams begin with what it has; what its flags said can be read."""

    async def main() -> None:
        flags = quoit.LISTEN_REUSEPORT | quoit.LISTEN_V6ONLY | quoit.LISTEN_FREEBIND | quoit.LISTEN_DEFER_ACCEPT
        async with await aio.listen("[::1]:0", flags=flags) as listener:
            for name in ("reuseport", "v6only", "freebind"):
                assert listener.get_option(name) is True
            assert listener.get_option("defer_accept") > 0
            await listener.set_options(defer_accept=0, recv_buffer=50_000, nodelay=False, incoming_cpu=0)
            assert listener.get_option("defer_accept") == 0
            assert listener.get_option("incoming_cpu") == 0
            async with await aio.connect(listener.address):
                there = await listener.accept()
                assert there.get_option("nodelay") is False
                assert there.get_option("recv_buffer") == listener.get_option("recv_buffer") >= 50_000
                there.close()
        async with await aio.listen("127.0.0.1:0") as plain:
            assert plain.get_option("reuseport") is plain.get_option("freebind") is False

    run(main)


def test_of_a_datagram_socket(run: Runner) -> None:
    async def main() -> None:
        async with await aio.bind("127.0.0.1:0", flags=quoit.BIND_REUSEPORT) as sock:
            assert sock.get_option("reuseport") is True
            await sock.set_options(recv_buffer=70_000, tos=8, busy_poll=0)
            assert sock.get_option("recv_buffer") == kernel(sock, SOL, socket.SO_RCVBUF) >= 70_000
            assert kernel(sock, IP, socket.IP_TOS) == 8
            assert sock.get_option("busy_poll") == 0

    run(main)


def test_every_option_has_its_name() -> None:
    from quoit.aio.options import _KINDS

    numbers = {name: value for name, value in vars(quoit.const).items() if name.startswith("SOCKET_")}
    assert {f"SOCKET_{name.upper()}": kind.number for name, kind in _KINDS.items()} == numbers
    assert set(aio.Options.__annotations__) | {"freebind", "v6only", "reuseport"} == set(_KINDS)


def test_who_sent_it(run: Runner, tmp_path: Path) -> None:
    me = aio.Credentials(os.getpid(), os.getuid(), os.getgid())

    async def main() -> None:
        sink = await aio.bind(f"unix:{tmp_path}/sink")
        async with sink, await aio.connect_datagrams(f"unix:{tmp_path}/sink") as source:
            await source.send(b"before")
            assert (await sink.recv()).credentials is None
            await sink.set_options(credentials=True)
            assert sink.get_option("credentials") is True
            await source.send(b"after")
            got = await sink.recv()
            assert (got.data, got.credentials) == (b"after", me)

    run(main)


def test_no_connections_of_messages(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="SEQPACKET"):
            await aio.listen(f"unix:{tmp_path}/x", flags=quoit.LISTEN_SEQPACKET)
        with pytest.raises(ValueError, match="SEQPACKET"):
            await aio.connect(f"unix:{tmp_path}/x", flags=quoit.CONNECT_SEQPACKET)

    run(main)


def test_what_cannot_be_set(run: Runner) -> None:
    async def main() -> None:
        async with pair() as (here, _), await aio.bind("127.0.0.1:0") as sock:
            with pytest.raises(ValueError, match="'no_delay' is no option of a socket; there are nodelay, "):
                await here.set_options(no_delay=True)  # type: ignore[call-arg]
            with pytest.raises(ValueError, match="'no_delay' is no option"):
                here.get_option("no_delay")  # type: ignore[call-overload]
            with pytest.raises(ValueError, match=r"tos is a whole number, not 0\.5"):
                await here.set_options(tos=0.5)  # type: ignore[arg-type]
            with pytest.raises(quoit.Error, match=r"socket option tos: .*field offset.*QUOIT_E_FIELD") as failed:
                # Those around it are set.
                await here.set_options(keepalive=True, tos=256, nodelay=False)
            assert failed.value.field == "offset"
            assert (here.get_option("keepalive"), here.get_option("nodelay")) == (True, False)
            with pytest.raises(quoit.Error, match=r"socket option nodelay: .*field arg"):
                await sock.set_options(nodelay=True)
            with pytest.raises(quoit.Error, match=r"socket option nodelay: .*QUOIT_E_ARGUMENT"):
                sock.get_option("nodelay")
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            await sock.set_options(tos=1)
        with pytest.raises(quoit.Error, match="QUOIT_E_STALE"):
            sock.get_option("tos")

    run(main)
