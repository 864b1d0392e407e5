# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fork, garbage collection and the end of the interpreter, each in a program of its own."""

import pytest

import quoit
from support import finished, program


def run(source: str, *args: str) -> tuple[str, str]:
    status, out, err = finished(program(source, *args))
    assert status == 0, f"exit status {status}\n{out}\n{err}"
    return out, err


def test_fork(driver: str) -> None:
    """The child is told so by every call and ends cleanly; the parent goes on."""
    source = """
import os, sys
import quoit
runtime = quoit.Runtime(sys.argv[1])
worker = runtime.worker()
worker.op(quoit.OP_NOP)
worker.turn()
pid = os.fork()
if pid == 0:
    names = []
    for call in (worker.turn, worker.submit, worker.stop, worker.fileno, runtime.worker,
                 lambda: quoit.send_message(worker.handle), worker.run):
        try:
            call()
            names.append("nothing")
        except quoit.Error as error:
            names.append(error.name)
    print(sorted(set(names)), flush=True)
    runtime.close()
    with quoit.Runtime(sys.argv[1]) as mine, mine.worker() as own:
        own.op(quoit.OP_NOP, user_data=8)
        print([event[3] for event in own.turn()], flush=True)
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
worker.op(quoit.OP_NOP, user_data=9)
print([event[3] for event in worker.turn()])
runtime.close()
"""
    out, err = run(source, driver)
    assert out.splitlines() == ["['QUOIT_E_FORKED']", "[8]", "7", "[9]"]
    assert err == ""


def test_fork_while_running_and_exit_by_finalisers(driver: str) -> None:
    """The child inherits a running worker and signal wake-ups, and just ends; the parent is not woken by it."""
    source = """
import os, signal, sys
import quoit
with quoit.Runtime(sys.argv[1]) as runtime, runtime.worker() as worker:
    def fork(count):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGUSR1, lambda *_: None)
            os.kill(os.getpid(), signal.SIGUSR1)
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        worker.timer(0.05, lambda count: worker.stop())
    worker.timer(0.001, fork)
    worker.run()
    print(worker.woken)
"""
    out, _ = run(source, driver)
    assert out.split() == ["0", "0"]


def test_forgotten_runtime_is_collected(driver: str) -> None:
    source = """
import gc, os, sys, warnings
import quoit
def forget():
    runtime = quoit.Runtime(sys.argv[1])
    worker = runtime.worker()
    worker.timer(3600, lambda count: None)
    worker.turn(0)
fds = len(os.listdir("/proc/self/fd"))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for _ in range(20):
        forget()
        gc.collect()
print(len(told), {str(w.category.__name__) for w in told}, len(os.listdir("/proc/self/fd")) - fds)
"""
    out, err = run(source, driver)
    assert out.split() == ["20", "{'ResourceWarning'}", "0"]
    assert err == ""


ENDINGS = {
    "open runtime": "worker.op(quoit.OP_NOP); worker.turn()",
    "ops in flight": "worker.timer(3600, print); worker.turn(0)",
    "exit inside a callback": "worker.timer(0.001, lambda n: sys.exit(0)); worker.run()",
    "offloaded call runs": (
        "nap = quoit.Function.find(None, 'usleep', quoit.TYPE_I32, [quoit.TYPE_U32]);"
        "worker.offload(nap, (200_000,), print); worker.turn(0)"
    ),
    "view is held": "view = worker.recv_view[:10]; import atexit; atexit.register(lambda: print(bytes(view)[:1]))",
    "daemon thread runs it": (
        "import threading; ready = threading.Event();"
        "worker.timer(0.001, lambda n: ready.set());"
        "threading.Thread(target=worker.run, daemon=True).start(); ready.wait()"
    ),
    "daemon thread is busy in it": (
        "import threading; ready = threading.Event();"
        "worker.timer(0.001, lambda n: ready.set(), period=0.001);"
        "threading.Thread(target=worker.run, daemon=True).start(); ready.wait()"
    ),
    "file is open": (
        "worker.open('/etc/passwd', quoit.OPEN_READ, lambda f: globals().update(f=f));"
        "worker.dispatch(worker.turn())"
    ),
}  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_interpreter_exit(driver: str, ending: str) -> None:
    """Whatever is open, the program ends at once, with status 0 and without a word but warnings."""
    source = f"""
import sys
import quoit
runtime = quoit.Runtime(sys.argv[1])
worker = runtime.worker()
{ending}
"""
    _, err = run(source, driver)
    noise = [line for line in err.splitlines() if "Warning" not in line and not line.startswith("  ")]
    assert noise == []


def test_stop_from_another_thread_wakes_a_wait(worker: quoit.Worker) -> None:
    import threading

    threading.Timer(0.05, worker.stop).start()
    worker.run()
    assert worker.finished


def test_many_runtimes(driver: str) -> None:
    for _ in range(100):
        with quoit.Runtime(driver) as runtime, runtime.worker() as worker:
            worker.op(quoit.OP_NOP)
            assert len(list(worker.turn())) == 1
