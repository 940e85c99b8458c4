"""Logs what processes have reported, with rate limits."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping

import structlog

from wallaroo.dataflow.unlisted_keys import ADVICE, UnlistedWatch
from wallaroo.model.application import Application
from wallaroo.observability.logs import Repeats
from wallaroo.wire.chunk_messages import News
from wallaroo.wire.records import FailedMessage
from wallaroo.wire.task_metrics import TaskMetrics

_MAX_KEYS = 20
"""Maximum number of unknown keys per state to log individually."""

log = structlog.get_logger("wallaroo")


def _fields(example: FailedMessage) -> dict[str, str]:
    names = ("pipeline", "step", "place", "error", "message", "key")
    fields = {name: getattr(example, name) for name in names}
    return {name: value for name, value in fields.items() if value is not None}


class Reports:
    """Logs what processes have reported, with rate limits.

    Args:
        application: The application; None to leave out what is known of its states.
    """

    def __init__(self, application: Application | None = None) -> None:
        self._partitions = application.partitions if application else {}
        self._watch = UnlistedWatch(application) if application else None
        self._repeats = Repeats()
        self._keys: dict[str, set[str]] = defaultdict(set)
        """Unknown keys that have been logged, by state."""

    def published(self, news: News) -> None:
        """Log the failed and dropped messages of what was published."""
        tally = news.tally
        for example in tally.examples:
            if self._repeats.show(example.kind):
                fields = _fields(example)
                message = fields.pop("message")
                log.warning("message set aside", **fields)
                log.debug("message was", place=example.place, message=message)
        if tally.set_aside > len(tally.examples):
            chunk = news.publications[-1].last
            log.warning("messages set aside", chunk=chunk, count=tally.set_aside)
        self._unknown_keys(tally.unknown_keys)
        self._mostly_unlisted(tally.metrics)
        for (pipeline, step), count in tally.late.items():
            if self._repeats.show((pipeline, step, "late")):
                log.warning("late messages", pipeline=pipeline, step=step, messages=count)

    def _unknown_keys(self, counts: Mapping[tuple[str, str], int]) -> None:
        others: Counter[str] = Counter()
        for (state, key), count in counts.items():
            logged = self._keys[state]
            if len(logged) == _MAX_KEYS and key not in logged:
                others[state] += count
            elif key not in logged:
                logged.add(key)
                partition = self._partitions.get(state)
                more = {"listed": partition.describe_keys()} if partition else {}
                log.warning("unknown key dropped", state=state, key=key, messages=count, **more)
        for state, count in others.items():
            if self._repeats.show((state, "unknown keys")):
                log.warning("other unknown keys dropped", state=state, messages=count)

    def _mostly_unlisted(self, metrics: TaskMetrics) -> None:
        if self._watch is None:
            return
        for (pipeline, step), counts in metrics.steps.items():
            report = self._watch.note(pipeline, step, counts.unlisted, counts.entered)
            if report is not None:
                log.warning("most messages dropped", advice=ADVICE, **dataclasses.asdict(report))
