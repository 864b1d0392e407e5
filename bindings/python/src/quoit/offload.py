# SPDX-License-Identifier: MIT OR Apache-2.0
"""Native functions, described at run time, for the blocking pool to call."""

import struct
from collections.abc import Sequence
from typing import Any

from . import const
from ._quoit import ffi, lib
from .errors import check
from .layout import CALL, address

# Types of arguments and results, and how a 64-bit word holds each.
_WORDS = {
    const.TYPE_VOID: "=8x",
    const.TYPE_I8: "=q",
    const.TYPE_U8: "=Q",
    const.TYPE_I16: "=q",
    const.TYPE_U16: "=Q",
    const.TYPE_I32: "=q",
    const.TYPE_U32: "=Q",
    const.TYPE_I64: "=q",
    const.TYPE_U64: "=Q",
    const.TYPE_FLOAT: "=f4x",
    const.TYPE_DOUBLE: "=d",
    const.TYPE_POINTER: "=Q",
}
_BITS = {const.TYPE_I8: 8, const.TYPE_U8: 8, const.TYPE_I16: 16, const.TYPE_U16: 16, const.TYPE_I32: 32,
         const.TYPE_U32: 32, const.TYPE_I64: 64, const.TYPE_U64: 64}  # fmt: skip
_SIGNED = {const.TYPE_I8, const.TYPE_I16, const.TYPE_I32, const.TYPE_I64}

Argument = int | float | bytes | bytearray | memoryview | None


class Function:
    """A C function: its address, the type it returns and those it takes (quoit.TYPE_*)."""

    def __init__(self, where: int, returns: int, takes: Sequence[int] = ()) -> None:
        for code in (returns, *takes):
            if code not in _WORDS:
                raise ValueError(f"{code} is none of quoit.TYPE_*")
        if len(takes) > const.CALL_ARGS_MAX:
            raise ValueError(f"a function takes at most {const.CALL_ARGS_MAX} arguments")
        self.address = where
        self.returns = returns
        self.takes = tuple(takes)

    @classmethod
    def find(cls, library: str | None, symbol: str, returns: int, takes: Sequence[int] = ()) -> "Function":
        """The function of that name in a shared library, or in the program itself if that is None."""
        out = ffi.new("uint64_t *")
        path = ffi.NULL if library is None else library.encode() + b"\0"
        holder = path if library is None else ffi.from_buffer(path)
        name = ffi.from_buffer(symbol.encode() + b"\0")
        status = lib.quoit_symbol(
            holder if library is None else ffi.cast("char *", holder), ffi.cast("char *", name), out
        )
        check(status, f"symbol {symbol}")
        return cls(out[0], returns, takes)

    def pack(self, args: Sequence[Argument]) -> tuple[Any, list[Any]]:
        """(memory with the quoit_call and what it points at, objects that the arguments point into)."""
        if len(args) != len(self.takes):
            raise TypeError(f"the function takes {len(self.takes)} arguments, {len(args)} were given")
        held: list[Any] = []
        words = b"".join(_word(code, arg, held) for code, arg in zip(self.takes, args, strict=True))
        memory = ffi.new("char[]", CALL.size + len(words) + len(args))
        start = int(ffi.cast("uintptr_t", memory))
        at_words, at_types = start + CALL.size, start + CALL.size + len(words)
        call = CALL.pack(CALL.size, len(args), self.address, at_types, at_words, self.returns, 0)
        ffi.memmove(memory, call + words + bytes(self.takes), CALL.size + len(words) + len(args))
        return memory, held

    def unpack(self, value: int) -> int | float | None:
        """The result, out of the bits that the event carries."""
        if self.returns == const.TYPE_VOID:
            return None
        bits = _BITS.get(self.returns)
        if bits:
            return int.from_bytes(value.to_bytes(8, "little")[: bits // 8], "little", signed=self.returns in _SIGNED)
        result: int | float = struct.unpack(_WORDS[self.returns], value.to_bytes(8, "little"))[0]
        return result


def _word(code: int, arg: Argument, held: list[Any]) -> bytes:
    """One argument as its 64-bit word."""
    if code == const.TYPE_VOID:
        raise ValueError("an argument cannot be void")
    if code == const.TYPE_POINTER:
        if arg is None:
            return bytes(8)
        if not isinstance(arg, int):
            keep, where, _ = address(arg)
            held.append(keep)
            return struct.pack("=Q", where)
    bits = _BITS.get(code)
    if bits and isinstance(arg, int):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code in _SIGNED else (0, (1 << bits) - 1)
        if not low <= arg <= high:
            raise OverflowError(f"{arg} does not fit in {bits} bits")
    return struct.pack(_WORDS[code], arg)
