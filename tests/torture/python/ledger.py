# SPDX-License-Identifier: MIT OR Apache-2.0
"""What was sent, what its sender was told, and what arrived: of streams to the byte, of datagrams to the datagram."""

import random
import struct
from collections import Counter
from dataclasses import dataclass, field

BEFORE, DURING, AFTER = range(3)
OUTCOMES = ("before", "during", "after")

_SIZE = 1 << 20
_RANDOM = random.Random(0).randbytes(_SIZE)
_TWICE = _RANDOM + _RANDOM
# How far around the place that is due a byte that is wrong is looked for.
_SEARCH = 1 << 16
HEAD = struct.Struct("<IIQ")


class Fault(Exception):
    """A rule was broken; the run ends."""


def pattern(seed: int, at: int, size: int) -> bytes:
    """Bytes that tell where they belong, as long as a direction has less than a million."""
    start = (seed * 7919 + at) % _SIZE
    data = _TWICE[start : start + size]
    while len(data) < size:
        data += _RANDOM[: size - len(data)]
    return data


@dataclass
class Totals:
    outcomes: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    interleavings: int = 0
    worlds: int = 0
    connections: int = 0
    accepted: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    datagrams_sent: int = 0
    datagrams_arrived: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    fds_left: int = 0
    buffers_left: int = 0
    objects_left: int = 0
    ops_left: int = 0

    def count(self, subject: str, cut: str, outcome: int) -> None:
        self.outcomes[subject, cut, outcome] += 1
        self.interleavings += 1


class Flow:
    """One direction of a stream. Who was told that a part of a send had left goes on behind that part."""

    def __init__(self, seed: int, totals: Totals) -> None:
        self.seed = seed
        self.totals = totals
        self.sent = 0  # told as sent, or queued
        self.arrived = 0

    def next(self, size: int) -> bytes:
        return pattern(self.seed, self.sent, size)

    def came(self, data: bytes) -> None:
        if pattern(self.seed, self.arrived, len(data)) != data:
            self._misplaced(data)
        self.arrived += len(data)

    def _misplaced(self, data: bytes) -> None:
        """Are they from before, or from behind a gap?"""
        probe = data[:16]
        for off in range(1, _SEARCH):
            if off <= self.arrived and pattern(self.seed, self.arrived - off, len(probe)) == probe:
                self.totals.doubled += off
                self.arrived -= off
                return
            if pattern(self.seed, self.arrived + off, len(probe)) == probe:
                self.totals.lost += off
                self.arrived += off
                return
        self.totals.wrong += len(data)

    def close(self, whole: bool) -> None:
        """Both ends are gone; whole: nothing may be missing. What arrived beyond what was given is told already."""
        if whole:
            self.totals.lost += max(0, self.sent - self.arrived)
            self.totals.doubled += max(0, self.arrived - self.sent)


class Tally:
    """Datagrams one way. Each but an empty one has a number and a hash in front; no order is asked for."""

    def __init__(self, seed: int, totals: Totals) -> None:
        self.seed = seed
        self.totals = totals
        self.next = 0
        # Those that are not told, or have not arrived: number -> (length, told, arrived).
        self.open: dict[int, tuple[int, bool, bool]] = {}

    def _hash(self, number: int, size: int) -> int:
        return (self.seed * 0x9E3779B97F4A7C15 ^ number * 0xBF58476D1CE4E5B9 ^ size * 0x94D049BB133111EB) % (1 << 64)

    def make(self, size: int) -> tuple[int, bytes]:
        """Another one, of size bytes if that has room for its head, else an empty one."""
        number = self.next
        self.next += 1
        size = size if size >= HEAD.size else 0
        self.open[number] = (size, False, False)
        return number, self._bytes(number, size) if size else b""

    def _bytes(self, number: int, size: int) -> bytes:
        head = HEAD.pack(number, size, self._hash(number, size))
        return head + pattern(self.seed + number, 0, size - HEAD.size)

    def told(self, number: int, left: bool) -> None:
        if number not in self.open or self.open[number][1]:
            self.totals.doubled += 1
            return
        size, _, arrived = self.open[number]
        self.totals.datagrams_sent += left
        if arrived and not left:
            self.totals.doubled += 1  # who sends it again sends it twice
        if arrived or not left:
            del self.open[number]
        else:
            self.open[number] = (size, True, False)

    def came(self, data: bytes, length: int) -> None:
        """data of a datagram that was length bytes long."""
        number = self._empty() if not data else self._number(data, length)
        if number is None:
            return
        if number not in self.open or self.open[number][2]:
            self.totals.doubled += 1  # or told as one that does not leave
            return
        size, told, _ = self.open[number]
        self.totals.datagrams_arrived += 1
        if told:
            del self.open[number]
        else:
            self.open[number] = (size, told, True)

    def _empty(self) -> int:
        return next((number for number, (size, _, arrived) in self.open.items() if not size and not arrived), -1)

    def _number(self, data: bytes, length: int) -> int | None:
        number, size, mark = HEAD.unpack_from(data)
        right = size == length and mark == self._hash(number, size) and self._bytes(number, size).startswith(data)
        if right:
            return int(number)
        self.totals.wrong += 1
        return None

    @property
    def cost(self) -> int:
        """At most so much kernel memory is taken by those on their way."""
        return sum(cost_of(size) for size, _, arrived in self.open.values() if not arrived)

    def close(self, whole: bool) -> None:
        for _, told, arrived in self.open.values():
            self.totals.lost += whole and told and not arrived
            self.totals.doubled += arrived and not told


def cost_of(size: int) -> int:
    return 2 * size + 2048
