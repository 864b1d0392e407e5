# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which cells the matrix must have: from the opcodes and documented errors in quoit/op.h, and the kind of each op.

A case is how an op ends: "success", "error NAME", "cancel before" (in the batch that brought the op), "cancel during",
"cancel after" (it had won), "close in flight", "deadline" (it passed), "deadline kept" (the op was in time).
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "capi/include/quoit/op.h"

# Ops that end within the turn that takes them: there is nothing to cancel, to close under or to be late for.
AT_ONCE = {"NOP", "LISTEN", "RECV_PAUSE", "RECV_RESUME", "CANCEL", "POST", "KEEP", "RELEASE", "SOCKET_SET", "CHANNEL",
           "BIND", "MULTICAST", "ADOPT", "DETACH"}  # fmt: skip
# Ops that take no target, and those that may go without one.
NO_TARGET = {"CHANNEL", "NOP", "LISTEN", "CONNECT", "POLL", "OFFLOAD", "BIND", "ADOPT"}
MAY_LACK_TARGET = {"TIMER", "OPEN", "CANCEL"}
MAKES_OBJECT = {"CHANNEL", "LISTEN", "CONNECT", "TIMER", "POLL", "OPEN", "BIND", "ADOPT"}
# Its handle is told, so that it can be closed under the op that made it.
OWN_OBJECT = {"TIMER", "POLL"}
# Take objects that are closing too, or tell of that by an error of their own.
WHILE_CLOSING = {"CHANNEL_SEND", "CHANNEL_RECV", "CANCEL", "KEEP", "RELEASE", "POST"}

# Take objects of other workers.
ANY_WORKER = {"POST", "CHANNEL_SEND"}

# Cells that cannot be, each with its reason.
CANNOT: dict[tuple[str, str], str] = {
    ("RELEASE", "success"): "a release that succeeds tells nothing",
    ("RELEASE", "cancel after"): "a release that succeeds tells nothing",
    ("KEEP", "cancel after"): "a buffer is no target of a cancel",
    ("POST", "cancel after"): "a worker is no target of a cancel",
    ("RELEASE", "deadline kept"): "a release that succeeds tells nothing",
    ("CLOSE", "cancel before"): "a cancel of all ops of an object leaves its close",
    ("CLOSE", "cancel during"): "a cancel of all ops of an object leaves its close",
    ("CLOSE", "cancel after"): "the handle is stale then: seen as QUOIT_E_STALE of the cancel",
    ("CLOSE", "close in flight"): "a second close is QUOIT_E_CLOSING",
    ("CLOSE", "deadline"): "the deadline of a close ends its patience: it succeeds",
    ("FSYNC", "cancel during"): "fsync(2) is not interrupted: it succeeds (cancel after)",
    ("FSYNC", "deadline"): "fsync(2) is not interrupted: it succeeds (deadline kept)",
    ("FSYNC", "close in flight"): "fsync(2) is not interrupted: it succeeds before the close",
    ("CHANNEL_SEND", "close in flight"): "a close of the channel ends it with -EPIPE",
}
# … on the rungs of the ring.
CANNOT_ON_RINGS: dict[tuple[str, str], str] = {
    ("OPEN", case): "the ring has opened before it hears of a cancel or is late: it succeeds"
    for case in ("cancel before", "cancel during", "deadline")
}


def cannot(opcode: str, case: str, driver: str) -> str | None:
    """Why the cell cannot be; None when it can."""
    on_rings = CANNOT_ON_RINGS.get((opcode, case)) if driver.startswith("uring") else None
    return CANNOT.get((opcode, case)) or on_rings


@dataclass
class Op:
    name: str
    number: int
    text: str  # its comment

    def errors(self) -> set[str]:
        """The statuses that its own comment names."""
        found = {f"E{name}" for name in re.findall(r"-E([A-Z0-9]+)\b", self.text)}
        for group in re.findall(r"QUOIT_E_[A-Z_]+(?:, _[A-Z_]+)*", self.text):
            first, *more = group.split(", _")
            found |= {first, *(f"QUOIT_E_{name}" for name in more)}
        return found


def read_ops(header: Path = HEADER) -> list[Op]:
    ops: list[Op] = []
    comment = ""
    pattern = re.compile(r"/\*(?P<comment>.*?)\*/|#define QUOIT_OP_(?P<name>[A-Z_]+) (?P<number>\d+)", re.DOTALL)
    for found in pattern.finditer(header.read_text()):
        if found["name"]:
            ops.append(Op(found["name"], int(found["number"]), comment))
        else:
            comment = re.sub(r"\s*\n \*\s?", " ", found["comment"])
    return ops


def common_errors(op: Op) -> set[str]:
    names = {"QUOIT_E_FLAGS", "QUOIT_E_FIELD"}
    if op.name not in NO_TARGET:
        names |= {"QUOIT_E_STALE", "QUOIT_E_KIND", "QUOIT_E_HANDLE"}
        if op.name not in ANY_WORKER:
            names.add("QUOIT_E_WORKER")
        if op.name not in WHILE_CLOSING:
            names.add("QUOIT_E_CLOSING")
    if op.name in MAKES_OBJECT:
        names.add("QUOIT_E_LIMIT")
    return names


def cases(op: Op) -> list[str]:
    wanted = ["success", *(f"error {name}" for name in sorted(common_errors(op) | op.errors()))]
    if op.name != "CANCEL":
        wanted += ["cancel after", "deadline kept"]
    if op.name not in AT_ONCE:
        wanted += ["cancel before", "cancel during", "deadline"]
        if op.name not in NO_TARGET | MAY_LACK_TARGET or op.name in OWN_OBJECT:
            wanted.append("close in flight")
    return [case for case in wanted if case not in ("error ECANCELED", "error ETIMEDOUT", "error ENOMEM")]
