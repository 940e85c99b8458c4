"""Structured logs on stderr: readable on a terminal, otherwise one JSON object per line.

Every event has `event`, `level`, `timestamp` and `part`, the origin of the event (driver, gateway,
worker, spark, application, or the name of a library). Output of user code has the part
`application`, with application, pipeline, step and worker.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

from wallaroo.errors import UsageError
from wallaroo.observability.log_channel import Write
from wallaroo.observability.replayed_logs import Told
from wallaroo.system.printable import printable, printable_json

LEVELS = ("debug", "info", "warning", "error")
"""From the least to the most severe."""
PARTS = ("driver", "gateway", "worker", "spark", "application")
"""Parts for which a separate level can be set."""
WORKER_PARTS = frozenset({"worker", "application"})
"""Parts of which a worker logs events, and all that it is believed to be."""
WORK = "work"
"""Field of an event, for `relay` only, with the mark of `replayed_logs.Work`."""
_PART_OF_LOGGER = {"wallaroo": "driver", "wallaroo.gateway": "gateway"}
_write: Write | None = None
"""Writes each line; None for the current stderr."""
_told = Told()
"""What user code has said in work that may be done again."""
_config: dict[str, Any] = {}
"""The configuration of structlog."""
_RENDERED = {"exception", "exc_info", "stack", "stack_info"}
"""Fields that the renderer for terminals prints on lines of their own."""
_SPACE = re.compile(r"\s")


def parse_levels(text: str) -> dict[str, str]:
    """Parse minimum levels by part; the empty name stands for all other parts.

    Raises:
        UsageError: *text* is invalid.

    Example:
        >>> parse_levels("warning,spark=debug")
        {'': 'warning', 'spark': 'debug'}
        >>> parse_levels("application=error")
        {'': 'info', 'application': 'error'}
    """
    levels = {"": "info"}
    for piece in text.split(","):
        part, _, level = piece.strip().rpartition("=")
        if level not in LEVELS or part not in {"", *PARTS}:
            msg = (
                f"{piece.strip()!r} is not a valid log level; expected one of {', '.join(LEVELS)}, "
                f"optionally for one part ({', '.join(PARTS)}), as in info,spark=debug"
            )
            raise UsageError(msg)
        levels[part] = level
    return levels


def configure(
    levels: str = "info", write: Write | None = None, *, terminal: bool | None = None
) -> None:
    """Set up logging for this process.

    Args:
        levels: Minimum levels, in the format of `parse_levels`.
        write: Writes each line; None for the current stderr.
        terminal: Whether to format lines for a terminal; None to detect it from stderr.

    Raises:
        UsageError: *levels* is invalid.
    """
    global _write  # noqa: PLW0603
    _write = write
    if terminal is None:
        terminal = sys.stderr.isatty()
    minimum = {part: _number(level) for part, level in parse_levels(levels).items()}

    def drop_below_minimum(_logger: Any, method: str, event: EventDict) -> EventDict:
        if _number(method) < minimum.get(event["part"], minimum[""]):
            raise structlog.DropEvent
        return event

    renderer: Any = (
        structlog.dev.ConsoleRenderer(pad_event_to=24)
        if terminal
        else structlog.processors.JSONRenderer(_json, default=str, ensure_ascii=False)
    )
    _config.update(
        processors=[
            _add_part,
            drop_below_minimum,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(
                fmt="%H:%M:%S" if terminal else "iso", utc=not terminal
            ),
            *([_without_driver, _escaped] if terminal else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(min(minimum.values())),
    )
    configure_again()
    logging.basicConfig(handlers=[_Libraries(logging.WARNING)], level=logging.WARNING, force=True)


def configure_again() -> None:
    """Configure structlog as `configure` did, because user code may have reconfigured it."""
    structlog.configure(**_config, logger_factory=_Logger, cache_logger_on_first_use=False)


def relay(line: str, *, any_part: bool = False) -> bool:
    """Log an event that another process wrote as a line of JSON; returns whether it is one.

    Args:
        line: The line, which may be anything.
        any_part: Whether its writer may log events of any part, not only those of a worker.
    """
    if not line.startswith('{"'):
        return False
    try:
        event = json.loads(line, parse_float=_finite, parse_constant=str)
        level, name, part = event.pop("level"), event.pop("event"), event.pop("part")
        if level not in LEVELS or not isinstance(name, str) or not isinstance(part, str):
            return False
        if part not in WORKER_PARTS and not any_part:
            return False
        event.pop("timestamp", None)
        mark = event.pop(WORK, None)
        if mark is not None and not _told.is_new(tuple(mark), (name, event.get("place"))):
            return True
        _logger(part).log(_number(level), name, **event)
    except Exception:  # nested too deeply, or a field that cannot be rendered
        return False
    return True


def _finite(number: str) -> float | str:
    value = float(number)
    return value if math.isfinite(value) else number  # JSON has no infinity


def _logger(part: str) -> Any:
    """Return a logger of *part*, independent of the configuration by user code."""
    return structlog.wrap_logger(_Logger(part, library=True), **_config)


def line_of(event: str, level: str, part: str, more: Mapping[str, Any]) -> str:
    """Return an event as a line of JSON, for processes without configured logging."""
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
    fields = {"part": part, "event": event, "level": level, "timestamp": at, **more}
    return _json(fields, default=str, ensure_ascii=False)


class Repeats:
    """Passes the first few events of a kind, then exponentially fewer.

    Example:
        >>> repeats = Repeats()
        >>> [n for n in range(1, 2001) if repeats.show("x")]
        [1, 2, 3, 10, 100, 1000]
    """

    FIRST = 3
    MOST_KINDS = 10_000
    """Maximum number of kinds to count before starting again, to limit memory."""

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}

    def show(self, kind: Any) -> bool:
        """Count an event of *kind*; returns whether to show it."""
        if len(self._seen) >= self.MOST_KINDS:
            self._seen.clear()
        seen = self._seen[kind] = self._seen.get(kind, 0) + 1
        return seen <= self.FIRST or str(seen).strip("0") == "1"


class Reminder:
    """Passes a reason when it is new, and then from time to time.

    Attributes:
        reason: The last one; empty if there is none.

    Example:
        >>> reminder = Reminder()
        >>> [reminder.show(reason) for reason in ("disk full", "disk full", "no executors")]
        [True, False, True]
    """

    AGAIN_S = 300.0
    """Seconds after which the same reason is shown again."""

    def __init__(self) -> None:
        self.reason = ""
        self._again_at = 0.0

    def show(self, reason: str) -> bool:
        """Note a *reason*; returns whether to show it."""
        now = time.monotonic()
        if reason == self.reason and now < self._again_at:
            return False
        self.reason, self._again_at = reason, now + self.AGAIN_S
        return True


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Within the block, log to the present stderr, even if it or its descriptor is replaced."""
    global _write  # noqa: PLW0603
    previous, stream = _write, sys.stderr
    with contextlib.ExitStack() as stack:
        if previous is None:
            with contextlib.suppress(AttributeError, OSError, ValueError):
                if stream.fileno() == sys.__stderr__.fileno():  # type: ignore[union-attr]
                    copy = os.fdopen(os.dup(stream.fileno()), "w", errors="backslashreplace")
                    stack.callback(_close, copy)
                    stream = copy
            _write = functools.partial(_write_to, stream)
        try:
            yield
        finally:
            _write = previous
            if _config:
                configure_again()


