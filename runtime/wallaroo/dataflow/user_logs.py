"""What user code prints and logs, as events that say where it was said; and what the engine says.

In a worker each line goes past stdout and stderr, as one JSON object, with application, pipeline,
step and worker; the driver of local Spark, or the cluster, collects that. Which step speaks is read
off the stack when it speaks, so that steps which are silent cost nothing.
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

from wallaroo.model.callers import running_step
from wallaroo.observability import log_channel
from wallaroo.observability.log_channel import Write

_LINES_A_SECOND = 20
"""Lines from one place in the code that are passed on in a second; the others are counted."""
_OUTPUT_LINES_A_SECOND = 200
"""The same for lines whose place nobody knows, of all processes together."""
_LONGEST = 8192
"""Characters of an event; a longer line becomes several events."""
_MOST_PLACES = 1_000
_MESSENGERS = {"logging", "structlog", "warnings", "traceback", "codecs", "contextlib"}
"""Packages whose code says what other code told them to say."""
_LIBRARIES = tuple(
    os.path.join(sysconfig.get_path(name), "")  # noqa: PTH118
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def worker_name() -> str:
    """What events call this process where it is a worker."""
    return os.environ.get("SPARK_EXECUTOR_ID", f"pid {os.getpid()}")


def tell(level: str, event: str, **more: object) -> None:
    """Log an event of the runtime's own in this worker, past what user code prints and logs.

    Args:
        level: How severe it is.
        event: What happened.
        more: What else there is to say of it.
    """
    from wallaroo.observability.logs import line_of  # takes longer to load than the engine

    where: dict[str, object] = {"worker": worker_name()}
    stream = sys.stdout
    if isinstance(stream, UserStream) and stream.spoken.application is not None:
        where["application"] = stream.spoken.application
    log_channel.write(line_of(event, level, "worker", {**where, **more}))


def listen(application: str | None, **where: str) -> None:
    """Turn what this worker prints and logs into events.

    Args:
        application: Name of the application; None while it is not known.
        where: What else events say of where they come from.
    """
    stream = sys.stdout
    if isinstance(stream, UserStream):
        stream.spoken.application = application
        return
    _take(UserLogs(application, log_channel.write, where), ())


@contextlib.contextmanager
def heard(write: Write, **where: str) -> Iterator[UserLogs]:
    """Inside the block, what this process prints and logs becomes events, but for libraries' logs.

    Args:
        write: Takes each event, a line of JSON.
        where: What events say of where they come from.
    """
    before, root = (sys.stdout, sys.stderr), logging.getLogger()
    level, handlers = root.level, tuple(root.handlers)
    spoken = UserLogs(None, write, where)
    own = _take(spoken, handlers)
    for handler in handlers:
        handler.addFilter(is_of_library)
    try:
        yield spoken
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError):  # user code has closed it
                stream.flush()
        sys.stdout, sys.stderr = before
        root.removeHandler(own)
        root.setLevel(level)
        for handler in handlers:
            handler.removeFilter(is_of_library)


def is_of_library(record: logging.LogRecord) -> bool:
    """Whether *record* was logged by a library, and not by user code."""
    return record.pathname.startswith(_LIBRARIES)


class UserLogs:
    """Writes events, not too many from one place.

    Args:
        application: Name of the application; None while it is not known.
        write: Takes each event, a line of JSON.
        where: What all events say of where they come from.
    """

    def __init__(self, application: str | None, write: Write, where: Mapping[str, str]) -> None:
        self.application = application
        self._write = write
        self._where = where
        self._places: dict[str, tuple[int, int]] = {}
        """By place: the second, and the lines in it."""

    def tell(
        self, text: str, level: str, place: str, more: dict[str, Any], most: int = _LINES_A_SECOND
    ) -> None:
        """Pass *text* on, which was said at *place*, if there were not *most* in this second."""
        second = int(time.monotonic())
        if len(self._places) > _MOST_PLACES:
            self._places.clear()
        then, lines = self._places.get(place, (second, 0))
        if then != second:
            if lines > most:
                more = {**more, "left_out": lines - most}
            lines = 0
        self._places[place] = (second, lines + 1)
        if lines >= most:
            return
        from wallaroo.observability.logs import line_of  # takes longer to load than the engine

        where: dict[str, Any] = {**_speaker(), **self._where, **more}
        if place:
            where["place"] = place
        if self.application is not None:
            where["application"] = self.application
        for start in range(0, len(text), _LONGEST):
            self._write(line_of(text[start : start + _LONGEST], level, "application", where))

    def output(self, line: str) -> None:
        """Pass *line* on, which a process wrote to a file descriptor: nobody knows where."""
        self.tell(line, "info", "", {"said": "output"}, _OUTPUT_LINES_A_SECOND)


class UserStream(io.TextIOWrapper):
    """Takes the place of stdout or stderr.

    Args:
        spoken: Takes the lines.
        said: How events call what was written here.
        descriptor: The file descriptor that it stands for, which programs inherit.
    """

    def __init__(self, spoken: UserLogs, said: str, descriptor: int) -> None:
        lines = _Bytes(spoken, said, descriptor)
        super().__init__(lines, "utf-8", "backslashreplace", write_through=True)
        self.spoken = spoken
        self._lines = lines
        self._begun = _Begun()

    def write(self, text: str, /) -> int:
        """Take *text*; a line at a time goes on, for `print` writes each of its arguments."""
        begun = self._begun
        if "\n" in text or len(begun.text) > _LONGEST:
            self._lines.write((begun.text + text).encode("utf-8", "backslashreplace"))
            begun.text = ""
        else:
            begun.text += text
        return len(text)

    def flush(self) -> None:
        """Take what has been written as a line."""
        if text := self._begun.text:
            self._begun.text = ""
            self._lines.write(text.encode("utf-8", "backslashreplace"))
        self._lines.flush()


class _Begun(threading.local):
    """The line that a thread has begun."""

    text = ""
    data = b""


class _Bytes(io.BufferedIOBase):
    """Cuts bytes into lines, for each thread its own."""

    def __init__(self, spoken: UserLogs, said: str, descriptor: int) -> None:
        self._spoken, self._said, self._descriptor = spoken, said, descriptor
        self._begun = _Begun()

    @property
    def name(self) -> str:
        return {1: "<stdout>", 2: "<stderr>"}[self._descriptor]

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        piece = bytes(data)
        *lines, rest = (self._begun.data + piece).split(b"\n")
        if len(rest) > _LONGEST:
            lines, rest = [*lines, rest], b""
        self._begun.data = rest
        for line in lines:
            self._tell(line)
        return len(piece)

    def flush(self) -> None:
        rest, self._begun.data = self._begun.data, b""
        self._tell(rest)

    def close(self) -> None:
        self.flush()  # and stays open, for what speaks next

    def _tell(self, line: bytes) -> None:
        if line:
            text = line.decode("utf-8", "backslashreplace")
            self._spoken.tell(text, "info", _place(), {"said": self._said})


class _Handler(logging.Handler):
    """Takes what user code logs.

    Args:
        spoken: Takes the records.
        others: Handlers that take what libraries log; where there are none, this one does.
    """

    def __init__(self, spoken: UserLogs, others: tuple[logging.Handler, ...] = ()) -> None:
        super().__init__()
        self._spoken, self._others = spoken, others

    def emit(self, record: logging.LogRecord) -> None:
        if self._others and is_of_library(record):
            return
        level = record.levelname.lower()
        level = level if level in {"debug", "info", "warning"} else "error"
        place = f"{os.path.basename(record.pathname)}:{record.lineno}"  # noqa: PTH119
        try:
            text = record.getMessage()
        except Exception as error:  # Python tells that, and goes on
            text, level = f"{record.msg!r:.200} cannot be logged: {error}", "error"
        more: dict[str, Any] = {"said": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            more["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self._spoken.tell(text or " ", level, place, more)


def _take(spoken: UserLogs, others: tuple[logging.Handler, ...]) -> logging.Handler:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    sys.stdout = UserStream(spoken, "print", 1)
    sys.stderr = UserStream(spoken, "stderr", 2)
    root, own = logging.getLogger(), _Handler(spoken, others)
    root.addHandler(own)
    root.setLevel(min(root.level or logging.INFO, logging.INFO))
    return own


def _place() -> str:
    """The line of code that speaks."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and name.partition(".")[0] not in _MESSENGERS:
            file = os.path.basename(frame.f_code.co_filename)  # noqa: PTH119
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _speaker() -> dict[str, str]:
    """The pipeline and the step that are under way."""
    speaker = running_step(sys._getframe(1))  # noqa: SLF001
    return {} if speaker is None else speaker._asdict()
