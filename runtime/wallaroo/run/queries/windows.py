"""Rows of windows and joins: those that are open, and messages that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wallaroo.api.ready_aggregations import ReadyAggregation
from wallaroo.model.joins import AsOfJoin, IntervalJoin, TableJoin
from wallaroo.model.windows import CountWindows, Windows
from wallaroo.model.windows.times import TimeWindows
from wallaroo.run.queries.kinds import NANOSECONDS, Int, Kind, Text

_FOREVER = 2**256
"""A watermark at which all windows are closed."""
Row = tuple[tuple[Any, ...], Any]
"""Values of the columns of `window_columns`, and what the window or the message itself is."""


def window_columns(windows: Windows) -> Mapping[str, Kind]:
    """The columns between the key and what a window or a message itself has."""
    if isinstance(windows, TimeWindows):
        return {"window_start": NANOSECONDS, "window_end": NANOSECONDS}
    if isinstance(windows, CountWindows):
        return {"window_messages": Int(), "last_arrival": NANOSECONDS}
    if isinstance(windows, TableJoin):
        return {"last_arrival": NANOSECONDS}
    return {"side": Text(), "message_time": NANOSECONDS, "arrival": NANOSECONDS}


def window_rows(windows: Windows, entity: Any) -> Iterator[Row]:
    """The rows of one key.

    Raises:
        Exception: User code raised, which combines the parts of a window.
    """
    if isinstance(windows, TimeWindows):
        closes = windows.next_close(entity)
        for start in () if closes is None else windows.closing(entity, _FOREVER):
            found = windows.accumulator(entity, start)
            yield (start, windows.end(entity, start)), _value(windows.aggregation, found)
    elif isinstance(windows, CountWindows):
        if entity.messages:
            found = _value(windows.aggregation, entity.accumulator)
            yield (entity.messages, entity.seen_ns), found
    elif isinstance(windows, TableJoin):
        if entity.message is not None:
            yield (entity.seen_ns,), entity.message
    elif isinstance(windows, AsOfJoin | IntervalJoin):
        by_side = (
            (entity.waiting, entity.values)
            if isinstance(windows, AsOfJoin)
            else (entity.left.rows, entity.right.rows)
        )
        for side, rows in zip(("left", "right"), by_side, strict=True):
            yield from (((side, row.time, row.arrived_ns), row.message) for row in rows)


def _value(aggregation: Any, accumulator: Any) -> Any:
    """The value of a ready-made aggregation; the accumulator of one of the application."""
    if isinstance(aggregation, ReadyAggregation):
        return aggregation.value(accumulator)
    return accumulator