def _write_to(stream: TextIO, line: str) -> None:
    # without a reader, or on a full disk, the line is lost: logging must not cause failures
    with contextlib.suppress(OSError, ValueError):
        # in one call, because other processes may write to the same file
        stream.write(line + "\n")
        stream.flush()


def _close(stream: TextIO) -> None:
    with contextlib.suppress(OSError):  # it has buffered data, and the disk is full
        stream.close()


class _Logger:
    """Writes the lines of structlog; has a name.

    Args:
        name: Origin of the events; unknown names count as the application's.
        library: Whether *name* is the name of a library.
    """

    def __init__(self, name: str = "", *_more: Any, library: bool = False) -> None:
        known = library or name in PARTS or name.partition(".")[0] == "wallaroo"
        self.name = name if known else "application"

    def msg(self, message: str) -> None:
        """Write a line."""
        if _write is None:
            _write_to(sys.stderr, message)
        else:
            _write(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


class _Libraries(logging.Handler):
    """Converts log records of libraries to events."""

    def emit(self, record: logging.LogRecord) -> None:
        level = min(max(record.levelno, logging.DEBUG), logging.ERROR)
        part = record.name.partition(".")[0]
        if part in PARTS or part == "wallaroo":  # only its name
            part = "application"
        try:
            _logger(part).log(level, record.getMessage(), logger=record.name)
        except Exception:
            self.handleError(record)


def _add_part(logger: Any, _method: str, event: EventDict) -> EventDict:
    name = getattr(logger, "name", "wallaroo")
    event["part"] = _PART_OF_LOGGER.get(name, name)
    if event["part"] == "application":
        event.setdefault("said", "structlog")
    return event


def _without_driver(_logger: Any, _method: str, event: EventDict) -> EventDict:
    if event["part"] == "driver":
        del event["part"]
    return event


def _escaped(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Escape terminal control sequences in *event*, and what looks like another field."""
    return {_escaped_name(name): _escaped_value(name, value) for name, value in event.items()}


def _escaped_name(name: str) -> str:
    name = _SPACE.sub("_", printable(name)).replace("=", "_")
    return f"{name}_" if name in _RENDERED else name


def _escaped_value(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return printable(value) if name == "logger" else value
    if name != "event" and "=" in value and _SPACE.search(value):
        return repr(value)  # quoted: "x part=gateway" would look like two fields
    return printable(value)


def _json(value: Any, **options: Any) -> str:
    return printable_json(json.dumps(value, **options))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]
