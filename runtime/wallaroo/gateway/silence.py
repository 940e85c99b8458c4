"""For how long sources were *held*: time in which messages may have waited to be read.

States with event time measure how long a key has been silent. While the gateway does not run, the
journal is full, or a log has more than was read, a key may have messages that nobody has seen, and
that time does not count as silence. If the messages that wait have times, the time between these
counts: a backlog of ten seconds is ten seconds of silence, however long it takes to read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wallaroo.model.order import BEGINNING
from wallaroo.wire.records import TICK_SOURCE, Held

Reading = Callable[[], int | None]
"""Returns how far some logs have been read, in nanoseconds of their own time: `BEGINNING` if they
have more and how far is unknown, None if they have no more."""
SURE_NS = 1_000_000_000
"""Time for which it holds that logs have no more, if nobody looks again."""


class _Progress:
    """By how much time some logs have come on."""

    def __init__(self, reading: Reading) -> None:
        self.look = reading
        """Returns how far they are."""
        self._before = reading()

    def stands(self, now: int | None) -> bool:
        """Whether they are as far, *now*, as they were, and may come on yet."""
        return now == self._before and now is not None and now != BEGINNING

    def pass_to(self, now: int | None, passed_ns: int) -> int:
        """By how much they have come on to *now*, at most *passed_ns*."""
        before, self._before = self._before, now
        if before is None:
            return passed_ns if now != BEGINNING else min(passed_ns, SURE_NS)
        if now is None or BEGINNING in {before, now}:
            return 0
        self._before = max(before, now)
        return min(passed_ns, max(0, now - before))


class Meeting:
    """Sources whose messages meet in states with event time, which are held together.

    Args:
        clock: Returns the time, in nanoseconds.
        logs: How far their logs are read, for each set of them that is read in order.
        held_ns: For how long they were held until now.

    Example:
        >>> at, clock = [None, 5, 8, None], iter(range(0, 100, 10))
        >>> meeting = Meeting(lambda: next(clock), [lambda: at[0]], 0)
        >>> [(at.pop(0), meeting.held())[1] for _ in range(3)]
        [0, 7, 17]
    """

    def __init__(self, clock: Callable[[], int], logs: Iterable[Reading], held_ns: int) -> None:
        self._clock, self._held_ns = clock, held_ns
        self._logs = [_Progress(reading) for reading in logs]
        self._lock = threading.Lock()
        self._last_ns = clock()

    def held(self) -> int:
        """For how long they were held. To be called before and after each change of a log."""
        with self._lock:
            now_ns = max(self._clock(), self._last_ns)
            passed_ns = now_ns - self._last_ns
            looks = [(log, log.look()) for log in self._logs]
            if any(log.stands(at) for log, at in looks):  # as far as is known
                return self._held_ns + passed_ns
            self._last_ns = now_ns
            self._held_ns += passed_ns - min(log.pass_to(at, passed_ns) for log, at in looks)
            return self._held_ns


class Silence:
    """Knows for how long each source was held.

    Args:
        clock: Returns the time, in nanoseconds.
        is_full: Whether the journal has no room.
    """

    def __init__(self, clock: Callable[[], int], is_full: Callable[[], bool]) -> None:
        self._clock, self._is_full = clock, is_full
        self.names: Sequence[str] = ()
        """Names of the sources, at first those that had the indices in the log."""
        self._stored: dict[str, int] = {}
        """What the log says last, by name."""
        self._last_ns = self._away_ns = 0
        self._meetings: dict[int, Meeting] = {}

    def restore(self, values: Mapping[str, Any] | None) -> None:
        """Take over what `to_json` returned."""
        if values is not None:
            self.names, self._stored = values["names"], dict(values["of"])
            self._last_ns = values["last"]

    def to_json(self) -> dict[str, Any]:
        """What is to be known, as plain JSON values."""
        return {"names": self.names, "of": list(self._stored.items()), "last": self._last_ns}

    def stored(self, held: Held, at_ns: int) -> None:
        """Note what a record says, of the time *at_ns*."""
        self._stored.update((self.names[of], ns) for of, ns in held if of < len(self.names))
        self._last_ns = max(self._last_ns, at_ns)

    def resume(self) -> None:
        """Begin; what has passed since the last record does not count as silence."""
        self._away_ns = max(0, self._clock() - self._last_ns) if self._last_ns else 0

    def watch(self, sources: Iterable[int], logs: Sequence[Reading]) -> Meeting:
        """Measure *sources*, which meet, from now on.

        Args:
            sources: Their indices.
            logs: How far their logs are read, for each set of them that is read in order.
        """
        indices = list(sources)
        names = [self.names[index] for index in indices]
        known = [self._stored[name] for name in names if name in self._stored]
        full: Reading = lambda: BEGINNING if self._is_full() else None  # noqa: E731
        held_ns = min(known, default=0) + self._away_ns
        meeting = Meeting(self._clock, [full, *logs], held_ns)
        self._meetings |= dict.fromkeys(indices, meeting)
        return meeting

    @property
    def is_watched(self) -> bool:
        """Whether there are sources to be measured."""
        return bool(self._meetings)

    def held(self, source: int) -> Held:
        """For how long *source* was held, as it is stored; that of all sources for a tick."""
        if source == TICK_SOURCE:
            held = {meeting: meeting.held() for meeting in set(self._meetings.values())}
            return [(index, ns) for index, one in self._meetings.items() if (ns := held[one])]
        meeting = self._meetings.get(source)
        return [(source, ns)] if meeting is not None and (ns := meeting.held()) else ()
