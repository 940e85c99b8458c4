"""Windows of one key, worked out from the definitions for each message anew, and nothing clever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Taken(NamedTuple):
    """A message."""

    id: int
    event: int
    place: int
    """The time by which it is put in windows; the event time, unless it is late."""
    arrived: int


class Given(NamedTuple):
    """A result of a window."""

    start: int
    end: int
    is_final: bool
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """What the windows are."""

    kind: str
    """`range`, `session` or `count`."""
    length: int
    """Range, gap or number of messages."""
    slide: int = 0
    delay: int = 0
    late: str = "drop"
    timeout: int = 0
    messages: int = 0
    """Messages of a window after which it emits early; 0 for none."""
    every: int = 0
    """Time after which it emits early; 0 for none."""
    event_time: bool = True


@dataclass
class WrittenOut:
    """The windows of one key."""

    layout: Layout
    results: list[Given] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    _kept: list[Taken] = field(default_factory=list)
    """All messages in windows that may be open."""
    _shown: dict[tuple[int, int], int] = field(default_factory=dict)
    """By message and start of its window (0 if windows merge), 1 if a result contains it."""
    _watermark: int | None = None
    _latest: int = 0
    _seen: int = 0
    _early: int | None = None

    def take(self, id_: int, event: int, arrived: int) -> None:
        self.clock(arrived)
        layout = self.layout
        if layout.kind == "count":
            self._take_counted(id_, arrived)
            return
        if not layout.event_time:
            event = max(arrived, self._watermark or arrived)
        if self._watermark is None:
            self._watermark = self._latest = event
        place = event
        if not any(self._is_open(w) for w in self._windows_with(Taken(id_, event, event, arrived))):
            if layout.late == "drop":
                self.late.append(id_)
                return
            if layout.late == "fire-per-message":
                start = event if layout.kind == "session" else event - event % layout.slide
                self.results.append(Given(start, start + layout.length, True, (id_,)))
                return
            place = self._oldest()
        message = Taken(id_, event, place, arrived)
        self._kept.append(message)
        self._latest, self._seen = max(self._latest, event), arrived
        self._advance(max(self._watermark, event), message)
        self._note_early(message, arrived)

    def clock(self, now: int) -> None:
        """Do what is due by *now*, in order."""
        while True:
            due = [(at, 0) for at in self._closes_by_clock()]
            due += [] if self._early is None else [(self._early, 1)]
            if not due or min(due)[0] > now:
                return
            at, early = min(due)
            if early:
                self._early = None
                for window in self.open_windows():
                    if self._fresh(window):
                        self._emit(window, is_final=False)
            elif self.layout.kind == "count":
                self._close_counted()
            else:
                assert self._watermark is not None
                self._advance(max(self._watermark, self._latest + at - self._seen))

    def _closes_by_clock(self) -> Iterator[int]:
        if self.layout.kind == "count":
            if self.layout.timeout and self._kept:
                yield self._seen + self.layout.timeout
            return
        for window in self.open_windows():
            yield self._seen + window[1] + self.layout.delay - self._latest

    def _take_counted(self, id_: int, arrived: int) -> None:
        message = Taken(id_, 0, 0, arrived)
        self._kept.append(message)
        self._seen = arrived
        if len(self._kept) == self.layout.length:
            self._close_counted()
        else:
            self._note_early(message, arrived)

    def _close_counted(self) -> None:
        self._emit((self._kept[0].arrived, self._seen), is_final=True)
        self._kept.clear()
        self._early = None

    def _advance(self, watermark: int, new: Taken | None = None) -> None:
        before = self.open_windows()
        self._watermark = watermark
        for window in before:
            if not self._is_open(window):
                self._emit(window, is_final=True)
        self._kept = [m for m in self._kept if any(map(self._is_open, self._windows_with(m)))]
        fresh = {message for window in self.open_windows() for message in self._fresh(window)}
        if not fresh - {new}:
            self._early = None

    def _note_early(self, message: Taken, arrived: int) -> None:
        if self.layout.every and self._early is None:
            self._early = arrived + self.layout.every
        if self.layout.messages:
            for window in self.open_windows():
                fresh = self._fresh(window)
                if message in fresh and len(fresh) >= self.layout.messages:
                    self._emit(window, is_final=False)

    def _emit(self, window: tuple[int, int], *, is_final: bool) -> None:
        members = self._members(window)
        ids = tuple(sorted(message.id for message in members))
        self.results.append(Given(*window, is_final, ids))
        self._shown |= {(message.id, self._name(window)): 1 for message in members}

    def _fresh(self, window: tuple[int, int]) -> list[Taken]:
        name = self._name(window)
        return [m for m in self._members(window) if (m.id, name) not in self._shown]

    def _name(self, window: tuple[int, int]) -> int:
        return window[0] if self.layout.kind == "range" else 0

    def _members(self, window: tuple[int, int]) -> list[Taken]:
        if self.layout.kind == "count":
            return self._kept
        return [m for m in self._kept if window in self._windows_with(m)]

    def open_windows(self) -> list[tuple[int, int]]:
        if self.layout.kind == "count":
            return [(self._kept[0].arrived, self._seen)] if self._kept else []
        found = {w for m in self._kept for w in self._windows_with(m) if self._is_open(w)}
        return sorted(found)

    def _is_open(self, window: tuple[int, int]) -> bool:
        assert self._watermark is not None
        return window[1] + self.layout.delay > self._watermark

    def _windows_with(self, message: Taken) -> list[tuple[int, int]]:
        length = self.layout.length
        if self.layout.kind == "session":
            return [s for s in self._sessions(message) if s[0] <= message.place < s[1]]
        at = message.place
        starts = range(at - length + 1, at + 1)
        return [(s, s + length) for s in starts if s % self.layout.slide == 0]

    def _sessions(self, new: Taken) -> list[tuple[int, int]]:
        """All sessions, with *new*: sorted times, cut where the gap or more is between two."""
        times = sorted({new.place, *(message.place for message in self._kept)})
        sessions: list[list[int]] = []
        for time in times:
            if sessions and time - sessions[-1][-1] < self.layout.length:
                sessions[-1].append(time)
            else:
                sessions.append([time])
        return [(session[0], session[-1] + self.layout.length) for session in sessions]

    def _oldest(self) -> int:
        """The time by which a late message is put in the oldest open window."""
        assert self._watermark is not None
        layout = self.layout
        if layout.kind == "session":
            if self._kept:  # in the oldest session, which it does not extend
                return min(message.place for message in self._kept)
            return self._watermark - layout.length - layout.delay + 1
        first = self._watermark - layout.length - layout.delay + 1
        return first + -first % layout.slide
