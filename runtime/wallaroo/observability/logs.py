"""Structured logs: readable on a terminal, one JSON object a line elsewhere; always on stderr.

Every event has `event`, `level`, `timestamp` and `part`: who tells it (driver, gateway, worker,
spark, application, or a library's name). What user code prints or logs comes as part
`application`, with application, pipeline, step and worker.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict

from wallaroo.errors import UsageError
from wallaroo.observability.log_channel import Write
from wallaroo.system.printable import printable, printable_json

LEVELS = ("debug", "info", "warning", "error")
"""From the least to the most severe."""
PARTS = ("driver", "gateway", "worker", "spark", "application")
"""Parts that may have a level of their own."""
_PART_OF_LOGGER = {"wallaroo": "driver", "wallaroo.gateway": "gateway"}
_write: Write | None = None
"""Takes each line; None for what stderr is at the moment."""
_own: dict[str, Any] = {}
"""How structlog is set up here."""


def parse_levels(text: str) -> dict[str, str]:
    """The least severe level that is shown: by part, and under the empty name for all others.

    Raises:
        UsageError: It is something else.

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
                f"{piece.strip()!r} is no log level: one of {', '.join(LEVELS)} is due, for all or "
                f"for one part ({', '.join(PARTS)}), as in info,spark=debug"
            )
            raise UsageError(msg)
        levels[part] = level
    return levels


def configure(
    levels: str = "info", write: Write | None = None, *, terminal: bool | None = None
) -> None:
    """Set up logging for this process.

    Args:
        levels: Least severe levels that are shown, as `parse_levels` takes them.
        write: Takes each line; None for what stderr is at the moment.
        terminal: Whether lines are for a terminal; None where stderr says so.

    Raises:
        UsageError: They cannot be read.
    """
    global _write  # noqa: PLW0603
    _write = write
    if terminal is None:
        terminal = sys.stderr.isatty()
    least = {part: _number(level) for part, level in parse_levels(levels).items()}

    def shown(_logger: Any, method: str, event: EventDict) -> EventDict:
        if _number(method) < least.get(event["part"], least[""]):
            raise structlog.DropEvent
        return event

    renderer: Any = (
        structlog.dev.ConsoleRenderer(pad_event_to=24)
        if terminal
        else structlog.processors.JSONRenderer(_json, default=str, ensure_ascii=False)
    )
    _own.update(
        processors=[
            _add_part,
            shown,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(
                fmt="%H:%M:%S" if terminal else "iso", utc=not terminal
            ),
            *([_without_driver, _escaped] if terminal else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(min(least.values())),
    )
    configure_again()
    logging.basicConfig(handlers=[_Libraries(logging.WARNING)], level=logging.WARNING, force=True)


def configure_again() -> None:
    """Set up structlog as `configure` did: user code may have set it up for itself."""
    structlog.configure(**_own, logger_factory=_Logger, cache_logger_on_first_use=False)


def relay(line: str) -> bool:
    """Tell an event that another process wrote as a line of JSON; tells whether it is one."""
    if not line.startswith('{"'):
        return False
    try:
        event = json.loads(line)
        level, name, part = event.pop("level"), event.pop("event"), event.pop("part")
    except (ValueError, KeyError, AttributeError):
        return False
    event.pop("timestamp", None)
    _logger(part).log(_number(level), name, **event)
    return True


def _logger(part: str) -> Any:
    """A logger of *part*, whatever user code has set up."""
    return structlog.wrap_logger(_Logger(part, library=True), **_own)


def line_of(event: str, level: str, part: str, more: Mapping[str, Any]) -> str:
    """An event as a line of JSON, for processes that have no logging set up."""
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
    told = {"part": part, "event": event, "level": level, "timestamp": at, **more}
    return _json(told, default=str, ensure_ascii=False)


class Repeats:
    """Lets the first few events of a kind through, then fewer and fewer.

    Example:
        >>> repeats = Repeats()
        >>> [n for n in range(1, 2001) if repeats.show("x")]
        [1, 2, 3, 10, 100, 1000]
    """

    FIRST = 3
    MOST_KINDS = 10_000
    """Kinds that are told apart, before counting begins anew: bounds the memory."""

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}

    def show(self, kind: Any) -> bool:
        """Count an event of *kind*; tells whether to show it."""
        if len(self._seen) >= self.MOST_KINDS:
            self._seen.clear()
        seen = self._seen[kind] = self._seen.get(kind, 0) + 1
        return seen <= self.FIRST or str(seen).strip("0") == "1"


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Inside the block, log to what is stderr now, whatever takes its place and its descriptor."""
    global _write  # noqa: PLW0603
    before, stream = _write, sys.stderr
    with contextlib.ExitStack() as stack:
        if before is None:
            with contextlib.suppress(AttributeError, OSError, ValueError):
                if stream.fileno() == sys.__stderr__.fileno():  # type: ignore[union-attr]
                    own = os.fdopen(os.dup(stream.fileno()), "w", errors="backslashreplace")
                    stack.callback(_closed, own)
                    stream = own
            _write = functools.partial(_write_to, stream)
        try:
            yield
        finally:
            _write = before
            if _own:
                configure_again()


def _write_to(stream: TextIO, line: str) -> None:
    # where nobody reads it, or its disk is full, it is lost: nothing else is to fail for that
    with contextlib.suppress(OSError, ValueError):
        # in one piece: other processes may write to the same place
        stream.write(line + "\n")
        stream.flush()


def _closed(stream: TextIO) -> None:
    with contextlib.suppress(OSError):  # it has something that its disk does not take
        stream.close()


class _Logger:
    """What structlog writes lines to; knows its name.

    Args:
        name: Whose events they are; the application's, where it calls structlog itself.
        library: Whether that is the name of a library.
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
    """What libraries log, as events like all others."""

    def emit(self, record: logging.LogRecord) -> None:
        level = min(max(record.levelno, logging.DEBUG), logging.ERROR)
        part = record.name.partition(".")[0]
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
    """*event* without what a terminal would obey."""
    return {
        printable(name): printable(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _json(value: Any, **options: Any) -> str:
    return printable_json(json.dumps(value, **options))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]
