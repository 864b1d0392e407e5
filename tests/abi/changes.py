# SPDX-License-Identifier: MIT OR Apache-2.0
"""The deliberate breaks and the harmless controls, each as a few edits of a copy of the checkout.

An edit is (files, pattern, replacement): every file that the globs name is searched, and the change counts as not
measured if an edit finds nothing. Patterns are anchored in one declaration, so that new headers, fields and constants
around it do not disturb them. `step` is the letter of the step that has to refuse a break (tools/abi/steps.py)."""

from dataclasses import dataclass, field

HEADERS = "capi/include/quoit/*.h"
ENTRY = "capi/src/**/*.c"
EVERYWHERE = f"{HEADERS} capi/src/**/*.[ch] runtime/**/*.[ch]"
MAP = "capi/quoit.map"


Edit = tuple[str, str, str]  # (files, pattern, replacement)


@dataclass
class Change:
    name: str
    edits: list[Edit] = field(default_factory=list)
    step: str = ""  # of a break
    flag: tuple[str, str, str] | None = None  # (prefix of sources, compile flag, its replacement)
    rebaseline: bool = False  # a control that asks for new dumps in the same commit


def in_struct(name: str, pattern: str, replacement: str) -> Edit:
    """Edits one place inside a struct's body."""
    return (HEADERS, rf"(typedef struct {name} \{{[^}}]*?)" + pattern + rf"(?=[^}}]*\}} {name};)", r"\1" + replacement)


def at_end(name: str, addition: str) -> Edit:
    """Adds fields at a struct's end."""
    return (HEADERS, rf"\}} {name};", addition + f" }} {name};")


def in_prototype(function: str, pattern: str, replacement: str) -> list[Edit]:
    """Edits one function's parameters or return type, in its declaration and its definition."""
    return [(f"{HEADERS} {ENTRY}", rf"(\b{function}\([^;{{]*?)" + pattern, r"\1" + replacement)]


# A function that did not exist: its declaration, its definition, and later its line in the map.
NEW_FUNCTION = [
    (
        "capi/include/quoit/base.h",
        r"(QUOIT_API uint32_t quoit_version\(void\);)",
        r"\1\nQUOIT_API uint32_t quoit_gate_probe(uint32_t number);",
    ),
    ("capi/src/base.c", r"\Z", "\nuint32_t quoit_gate_probe(uint32_t number) {\n    return number;\n}\n"),
]

