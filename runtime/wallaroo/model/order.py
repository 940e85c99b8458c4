"""The order of time: which sources are read in it, and the times of their messages."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from time import monotonic
from typing import Any, TypeVar

from wallaroo.api.durations import since_epoch_ns
from wallaroo.api.places import Place
from wallaroo.model.application import Application, StateCompute, Step, WindowCompute
from wallaroo.model.endpoints import Source, TimesOf
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import pass_interrupt

BEGINNING = -1 << 80
"""A time before that of any message, in nanoseconds since the Unix epoch."""
END = 1 << 80
"""A time after that of any message."""

AHEAD_MESSAGES, AHEAD_BYTES = 256, 256 * 1024
"""Messages, and bytes of them, whose times are asked for together."""
AHEAD_S = 0.02
"""Seconds after which no more messages are taken for that."""

_PlacedT = TypeVar("_PlacedT", bound=tuple[bytes, Any])


def meeting_sources(application: Application) -> list[frozenset[int]]:
    """Return the indices of sources whose messages meet in steps with event time, by where they do.

    A source is in one set at most; those without event time are in none.
    """
    sources = application.sources
    of_state: dict[str, set[int]] = {}
    for pipeline in application.pipelines:
        for step in pipeline.trunk.walk():
            if isinstance(step, (StateCompute, WindowCompute)) and is_by_event(step):
                of_state.setdefault(step.partition, set()).add(sources.index(pipeline.source))
    found: list[frozenset[int]] = []
    for members in of_state.values():
        joined = frozenset(members).union(*(one for one in found if one & members))
        found = [one for one in found if not one & members] + [joined]
    return found


def sources_in_order(application: Application) -> list[frozenset[int]]:
    """Return those of `meeting_sources` that are read in the order of time, by where they meet."""
    sources = application.sources
    return [
        frozenset(index for index in meeting if is_timed(sources[index]))
        for meeting in meeting_sources(application)
    ]


def is_by_event(step: Step) -> bool:
    """Whether *step* has state, and goes by event time."""
    if isinstance(step, StateCompute):
        return step.event_time is not None
    return isinstance(step, WindowCompute) and step.windows.by_event


class Timeline:
    """The times of the messages of an input log, of which none is earlier than the one before.

    Example:
        >>> times = Timeline()
        >>> [times.reached(at) for at in (5, None, 3, 7)]
        [5, 5, 5, 7]
    """

    def __init__(self) -> None:
        self.latest = BEGINNING
        """The time of the last message."""

    def reached(self, at: int | None) -> int:
        """Return the time of the next message, which itself has *at*; None if it has none."""
        if at is not None and at > self.latest:
            self.latest = at
        return self.latest


def hints_of_order(application: Application) -> Iterator[tuple[Place, str]]:
    """Yield a hint, with its place, for sources that meet and cannot be read in order."""
    for meeting in meeting_sources(application):
        sources = [application.sources[index] for index in sorted(meeting)]
        unknown = [one for one in sources if one.ends and not one.gives_messages]
        unknown = [one for one in unknown if not is_timed(one)]
        if len(sources) > 1 and unknown:
            names = " and ".join(repr(one.name) for one in sources)
            yield (
                application.pipelines[0].place,
                f"{names} meet in windows, a join or a state with event time, and are read side by "
                f"side: messages of the one that is read more slowly can be late. Give "
                f"{' and '.join(repr(one.name) for one in unknown)} time=, the function that "
                "returns the time of a message",
            )


def merged(streams: Sequence[tuple[Source, Iterator[Any]]]) -> Iterator[tuple[Source, Any]]:
    """Yield the payloads of all *streams* in the order of their times, each with its source."""

    def timed(source: Source, payloads: Iterator[Any]) -> Iterator[tuple[int, Source, Any]]:
        times, time_of = Timeline(), time_function(source)
        for payload in payloads:
            at = None if time_of is None else time_of(payload)
            yield times.reached(at), source, payload

    in_order = heapq.merge(*(timed(*stream) for stream in streams), key=itemgetter(0))
    return ((source, payload) for _, source, payload in in_order)


def is_timed(source: Source) -> bool:
    """Whether the times of the messages of *source* are known before they are decoded."""
    return source.knows_times or source.time is not None


@time_limited
def time_function(
    source: Source, report: Callable[[BaseException], object] = lambda _: None
) -> Callable[[Any], int | None] | None:
    """Return what finds the time of a payload of *source*, None for none.

    It is None for a source that was given no function for it. A decoder that raises on a message
    will do so again where that is reported.

    Args:
        source: The source.
        report: Called with what its function raises, or what says that it returned no time.
    """
    time, decode = source.time, source.decode
    if time is None:
        return None

    def time_of(payload: Any) -> int | None:
        try:
            message = decode(payload)
        except BaseException as error:
            pass_interrupt(error)
            if isinstance(error, MemoryError):  # there may be more memory where it is processed
                report(error)
            return None
        try:
            return None if message is None else min(since_epoch_ns(time(message)), END - 1)
        except BaseException as error:
            pass_interrupt(error)
            report(error)
            return None

    return time_of


def times_function(source: Source) -> TimesOf | None:
    """Return what finds the times of several payloads, as `time_function` does, in this process."""
    time_of = time_function(source)
    return None if time_of is None else lambda payloads: [time_of(one) for one in payloads]


def timed(
    items: Iterable[_PlacedT | None], times_of: TimesOf
) -> Iterator[tuple[_PlacedT | None, int | None]]:
    """Yield each of *items*, which begin with payloads, with its time; None stands for a pause.

    Several are taken before the first one is yielded, as long as they come at once.
    """
    batch: list[_PlacedT] = []
    size, since, end, failure = 0, 0.0, False, None
    given = iter(items)
    while not end:
        item = None
        try:
            item = next(given)
        except StopIteration:
            end = True
        except BaseException as error:  # what came before it counts
            end, failure = True, error
        if item is not None:
            since = since if batch else monotonic()
            batch.append(item)
            size += len(item[0])
            is_full = len(batch) >= AHEAD_MESSAGES or size >= AHEAD_BYTES
            if not is_full and monotonic() - since < AHEAD_S:
                continue
        if batch:
            yield from zip(batch, times_of([payload for payload, *_ in batch]), strict=True)
            batch, size = [], 0
        if item is None and not end:
            yield None, None
    if failure is not None:
        raise failure
