# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ctrl-C and other signals end a wait at once, whichever thread they hit."""

import signal
import subprocess
import time

import pytest

from support import LIMIT, finished, lines_of, program

WAITING = """
import os, sys, threading, time
import quoit
mode = sys.argv[2]
with quoit.Runtime(sys.argv[1]) as runtime, runtime.worker() as worker:
    if mode == "beside":
        # Another thread takes the signal: the main thread's wait is not interrupted by it.
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        def unblocked():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            threading.Event().wait()
        threading.Thread(target=unblocked, daemon=True).start()
    worker.timer(0.01, lambda count: print("waiting", flush=True))
    try:
        if mode == "batch":
            worker.run(lambda worker, events: print("waiting", flush=True))
        else:
            worker.run()
    except KeyboardInterrupt:
        print("interrupted", worker.stats()["ops_live"], flush=True)
        raise
"""


@pytest.mark.parametrize("mode", ["objects", "batch", "beside"])
def test_keyboard_interrupt_in_a_wait(driver: str, mode: str) -> None:
    process = program(WAITING, driver, mode)
    lines = lines_of(process)
    assert next(lines) == "waiting"
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert [line for line in lines if line != "waiting"] == ["interrupted 0"]
    status, _, err = finished(process)
    assert time.monotonic() - begun < LIMIT
    assert status in (-signal.SIGINT, 130)
    assert "KeyboardInterrupt" in err


# os.write, because a handler may not print while the program is in a print.
HANDLING = """
import os, signal, sys
import quoit
got = []
def handler(number, frame):
    got.append(number)
    os.write(1, b"got %d\\n" % len(got))
    if len(got) == 5:
        worker.stop()
signal.signal(signal.SIGUSR1, handler)
batches = []
with quoit.Runtime(sys.argv[1]) as runtime, runtime.worker() as worker:
    worker.op(quoit.OP_TIMER, quoit.OPF_ARMED, offset=3600 * 10**9)
    worker.run(lambda worker, events: batches.extend(events) or (len(batches) == 1 and print("ready", flush=True)))
    # The armed event and the end of the timer; of the wake-ups nothing is seen.
    print([event[0] == quoit.OP_TIMER for event in batches], signal.set_wakeup_fd(-1))
"""


def test_handlers_run_between_turns(driver: str) -> None:
    """Each of five signals is handled while nothing else wakes the worker."""
    process = program(HANDLING, driver)
    lines = lines_of(process)
    assert next(lines) == "ready"
    for number in range(1, 6):
        process.send_signal(signal.SIGUSR1)
        assert next(lines) == f"got {number}"
    assert next(lines) == "[True, True] -1"
    status, _, err = finished(process)
    assert (status, err) == (0, "")


def test_interrupt_while_busy(driver: str) -> None:
    """A worker that never waits is interrupted too."""
    source = """
import sys
import quoit
with quoit.Runtime(sys.argv[1]) as runtime, runtime.worker() as worker:
    def again(worker, events):
        for event in events:
            worker.op(quoit.OP_NOP)
    worker.op(quoit.OP_NOP)
    print("busy", flush=True)
    worker.run(again)
"""
    process: subprocess.Popen[str] = program(source, driver)
    assert next(lines_of(process)) == "busy"
    process.send_signal(signal.SIGINT)
    status, _, err = finished(process)
    assert status in (-signal.SIGINT, 130), err
