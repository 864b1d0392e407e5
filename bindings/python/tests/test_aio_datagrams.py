# SPDX-License-Identifier: MIT OR Apache-2.0
"""Awaited datagram sockets: what comes, from whom, how long it was; groups, joined ones, errors."""

import asyncio
import errno
import gc
import socket
from pathlib import Path

import pytest

import quoit
from aio_support import Runner, cancelled, until
from quoit import aio
from support import pattern


@pytest.mark.parametrize("family", ["v4", "v6", "unix"])
def test_to_and_fro(run: Runner, tmp_path: Path, family: str) -> None:
    here, there = {
        "v4": ("127.0.0.1:0", "127.0.0.1:0"),
        "v6": ("[::1]:0", "[::1]:0"),
        "unix": (f"unix:{tmp_path}/here", f"unix:@{tmp_path}/there"),
    }[family]

    async def main() -> None:
        async with await aio.bind(here) as one, await aio.bind(there) as two:
            assert (one.port != 0) == (family != "unix")
            for data in (b"first", b"", pattern(1400)):
                assert await one.send_to(data, two.local) == len(data)
                assert await two.recv_from() == (data, one.local)
                await two.send_to(bytearray(data), one.local)
                got = await one.recv()
                assert got == aio.Datagram(data, two.local, len(data))
                assert not got.truncated

    run(main)


def test_iteration(run: Runner) -> None:
    """In order, until the socket is closed; a datagram without bytes is none the less one."""

    async def main() -> None:
        async with await aio.bind("127.0.0.1:0") as sink, await aio.connect_datagrams(sink.local) as source:
            assert source.peer == sink.local
            got: list[bytes] = []

            async def collect() -> None:
                async for datagram in sink:
                    assert datagram.peer == source.local
                    got.append(datagram.data)

            collecting = asyncio.create_task(collect())
            want = [b"%d" % number * (number % 3) for number in range(50)]
            for data in want:
                await source.send(data)
            await until(lambda: len(got) == len(want))
            sink.close()
            sink.close()
            await collecting
            assert got == want
            for call in (
                sink.recv,
                sink.recv_from,
                lambda: sink.send_to(b"x", source.local),
                lambda: sink.join("ff02::1"),
            ):
                with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                    await call()

    run(main)


@pytest.mark.parametrize("max_bytes", [10, 3000, 65535])
def test_what_is_too_long_is_cut_and_told(run: Runner, max_bytes: int) -> None:
    data = pattern(60_000)

    async def main() -> None:
        async with await aio.bind("127.0.0.1:0", max_bytes=max_bytes) as sink, await aio.bind("127.0.0.1:0") as source:
            for size in (max_bytes, max_bytes + 1, 60_000, 1):
                sent = data[:size]
                await source.send_to(sent, sink.local)
                got = await sink.recv()
                assert (got.data, got.length) == (sent[:max_bytes], len(sent))
                assert got.truncated == (len(sent) > max_bytes)

    run(main)


def test_connected(run: Runner) -> None:
    """It takes its peer's datagrams only; that the peer is gone is told once, and then it goes on."""

    async def main() -> None:
        async with await aio.bind("127.0.0.1:0") as other, await aio.bind("127.0.0.1:0") as peer:
            here = await aio.bind(peer=peer.local)
            async with here:
                await other.send_to(b"not for you", here.local)
                await peer.send_to(b"yours", here.local)
                assert (await here.recv()).data == b"yours"
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
                    await peer.aclose()
                    waiting = asyncio.create_task(here.recv())
                    await here.send(b"nobody is there")
                    with pytest.raises(quoit.Error) as refused:
                        await waiting
                    assert refused.value.errno == errno.ECONNREFUSED
                    host, _, port = here.peer.rpartition(":")
                    plain.bind((host, int(port)))
                    mine = here.local.rpartition(":")
                    plain.sendto(b"back again", (mine[0], int(mine[2])))
                    assert (await here.recv()).data == b"back again"
                    await here.send(b"welcome")
                    assert await asyncio.to_thread(plain.recv, 100) == b"welcome"

    run(main)


def test_where_it_was_sent_to(run: Runner) -> None:
    """Packet info: the address that a datagram was sent to, and one to send from."""

    async def main() -> None:
        lo = socket.if_nametoindex("lo")
        for any_address, one, two in (("0.0.0.0:0", "127.0.0.1", "127.0.0.2"), ("[::]:0", "::1", "::1")):
            bracketed = f"[{two}]" if ":" in two else two
            async with (
                await aio.bind(any_address, flags=quoit.BIND_PKTINFO) as sink,
                await aio.bind(any_address) as source,
            ):
                where = f"{bracketed}:{sink.port}"
                await source.send_to(b"hello", where, source=one, interface="lo")
                got = await sink.recv()
                assert (got.data, got.local, got.interface) == (b"hello", where, lo)
                assert got.peer.rpartition(":")[0].strip("[]") == one
            with pytest.raises(OSError):
                await source.send_to(b"x", where, interface="no such thing")

    run(main)


