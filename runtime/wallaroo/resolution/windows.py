"""Resolves declared windows and their aggregation, or reports what is wrong with them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wallaroo.api import windows as api
from wallaroo.api.aggregations import Aggregation
from wallaroo.api.places import Place, place_of
from wallaroo.model.joins import Join
from wallaroo.model.windows import CountWindows, RangeWindows, SessionWindows, Windows
from wallaroo.resolution.problems import Problems, describe, name_of

_METHODS: Mapping[str, Sequence[str]] = {
    "initial_accumulator": (),
    "update": ("message", "accumulator"),
    "combine": ("accumulator", "accumulator"),
    "output": ("key", "accumulator"),
}
"""Methods of an aggregation, with their parameters."""
_OUTPUT_OF_WINDOW = ("key", "accumulator", "window")
"""Parameters of an `output` that takes the window."""


class ResolvedWindows(NamedTuple):
    """Windows with the name of their step and the place of their aggregation."""

    name: str
    windows: Windows
    place: Place


def resolve_windowing(
    windowing: api.Windowing[Any, Any], where: str, problems: Problems
) -> ResolvedWindows | None:
    """Resolve *windowing*, which is in the pipeline *where*; None if a problem was reported."""
    given = windowing.aggregation
    kind = given if inspect.isclass(given) else type(given)
    label = f"{where}, windows over {name_of(kind)}"
    before = len(problems.messages)
    missing = [method for method in _METHODS if not callable(getattr(given, method, None))]
    if len(missing) == len(_METHODS):
        problems.add(
            windowing.place,
            f"{where}: over(…) expects an Aggregation, as an instance or a class, "
            f"but got {describe(given)}",
        )
        return None
    if missing := missing + sorted(getattr(kind, "__abstractmethods__", ())):
        problems.add(
            place_of(kind), f"{label}: {kind.__name__} does not define {', '.join(missing)}"
        )
        return None
    if inspect.isclass(given):
        problems.check_arity(
            given, 0, label, f"no arguments; for arguments, write over({kind.__name__}(…))"
        )
    takes_window = _check_methods(kind, label, problems)
    event_time = getattr(windowing.windows, "event_time", None)
    if event_time is not None:
        problems.check_arity(event_time, 1, f"{label}: event time", "message")
    if len(problems.messages) > before:
        return None
    aggregation: Any = given() if inspect.isclass(given) else given
    name = aggregation.name() if callable(getattr(kind, "name", None)) else kind.__name__
    windows = _windows(windowing.windows, aggregation, takes_window=takes_window)
    return ResolvedWindows(name, windows, place_of(kind, windowing.place))


def why_never_late(windows: Windows) -> str | None:
    """Return why no message is ever too late for *windows*; None if messages can be."""
    if isinstance(windows, Join):
        return windows.why_never_late
    if isinstance(windows, (RangeWindows, SessionWindows)):
        if windows.late != "drop":
            return f"the late data policy {windows.late!r} aggregates them"
        if windows.event_time is None:
            return "without with_event_time, the time of arrival counts, which is never late"
        return None
    return "windows of a number of messages close by number, not by time"


def _check_methods(kind: type, label: str, problems: Problems) -> bool:
    """Check the parameters of the methods of *kind*; returns whether `output` takes a window."""
    takes_window = False
    for method, takes in _METHODS.items():
        unbound = isinstance(inspect.getattr_static(kind, method), (staticmethod, classmethod))
        function = inspect.unwrap(getattr(kind, method))
        own = () if unbound else ("self",)
        if method == "output" and _accepts(function, len(own) + len(_OUTPUT_OF_WINDOW)):
            takes_window = True
            problems.check_not_async(function, f"{label}: {method}")
            continue
        shown = ", ".join((*own, *takes))
        if method == "output":
            shown += ") or (" + ", ".join((*own, *_OUTPUT_OF_WINDOW))
        problems.check_arity(function, len(own) + len(takes), f"{label}: {method}", shown)
    return takes_window


def _accepts(function: Any, count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def _windows(
    windows: api.AnyWindows, aggregation: Aggregation[Any, Any, Any], *, takes_window: bool
) -> Windows:
    how: dict[str, Any] = {"aggregation": aggregation, "takes_window": takes_window}
    how["early"] = windows.early
    if isinstance(windows, api.CountWindows):
        return CountWindows(windows.count, windows.timeout_ns, **how)
    how |= {"delay_ns": windows.delay_ns or 0, "late": windows.late or "drop"}
    how["event_time"] = windows.event_time
    if isinstance(windows, api.SessionWindows):
        return SessionWindows(windows.gap_ns, **how)
    return RangeWindows(windows.range_ns, windows.slide_ns or windows.range_ns, **how)
