# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two ways to run: crossings, threads, signals, what is left open, and asyncio's own things beside."""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading

import pytest

import quoit
from aio_support import Runner, beside, in_thread, pair, until
from quoit import aio
from support import LIMIT, dial, finished, lines_of, program, receive


def test_one_crossing_a_tick(driver: str) -> None:
    """Alone, each round of the loop is one call into C, however many ops and events it carries."""

    async def echo(stream: aio.Stream) -> None:
        async for data in stream:
            await stream.send_all(data)

    async def main() -> None:
        host = aio.current()
        async with await aio.listen("127.0.0.1:0") as listener:
            serving = aio.spawn(listener.serve(echo))
            streams = await asyncio.gather(*(aio.connect(listener.address) for _ in range(50)))
            before, began = host.stats(), host.ticks
            for _ in range(20):
                await asyncio.gather(*(stream.send_all(b"ping") for stream in streams))
                await asyncio.gather(*(stream.recv_exactly(4) for stream in streams))
            after = host.stats()
            crossings = after["crossings"] - before["crossings"]
            assert crossings == after["ticks"] - before["ticks"] == host.ticks - began
            # 1000 messages there and 1000 back, each with a send and a receive: 4000 ops and events.
            assert crossings < 1000
            assert after["events"] - before["events"] >= 4000
            await asyncio.gather(*(stream.aclose() for stream in streams))
        await serving

    quoit.run_async(main(), driver=driver)


def test_result_and_exception_of_main(run: Runner) -> None:
    async def gives() -> int:
        return 42

    async def raises() -> int:
        raise LookupError("from main")

    assert run(gives) == 42
    with pytest.raises(LookupError, match="from main"):
        run(raises)


def test_without_a_worker(driver: str) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"quoit\.run_async"):
            await aio.connect("127.0.0.1:1")
        async with aio.hosted(driver) as host:
            assert aio.current() is host
            with pytest.raises(RuntimeError, match="already"):
                async with aio.hosted(driver):
                    pass
        assert host.closed
        with pytest.raises(quoit.Error, match="QUOIT_E_CLOSED"):
            await aio.listen("127.0.0.1:0", host=host)

    asyncio.run(main())
    with pytest.raises(ValueError, match="driver"):
        quoit.run_async(main(), driver="none")


