"""The semantics of timers and of expiry, for one key at a time.

Each key has a time of its own, which its messages advance: to their arrival or, if the step says
so, to their event time. While the key is silent, its time advances with the clock, from its latest
message. A timer is due when the time of its key reaches it, and an entity expires when it has no
timer and was idle for the time to live of its state.

What is due is settled before a message, not by the ticks of the clock: a key has the same calls, in
the same order, whether a tick came in time or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

_COARSEST_NS = 1_000_000_000
_PARTS = 16
"""An idle entity is freed at most a second, or this part of its time to live, after it expires."""
_FIELDS = ("watermark", "latest", "seen_ns", "timers")
"""Fields of a time in an export."""


@dataclass(slots=True)
class KeyTime:
    """The time of one key, and its timers."""

    watermark: int
    """The time of the key, in nanoseconds since the Unix epoch."""
    latest: int | None
    """The time of the key at its last message, as the clock has advanced it; None if its entity is
    older than the time to live of the state. The watermark then counts from 0."""
    seen_ns: int
    """Clock at the arrival of the last message."""
    timers: dict[str, int] = field(default_factory=dict)
    """Times by name."""

    @classmethod
    def unknown(cls, now_ns: int) -> Self:
        """The time of a key of whose messages nothing is known, from *now_ns* on."""
        return cls(0, None, now_ns)

    def reached(self, now_ns: int) -> int:
        """The time of the key if it is silent until *now_ns*."""
        return max(self.watermark, (self.latest or 0) + max(0, now_ns - self.seen_ns))

    def clock_at(self, time: int) -> int:
        """The clock at which the key reaches *time* if it is silent."""
        return self.seen_ns + time - (self.latest or 0)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, by name."""
        return dict(zip(_FIELDS, self.saved(), strict=True))

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Convert the result of `to_json` back.

        Raises:
            ValueError: It is something else.
        """
        if not isinstance(value, dict) or set(value) != set(_FIELDS):
            msg = f"expected an object with {', '.join(_FIELDS)}, not {value!r:.100}"
            raise ValueError(msg)
        time = cls.loaded(tuple(value[name] for name in _FIELDS))
        numbers = [time.watermark, time.latest or 0, time.seen_ns, *time.timers.values()]
        if not all(type(number) is int for number in numbers):
            msg = f"expected nanoseconds as integers, not {value!r:.200}"
            raise ValueError(msg)
        return time

    def saved(self) -> tuple[Any, ...]:
        """Plain values, for a record."""
        return (self.watermark, self.latest, self.seen_ns, self.timers)

    @classmethod
    def loaded(cls, values: tuple[Any, ...]) -> Self:
        """Convert the result of `saved` back."""
        watermark, latest, seen_ns, timers = values
        return cls(watermark, latest, seen_ns, dict(timers))


class Due(NamedTuple):
    """What is due."""

    at: int
    """Time of the key."""
    timer: str | None
    """Name of the timer; None if the entity expires."""


@dataclass(frozen=True)
class Timing:
    """The timers and the expiry of the entities of a state.

    Example:
        >>> timing = Timing(ttl_ns=100)
        >>> time = timing.arrived(None, 7, 7)
        >>> time.timers["reminder"] = 20
        >>> timing.due_ns(time), timing.pop_due(time, 19), timing.pop_due(time, 20)
        (20, None, Due(at=20, timer='reminder'))
        >>> timing.due_ns(time), timing.pop_due(time, 120)
        (120, Due(at=120, timer=None))
    """

    ttl_ns: int | None = None
    """Time after which an idle entity is freed; None to keep it."""
    keeps_time: bool = False
    """Whether the time of a key must be kept although nothing is due, as event time must."""

    def arrived(self, time: KeyTime | None, arrived_ns: int, now: int) -> KeyTime:
        """The time of a key after a message.

        Args:
            time: The time before; None if there is none.
            arrived_ns: Clock at its arrival.
            now: Result of `time_of` for it.
        """
        if time is None:
            return KeyTime(now, now, arrived_ns)
        if time.latest is None or now > time.watermark:
            time.watermark = time.latest = now
        else:  # it uses the entity, and leaves the time as the clock has advanced it
            time.latest += max(0, arrived_ns - time.seen_ns)
        time.seen_ns = max(time.seen_ns, arrived_ns)
        return time

    def time_of(self, time: KeyTime | None, arrived_ns: int, event: int | None) -> int:
        """To what a message sets the time of its key, if that is later."""
        if event is not None:
            return event
        if time is None or time.latest is None:
            return arrived_ns
        return max(arrived_ns, time.seen_ns)  # clocks can run backwards, times must not

    def pop_due(self, time: KeyTime, until: int) -> Due | None:
        """Take the first that is due by *until*, a time of the key; None if nothing is.

        A timer is cleared, and the time of the key advances to it. The caller forgets an entity
        that expires.
        """
        due = self._first(time)
        if due is None or due.at > until:
            return None
        time.watermark = max(time.watermark, due.at)
        if due.timer is not None:
            del time.timers[due.timer]
        return due

    def due_ns(self, time: KeyTime) -> int | None:
        """The clock at which something is due if no message arrives; None if nothing is."""
        due = self._first(time)
        return None if due is None else time.clock_at(due.at)

    def wake_ns(self, time: KeyTime) -> int | None:
        """When to look at a key: later than `due_ns` if that makes no difference to messages."""
        due_ns = self.due_ns(time)
        if due_ns is None or time.timers or self.ttl_ns is None:
            return due_ns
        step = max(_COARSEST_NS, self.ttl_ns // _PARTS)
        return due_ns + -due_ns % step

    def must_keep(self, time: KeyTime) -> bool:
        """Whether anything depends on *time*."""
        return self.ttl_ns is not None or self.keeps_time or bool(time.timers)

    def shown(self, time: KeyTime) -> Mapping[str, Any]:
        """The timers, and when the entity expires, in times of the key; for display."""
        shown: dict[str, Any] = {"timers": dict(time.timers)} if time.timers else {}
        due = self._first(time)
        if due is not None and due.timer is None and time.latest is not None:
            shown["expires"] = due.at
        return shown

    def _first(self, time: KeyTime) -> Due | None:
        if len(time.timers) == 1:
            ((name, at),) = time.timers.items()
            return Due(at, name)
        if time.timers:
            at, name = min((at, name) for name, at in time.timers.items())
            return Due(at, name)
        if self.ttl_ns is None:
            return None
        used = max(time.watermark, time.latest or 0)
        return Due(used + self.ttl_ns, None)


def describe_timer(key: Any, due: Due) -> str:
    """What a dead letter says of a timer whose function raised.

    Example:
        >>> describe_timer("a", Due(20, "reminder"))
        "timer 'reminder' of key 'a', due at 20 ns"
    """
    return f"timer {due.timer!r} of key {key!r:.100}, due at {due.at} ns"
