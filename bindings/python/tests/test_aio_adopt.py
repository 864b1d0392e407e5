# SPDX-License-Identifier: MIT OR Apache-2.0
"""Descriptors that are adopted, given back and inherited."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

import quoit
from aio_support import Runner, beside, cancelled, in_thread, until
from quoit import aio
from support import LIMIT, dial, finished, pattern, program, receive, receive_all


def test_a_stream_goes_and_comes_back(run: Runner) -> None:
    """Detached in the midst of traffic and adopted again: every byte comes, both ways."""
    data = pattern(4_000_000)

    async def main() -> None:
        async with beside() as (first, client):
            stream = first
            sending = asyncio.create_task(in_thread(client.sendall, data))
            got = bytearray()
            turns = detaches = 0
            while len(got) < len(data):
                got += await stream.recv(20_000)
                await stream.send(b"%d" % (turns % 10))
                turns += 1
                if turns % 2 == 0:
                    detaches += 1
                    fd, unread = await stream.detach()
                    assert stream.closed
                    with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                        await stream.recv()
                    assert os.get_blocking(fd) and not os.get_inheritable(fd)
                    got += unread
                    stream = await aio.adopt_stream(fd)
            await sending
            assert got == data
            assert detaches >= 3
            await stream.send_eof()
            assert await in_thread(receive_all, client) == b"".join(b"%d" % (turn % 10) for turn in range(turns))
            client.close()
            await stream.aclose()

    run(main)


def test_a_stream_that_nobody_reads(run: Runner) -> None:
    """Paused, it is given away with all that had come; the rest is with the kernel."""
    data = pattern(6_000_000)

    async def main() -> None:
        async with beside() as (stream, client):
            sending = asyncio.create_task(in_thread(client.sendall, data))
            await until(lambda: stream._resource.paused)
            fd, unread = await stream.detach()
            assert len(unread) > 100_000
            assert data.startswith(unread)
            async with await aio.adopt_stream(fd) as again:
                assert await again.recv_exactly(len(data) - len(unread)) == data[len(unread) :]
                await sending
                client.close()

    run(main)


def test_a_stream_that_is_busy(run: Runner) -> None:
    """A detach that cannot be leaves the stream as it was."""

    async def main() -> None:
        async with beside() as (stream, client):
            waiting = asyncio.create_task(stream.recv())
            await asyncio.sleep(0)
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await stream.detach()
            client.sendall(b"for the one that waits")
            assert await waiting == b"for the one that waits"
        async with beside(small=True) as (stream, client):
            data = pattern(8_000_000)
            detaching = asyncio.create_task(stream.detach())
            sending = asyncio.create_task(stream.send_all(data))
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await detaching
            client.sendall(b"hello")
            got = asyncio.create_task(in_thread(receive, client, len(data)))
            assert await stream.recv_exactly(5) == b"hello"
            assert await got == data
            await sending
            client.shutdown(socket.SHUT_WR)
            assert await stream.recv() == b""
            # Nothing is received any more, and it can be given away all the same.
            fd, unread = await stream.detach()
            assert unread == b""
            with socket.socket(fileno=fd) as mine:
                mine.sendall(b"by hand")
            assert receive_all(client) == b"by hand"

    run(main)


def test_listeners(run: Runner) -> None:
    """One made elsewhere serves, and goes on after it was given back; what it had accepted is not lost."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as made:
            port = made.getsockname()[1]
            listener = await aio.adopt_listener(made.detach())
        assert (listener.port, listener.address) == (port, f"127.0.0.1:{port}")
        with pytest.raises(quoit.Error, match="QUOIT_E_STALE"), dial(listener.address) as client:
            await until(lambda: listener._resource.waiting)
            late = asyncio.create_task(listener.accept())
            late.cancel()
            fd = await listener.detach()
            stream = await listener.accept()
            client.sendall(b"hello")
            assert await stream.recv() == b"hello"
            stream.abort()
            with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                await listener.accept()
            assert [one async for one in listener] == []
            with socket.socket(fileno=fd) as again, dial(f"127.0.0.1:{port}") as other:
                accepted, _ = again.accept()
                with accepted:
                    accepted.sendall(b"by hand")
                    assert other.recv(100) == b"by hand"
            _ = listener.address

    run(main)


def test_datagram_sockets(run: Runner) -> None:
    async def main() -> None:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
        made.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_PKTINFO", 8), 1)
        async with (
            await aio.adopt_datagrams(made.detach(), packet_info=True) as sock,
            await aio.bind("127.0.0.1:0") as other,
        ):
            assert sock.local == f"127.0.0.1:{sock.port}"
            await other.send_to(b"one", sock.local)
            got = await sock.recv()
            assert (got.data, got.local) == (b"one", sock.local)
            await other.send_to(b"two", sock.local)
            await until(lambda: sock.waiting)
            where = sock.local
            fd = await sock.detach()
            assert (await sock.recv()).data == b"two"
            with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                await sock.recv()
            with socket.socket(fileno=fd) as again:
                await other.send_to(b"three", where)
                assert again.recv(100) == b"three"

    run(main)


