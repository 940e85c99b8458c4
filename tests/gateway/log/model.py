"""A log and what it must contain, for tests that do anything in any order."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from tests.gateway.log.simulated_disk import SimulatedDisk
from wallaroo.gateway.log.kept import Keep
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import SNAPSHOT, Record
from wallaroo.gateway.log.scan import scan

DIRECTORY = Path("log")
HEADER = 25


class Model:
    """A log with a model of it.

    Attributes:
        appended: All records that were appended, by number.
        kept: Number of the first record that is in the log.
        needed: Number of the first one that has to be.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        segment_bytes: int = 500,
        keep_bytes: int = 0,
        keep_s: float = 0.0,
    ) -> None:
        self.disk = disk
        self.segment_bytes = segment_bytes
        self.keep_bytes, self.keep_s = keep_bytes, keep_s
        self.now_ns, self.archives = 10**18, False
        self.appended: dict[int, Record] = {}
        self.kept = 1
        self.needed = 1
        self.durable = 0
        self.syncs: list[int] = []
        self.seen: Counter[str] = Counter()
        self.log = self._new_log()

    def recover(self) -> None:
        """Open the log and check what is in it."""
        self.log = self._new_log()
        self.syncs.clear()
        records = [one._replace(payload=bytes(one.payload)) for one in self.log.recover()]
        numbers = [record.number for record in records]
        if records:
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert records[0].kind == SNAPSHOT
            assert numbers[0] <= max(self.kept, self.needed)
            self.seen["released, and there again"] += numbers[0] < self.kept
            self.kept = numbers[0]
        last = numbers[-1] if numbers else self.log.next - 1
        assert self.log.next == last + 1
        assert last >= self.durable
        assert records == [self.appended[number] for number in numbers]
        self.seen["lost records"] += last < len(self.appended)
        for number in range(last + 1, len(self.appended) + 1):
            del self.appended[number]
        self.durable = last
        self.check_numbers()

    def crash(self, rng: random.Random) -> None:
        """Let the machine fail, or just the process."""
        if rng.random() < 0.2:
            self.disk = self.disk.after_kill()
        else:
            self.disk = self.disk.after_crash(rng)

    def append(self, kind: int, *parts: bytes) -> None:
        payload = b"".join(parts)
        address = self.log.append(kind, *parts)
        assert address == self.log.end - HEADER - len(payload)
        self.appended[self.log.next - 1] = Record(self.log.next - 1, kind, address, payload)

    def write(self) -> None:
        self.log.write()
        self.check_numbers()
        assert self.log.written == self.log.next - 1

    def sync(self) -> None:
        self.log.sync()
        assert self.log.durable == self.log.written
        self.check_numbers()

    def begin_sync(self) -> None:
        ticket = self.log.begin_sync()
        if ticket is None:
            assert self.log.durable == self.log.written
        elif ticket[1] not in self.syncs:
            self.disk.fdatasync(ticket[0])
            self.syncs.append(ticket[1])

    def end_sync(self) -> None:
        if self.syncs:
            self.log.end_sync(self.syncs.pop(0))
            self.check_numbers()

    def release(self, number: int) -> None:
        """Release what is before a record."""
        self.needed = max(self.needed, number)
        self.log.release(self.appended[number].address)
        firsts = [segment.head.first for segment in self.log._segments]
        assert firsts[0] <= number
        self.seen["released"] += firsts[0] > self.kept
        self.kept = max(self.kept, firsts[0])
        if len(firsts) > 1 and firsts[1] <= self.log.durable:
            assert firsts[1] > number

    def read(self, number: int) -> None:
        record = self.appended[number]
        if self.kept <= number <= self.log.written:
            assert self.log.read(record.address) == record
            following = [
                one._replace(payload=bytes(one.payload)) for one in self.log.records(record.address)
            ]
            assert following == [self.appended[one] for one in range(number, self.log.written + 1)]

    def scan(self) -> None:
        """Check what another process sees."""
        records = [
            one._replace(payload=bytes(one.payload)) for one in scan(DIRECTORY, disk=self.disk)
        ]
        assert records == [self.appended[one] for one in range(self.kept, self.log.written + 1)]
        found = [
            one._replace(payload=bytes(one.payload))
            for one in scan(DIRECTORY, kept=True, disk=self.disk)
        ]
        first = found[0].number if found else self.kept
        assert first <= self.kept
        assert found == [self.appended[one] for one in range(first, self.log.written + 1)]
        self.seen["scanned what is kept"] += first < self.kept
        assert self.disk.kept_bytes() <= self.keep_bytes

    def check_numbers(self) -> None:
        log = self.log
        assert log.durable <= log.written < log.next
        assert log.durable >= self.durable
        self.durable = log.durable
        assert log.next == len(self.appended) + 1

    def step(self, rng: random.Random) -> None:
        """Do something."""
        what = rng.random()
        if what < 0.5:
            length = rng.choice((0, 1, 10, 40, 40, 200, rng.randrange(600)))
            payload = rng.randbytes(length)
            cut = rng.randrange(length + 1)
            self.append(rng.randrange(3, 256), payload[:cut], payload[cut:])
        elif what < 0.7:
            self.write()
        elif what < 0.8:
            self.sync()
        elif what < 0.85:
            self.begin_sync()
        elif what < 0.9:
            self.end_sync()
        elif self.appended and what < 0.96:
            self.release(rng.randrange(self.kept, len(self.appended) + 1))
        elif self.appended and what < 0.98:
            self.read(rng.randrange(self.kept, len(self.appended) + 1))
        elif what < 0.985:
            self.now_ns += rng.randrange(3) * 10**9
            self.log.kept.expire()
        else:
            self.scan()

    def _new_log(self) -> Log:
        return Log(
            DIRECTORY,
            self._snapshot,
            segment_bytes=self.segment_bytes,
            keep=Keep(self.keep_bytes, self.keep_s, self.archives, lambda: self.now_ns),
            disk=self.disk,
        )

    def _snapshot(self) -> list[bytes]:
        payload = b"state before %d" % self.log.next
        self.appended[self.log.next] = Record(self.log.next, SNAPSHOT, self.log.end, payload)
        return [payload[:5], payload[5:]]