def test_words_from_threads(run: Runner) -> None:
    """Messages come in order per thread; coroutines and calls are handed over too."""

    async def main() -> None:
        host = aio.current()
        loop = asyncio.get_running_loop()

        def sender(number: int) -> None:
            for index in range(100):
                while not host.message(index, -index, number, 9):
                    pass

        async def double(value: int) -> int:
            await aio.sleep(0.001)
            return value * 2

        def asker() -> int:
            return asyncio.run_coroutine_threadsafe(double(21), loop).result(LIMIT)

        asked = asyncio.create_task(in_thread(asker))
        threads = [threading.Thread(target=sender, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        got: list[quoit.Message] = []
        while len(got) < 300:
            try:
                got.append(await asyncio.wait_for(host.receive_message(), 0.001))
            except TimeoutError:
                continue
        for number in range(3):
            mine = [message for message in got if message.aux == number]
            assert mine == [quoit.Message(index, -index, number, 9) for index in range(100)]
        assert await asked == 42
        for thread in threads:
            thread.join()

    run(main)


def test_a_task_that_raises(run: Runner) -> None:
    run.expects_reports = True

    async def fails() -> None:
        await aio.sleep(0.001)
        raise RuntimeError("in a task")

    async def main() -> None:
        aio.spawn(fails(), name="bad")
        await until(lambda: run.reports)
        await aio.sleep(0.001)

    run(main)
    assert "task bad raised" in run.reports[0]["message"]
    assert str(run.reports[0]["exception"]) == "in a task"


def test_what_is_forgotten_is_told_and_closed(run: Runner) -> None:
    run.expects_warnings = True

    async def main() -> None:
        host = aio.current()
        listener = await aio.listen("127.0.0.1:0")
        with dial(listener.address) as client:
            stream = await listener.accept()
            del stream
            gc.collect()
            assert await in_thread(receive, client, 1) == b""
        with socket.socket() as other:
            # From another thread, as a garbage collection may come anywhere.
            held = [listener]
            del listener
            await in_thread(held.clear)
            await until(lambda: not host.resources)
            assert other.fileno() >= 0

    run(main)
    assert len(run.warnings) == 2
    assert "unclosed <quoit.aio.Stream" in run.warnings[0]
    assert "unclosed <quoit.aio.Listener" in run.warnings[1]


def test_what_is_open_at_the_end(run: Runner) -> None:
    run.expects_warnings = True
    left: list[object] = []

    async def main() -> None:
        listener = await aio.listen("127.0.0.1:0")
        left.extend([listener, await aio.connect(listener.address), await listener.accept()])

    run(main)
    assert sorted(warning.split()[1] for warning in run.warnings) == [
        "<quoit.aio.Listener", "<quoit.aio.Stream", "<quoit.aio.Stream"
    ]  # fmt: skip
    left.clear()
    gc.collect()


def test_stopped_from_elsewhere(run: Runner) -> None:
    """Whoever waits for the worker is told, and the loop goes on."""

    async def main() -> None:
        host = aio.current()
        sender, receiver = await aio.channel(1)
        full, _unread = await aio.channel(1)
        await full.send(1)
        await full.send(2)
        async with pair() as (here, _), await aio.bind("127.0.0.1:0") as sock:
            waiting = (here.recv(), aio.sleep(3600), host.receive_message(), sock.recv(), receiver.recv(), full.send(3))
            waits = [asyncio.create_task(wait) for wait in waiting]
            await aio.sleep(0.001)
            await in_thread(quoit.stop, host.worker.handle)
            outcomes = await asyncio.gather(*waits, return_exceptions=True)
            assert all(isinstance(outcome, quoit.Error) for outcome in outcomes)
            for again in (
                here.recv(), aio.sleep(1), aio.connect("127.0.0.1:1"), here.send_all(b"x"), here.detach(), sock.recv(),
                sock.send_to(b"x", "127.0.0.1:1"), sock.detach(), receiver.recv(), sender.send(1), aio.channel(1),
                aio.bind("127.0.0.1:0"), sock.set_options(tos=1), aio.adopt_stream(0),
            ):  # fmt: skip
                with pytest.raises(quoit.Error):
                    await again
        await asyncio.sleep(0.001)
        assert await in_thread(lambda: 7) == 7

    run(main)


def test_beside_what_asyncio_has(run: Runner) -> None:
    """asyncio's streams, subprocesses, readers, signals and threads work in the same loop."""

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        data = bytes(range(256)) * 4000
        async with await aio.connect(f"{host}:{port}") as stream:
            sending = asyncio.create_task(stream.send_all(data))
            assert await stream.recv_exactly(len(data)) == data
            await sending
            await stream.send_eof()
            assert await stream.recv() == b""
        server.close()

        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(input() * 2)", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await child.communicate(b"ab\n")
        assert (out, child.returncode) == (b"abab\n", 0)

        got: list[int] = []
        loop.add_signal_handler(signal.SIGUSR1, got.append, 1)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: got)
        loop.remove_signal_handler(signal.SIGUSR1)

        one, two = socket.socketpair()
        ready: list[str] = []
        loop.add_reader(one, ready.append, "in")
        loop.add_writer(one, ready.append, "out")
        await until(lambda: "out" in ready)
        assert "in" not in ready
        loop.remove_writer(one)
        two.send(b"x")
        await until(lambda: "in" in ready)
        loop.remove_reader(one)
        ready.clear()
        await aio.sleep(0.002)
        assert ready == []
        one.close()
        two.close()

    run(main)


def test_loops_in_threads_of_one_runtime(driver: str) -> None:
    async def main() -> int:
        async with beside() as (stream, client):
            await stream.send_all(b"x" * 1000)
            return len(await in_thread(receive, client, 1000))

    got: list[int] = []
    with quoit.Runtime(driver) as runtime:
        threads = [
            threading.Thread(target=lambda: got.append(quoit.run_async(main(), runtime=runtime))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert not runtime.closed
    assert got == [1000] * 3


INTERRUPTED = """
import asyncio, sys
import quoit
from quoit import aio
async def main():
    async with await aio.listen("127.0.0.1:0") as listener:
        print("waiting", flush=True)
        try:
            await listener.accept()
        finally:
            await aio.sleep(0.001)
            print("cleaned up", flush=True)
async def hosting():
    async with aio.hosted(sys.argv[1]):
        await main()
if sys.argv[2] == "beside":
    # Another thread takes the signal.
    import signal, threading
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    def unblocked():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        threading.Event().wait()
    threading.Thread(target=unblocked, daemon=True).start()
if sys.argv[2] == "hosted":
    asyncio.run(hosting())
else:
    quoit.run_async(main(), driver=sys.argv[1])
"""


@pytest.mark.parametrize("way", ["alone", "beside", "hosted"])
def test_keyboard_interrupt(driver: str, way: str) -> None:
    process = program(INTERRUPTED, driver, way)
    lines = lines_of(process)
    assert next(lines) == "waiting"
    process.send_signal(signal.SIGINT)
    assert next(lines) == "cleaned up"
    status, _, err = finished(process)
    assert status in (-signal.SIGINT, 130)
    assert "KeyboardInterrupt" in err
    assert "Warning" not in err
