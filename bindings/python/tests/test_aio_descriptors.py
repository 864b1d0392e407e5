# SPDX-License-Identifier: MIT OR Apache-2.0
"""Descriptors: sent over Unix streams, adopted, given back, inherited; and streams of which one half has ended."""

import asyncio
import contextlib
import errno
import os
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import quoit
from aio_support import Runner, beside, cancelled, in_thread, pair, until
from quoit import aio
from support import LIMIT, dial, finished, pattern, program, receive, receive_all


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def named(number: int) -> int:
    """A descriptor that can be told from others: a pipe's end with the number in it."""
    out, into = os.pipe()
    os.write(into, number.to_bytes(4, "little"))
    os.close(into)
    return out


def number_of(fd: int) -> int:
    number = int.from_bytes(os.read(fd, 4), "little")
    os.close(fd)
    return number


@contextlib.asynccontextmanager
async def unix_pair(tmp_path: Path) -> AsyncIterator[tuple[aio.Stream, aio.Stream]]:
    """Two ends that receive descriptors."""
    listener = await aio.listen(f"unix:{tmp_path}/fds", flags=quoit.LISTEN_UNLINK, descriptors=True)
    async with listener, await aio.connect(listener.address, descriptors=True) as here:
        there = await listener.accept()
        try:
            yield here, there
        finally:
            there.close()


def test_each_comes_with_its_bytes(run: Runner, tmp_path: Path) -> None:
    """In their order, none later than its first byte; the kernel may put bytes that went before into one parcel."""

    async def main() -> None:
        async with unix_pair(tmp_path) as (here, there):
            assert there.credentials is None
            await here.send(b"before ")
            await here.send_fd(b"one", (one := named(1)))
            await here.send(b" between ")
            await here.send_fd(b"two", (two := named(2)))
            await here.send_fd(b"!", (three := named(3)))
            await here.send_eof()
            for fd in (one, two, three):
                os.close(fd)
            got = bytearray()
            places: list[int] = []
            while (parcel := await there.recv_fds()).data:
                assert not parcel.truncated
                for fd in parcel.fds:
                    places.append(len(got))
                    assert number_of(fd) == len(places)
                got += parcel.data
            text = b"before one between two!"
            assert got == text
            for place, word in zip(places, (b"one", b"two", b"!"), strict=True):
                assert place <= text.index(word)
            assert places[2] == text.index(b"!")  # a send with a descriptor behind one with another
            assert there.credentials == aio.Credentials(os.getpid(), os.getuid(), os.getgid())
            assert await there.recv_fds() == aio.Parcel(b"", [])
            # The other way round, in small pieces.
            await there.send_fd(b"abcdef", (four := named(4)))
            os.close(four)
            first = await here.recv_fds(4)
            assert (first.data, number_of(first.fds[0])) == (b"abcd", 4)
            assert await here.recv_fds() == aio.Parcel(b"ef", [])

    run(main)


def test_none_is_left_open(run: Runner, tmp_path: Path) -> None:
    """Those whose bytes another receive takes, and those that nobody takes, are closed."""

    async def main() -> None:
        sent = named(0)
        async with unix_pair(tmp_path) as (here, there):
            await here.send(b"x")
            assert await there.recv() == b"x"
            before = open_fds()
            for _ in range(3):
                await here.send_fd(b"0123456789", sent)
            assert await there.recv_exactly(25) == b"0123456789012345678901234"
            # Two are closed; the third may belong to a byte that was not taken.
            assert open_fds() == before + 1
            parcel = await there.recv_fds()
            assert (parcel.data, len(parcel.fds)) == (b"56789", 1)
            os.close(parcel.fds[0])
            for _ in range(40):
                await here.send_fd(b".", sent)
            # Past a bound they stay with the kernel.
            await until(lambda: there._resource.paused)
            assert before < open_fds() <= before + 20
            here.close()
            await there.aclose()
            await here.aclose()
            assert open_fds() <= before - 2
        os.close(sent)

    run(main)


