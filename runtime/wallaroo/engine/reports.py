"""What batches and Spark have to say, as log events, without a flood."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Mapping

import structlog

from wallaroo.dataflow.records import FailedMessage
from wallaroo.dataflow.task_metrics import TaskMetrics
from wallaroo.engine.base import Batch
from wallaroo.model.application import Application
from wallaroo.model.unlisted_keys import ADVICE, UnlistedWatch
from wallaroo.observability.logs import Repeats, relay

_NOISE = re.compile(r"TransformWithStateInPandas Python worker|Using Spark's default log4j|^\s*$")

_MOST_KEYS = 20
"""Unknown keys of a state that are told one by one: enough to see what is wrong with them."""

log = structlog.get_logger("wallaroo")


def _told(example: FailedMessage) -> dict[str, str]:
    names = ("pipeline", "step", "place", "error", "message", "key")
    told = {name: getattr(example, name) for name in names}
    return {name: value for name, value in told.items() if value is not None}


class Reports:
    """Turns what batches report into log events, without a flood.

    Args:
        application: What is run; None where nothing but Spark's lines is to be logged.
    """

    def __init__(self, application: Application | None = None) -> None:
        self._partitions = application.partitions if application else {}
        self._watch = UnlistedWatch(application) if application else None
        self._repeats = Repeats()
        self._keys: dict[str, set[str]] = defaultdict(set)
        """By state: the unknown keys that were told."""

    def batch(self, batch: Batch) -> None:
        """Log what was set aside or dropped in *batch*."""
        for example in batch.tally.examples:
            if self._repeats.show((example.pipeline, example.step, example.place)):
                told = _told(example)
                message = told.pop("message")
                log.warning("message set aside", **told)
                log.debug("message was", place=example.place, message=message)
        if batch.tally.set_aside > len(batch.tally.examples):
            log.warning("messages set aside", batch=batch.number, count=batch.tally.set_aside)
        self._unknown_keys(batch.tally.unknown_keys)
        self._mostly_unlisted(batch.tally.metrics)
        for (pipeline, step), count in batch.tally.late.items():
            if self._repeats.show((pipeline, step, "late")):
                log.warning("late messages dropped", pipeline=pipeline, step=step, messages=count)

    def _unknown_keys(self, counts: Mapping[tuple[str, str], int]) -> None:
        others: Counter[str] = Counter()
        for (state, key), count in counts.items():
            told = self._keys[state]
            if len(told) == _MOST_KEYS and key not in told:
                others[state] += count
            elif key not in told:
                told.add(key)
                known = (
                    {"listed": at.describe_keys()} if (at := self._partitions.get(state)) else {}
                )
                log.warning("unknown key dropped", state=state, key=key, messages=count, **known)
        for state, count in others.items():
            if self._repeats.show((state, "unknown keys")):
                log.warning("other unknown keys dropped", state=state, messages=count)

    def _mostly_unlisted(self, figures: TaskMetrics) -> None:
        if self._watch is None:
            return
        for (pipeline, step), counts in figures.steps.items():
            found = self._watch.note(pipeline, step, counts.unlisted, counts.entered)
            if found is not None:
                log.warning("most messages dropped", advice=ADVICE, **dataclasses.asdict(found))

    def spark_line(self, line: str) -> None:
        """Log a line that Spark printed, unless it is known to say nothing."""
        if relay(line):
            return
        if _NOISE.search(line) or not self._repeats.show(re.sub(r"\d+", "0", line)):
            return
        error = " ERROR " in line
        structlog.get_logger("spark").log(
            logging.ERROR if error else logging.DEBUG, "spark", line=line
        )