@pytest.mark.parametrize("flags", [0, quoit.BIND_GRO], ids=["apart", "joined"])
def test_segments(run: Runner, flags: int) -> None:
    """One send makes many datagrams, and those that the kernel joins come one by one all the same."""
    data = pattern(20_050)

    async def main() -> None:
        async with await aio.bind("127.0.0.1:0", flags=flags) as sink, await aio.bind("127.0.0.1:0") as source:
            assert await source.send_to(data, sink.local, segment=1000) == len(data)
            got = [await sink.recv() for _ in range(21)]
            assert [one.data for one in got] == [data[at : at + 1000] for at in range(0, len(data), 1000)]
            assert {(one.peer, one.truncated) for one in got} == {(source.local, False)}

    run(main)


def test_joined_and_cut(run: Runner) -> None:
    """Of joined datagrams that max_bytes cuts, each tells what it lost."""
    data = pattern(5000)

    async def main() -> None:
        sink = await aio.bind("127.0.0.1:0", flags=quoit.BIND_GRO, max_bytes=1500)
        async with sink, await aio.connect_datagrams(sink.local) as source:
            await source.send(data, segment=1000)
            got = [await sink.recv() for _ in range(5)]
        assert [one.length for one in got] == [1000] * 5
        # Where the kernel did not join them, none was cut.
        sizes = [len(one.data) for one in got]
        assert sizes in ([1000, 500, 0, 0, 0], [1000] * 5)
        assert [one.data for one in got] == [data[at * 1000 :][: sizes[at]] for at in range(5)]
        assert [one.truncated for one in got] == [size < 1000 for size in sizes]

    run(main)


def test_groups(run: Runner) -> None:
    async def main() -> None:
        async with await aio.bind("0.0.0.0:0") as member, await aio.bind("0.0.0.0:0") as source:
            where = f"239.77.0.1:{member.port}"
            await member.join("239.77.0.1", interface="lo")
            with pytest.raises(quoit.Error) as joined:
                await member.join("239.77.0.1", interface="lo")
            assert joined.value.errno == errno.EADDRINUSE
            await source.send_to(b"to all", where, interface="lo")
            assert (await member.recv()).data == b"to all"
            await member.leave("239.77.0.1", interface=socket.if_nametoindex("lo"))
            with pytest.raises(quoit.Error) as left:
                await member.leave("239.77.0.1", interface="lo")
            assert left.value.errno == errno.EADDRNOTAVAIL
            await source.send_to(b"to others", where, interface="lo")
            await source.send_to(b"to you", f"127.0.0.1:{member.port}")
            assert (await member.recv()).data == b"to you"

    run(main)


def test_groups_of_v6(run: Runner) -> None:
    """IPv6 has no route for groups on the loopback device: the kernel's list of members shows it."""

    def is_member() -> bool:
        return "ff010000000000000000000000007077" in Path("/proc/net/igmp6").read_text()

    async def main() -> None:
        async with await aio.bind("[::]:0") as socket_:
            assert not is_member()
            await socket_.join("ff01::7077", interface="lo")
            assert is_member()
            await socket_.leave(f"ff01::7077%{socket.if_nametoindex('lo')}")
            assert not is_member()

    run(main)


def test_errors(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        async with await aio.bind("127.0.0.1:0") as one:
            with pytest.raises(quoit.Error, match="EADDRINUSE"):
                await aio.bind(one.local)
            with pytest.raises(quoit.Error, match="EMSGSIZE"):
                await one.send_to(bytes(70_000), one.local)
            with pytest.raises(quoit.Error, match="EDESTADDRREQ"):
                await one.send(b"to whom?")
            with pytest.raises(quoit.Error, match="ENOTCONN"):
                _ = one.peer
            with pytest.raises(quoit.Error, match="address 'nowhere'"):
                await one.send_to(b"x", "nowhere")
            with pytest.raises(ValueError, match="segment"):
                await one.send_to(b"x", one.local, segment=65536)
            with pytest.raises(ValueError, match=r"'127\.0\.0\.1:1' is no address"):
                await one.join("127.0.0.1:1")
            with pytest.raises(quoit.Error, match="EINVAL"):
                await one.join("127.0.0.1")
            assert one.bytes_queued == 0
        for named, wrong in (
            ("an address, a peer or both", aio.bind()),
            ("max_bytes", aio.bind("127.0.0.1:0", max_bytes=131073)),
            ("waiting_bytes", aio.bind("127.0.0.1:0", waiting_bytes=0)),
        ):
            with pytest.raises(ValueError, match=named):
                await wrong
        with pytest.raises(quoit.Error, match="ENOENT"):
            await aio.bind(peer=f"unix:{tmp_path}/none")
        with pytest.raises(quoit.Error, match="QUOIT_E_FLAGS"):
            await aio.bind("127.0.0.1:0", flags=1 << 30)

    run(main)


def test_one_that_is_forgotten(run: Runner) -> None:
    run.expects_warnings = True

    async def main() -> None:
        host = aio.current()
        sink = await aio.bind("127.0.0.1:0")
        assert "DatagramSocket" in repr(sink)
        del sink
        gc.collect()
        await until(lambda: not host.resources)

    run(main)
    assert len(run.warnings) == 1
    assert "unclosed <quoit.aio.DatagramSocket" in run.warnings[0]


def test_bind_that_is_given_up(run: Runner) -> None:
    """The socket that was made meanwhile is closed."""

    async def main() -> None:
        host = aio.current()
        for ticks in range(3):
            task = asyncio.create_task(aio.bind("127.0.0.1:0"))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if not task.done():
                await cancelled(task)
            else:
                (await task).close()
        await until(lambda: not host.resources)

    run(main)
