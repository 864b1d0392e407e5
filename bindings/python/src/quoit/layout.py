# SPDX-License-Identifier: MIT OR Apache-2.0
"""The structs that cross, as struct formats, checked against what the C compiler says when the package is imported."""

import struct
from struct import Struct
from typing import Any

from ._quoit import ffi

FORMATS = {
    "quoit_op": "=IIQQQIIqQQ",
    "quoit_event": "=IIQQqQIIQQ",
    "quoit_iov": "=QII",
    "quoit_addr": "=HHIII112s",
    "quoit_batch": "=IIQQIIIIIIQQQqQQQQQQ",
    "quoit_call": "=IIQQQII",
}
OP = Struct(FORMATS["quoit_op"])
EVENT = Struct(FORMATS["quoit_event"])
IOV = Struct(FORMATS["quoit_iov"])
CALL = Struct(FORMATS["quoit_call"])
# Of a batch, what a turn changes: flags, then scratch_len, scratch_off, now_ns, tick, next_ns.
BATCH_NEWS = Struct("=4xI36xIQQQq")
SIZE = OP.size


def c_layout(name: str) -> tuple[int, list[tuple[str, int, int]]]:
    """Size of a C struct, and (field, offset, size) of each field, as the compiler laid them out."""
    ctype = ffi.typeof(name)
    return ffi.sizeof(ctype), [(field, desc.offset, ffi.sizeof(desc.type)) for field, desc in ctype.fields]


def format_layout(form: str) -> tuple[int, list[tuple[int, int]]]:
    """Size of a struct format, and (offset, size) of each field."""
    fields: list[tuple[int, int]] = []
    offset = 0
    number = ""
    for code in form.removeprefix("="):
        if code.isdigit():
            number += code
            continue
        size = struct.calcsize(f"={number}{code}")
        fields.append((offset, size))
        offset += size
        number = ""
    return offset, fields


def check_layouts() -> None:
    for name, form in FORMATS.items():
        size, fields = c_layout(name)
        if (size, [(offset, length) for _, offset, length in fields]) != format_layout(form):
            raise ImportError(f"this build of quoit is broken: {name} is not laid out as the package expects")


def address(buffer: Any) -> tuple[Any, int, int]:
    """(what keeps it alive, address, bytes) of an object that has a contiguous buffer."""
    held = ffi.from_buffer(buffer)
    return held, int(ffi.cast("uintptr_t", held)), len(held)


check_layouts()
