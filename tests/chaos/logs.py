"""What is written to several logs, each in the order of time, and what has to come of it.

Nothing is written to one log before all that is earlier is in the others, so nothing is late. The
time of messages passes much faster than that of clocks: the silence of a key closes no window.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.ledger import Ledger
from tests.chaos.traffic import Traffic

TICK_S = 0.05
"""Time between two ticks, by the clock."""
SETTLE_S = 2.0
"""Time after which each log was looked at again: what is much later than the rest waits for it."""
_TICK = 60
"""Seconds of the messages' time that pass with one."""
_BEGIN = 1_577_836_800
_WINDOW, _NEAR = 300, 300
_PAUSE = 3600
"""Seconds after which everything that was open has closed."""
_KEYS = [f"l{number}" for number in range(20)]
_MOST_BEHIND = 100
"""How many messages of a key may come out before one that was sent before them."""
_WRONG = 0
"""What takes the place of a count: no message is the one with this number."""

Line = tuple[int, bytes]
"""The log, and what it gets."""


class FilesTraffic(Traffic):
    """Messages of logs, for windows; and those of the port, which are counted.

    A message is right if it comes once, in order, and in the one window that has its time.
    """

    LOGS = 2

    def __init__(self) -> None:
        self._chance = random.Random(self.LOGS)
        self._now = _BEGIN
        self._starts: dict[str, int] = defaultdict(int)
        """Start of the last window, by key."""

    def tick(self, ledger: Ledger) -> list[Line]:
        """What is written next: of some keys, a message that counts as sent."""
        keys = [key for key in _KEYS if self._chance.random() < 0.7]
        times = sorted(self._chance.randrange(_TICK) for _ in keys)
        lines = [
            line
            for key, time in zip(keys, times, strict=True)
            for line in self._lines(ledger, key, self._now + time)
        ]
        self._now += _TICK
        return lines

    def close(self) -> list[Line]:
        """What is written so that everything before it comes out; it does not count itself."""
        self._now += _PAUSE
        lines = [
            (log, b"%s 0 %d" % (key.encode(), self._now))
            for key in _KEYS
            for log in range(self.LOGS)
        ]
        self._now += _TICK
        return lines

    def entries(self, output: bytes) -> bytes:
        """What `logs.py` puts out, in terms of the ledger."""
        if not output.startswith(b"@"):
            return output
        key, *fields = output.decode().removeprefix("@").split()
        return b",".join(
            b"%s %d %d" % (key.encode(), number, number if right else _WRONG)
            for number, right in self._judged(key, fields)
        )

    def _lines(self, ledger: Ledger, key: str, time: int) -> Iterator[Line]:
        """Those of a message at this time."""
        yield self._chance.randrange(self.LOGS), b"%s %d" % (ledger.next(key), time)

    def _judged(self, key: str, fields: list[str]) -> Iterator[tuple[int, bool]]:
        """The numbers of the messages of a window, and whether they belong to it."""
        start, is_new = int(fields[0]), int(fields[0]) > self._starts[key]
        self._starts[key] = start
        for field in fields[1:]:
            number, time = map(int, field.split(":"))
            if number:
                yield number, is_new and start <= time < start + _WINDOW


class PartitionsTraffic(FilesTraffic):
    """The same for a topic, of whose partitions each has several logs: keys of its records."""

    LOGS = 16


class JoinTraffic(FilesTraffic):
    """Left messages, which count, and right ones, which have negative numbers, for a join.

    A left message is right if it is joined once with each right one that is near, and no other.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lefts: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
        """Numbers and times of those that have not come out."""
        self._rights: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
        self._found: dict[tuple[str, int], list[str]] = defaultdict(list)
        """What left messages were joined with."""
        self._numbers = itertools.count(-1, -1)

    def _lines(self, ledger: Ledger, key: str, time: int) -> Iterator[Line]:
        log, is_left = self._chance.randrange(self.LOGS), self._chance.random() < 0.5
        message = ledger.next(key) if is_left else b"%s %d" % (key.encode(), next(self._numbers))
        kept = self._lefts if is_left else self._rights
        kept[key].append((int(message.split()[1]), time))
        yield log, b"%s %d" % (message, time)

    def _judged(self, key: str, fields: list[str]) -> Iterator[tuple[int, bool]]:
        """The left messages that are complete with this pair, and those that cannot be any more."""
        number, right = int(fields[0]), fields[1]
        lefts, rights = self._lefts[key], self._rights[key]
        if number and (not lefts or number < lefts[0][0]):
            yield number, False  # it has come out
        elif number:
            self._found[key, number].append(right)
        while lefts:
            first, time = lefts[0]
            known = tuple(rights)  # at once, as another thread adds to them
            due = [str(other) for other, at in known if abs(at - time) <= _NEAR] or ["None"]
            found = self._found[key, first]
            is_complete = self._now > time + _NEAR and sorted(found) == sorted(due)
            may_be = {*found} <= {*due} and len(found) <= len(due)
            may_be = may_be and number - first < _MOST_BEHIND
            if may_be and not is_complete:
                break
            lefts.popleft()
            del self._found[key, first]
            while rights and rights[0][1] < time - _NEAR:
                rights.popleft()
            yield first, is_complete


def append(lines: list[Line], files: list[Path]) -> None:
    """Append *lines* to *files*, the logs."""
    for number, file in enumerate(files):
        with file.open("ab") as log:
            log.write(b"".join(line + b"\n" for at, line in lines if at == number))
