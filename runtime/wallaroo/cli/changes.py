"""Changes of entities as text: a block of lines for each, or a JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from wallaroo.dataflow.json_codec import to_plain
from wallaroo.history.changes import UNKNOWN, Change
from wallaroo.history.differences import ABSENT, differences, shown
from wallaroo.system.printable import printable, printable_json, shown_time
from wallaroo.user_code.exceptions import short_repr

_DIFFERENCES = 10
"""Differences of an entity that are shown."""
_NOT_KEPT = "was there before the log begins"


def change_lines(change: Change) -> Iterator[str]:
    """When the message arrived, then a line for each step, difference and output."""
    of = "" if change.where is None else f"{change.where[0]}[{short_repr(change.where[1])}]"
    if change.arrival is None:
        yield printable(
            f"{of} changed by messages that the log does not have, or that are not found"
        )
    elif change.arrival.source is None:
        yield printable(
            f"offset {change.arrival.offset:,}  {shown_time(change.arrival.at_ns)}  the clock"
        )
    else:
        source, message = repr(change.arrival.source), shown(to_plain(change.arrival.message))
        place = (
            f"offset {change.arrival.offset:,}  {shown_time(change.arrival.at_ns)}  from {source}"
        )
        yield printable(f"{place}: {message}")
    rows = [(step, shown(value)) for step, value in change.path]
    if change.is_new:
        of = f"{of} (new)"
    if change.where is not None:
        rows += [(change.step or "state", f"{of} {text}") for text in _differences(change)]
    rows += [("emits", shown(output)) for output in change.outputs]
    rows += [(f"sends to {sink!r}", repr(output)) for sink, output in change.sent]
    if change.error is not None:
        rows.append(("fails", change.error))
    if change.recorded is not None:
        parts = [
            f"{one.place} {shown(one.after)} instead of {shown(one.before)}".lstrip()
            for one in differences(change.after, change.recorded)
        ]
        rows += [("but published", text) for text in _first(parts)]
    width = max((len(name) for name, _ in rows), default=0)
    yield from (f"  {printable(name):<{width}}  {printable(text)}" for name, text in rows)


def _differences(change: Change) -> list[str]:
    before, after = change.before, change.after
    if UNKNOWN in (before, after):
        return [f"{_NOT_KEPT}: {shown(after)} now" if after != UNKNOWN else _NOT_KEPT]
    if ABSENT in (before, after):
        return [f"+ {shown(after)}" if before == ABSENT else f"- {shown(before)}"]
    return _first([str(one) for one in differences(before, after)]) or ["unchanged"]


def _first(parts: Sequence[str]) -> list[str]:
    """The first of *parts*, and how many more there are."""
    more = len(parts) - _DIFFERENCES
    return [*parts[:_DIFFERENCES], *([f"and {more:,} more differences"] if more > 0 else [])]


def change_json(change: Change) -> str:
    """All that there is to say, on one line."""
    state, key = change.where or (None, None)
    arrival = change.arrival
    values: dict[str, Any] = {
        "state": state,
        "key": to_plain(key),
        "offset": arrival and arrival.offset,
        "time": arrival and shown_time(arrival.at_ns),
        "source": arrival and arrival.source,
        "message": arrival and to_plain(arrival.message),
        "pipeline": change.pipeline,
        "step": change.step,
        "path": [{"step": step, "message": value} for step, value in change.path],
        "before": None if change.is_new or not change.where else change.before,
        "after": change.after if change.where else None,
        "outputs": change.outputs,
        "sent": [{"sink": sink, "output": to_plain(output)} for sink, output in change.sent],
    }
    if change.error is not None:
        values["error"] = change.error
    if change.recorded is not None:
        values["published"] = change.recorded
    return printable_json(json.dumps(values))
