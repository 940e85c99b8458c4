"""A hint at event times before 1971, which are probably meant to be in another unit."""

from __future__ import annotations

from wallaroo.api.durations import time_of
from wallaroo.dataflow.program import StatefulStage
from wallaroo.dataflow.user_logs import log_event

_1971_NS = 31_536_000 * 10**9
_hinted: set[str] = set()
"""Names of the steps that this process has hinted at."""


def hint_at_early_time(stage: StatefulStage, event_ns: int | None) -> None:
    """Log, once for each step, that the event time *event_ns* is in 1970, if it is."""
    if event_ns is None or not 0 < event_ns < _1971_NS or stage.step.name in _hinted:
        return
    _hinted.add(stage.step.name)
    log_event(
        "warning",
        "this may not be what you mean",
        pipeline=stage.pipeline,
        step=stage.step.name,
        hint=f"an event time is {event_ns} ns, which is {time_of(event_ns).isoformat()}: return "
        "nanoseconds since the Unix epoch (milliseconds * 1_000_000), or a datetime",
    )
