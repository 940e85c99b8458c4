"""What batches and Spark have to say, as log events, without a flood."""

from __future__ import annotations

import logging
import re

import structlog

from wallaroo.engine.ports import SetAside
from wallaroo.engine.running import Batch
from wallaroo.logs import Repeats, relay

_NOISE = re.compile(r"TransformWithStateInPandas Python worker|Using Spark's default log4j|^\s*$")

log = structlog.get_logger("wallaroo")


def _told(example: SetAside) -> dict[str, str]:
    names = ("pipeline", "step", "place", "error", "message", "key")
    told = {name: getattr(example, name) for name in names}
    return {name: value for name, value in told.items() if value is not None}


class Reports:
    """Turns what batches report into log events, without a flood."""

    def __init__(self) -> None:
        self._repeats = Repeats()
        self._keys: set[tuple[str, str]] = set()

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
        for (partition, key), count in batch.tally.unknown_keys.items():
            if (partition, key) not in self._keys:
                self._keys.add((partition, key))
                log.warning("unknown key dropped", state=partition, key=key, messages=count)
        for (pipeline, step), count in batch.tally.late.items():
            if self._repeats.show((pipeline, step, "late")):
                log.warning("late messages dropped", pipeline=pipeline, step=step, messages=count)

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
