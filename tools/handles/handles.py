# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gives mutations of live handles to every op from Python; each must end in an error event. `handles.py TRIES SEED`."""

import json
import random
import sys
from collections import Counter

import quoit
from quoit import const

PER_TURN = 64
OPCODES = {
    const.OP_ACCEPT: {},
    const.OP_RECV: {},
    const.OP_RECV_PAUSE: {},
    const.OP_RECV_RESUME: {},
    const.OP_SHUTDOWN: {"arg": const.SHUTDOWN_SEND},
    const.OP_CLOSE: {},
    const.OP_CANCEL: {},
    const.OP_TIMER: {},
    const.OP_POST: {},
    const.OP_READ: {"len": 16},
    const.OP_FSYNC: {},
    const.OP_KEEP: {},
    const.OP_RELEASE: {},
    const.OP_RECVMSG: {},
}


def mutate(handle: int, numbers: random.Random) -> int:
    kind = numbers.randrange(5)
    if kind == 0:
        return handle + (1 << 24)
    if kind == 1:
        return handle - (1 << 24)
    if kind == 2:
        return handle & ~(0x7F << 56) | numbers.randrange(128) << 56
    if kind == 3:
        return handle & ~(0xFF << 48) | numbers.randrange(256) << 48
    return handle ^ 1 << numbers.randrange(64)


def live_handles(worker: quoit.Worker) -> list[int]:
    """A listener, a file and a timer, and the worker itself."""
    where = quoit.address.parse("127.0.0.1:0")
    worker.op(const.OP_LISTEN, addr=worker.hold_struct(where), len=quoit.address.SIZE)
    worker.op(const.OP_OPEN, 0, 0, 0, worker.hold(b"/dev/null"), 9, const.OPEN_READ)
    worker.op(const.OP_TIMER, const.OPF_ARMED, offset=3600 * 10**9)
    found: list[int] = [worker.handle]
    while len(found) < 4:
        for event in worker.turn():
            if event[4] < 0:
                raise quoit.Error(event[4], "set-up")
            found.append(event[9])
    return found


def main(tries: int, seed: int) -> int:
    numbers = random.Random(seed)
    told: Counter[str] = Counter()
    done = accepted = 0
    with quoit.Runtime() as runtime:
        worker = quoit.Worker(runtime)
        live = live_handles(worker)
        codes = list(OPCODES)
        while done < tries:
            asked = 0
            while asked < PER_TURN:
                handle = mutate(numbers.choice(live), numbers)
                if handle in live or not handle:
                    continue
                opcode = numbers.choice(codes)
                worker.op(opcode, target=handle, user_data=1000 + asked, **OPCODES[opcode])
                asked += 1
            events = [event for event in worker.turn(0) if event[3] >= 1000]
            if len(events) != PER_TURN:
                print(f"handles.py: {len(events)} events for {PER_TURN} ops", file=sys.stderr)
                return 1
            for event in events:
                accepted += event[4] >= 0
                told[quoit.Error(event[4], "").name if event[4] < 0 else "accepted"] += 1
            done += PER_TURN
        worker.close()
    print(json.dumps({"language": "python", "tries": done, "not_refused": accepted, **told}))
    return 1 if accepted else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