def test_bytes_that_go_before(run: Runner, tmp_path: Path) -> None:
    """Frames: what other receives read costs no descriptor of the next frame, however the kernel cuts the bytes."""
    chance = random.Random(4)
    bodies = [pattern(chance.choice([0, 1, 5000, 70_000]), number) for number in range(60)]

    async def main() -> None:
        async with unix_pair(tmp_path) as (here, there):

            async def send() -> None:
                for number, body in enumerate(bodies):
                    fd = named(number)
                    await here.send_fd(len(body).to_bytes(4, "big") + body[:3000], fd)
                    os.close(fd)
                    await here.send(body[3000:])

            sending = asyncio.create_task(send())
            for number, body in enumerate(bodies):
                parcel = await there.recv_fds(4)
                assert [number_of(fd) for fd in parcel.fds] == [number]
                head = parcel.data + await there.recv_exactly(4 - len(parcel.data))
                assert await there.recv_exactly(int.from_bytes(head, "big")) == body
            await sending

    run(main)


def test_receives_that_are_cancelled(run: Runner, tmp_path: Path) -> None:
    """Every descriptor comes once, with its bytes, however many receives were given up meanwhile."""
    count = 200

    async def main() -> None:
        chance = random.Random(9)
        async with unix_pair(tmp_path) as (here, there):

            async def send() -> None:
                for number in range(count):
                    fd = named(number)
                    await here.send_fd(number.to_bytes(4, "little"), fd)
                    os.close(fd)
                    await aio.sleep(chance.choice([0, 0, 0.0003]))

            sending = asyncio.create_task(send())
            got: list[int] = []
            given_up = 0
            while len(got) < count:
                task = asyncio.create_task(there.recv_fds())
                if chance.random() < 0.6:
                    await asyncio.sleep(0)
                    task.cancel()
                try:
                    parcel = await task
                except asyncio.CancelledError:
                    given_up += 1
                    continue
                assert int.from_bytes(parcel.data, "little") == len(got)
                got.append(number_of(parcel.fds[0]))
            await sending
            assert got == list(range(count))
            assert given_up > 0

    run(main)


def test_descriptors_that_cannot_be_sent(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        async with pair() as (here, _):
            with pytest.raises(quoit.Error) as failed:
                await here.send_fd(b"x", 0)
            assert failed.value.errno == errno.EOPNOTSUPP
            with pytest.raises(TypeError, match="descriptors=True"):
                await here.recv_fds()
            assert here.credentials is None
            await here.send_all(b"lives on")
        async with unix_pair(tmp_path) as (one, two):
            with pytest.raises(quoit.Error) as failed:
                await one.send_fd(b"x", 1_000_000)
            assert failed.value.errno == errno.EBADF
            with pytest.raises(ValueError, match="at least one byte"):
                await one.send_fd(b"", 0)
            with pytest.raises(ValueError, match="max_bytes"):
                await one.recv_fds(0)
            await one.send_all(b"lives on")
            assert (await two.recv_fds()).data == b"lives on"

    run(main)


def test_halves(run: Runner) -> None:
    """A stream of which one half has ended: `stop_recv` is the counterpart of `send_eof`."""

    async def main() -> None:
        async with beside() as (stream, client):
            client.sendall(b"taken")
            assert await stream.recv() == b"taken"
            waiting = asyncio.create_task(stream.recv())
            await asyncio.sleep(0)
            await stream.stop_recv()
            assert await waiting == b""
            assert await stream.recv() == b""
            await stream.send_all(b"still sends")
            assert await in_thread(receive, client, 11) == b"still sends"
            await stream.send_eof()
            assert await in_thread(receive_all, client) == b""

    run(main)


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


def test_a_stream_with_descriptors(run: Runner, tmp_path: Path) -> None:
    async def main() -> None:
        async with unix_pair(tmp_path) as (here, there):
            await here.send_fd(b"ab", (fd := named(7)))
            await until(lambda: there._resource.buffer)
            with pytest.raises(quoit.Error, match="QUOIT_E_BUSY"):
                await there.detach()
            parcel = await there.recv_fds(1)
            assert number_of(parcel.fds[0]) == 7
            detached = await there.detach()
            assert detached.unread == b"b"
            await here.send_fd(b"cd", fd)
            os.close(fd)
            async with await aio.adopt_stream(detached.fd, descriptors=True) as again:
                parcel = await again.recv_fds()
                assert (parcel.data, len(parcel.fds)) == (b"cd", 1)
                os.close(parcel.fds[0])
                here.close()

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