def test_connections_of_messages(run: Runner) -> None:
    """Adopted, they are datagram sockets, with an end: an empty message is none."""

    async def main() -> None:
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        async with await aio.adopt_datagrams(one.detach()) as sock:
            with two:
                two.send(b"first")
                two.send(b"last")
                assert await sock.send(b"answer") == 6
                assert await in_thread(two.recv, 100) == b"answer"
            assert [datagram.data async for datagram in sock] == [b"first", b"last"]
            with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
                await sock.recv()

    run(main)


def test_a_datagram_socket_that_is_busy(run: Runner, tmp_path: Path) -> None:
    """A detach that cannot be leaves it as it was: it goes on to receive and to send."""

    async def main() -> None:
        sink = await aio.bind(f"unix:{tmp_path}/sink", waiting_bytes=1)
        async with sink, await aio.bind(f"unix:{tmp_path}/source", peer=sink.local) as source:
            sends = [asyncio.create_task(source.send(b"%d" % number)) for number in range(50)]
            await until(lambda: sink.waiting and not sink._resource.armed)
            await until(lambda: source.bytes_queued and any(task.done() for task in sends))
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await source.detach()
            got = [(await sink.recv()).data for _ in range(50)]
            assert got == [b"%d" % number for number in range(50)]
            await asyncio.gather(*sends)
            await sink.send_to(b"back", source.local)
            assert (await source.recv()).data == b"back"

    run(main)


def test_files(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "file"
        path.write_bytes(b"content")
        file = await aio.adopt_file(os.open(path, os.O_RDWR))
        assert await file.read(0, 100) == b"content"
        fd = await file.detach()
        assert file.closed
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            await file.read(0, 1)
        assert os.read(fd, 3) == b"con"
        os.close(fd)

    run(main)


def test_what_cannot_be_adopted(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(quoit.Error, match="EBADF"):
            await aio.adopt_stream(1_000_000)
        out, into = os.pipe()
        with pytest.raises(quoit.Error, match="QUOIT_E_KIND"):
            await aio.adopt_listener(out)
        with pytest.raises(quoit.Error, match="QUOIT_E_UNSUPPORTED"):
            await aio.adopt_file(directory := os.open(tmp_path, os.O_RDONLY))
        os.close(directory)
        # They are the caller's still.
        os.write(into, b"x")
        async with await aio.adopt_file(out):
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await aio.adopt_file(out)
        os.close(into)
        one, two = socket.socketpair()
        with two:
            task = asyncio.create_task(aio.adopt_stream(one.detach()))
            await asyncio.sleep(0)
            if not task.done():
                # What the worker adopts all the same is closed.
                await cancelled(task)
                assert await in_thread(two.recv, 1) == b""
            else:
                (await task).abort()
        await until(lambda: not aio.current().resources)

    run(main)


INHERITED = """
import asyncio, json, os, sys, quoit
from quoit import aio
async def main():
    fds = quoit.inherited_fds()
    listeners = await aio.inherited_listeners()
    print(json.dumps([fds, [[name, listener.port] for name, listener in listeners]]), flush=True)
    for _, listener in listeners:
        async with listener, await listener.accept() as stream:
            await stream.send_all(b"inherited")
    try:
        os.environ["LISTEN_FDS"] = "many"
        quoit.inherited_fds()
    except quoit.Error as error:
        print(error.name, flush=True)
async def hosting():
    async with aio.hosted(sys.argv[1]):
        await main()
asyncio.run(hosting()) if sys.argv[2] == "hosted" else quoit.run_async(main(), driver=sys.argv[1])
"""


@pytest.mark.parametrize("way", ["alone", "hosted"])
def test_inherited(driver: str, way: str) -> None:
    """As a service manager starts a service: a listener, and a descriptor that is none, from 3 on."""
    out, into = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as made:
        port = made.getsockname()[1]
        start = (
            "import os, sys\n"
            f"os.dup2({made.fileno()}, 103); os.dup2({out}, 104); os.dup2(103, 3); os.dup2(104, 4)\n"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2', LISTEN_FDNAMES='web:pipe')\n"
            "os.execv(sys.executable, [sys.executable, '-W', 'error', '-c', *sys.argv[1:]])\n"
        )
        made.set_inheritable(True)
        os.set_inheritable(out, True)
        process = program(start, INHERITED, driver, way, pass_fds=(made.fileno(), out))
    os.close(out)
    os.close(into)
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as client:
        assert receive_all(client) == b"inherited"
    status, told, err = finished(process)
    assert (status, err) == (0, "")
    assert told.splitlines() == [f'[[[3, "web"], [4, "pipe"]], [["web", {port}]]]', "EINVAL"]
