# SPDX-License-Identifier: MIT OR Apache-2.0
"""A lane with a datagram socket, UDP or Unix, on which one awaited call after the other meets a cut."""

import asyncio
import random
import socket
from typing import Any

from ledger import Fault, Tally, Totals, cost_of
from peers import own_host, plain_address, plain_socket
from quoit import Error, aio
from trial import Clock, Trial

# An op without a bound of its own brings at least so much.
_LEAST = 1500


class Post:
    def __init__(self, number: int, world: Any, folder: str) -> None:
        self.number = number
        self.world = world
        self.totals: Totals = world.totals
        self.chance = random.Random(world.chance.random())
        self.folder = folder
        self.ended = False

    async def run(self) -> None:
        while not self.world.over:
            await self._open()
            while not self.world.over and not self.socket.closed:
                await (self._recv() if self.chance.random() < 0.55 else self._send())
                if not self.socket.closed and self.chance.random() < 0.3:
                    await self._settle()
            await self._end()

    def _address(self, what: str) -> str:
        if self.unix:
            return f"unix:{self.folder}/{self.number}-{what}-{self.chance.getrandbits(60)}"
        return f"{own_host(self.number)}:0"

    async def _open(self) -> None:
        self.unix = self.chance.random() < 0.5
        there = self._address("mate")
        self.mate = plain_socket(there, socket.SOCK_DGRAM)
        self.mate.bind(plain_address(there)[1])
        self.mate.setblocking(False)
        # The kernel gives room in its queue back late, up to a quarter of it.
        self.room = self.mate.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        name = self.mate.getsockname()
        self.there = there if self.unix else f"{name[0]}:{name[1]}"
        self.connected = self.chance.random() < 0.5
        self.most = self.chance.choice((0, 60000, 200))
        self.socket = await aio.bind(
            self._address("post"), peer=self.there if self.connected else "", max_bytes=self.most
        )
        self.here = plain_address(self.socket.local)[1]
        seed = self.world.next_seed()
        self.into, self.out = Tally(seed, self.totals), Tally(seed + 1, self.totals)

    def _size(self) -> int:
        return self.chance.randrange(self.chance.choice((100, 1400, 1400, 8000, 30000)))

    def _fits(self, tally: Tally, size: int) -> bool:
        """UDP drops what the queue at the other end has no room for: never is more on its way."""
        return self.unix or tally.cost + cost_of(size) <= self.room

    # The peer.

    def _mate_sends(self) -> None:
        size = self._size()
        if self.socket.closed or not self._fits(self.into, size):
            return
        number, data = self.into.make(size)
        try:
            self.mate.sendto(data, self.here)
        except BlockingIOError:
            self.into.told(number, False)
        else:
            self.into.told(number, True)

    def _mate_receives(self, most: int = 1 << 30) -> None:
        for _ in range(most):
            try:
                data, sender = self.mate.recvfrom(1 << 16)
            except BlockingIOError:
                return
            if sender != self.here:
                raise Fault(f"a datagram left from {sender}, the socket is at {self.here}")
            self.out.came(data, len(data))

    # Trials.

    def _trial(self, subject: str) -> Trial:
        return Trial(subject, self.chance.choice(("cancel",) * 4 + ("timeout",) * 4 + ("close",)), self.chance)

    def _came(self, datagram: aio.Datagram) -> None:
        data, length = datagram.data, datagram.length
        bound = self.most or _LEAST
        if datagram.truncated and (len(data) < bound if not self.most else len(data) != bound):
            raise Fault(f"a datagram of {length} bytes came with {len(data)}, its bound is {bound}")
        if datagram.peer != self.there:
            raise Fault(f"a datagram came from {datagram.peer}, the peer is at {self.there}")
        self.into.came(data, length)

    def _check(self, trial: Trial) -> None:
        error = trial.error
        if trial.cut == "cancel" and isinstance(error, asyncio.CancelledError):
            return
        if trial.cut == "timeout" and isinstance(error, TimeoutError):
            return
        if trial.cut == "close" and isinstance(error, Error):
            return
        raise Fault(f"{trial.subject} by {trial.cut} ended with {error!r}")

    async def _recv(self) -> None:
        trial = self._trial("recv_datagram")
        while self.socket.waiting:
            self._came(await self.socket.recv())
        cut = self.socket.close if trial.cut == "close" else None
        await trial.run(self.socket.recv(), lambda first: self._mate_sends() if first else None, cut)
        there = False
        if trial.error is not None:
            self._check(trial)
            there = not self.socket.closed and self.socket.waiting > 0  # it is the next one's
        else:
            self._came(trial.value)
        trial.count(self.totals, there)

    async def _send_one(self, number: int, data: bytes) -> int:
        try:
            count = await (self.socket.send(data) if self.connected else self.socket.send_to(data, self.there))
        except (asyncio.CancelledError, Error) as error:
            # It has left whole or not at all, and an empty one's bytes do not tell which: those are not cut.
            sent = getattr(error, "sent", 0)
            if sent not in (0, len(data)):
                raise Fault(f"a datagram of {len(data)} bytes left with {sent}") from error
            self.out.told(number, sent != 0)
            raise
        self.out.told(number, True)
        return count

    async def _send(self) -> None:
        trial = self._trial("send_datagram")
        before = [self._size() for _ in range(self.chance.randrange(14))]
        tasks = []
        for size in before:
            if self._fits(self.out, size):
                tasks.append(asyncio.create_task(self._send_one(*self.out.make(size))))
        size = max(self._size(), 16)
        while not self._fits(self.out, size):
            self._mate_receives()
            await trial.clock.tick()
        number, data = self.out.make(size)
        cut = self.socket.close if trial.cut == "close" else None
        begun = False

        async def subject() -> int:
            nonlocal begun
            begun = True
            return await self._send_one(number, data)

        def cause(first: bool) -> None:
            self._mate_receives(1 << 30 if trial.moment == 2 else 1 + self.chance.randrange(3))

        await trial.run(subject(), cause, cut)
        if not begun:
            self.out.told(number, False)
        while not all(task.done() for task in tasks):
            self._mate_receives()
            await trial.clock.tick()
        for task in tasks:
            error = task.exception()
            if error is not None and not (trial.cut == "close" and isinstance(error, Error)):
                raise Fault(f"a send that nobody cut ended with {error!r}")
        if trial.error is not None:
            self._check(trial)
        trial.count(self.totals, trial.sent != 0)

    async def _settle(self) -> None:
        """What is on its way arrives, both ways; what does not is lost."""
        clock = Clock("datagrams are on their way for ever")
        while self.into.open or self.out.open:
            self._mate_receives()
            while not self.socket.closed and self.socket.waiting:
                self._came(await self.socket.recv())
            if self.socket.closed and not self.out.open:
                break
            if clock.late:
                break
            await clock.tick()

    async def _end(self) -> None:
        closed = self.socket.closed
        if not closed:
            await self._settle()
        await self.socket.aclose()
        await self._settle()
        self.mate.close()
        self.into.close(whole=not closed)
        self.out.close(whole=True)
