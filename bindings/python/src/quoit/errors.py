# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a negative status becomes."""

from . import const
from ._quoit import ffi, lib

FIELDS = {
    const.FIELD_OPCODE: "opcode",
    const.FIELD_FLAGS: "flags",
    const.FIELD_TARGET: "target",
    const.FIELD_USER_DATA: "user_data",
    const.FIELD_ADDR: "addr",
    const.FIELD_LEN: "len",
    const.FIELD_ARG: "arg",
    const.FIELD_OFFSET: "offset",
    const.FIELD_ARG2: "arg2",
    const.FIELD_TIMEOUT: "timeout_ns",
}
OPCODES = {
    value: name.removeprefix("OP_").lower()
    for name, value in vars(const).items()
    if name.startswith("OP_") and isinstance(value, int)
}


def text(pointer: object) -> str:
    """A C string of the library as str."""
    return bytes(ffi.string(pointer)).decode()


def status_name(status: int) -> str:
    return text(lib.quoit_status_name(status))


class Error(OSError):
    """A call or an operation failed.

    status, name, message and hint are the library's; errno is set where the system refused. operation names the op
    that failed and field the field of it that was wrong, if one was; done counts the bytes that did get through.
    """

    def __init__(self, status: int, operation: str | None = None, field: int = 0, done: int = 0) -> None:
        self.status = status
        self.name = status_name(status)
        self.message = text(lib.quoit_status_message(status))
        self.hint = text(lib.quoit_status_hint(status))
        self.operation = operation
        self.field = FIELDS.get(field)
        self.done = done
        super().__init__(self._sentence())
        self.errno = -status if -4096 < status < 0 else None

    def _sentence(self) -> str:
        where = f"{self.operation}: " if self.operation else ""
        field = f" (field {self.field})" if self.field else ""
        return f"{where}{self.message}{field} [{self.name}] {self.hint}".rstrip()

    def __str__(self) -> str:
        return self._sentence()

    @property
    def kind(self) -> int:
        """What to do about it: one of quoit.CLASS_*."""
        return lib.quoit_status_class(self.status)


def event_error(kind: int, result: int, aux: int = 0, value: int = 0) -> Error:
    """The error that an event carries."""
    field = aux if result <= const.E_ARGUMENT else 0
    return Error(result, OPCODES.get(kind, f"op {kind:#x}"), field, 0 if field else value)


def check(status: int, operation: str | None = None) -> int:
    """The status, if it is not an error."""
    if status < 0:
        raise Error(status, operation)
    return status
