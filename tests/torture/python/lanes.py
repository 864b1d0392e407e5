# SPDX-License-Identifier: MIT OR Apache-2.0
"""A lane: a listener and a stream of its own, on which one awaited call after the other meets a cut."""

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from typing import Any

from ledger import Fault, Flow, Totals
from peers import Peer, own_host, plain_address, plain_socket
from quoit import Error, aio, const
from trial import LATE, Clock, Trial, at_once

_IDENT = struct.Struct("<I")


class Lane:
    """Makes a connection by accept or connect, has trials on it until it ends, and begins again."""

    def __init__(self, number: int, world: "Any", folder: str) -> None:
        self.number = number
        self.world = world
        self.totals: Totals = world.totals
        self.chance = random.Random(world.chance.random())
        self.folder = folder
        self.unix = False
        self.listener: aio.Listener | None = None
        self.plain: socket.socket | None = None
        self.plain_at = ""
        self.made: dict[int, Peer] = {}
        self.idents = 0
        self.stream: aio.Stream | None = None

    async def run(self) -> None:
        while not self.world.over:
            while self.stream is None and not self.world.over:
                await self._establish()
            while self.stream is not None:
                ended = self.world.over or await self._trial()
                if ended:
                    await self._end()
        if self.listener is not None:
            await self.listener.aclose()
        if self.plain is not None:
            self.plain.close()
        for peer in self.made.values():
            peer.close()

    # Connections.

    def _address(self, what: str) -> str:
        if self.unix:
            return f"unix:{self.folder}/{self.number}-{what}-{self.chance.getrandbits(60)}"
        return f"{own_host(self.number)}:0"

    async def _establish(self) -> None:
        if self.listener is None:
            self.unix = self.chance.random() < 0.3
            self.listener = await aio.listen(self._address("worker"))
            if self.plain is not None:
                self.plain.close()
                self.plain = None
        if self.chance.random() < 0.7:
            await self._accept()
        else:
            await self._connect()

    def _dial(self) -> None:
        assert self.listener is not None
        peer = Peer.dial(self.listener_at, self.chance.random() < 0.4)
        if peer is None:
            return
        self.idents += 1
        peer.socket.send(_IDENT.pack(self.idents))
        self.made[self.idents] = peer

    async def _taken(self, stream: aio.Stream) -> None:
        """An accepted stream: whose it is, and that it came once."""
        (ident,) = _IDENT.unpack(await stream.recv_exactly(_IDENT.size))
        peer = self.made.pop(ident, None)
        self.totals.accepted += 1
        if peer is None:
            raise Fault(f"the connection {ident} was accepted that nobody made, or twice")
        if self.stream is None:
            self._open(stream, peer)
        else:
            stream.abort()
            peer.close()

    async def _accept(self) -> None:
        assert self.listener is not None
        listener = self.listener
        self.listener_at = listener.address
        trial = Trial("accept", self.chance.choice(("cancel", "cancel", "timeout", "timeout", "close")), self.chance)
        await trial.run(
            listener.accept(),
            lambda first: self._dial() if first else None,
            listener.close if trial.cut == "close" else None,
        )
        waited = None
        if trial.error is not None:
            self._check(trial, closed=trial.cut == "close")
            waited = at_once(listener.accept()) if trial.cut != "close" else None
        trial.count(self.totals, waited is not None)
        for stream in (trial.value, waited):
            if stream is not None:
                await self._taken(stream)
        if trial.cut == "close":
            await self._refused(listener)
        while self.made and self.listener is not None:
            await self._taken(await asyncio.wait_for(listener.accept(), 30))

    async def _refused(self, listener: aio.Listener) -> None:
        """Who was not accepted sees an end."""
        await listener.aclose()
        self.listener = None
        clock = Clock("a connection that a closed listener has not accepted does not end")
        for peer in self.made.values():
            while not peer.ended:
                peer.recv(None)
                await clock.tick()
            peer.close()
        self.made.clear()

    def _plain_accept(self) -> Peer | None:
        assert self.plain is not None
        try:
            return Peer(self.plain.accept()[0])
        except BlockingIOError:
            return None

    async def _connect(self) -> None:
        if self.plain is None:
            address = self._address("peer")
            self.plain = plain_socket(address)
            self.plain.bind(plain_address(address)[1])
            self.plain.listen(16)
            self.plain.setblocking(False)
            name = self.plain.getsockname()
            self.plain_at = f"unix:{name}" if self.unix else f"{name[0]}:{name[1]}"
        while (left := self._plain_accept()) is not None:
            left.close()  # of a connect that was cut, and went on without anybody
        trial = Trial("connect", self.chance.choice(("cancel", "timeout")), self.chance)
        await trial.run(aio.connect(self.plain_at), lambda first: None, None)
        if trial.error is not None:
            self._check(trial)
            trial.count(self.totals, (left := self._plain_accept()) is not None)
            if left is not None:
                await self._dropped(left)
            return
        stream: aio.Stream = trial.value
        trial.count(self.totals, True)
        clock = Clock("a connection that was made is not there")
        while (peer := self._plain_accept()) is None or not self._belongs(peer, stream):
            if peer is not None:
                peer.close()
            await clock.tick()
        self._open(stream, peer)

    def _belongs(self, peer: Peer, stream: aio.Stream) -> bool:
        if self.unix:
            return True
        host, port = peer.socket.getpeername()
        return bool(f"{host}:{port}" == stream.local)

    async def _dropped(self, peer: Peer) -> None:
        clock = Clock("a connection whose connect was given up does not end")
        while not peer.ended:
            peer.recv(None)
            await clock.tick()
        peer.close()

    # Trials on a stream.

    def _open(self, stream: aio.Stream, peer: Peer) -> None:
        self.stream, self.peer = stream, peer
        seed = self.world.next_seed()
        self.into, self.out = Flow(seed, self.totals), Flow(seed + 1, self.totals)
        self.torn = self.broken = self.eof = False

    async def _trial(self) -> bool:
        """True if the connection must end."""
        kind = self.chance.random()
        if kind < 0.55:
            await self._recv()
        elif kind < 0.9:
            await self._send()
        else:
            await self._close()
        assert self.stream is not None
        over = self.stream.closed or self.broken or self.eof or self.peer.fin or self.peer.gone or self.peer.ended
        if not over and self.chance.random() < 0.3:
            await self._settle()
        return over

    def _cut(self, trial: Trial) -> Callable[[], object] | None:
        stream, peer = self.stream, self.peer
        assert stream is not None
        if trial.cut in ("cancel", "timeout"):
            return None
        self.torn |= trial.cut in ("abort", "reset")
        return {"close": stream.close, "abort": stream.abort, "end": peer.end, "reset": peer.reset}[trial.cut]

    def _check(self, trial: Trial, closed: bool = False) -> None:
        """The error is one that the cut may bring."""
        error = trial.error
        if trial.cut == "cancel" and isinstance(error, asyncio.CancelledError):
            return
        if trial.cut == "timeout" and isinstance(error, TimeoutError):
            return
        if closed and isinstance(error, Error):
            return
        raise Fault(f"{trial.subject} by {trial.cut} ended with {error!r}")

    async def _recv(self) -> None:
        assert self.stream is not None
        stream, peer, chance = self.stream, self.peer, self.chance
        cuts = ("cancel",) * 5 + ("timeout",) * 4 + ("close", "abort", "end", "reset")
        trial = Trial("recv", chance.choice(cuts), chance)
        size = 1 + chance.randrange(chance.choice((16, 300, 3000, 20000)))
        most = chance.choice((1, 100, 65536))
        exactly = trial.moment != LATE and chance.random() < 0.3
        call = stream.recv_exactly(min(most, size)) if exactly else stream.recv(most)
        await trial.run(call, lambda first: peer.send(self.into, size) if first else None, self._cut(trial))
        there = None
        if trial.error is not None:
            if not (isinstance(trial.error, aio.Incomplete) and (peer.fin or peer.gone)):
                self._check(trial, closed=trial.cut in ("close", "abort", "reset"))
            self.broken |= isinstance(trial.error, Error)
            # What came as the cut had its way is the next one's.
            there = None if isinstance(trial.error, Error) else at_once(stream.recv())
        for data in (trial.value, there):
            if data is not None:
                self.eof |= data == b""
                self.into.came(data)
        if trial.value == b"" and not (peer.fin or peer.gone):
            raise Fault("a stream ended, but its peer has not")
        trial.count(self.totals, bool(there), nothing=trial.value == b"")

    async def _queue(self, count: int) -> None:
        """Sends that nobody waits for, as long as they need not wait either."""
        assert self.stream is not None
        for _ in range(count):
            if self.stream.bytes_queued > 32768:
                return
            data = self.out.next(1 + self.chance.randrange(20000))
            await self.stream.send(data)
            self.out.sent += len(data)

    async def _send(self) -> None:
        assert self.stream is not None
        stream, peer, chance = self.stream, self.peer, self.chance
        cuts = ("cancel",) * 5 + ("timeout",) * 4 + ("close", "abort", "reset")
        trial = Trial("send_all", chance.choice(cuts), chance)
        await self._queue(chance.randrange(4))
        data = self.out.next(1 + chance.randrange(chance.choice((100, 2000, 30000, 300000))))

        def cause(first: bool) -> None:
            peer.recv(self.out, 1 << 20 if trial.moment == LATE else 1 + chance.randrange(30000))

        await trial.run(stream.send_all(data), cause, self._cut(trial))
        if trial.error is not None:
            # Closed before the call began, it took nothing; else a close sends all.
            refused = trial.cut == "close" and getattr(trial.error, "status", 0) == const.E_CLOSED
            self._check(trial, closed=refused or trial.cut in ("abort", "reset"))
            self.broken |= isinstance(trial.error, Error) and not refused
        sent = len(data) if trial.error is None else trial.sent
        if sent > len(data) or (isinstance(trial.error, Error) and sent == len(data)):
            raise Fault(f"a send of {len(data)} bytes failed, but {sent} have left")
        self.out.sent += sent
        trial.count(self.totals, sent != 0)

    async def _close(self) -> None:
        assert self.stream is not None
        stream, peer, chance = self.stream, self.peer, self.chance
        trial = Trial("aclose", chance.choice(("cancel", "timeout", "abort", "reset")), chance)
        await self._queue(chance.randrange(5))
        had = peer.ended

        def cause(first: bool) -> None:
            peer.recv(self.out, 1 << 20 if trial.moment == LATE else 1 + chance.randrange(30000))
            if peer.ended and not peer.gone:
                peer.close()

        await trial.run(stream.aclose(), cause, self._cut(trial))
        if trial.error is not None:
            self._check(trial)
            self.torn = True
        trial.count(self.totals, peer.ended and not had)

    async def _settle(self) -> None:
        """What is on its way arrives, both ways."""
        assert self.stream is not None
        clock = Clock("bytes are on their way for ever")
        while self.into.arrived < self.into.sent and not self.eof:
            data = await asyncio.wait_for(self.stream.recv(), 30)
            self.eof |= data == b""
            self.into.came(data)
        while self.out.arrived < self.out.sent and not self.peer.ended:
            self.peer.recv(self.out)
            await clock.tick()
        if self.peer.ended:
            raise Fault("the peer sees the end of a stream that is open")

    async def _end(self) -> None:
        """The connection ends, by a close or an abort; then its account is made."""
        assert self.stream is not None
        stream, peer = self.stream, self.peer
        clock = Clock("a stream does not close")
        if self.peer.fin and not self.broken and not stream.closed and not self.eof:
            await self._drain()
        if self.chance.random() < 0.3:
            stream.abort()
            self.torn = True
        closing = asyncio.create_task(stream.aclose())
        while not (closing.done() and (peer.gone or peer.ended)):
            peer.recv(self.out)
            if peer.ended:
                peer.close()
            await clock.tick()
        await closing
        peer.close()
        if not (self.torn or self.broken) and stream.bytes_sent != self.out.sent:
            raise Fault(f"{stream.bytes_sent} bytes of finished sends, but {self.out.sent} were told")
        self.out.close(whole=not self.torn and not self.broken)
        self.into.close(whole=self.eof and not self.broken)
        self.totals.bytes_sent += self.out.arrived
        self.totals.bytes_received += self.into.arrived
        self.totals.connections += 1
        self.stream = None

    async def _drain(self) -> None:
        """The peer sends no more: all it sent comes, and then the end."""
        assert self.stream is not None
        while not self.eof:
            try:
                data = await asyncio.wait_for(self.stream.recv(), 30)
            except Error:
                self.broken = True
                return
            self.eof = data == b""
            self.into.came(data)
