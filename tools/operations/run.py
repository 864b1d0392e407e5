#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/operations.md: every opcode with what it takes, what carries it out, and who may ask for it.

Read out of quoit/op.h (comments) and the table of runtime/core/dispatch.c (targets, flags, posting); what the kernel
has to do with it stands here.

Examples: tools/operations/run.py --write    tools/operations/run.py --check
"""

import argparse
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "matrix")]

import table  # noqa: E402

PAGE = table.ROOT / "docs/operations.md"
DISPATCH = table.ROOT / "runtime/core/dispatch.c"

CORE = "no system call"
# By opcode: the ring's request, and what the epoll driver does instead.
CARRIED: dict[str, tuple[str, str]] = {
    "NOP": (CORE, CORE),
    "LISTEN": ("socket(2), bind(2), listen(2) at once", "the same"),
    "ACCEPT": ("ACCEPT; MULTI: multishot (5.19)", "accept4(2) when readable"),
    "CONNECT": ("CONNECT", "connect(2), then writable"),
    "RECV": ("RECV into the buffer ring (5.19); MULTI: multishot (6.0)", "recv(2) when readable"),
    "RECV_PAUSE": ("ASYNC_CANCEL of the receive", "stops to look"),
    "RECV_RESUME": ("RECV again", "looks again"),
    "SEND": (
        "SEND, SENDMSG where several leave together; ZEROCOPY: SEND_ZC, SENDMSG_ZC (6.2)",
        "sendmsg(2), at once where it can",
    ),
    "SENDV": ("SENDMSG; ZEROCOPY: SENDMSG_ZC (6.2)", "sendmsg(2)"),
    "SHUTDOWN": ("SHUTDOWN", "shutdown(2)"),
    "CLOSE": ("SHUTDOWN, RECV, CLOSE", "the same calls"),
    "CANCEL": ("ASYNC_CANCEL", CORE),
    "TIMER": ("the timeout of the wait; BOOT, WALL: a timerfd tells jumps", "the same"),
    "POST": (CORE + "; an eventfd write where the receiver sleeps", "the same"),
    "POLL": ("POLL_ADD, each time one shot", "poll set, level-triggered"),
    "OPEN": ("OPENAT", "openat(2) on the blocking pool"),
    "READ": ("READ", "pread(2) on the blocking pool"),
    "WRITE": ("WRITE, WRITEV", "pwritev2(2) on the blocking pool"),
    "FSYNC": ("FSYNC", "fsync(2) on the blocking pool"),
    "OFFLOAD": ("the blocking pool", "the blocking pool"),
    "KEEP": (CORE, CORE),
    "RELEASE": (CORE, CORE),
    "BIND": ("socket(2), bind(2) at once", "the same"),
    "RECVMSG": ("RECVMSG into the buffer ring; MULTI: multishot (6.0)", "recvmsg(2) when readable"),
    "SENDMSG": ("SENDMSG", "sendmsg(2), at once where it can"),
    "MULTICAST": ("setsockopt(2) at once", "the same"),
    "SOCKET_SET": ("setsockopt(2) at once", "the same"),
    "ADOPT": ("fcntl(2), getsockopt(2) at once", "the same"),
    "DETACH": ("fcntl(2) at once", "the same, and out of the poll set"),
    "SPLICE": ("POLL_ADD, SPLICE through a pipe; through memory from and to pipes and the ends of files",
               "through memory: recv(2), pread(2), then sendmsg(2), pwritev2(2)"),
    "SEND_FD": ("SENDMSG with SCM_RIGHTS", "sendmsg(2)"),
    "RECV_FD": ("RECVMSG with SCM_RIGHTS", "recvmsg(2) when readable"),
    "MOVE": (CORE + "; the mailbox of the other worker", "the same"),
    "CHANNEL": (CORE, CORE),
    "CHANNEL_SEND": (CORE + "; an eventfd write where the receiver sleeps", "the same"),
    "CHANNEL_RECV": (CORE, CORE),
}

HEAD = """# Operations

Written by `tools/operations/run.py --write` from the headers and the dispatch table; `./dev test` compares. What each
op takes and tells in full stands in [`quoit/op.h`](../capi/include/quoit/op.h); which test shows each way it can end,
`./dev matrix` lists.

**Kernel floor.** The io_uring driver is used where the kernel passes a trial of all that it needs: buffer rings and
multishot accept (Linux 5.19) and multishot receive (6.0); its deferring rung needs 6.1. Below that, and where io_uring
is blocked, the epoll driver carries out the same ops: no opcode has a floor of its own, and nothing in an event shows
which driver ran.

**Threads.** Ops are the owner thread's, in its array. *Posted* says whether another thread may bring it by
`quoit_post`; a posted op has no ARENA_SEND, ARENA_RECV, BORROW or KEEP.

"""


class Outdated(Exception):
    """The sources and this table do not fit each other."""


def expand(text: str, defines: dict[str, str]) -> str:
    while True:
        wider = re.sub(r"\b[A-Z_]+\b", lambda m: f"({defines[m[0]]})" if m[0] in defines else m[0], text)
        if wider == text:
            return text
        text = wider


def read_rules() -> dict[str, tuple[list[str], list[str], bool]]:
    """By opcode: its targets, its flags, and whether it may be posted."""
    source = DISPATCH.read_text() + "\n" + (DISPATCH.parent / "object.h").read_text()
    joined = source.replace("\\\n", " ")
    defines = dict(re.findall(r"#define ([A-Z_]+) +([^\n]+)", joined))
    body = joined[joined.index("rules[] = {") : joined.index("\n};", joined.index("rules[] = {"))]
    rules = {}
    for name, rule in re.findall(r"\[QUOIT_OP_([A-Z_]+)\] = \{(.*?)\},(?=\s*\[|\s*$)", body, re.DOTALL):
        wide = expand(rule, defines)
        targets = [kind.lower() for kind in dict.fromkeys(re.findall(r"QUOIT_HANDLE_([A-Z]+)", wide))]
        if ".may_lack" in rule:
            targets.append("none")
        flags = list(dict.fromkeys(re.findall(r"QUOIT_OPF_([A-Z_]+)", wide)))
        rules[name] = (targets, flags, ".local" not in rule)
    return rules


def page() -> str:
    rules = read_rules()
    lines = [
        "| | op | targets | flags | on the ring | on epoll | posted | errors of its own |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for op in table.read_ops():
        if op.name not in rules or op.name not in CARRIED:
            raise Outdated(f"{op.name} is not in the dispatch table or not in tools/operations/run.py")
        targets, flags, posted = rules[op.name]
        ring, epoll = CARRIED[op.name]
        errors = ", ".join(sorted(op.errors())) or "-"
        cells = [str(op.number), op.name, ", ".join(targets), ", ".join(flags) or "-", ring, epoll,
                 "yes" if posted else "no", errors]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    args = parser.parse_args()
    try:
        text = page()
    except Outdated as error:
        print(f"operations: {error}")
        return 1
    if args.write:
        PAGE.write_text(text)
        return 0
    same = PAGE.is_file() and PAGE.read_text() == text
    if not same:
        print("docs/operations.md does not fit the sources: run tools/operations/run.py --write")
    print(f"operations: {int(same)} passed, {int(not same)} failed, 0 skipped")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
