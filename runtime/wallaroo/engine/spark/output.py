"""Logs what Spark prints, with rate limits."""

from __future__ import annotations

import logging
import re

import structlog

from wallaroo.observability.logs import Repeats, relay

_NOISE = re.compile(r"Using Spark's default log4j|^\s*$")
_ECHO = re.compile(
    r" ERROR (?:Utils: Aborting task|DataWritingSparkTask: Abort(?:ing|ed) commit for partition "
    r"|WriteToDataSourceV2Exec: Data source write support .* (?:is aborting|aborted)\."
    r"|Executor: Exception in task |ErrorNotifier: A fatal error has occurred\."
    r"|StreamingShuffleReader: |StreamingShuffleClientHandler: "
    r"|TransportResponseHandler: Still have \d+ requests? outstanding when connection from "
    r"|TransportClientFactory: Exception while bootstrapping client "
    r"|TransportClient: Failed to send RPC |TransportRequestHandler: Error sending result "
    r"|MicroBatchExecution: Query .* terminated with error"
    r"|TaskSetManager: .*Task \S+ in stage \S+ failed \d+ times; aborting job)"
)
"""Errors of Spark that only say that a query ends: if it fails, the driver logs why."""

_KIND = 500
"""Number of characters at the beginning of a line of Spark by which repeats are recognized."""


class SparkOutput:
    """Logs the lines that Spark and its processes print."""

    def __init__(self) -> None:
        self._repeats = Repeats()

    def line(self, line: str) -> None:
        """Log a line that Spark printed, unless it is known to be noise."""
        if relay(line):
            return
        if _NOISE.search(line) or not self._repeats.show(re.sub(r"\d+", "0", line[:_KIND])):
            return
        error = " ERROR " in line and not _ECHO.search(line)
        structlog.get_logger("spark").log(
            logging.ERROR if error else logging.DEBUG, "spark", line=line
        )
