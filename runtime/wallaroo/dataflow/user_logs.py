"""Turns the output of user code (prints and logs) into log events with their origin.

In a worker, each line becomes a JSON object with application, pipeline, step and worker, which
bypasses stdout and stderr; the local driver, or the cluster, collects these. The running step is
read from the stack when something is written, so steps without output cost nothing.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from wallaroo.api.places import RUNTIME
from wallaroo.observability import log_channel
from wallaroo.observability.log_channel import Write
from wallaroo.observability.replayed_logs import Work
from wallaroo.user_code.callers import is_repeated, running_step

_LINES_PER_SECOND = 20
"""Maximum number of lines per second from one location in the code; others are counted."""
_OUTPUT_LINES_PER_SECOND = 200
"""The same for lines of unknown location, from all processes together."""
_MAX_LENGTH = 8192
"""Maximum length of an event, in characters; longer lines become several events."""
_MAX_PLACES = 1_000
_MESSENGERS = {"logging", "structlog", "warnings", "traceback", "codecs", "contextlib"}
"""Packages that write on behalf of other code."""
_LIBRARIES = tuple(
    os.path.join(sysconfig.get_path(name), "")  # noqa: PTH118
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


WORK = Work()
"""What this worker does now: lines of work that is done again are told once."""


def worker_name() -> str:
    """Return the name of this worker in events."""
    return os.environ.get("SPARK_EXECUTOR_ID", f"pid {os.getpid()}")


def log_event(level: str, event: str, **more: object) -> None:
    """Log an event of the runtime in this worker, separate from the output of user code.

    Args:
        level: Severity.
        event: Name of the event.
        more: Additional fields.
    """
    from wallaroo.observability.logs import line_of  # imported late, because it loads slowly

    where: dict[str, object] = {"worker": worker_name()}
    stream = sys.stdout
    if isinstance(stream, UserStream) and stream.logs.application is not None:
        where["application"] = stream.logs.application
    log_channel.write(line_of(event, level, "worker", {**where, **more}))


def capture_worker_logs(application: str | None, **where: str) -> None:
    """Turn the output of user code in this worker into events.

    Args:
        application: Name of the application; None while it is unknown.
        where: Additional fields on the origin of events.
    """
    stream = sys.stdout
    if isinstance(stream, UserStream):
        stream.logs.application = application
        return
    _take(UserLogs(application, log_channel.write, where), ())


@contextlib.contextmanager
def captured_logs(write: Write, **where: str) -> Iterator[UserLogs]:
    """Within the block, turn the output of this process, except libraries' logs, into events.

    Args:
        write: Called with each event, a line of JSON.
        where: Additional fields on the origin of events.
    """
    streams, root = (sys.stdout, sys.stderr), logging.getLogger()
    level, handlers = root.level, tuple(root.handlers)
    logs = UserLogs(None, write, where)
    user_handler = _take(logs, handlers)
    for handler in handlers:
        handler.addFilter(is_of_library)
    try:
        yield logs
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError):  # user code has closed it
                stream.flush()
        sys.stdout, sys.stderr = streams
        root.removeHandler(user_handler)
        root.setLevel(level)
        for handler in handlers:
            handler.removeFilter(is_of_library)


def is_of_library(record: logging.LogRecord) -> bool:
    """Whether *record* was logged by a library rather than by user code."""
    return record.pathname.startswith(_LIBRARIES)


class UserLogs:
    """Writes events, with a rate limit per location in the code.

    Args:
        application: Name of the application; None while it is unknown.
        write: Called with each event, a line of JSON.
        where: Additional fields on the origin of all events.
    """

    def __init__(self, application: str | None, write: Write, where: Mapping[str, str]) -> None:
        self.application = application
        self._write = write
        self._where = where
        self._places: dict[str, tuple[int, int]] = {}
        """The current second, and the number of lines in it, by location."""

    def emit(
        self,
        text: str,
        level: str,
        place: str,
        more: dict[str, Any],
        limit: int = _LINES_PER_SECOND,
    ) -> None:
        """Write *text* from *place*, unless that exceeds *limit* lines per second."""
        if is_repeated(sys._getframe(1), (place, text)):  # noqa: SLF001
            return
        mark = WORK.mark((place, text)) if log_channel.is_read() else None
        second = int(time.monotonic())
        if len(self._places) > _MAX_PLACES:
            self._places.clear()
        then, lines = self._places.get(place, (second, 0))
        if then != second:
            if lines > limit:
                more = {**more, "left_out": lines - limit}
            lines = 0
        self._places[place] = (second, lines + 1)
        if lines >= limit:
            return
        # imported late, because it loads slowly
        from wallaroo.observability.logs import WORK as MARK
        from wallaroo.observability.logs import line_of

        where: dict[str, Any] = {**_running_step(), **self._where, **more}
        if mark is not None:
            where[MARK] = mark
        if place:
            where["place"] = place
        if self.application is not None:
            where["application"] = self.application
        for start in range(0, len(text), _MAX_LENGTH):
            self._write(line_of(text[start : start + _MAX_LENGTH], level, "application", where))

    def output(self, line: str) -> None:
        """Write *line*, which a process wrote to a file descriptor, without a location."""
        self.emit(line, "info", "", {"said": "output"}, _OUTPUT_LINES_PER_SECOND)


class UserStream(io.TextIOWrapper):
    """Replaces stdout or stderr.

    Args:
        logs: Writes the lines.
        said: Value of the field `said` of events.
        descriptor: The file descriptor that it replaces, which child processes inherit.
    """

    def __init__(self, logs: UserLogs, said: str, descriptor: int) -> None:
        lines = _Bytes(logs, said, descriptor)
        super().__init__(lines, "utf-8", "backslashreplace", write_through=True)
        self.logs = logs
        self._lines = lines
        self._partial = _PartialLine()

    def write(self, text: str, /) -> int:
        """Write *text*; only whole lines are passed on, because `print` writes each argument."""
        partial = self._partial
        if "\n" in text or len(partial.text) > _MAX_LENGTH:
            self._lines.write((partial.text + text).encode("utf-8", "backslashreplace"))
            partial.text = ""
        else:
            partial.text += text
        return len(text)

    def flush(self) -> None:
        """Write the partial line as a line."""
        if text := self._partial.text:
            self._partial.text = ""
            self._lines.write(text.encode("utf-8", "backslashreplace"))
        self._lines.flush()


class _PartialLine(threading.local):
    """The partial line of a thread."""

    text = ""
    data = b""


class _Bytes(io.BufferedIOBase):
    """Splits bytes into lines, separately for each thread."""

    def __init__(self, logs: UserLogs, said: str, descriptor: int) -> None:
        self._logs, self._said, self._descriptor = logs, said, descriptor
        self._partial = _PartialLine()

    @property
    def name(self) -> str:
        return {1: "<stdout>", 2: "<stderr>"}[self._descriptor]

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        piece = bytes(data)
        *lines, rest = (self._partial.data + piece).split(b"\n")
        if len(rest) > _MAX_LENGTH:
            lines, rest = [*lines, rest], b""
        self._partial.data = rest
        for line in lines:
            self._emit(line)
        return len(piece)

    def flush(self) -> None:
        rest, self._partial.data = self._partial.data, b""
        self._emit(rest)

    def close(self) -> None:
        self.flush()  # stays open for later output

    def _emit(self, line: bytes) -> None:
        if line:
            text = line.decode("utf-8", "backslashreplace")
            self._logs.emit(text, "info", _place(), {"said": self._said})


class _Handler(logging.Handler):
    """Handles the log records of user code.

    Args:
        logs: Writes the records.
        others: Handlers for records of libraries; if there are none, this one handles them, too.
    """

    def __init__(self, logs: UserLogs, others: tuple[logging.Handler, ...] = ()) -> None:
        super().__init__()
        self._logs, self._others = logs, others

    def emit(self, record: logging.LogRecord) -> None:
        if self._others and is_of_library(record):
            return
        level = record.levelname.lower()
        level = level if level in {"debug", "info", "warning"} else "error"
        place = f"{os.path.basename(record.pathname)}:{record.lineno}"  # noqa: PTH119
        try:
            text = record.getMessage()
        except Exception as error:  # Python reports this and continues, too
            text, level = f"{record.msg!r:.200} cannot be logged: {error}", "error"
        more: dict[str, Any] = {"said": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            more["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self._logs.emit(text or " ", level, place, more)


def _take(logs: UserLogs, others: tuple[logging.Handler, ...]) -> logging.Handler:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    sys.stdout = UserStream(logs, "print", 1)
    sys.stderr = UserStream(logs, "stderr", 2)
    root, handler = logging.getLogger(), _Handler(logs, others)
    root.addHandler(handler)
    root.setLevel(min(root.level or logging.INFO, logging.INFO))
    return handler


def _place() -> str:
    """Return the line of code that is writing; none for a step of `inspect`."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and name.partition(".")[0] not in _MESSENGERS:
            file = frame.f_code.co_filename
            is_own = file.startswith(RUNTIME)
            return "" if is_own else f"{os.path.basename(file)}:{frame.f_lineno}"  # noqa: PTH119
        frame = frame.f_back
    return ""


def _running_step() -> dict[str, str]:
    """Return the pipeline and the step that are running."""
    running = running_step(sys._getframe(1))  # noqa: SLF001
    return {} if running is None else running._asdict()
