# SPDX-License-Identifier: MIT OR Apache-2.0
"""What streams, listeners and datagram sockets have in common as sockets: their options, by names of ours."""

from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, Unpack, overload

from .. import address as addresses
from .. import const
from .._quoit import ffi, lib
from ..batch import Event
from ..errors import Error
from ..streams import nanoseconds
from .resource import Reply, Resource

R = TypeVar("R", bound=Resource)


class Options(TypedDict, total=False):
    """Options that can be set; times are in seconds, buffers in bytes.

    nodelay            small sends leave at once; on unless it was declined
    keepalive          asks a silent peer whether it is there: after keepalive_idle, every keepalive_interval, and
                       keepalive_count unanswered ones end the connection
    linger             streams: 0 makes `abort` reset the connection, -1 makes it end it, the default
    defer_accept       listeners: waits so long for a connection's first bytes before it is accepted, 0 not at all
    send_buffer        the kernel's buffers, of which it may take more or less than is asked for
    recv_buffer
    tos                type of service or traffic class, 0 to 255
    incoming_cpu       the CPU that should serve, -1 none
    busy_poll          how long a receive may spin at the device; more than the system's default needs a privilege
    user_timeout       how long sent bytes may stay unacknowledged, 0 the system's default
    priority, mark     for queueing, 0 to 6 without privilege, and for routing, with one
    credentials        Unix sockets: each message tells who sent it (`Datagram.credentials`, `Stream.credentials`)
    """

    nodelay: bool
    keepalive: bool
    keepalive_idle: float
    keepalive_interval: float
    keepalive_count: int
    linger: int
    defer_accept: float
    send_buffer: int
    recv_buffer: int
    tos: int
    incoming_cpu: int
    busy_poll: float
    user_timeout: float
    priority: int
    mark: int
    credentials: bool


Switch = Literal["nodelay", "keepalive", "credentials", "freebind", "v6only", "reuseport"]
Time = Literal["keepalive_idle", "keepalive_interval", "defer_accept", "busy_poll", "user_timeout"]
Number = Literal[
    "keepalive_count", "linger", "send_buffer", "recv_buffer", "tos", "incoming_cpu", "priority", "mark"
]  # fmt: skip


class _Kind(NamedTuple):
    """An option's number in the ABI, and how its value becomes one."""

    number: int
    unit: type[bool] | type[int] | type[float]


_KINDS = {
    "nodelay": _Kind(const.SOCKET_NODELAY, bool),
    "keepalive": _Kind(const.SOCKET_KEEPALIVE, bool),
    "keepalive_idle": _Kind(const.SOCKET_KEEPALIVE_IDLE, float),
    "keepalive_interval": _Kind(const.SOCKET_KEEPALIVE_INTERVAL, float),
    "keepalive_count": _Kind(const.SOCKET_KEEPALIVE_COUNT, int),
    "linger": _Kind(const.SOCKET_LINGER, int),
    "defer_accept": _Kind(const.SOCKET_DEFER_ACCEPT, float),
    "send_buffer": _Kind(const.SOCKET_SEND_BUFFER, int),
    "recv_buffer": _Kind(const.SOCKET_RECV_BUFFER, int),
    "tos": _Kind(const.SOCKET_TOS, int),
    "incoming_cpu": _Kind(const.SOCKET_INCOMING_CPU, int),
    "busy_poll": _Kind(const.SOCKET_BUSY_POLL, float),
    "user_timeout": _Kind(const.SOCKET_USER_TIMEOUT, float),
    "priority": _Kind(const.SOCKET_PRIORITY, int),
    "mark": _Kind(const.SOCKET_MARK, int),
    "credentials": _Kind(const.SOCKET_CREDENTIALS, bool),
    "freebind": _Kind(const.SOCKET_FREEBIND, bool),
    "v6only": _Kind(const.SOCKET_V6ONLY, bool),
    "reuseport": _Kind(const.SOCKET_REUSEPORT, bool),
}


def _kind(name: str) -> _Kind:
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"{name!r} is no option of a socket; there are {', '.join(_KINDS)}")
    return kind


def _value(name: str, value: Any) -> int:
    unit = _kind(name).unit
    if unit is float:
        return nanoseconds(value)
    if int(value) != value:
        raise ValueError(f"{name} is a whole number, not {value!r}")
    return int(value)


class SocketOptions(Generic[R]):
    """The part of an object that is a socket."""

    __slots__ = ()

    _resource: R

    @property
    def local(self) -> str:
        """The local address. Errors: QUOIT_E_STALE after the end."""
        return self._address(peer=False)

    def _address(self, peer: bool) -> str:
        return addresses.of(self._resource.host.worker.pointer, self._resource.handle, peer=peer)

    @overload
    def get_option(self, name: Switch) -> bool: ...
    @overload
    def get_option(self, name: Time) -> float: ...
    @overload
    def get_option(self, name: Number) -> int: ...
    def get_option(self, name: str) -> bool | int | float:
        """An option's value now: one of Options, or "freebind", "v6only" or "reuseport", which are flags of `listen`
        and `bind`.

        Errors: ValueError if there is no such option; quoit.Error, QUOIT_E_ARGUMENT if this kind of socket has it not.
        """
        kind = _kind(name)
        out = ffi.new("int64_t *")
        status = lib.quoit_socket_get(self._resource.host.worker.pointer, self._resource.handle, kind.number, out)
        if status < 0:
            raise Error(status, f"socket option {name}")
        value: int = out[0]
        return value / 1e9 if kind.unit is float else kind.unit(value)

    async def set_options(self, **options: Unpack[Options]) -> None:
        """Sets options, one after the other, and returns when all have taken effect: `set_options(nodelay=False)`.

        What a listener is given, the streams that it accepts from then on begin with. Errors: ValueError if there is
        no such option; quoit.Error that names the option, QUOIT_E_FIELD if this kind of socket has it not or the
        value is none of its. Options before it are set, and those after it too.
        """
        resource = self._resource
        if resource.ending:
            raise Error(const.E_CLOSED, "set_options")
        worker = resource.host.worker
        replies: list[Reply] = []
        for name, number in [(name, _value(name, value)) for name, value in options.items()]:
            reply = resource.host.reply()
            replies.append(reply)

            def told(event: Event, name: str = name, reply: Reply = reply) -> None:
                status = event[4]
                field = event[7] if status <= const.E_ARGUMENT else 0
                reply.tell(Error(status, f"socket option {name}", field) if status < 0 else status)

            token = worker.expect(told)
            worker.op(const.OP_SOCKET_SET, 0, resource.handle, token, 0, 0, _kind(name).number, number)
        for reply in replies:
            await reply.wait()