BREAKS = [
    Change("debug info missing everywhere", flag=("", "-g", "-g0"), step="a"),
    Change("debug info missing in the entry points", flag=("capi/src/", "-g", "-g0"), step="a"),
    Change(
        "function declared but not in the map",
        [
            (
                "capi/include/quoit/base.h",
                r"(QUOIT_API uint32_t quoit_version\(void\);)",
                r"\1\nQUOIT_API uint32_t quoit_gate_probe(uint32_t number);",
            )
        ],
        step="b",
    ),
    Change("symbol removed", [(MAP, r"\n\s*quoit_now;", "")], step="c"),
    Change("SONAME changed", [("cmake/library.cmake", r"SOVERSION 1\b", "SOVERSION 2")], step="c"),
    Change("field widened", [in_struct("quoit_batch", r"uint32_t stride;", "uint64_t stride;")], step="c"),
    Change("field signedness changed", [in_struct("quoit_op", r"int64_t offset;", "uint64_t offset;")], step="c"),
    Change("array field lengthened", [in_struct("quoit_probe_entry", r"fix\[256\];", "fix[512];")], step="c"),
    Change("parameter widened", in_prototype("quoit_now", r"uint32_t ", "uint64_t "), step="c"),
    Change(
        "return type widened", [(f"{HEADERS} {ENTRY}", r"\bquoit_status(\s+quoit_worker_fd\()", r"int64_t\1")], step="c"
    ),
    Change(
        "callback signature changed",
        [(HEADERS, r"typedef quoit_status \(\*quoit_batch_fn\)", "typedef int64_t (*quoit_batch_fn)")],
        step="c",
    ),
    Change(
        "pointer parameter gained const",
        in_prototype("quoit_runtime_driver", r"(?<!const )quoit_runtime \*", "const quoit_runtime *"),
        step="c",
    ),
    Change(
        "handle type changed", [(HEADERS, r"typedef uint64_t quoit_handle;", "typedef int64_t quoit_handle;")], step="c"
    ),
    Change(
        "field widened where no function reaches",
        [in_struct("quoit_iov", r"uint32_t flags;", "uint64_t flags;")],
        step="d",
    ),
    Change(
        "fields reordered where no function reaches",
        [in_struct("quoit_event", r"uint32_t len;\s*uint32_t aux;", "uint32_t aux; uint32_t len;")],
        step="d",
    ),
    Change(
        "signedness changed where no function reaches",
        [in_struct("quoit_event", r"\bint64_t result;", "uint64_t result;")],
        step="d",
    ),
    Change(
        "status code changed",
        [
            (HEADERS, r"(#define QUOIT_E_STALE) -20007\b", r"\1 -20008"),
            (HEADERS, r"(#define QUOIT_E_KIND) -20008\b", r"\1 -20007"),
        ],
        step="e",
    ),
    Change(
        "opcodes exchanged",
        [(HEADERS, r"(#define QUOIT_OP_KEEP) 20\b", r"\1 21"), (HEADERS, r"(#define QUOIT_OP_RELEASE) 21\b", r"\1 20")],
        step="e",
    ),
    Change("constant renamed", [(EVERYWHERE, r"\bQUOIT_LOG_DEBUG\b", "QUOIT_LOG_TRACE")], step="e"),
    Change("version number goes back", [(HEADERS, r"(#define QUOIT_VERSION_NUM) 0x\w+", r"\1 0x000001")], step="e"),
    Change("field renamed", [(EVERYWHERE, r"\bflowinfo\b", "flow_label")], step="f"),
    Change(
        "symbol moved to another node",
        [(MAP, r"\n\s*quoit_now;", ""), (MAP, r"\Z", "\nQUOIT_1.1 {\n    global:\n        quoit_now;\n} QUOIT_1.0;\n")],
        step="g",
    ),
    Change(
        "symbol added to a closed node",
        [*NEW_FUNCTION, (MAP, r"(global:\n)", r"\1        quoit_gate_probe;\n")],
        step="g",
    ),
    Change(
        "meaning of a status changed",
        [("runtime/core/status.c", r"(OURS\(QUOIT_E_STALE, )CLOSED", r"\1USAGE")],
        step="h",
    ),
    Change("frozen struct grown", [at_end("quoit_op", "uint64_t more;")], step="l"),
    Change(
        "options struct grown in the middle",
        [in_struct("quoit_worker_options", r"uint64_t recv_arena;", "uint64_t more; uint64_t recv_arena;")],
        step="l",
    ),
    Change(
        "options struct shortened",
        [in_struct("quoit_worker_options", r"uint32_t cpu;\s*uint32_t reserved2;", "")],
        step="l",
    ),
    Change(
        "struct_size no longer first",
        [
            in_struct(
                "quoit_listen_options",
                r"uint32_t struct_size;\s*uint32_t flags;",
                "uint32_t flags; uint32_t struct_size;",
            )
        ],
        step="l",
    ),
    Change(
        "new options struct without struct_size",
        [
            (
                "capi/include/quoit/net.h",
                r"(#define QUOIT_LISTEN_REUSEPORT)",
                r"typedef struct quoit_gate_options { uint32_t flags; uint32_t port; } quoit_gate_options;\n\1",
            )
        ],
        step="l",
    ),
]

CONTROLS = [
    Change(
        "new symbol in a new node",
        [*NEW_FUNCTION, (MAP, r"\Z", "\nQUOIT_1.1 {\n    global:\n        quoit_gate_probe;\n} QUOIT_1.0;\n")],
    ),
    Change(
        "private struct changed",
        [("runtime/core/worker.h", r"\n(struct qt_worker \{)", r"\n\1\n    uint64_t gate_probe;")],
    ),
    Change("comment changed", [(HEADERS, r"(/\* SPDX[^\n]*\*/)", r"\1\n/* One line more. */")]),
    Change("options struct grown at its end", [at_end("quoit_worker_options", "uint64_t more;")], rebaseline=True),
    Change(
        "every struct that may grow, grown",
        [
            at_end(f"quoit_{name}", "uint32_t more; uint32_t more_still;")
            for name in ("batch", "runtime_options", "worker_options", "listen_options", "call", "stats")
        ],
        rebaseline=True,
    ),
    Change(
        "constant added", [(HEADERS, r"(#define QUOIT_LOG_DEBUG 4)", r"\1\n#define QUOIT_LOG_TRACE 5")], rebaseline=True
    ),
]
