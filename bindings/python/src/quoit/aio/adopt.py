# SPDX-License-Identifier: MIT OR Apache-2.0
"""Descriptors from elsewhere that become objects of the worker: of another library, a parent, a service manager."""

from collections.abc import Callable
from typing import TypeVar

from .. import address as addresses
from .. import const
from ..batch import Event
from ..descriptors import inherited_fds
from ..errors import Error, event_error
from ..files import File as PlainFile
from .datagrams import WAITING_BYTES, DatagramSocket, _Box
from .descriptors import Opening
from .files import File, _Opened
from .host import Host, current
from .listener import Listener, _Door
from .resource import Making, Resource
from .streams import Stream

R = TypeVar("R", bound=Resource)


async def _adopt(host: Host, fd: int, kind: int, making: Making[R], made: Callable[[int], None]) -> R:
    """Has the worker adopt a descriptor; made(handle) makes the object, or has it made."""
    host.check("adopt")

    def adopted(event: Event) -> None:
        if event[4] < 0:
            making.tell(event_error(event[0], event[4], event[7]))
        else:
            made(event[9])

    host.worker.op(const.OP_ADOPT, 0, 0, host.worker.expect(adopted), arg=kind, offset=fd)
    return await making.take()


async def adopt_stream(fd: int, *, descriptors: bool = False, host: Host | None = None) -> Stream:
    """Makes a connected TCP or Unix socket a stream. The descriptor is the stream's from then on, to be closed by it.

    descriptors: `recv_fds` is wanted. The descriptor becomes blocking and close-on-exec. Errors, for all of these
    functions, with the descriptor still the caller's: EBADF, QUOIT_E_KIND if it is something else, QUOIT_E_BUSY if
    this worker has it already, QUOIT_E_UNSUPPORTED. Cancelled, what was adopted meanwhile is closed.
    """
    host = host or current()
    opening = Opening(host, descriptors)
    worker = host.worker

    def made(handle: int) -> None:
        if not descriptors:
            worker.op(const.OP_RECV, const.OPF_MULTI, handle)
        worker.opened(handle, opening)

    return Stream(await _adopt(host, fd, const.HANDLE_STREAM, opening.making, made))


async def adopt_listener(fd: int, *, descriptors: bool = False, host: Host | None = None) -> Listener:
    """Makes a listening TCP or Unix socket a listener; see `adopt_stream` and `listen`."""
    host = host or current()
    making = host.making(_Door)

    def made(handle: int) -> None:
        making.made(_Door(host, handle, addresses.port_of(host.worker.pointer, handle), descriptors))

    return Listener(await _adopt(host, fd, const.HANDLE_LISTENER, making, made))


async def adopt_datagrams(
    fd: int, *, packet_info: bool = False, max_bytes: int = 0, waiting_bytes: int = WAITING_BYTES,
    host: Host | None = None,
) -> DatagramSocket:  # fmt: skip
    """Makes a UDP or Unix datagram socket one of quoit's; see `adopt_stream` and `bind`.

    packet_info: the socket has the option of that name on (IP_PKTINFO, IPV6_RECVPKTINFO).
    """
    host = host or current()
    making = host.making(_Box)

    def made(handle: int) -> None:
        port = addresses.port_of(host.worker.pointer, handle)
        making.made(_Box(host, handle, port, max_bytes, packet_info, waiting_bytes))

    return DatagramSocket(await _adopt(host, fd, const.HANDLE_DATAGRAM, making, made))


async def adopt_file(fd: int, *, host: Host | None = None) -> File:
    """Makes a regular file, pipe or device a file; see `adopt_stream`."""
    host = host or current()
    making = host.making(_Opened)

    def made(handle: int) -> None:
        making.made(_Opened(host, PlainFile(host.worker, handle)))

    return File(await _adopt(host, fd, const.HANDLE_FILE, making, made))


async def inherited_listeners(*, host: Host | None = None) -> list[tuple[str, Listener]]:
    """The listeners that a service manager passed to this process, each with its name ("" without), in its order.

    Descriptors that are no listeners are left as they are: `quoit.inherited_fds` has them all. Errors as
    `adopt_listener`: QUOIT_E_BUSY the second time.
    """
    listeners: list[tuple[str, Listener]] = []
    try:
        for fd, name in inherited_fds():
            try:
                listeners.append((name, await adopt_listener(fd, host=host)))
            except Error as error:
                if error.status not in (const.E_KIND, const.E_UNSUPPORTED):
                    raise
    except BaseException:
        for _, listener in listeners:
            listener.close()
        raise
    return listeners
