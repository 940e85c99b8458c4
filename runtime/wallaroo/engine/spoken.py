"""What user code prints and logs in a worker, as events that say where it was said.

Each line goes to the process's stderr as one JSON object, with application, pipeline, step and
worker; the driver of local Spark, or the cluster, collects that. Which step speaks is read off the
stack when it speaks, so that steps which are silent cost nothing.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import time
from types import FrameType
from typing import Any

_ENGINE = __name__.rpartition(".")[0]
_LINES_A_SECOND = 20
"""Lines from one place in the code that are passed on in a second; the others are counted."""
_MOST_PLACES = 1_000
_OWNERS = ("owner", "leg", "way", "stretch")
"""Names of the engine's variables that belong to a pipeline."""


def listen(application: str) -> None:
    """Turn what this process prints and logs into events of *application*."""
    if isinstance(sys.stdout, _Lines):
        return
    spoken = _Spoken(application, sys.__stderr__ or sys.stderr)
    sys.stdout = _Lines(spoken, "info")
    root = logging.getLogger()
    root.addHandler(_Handler(spoken))
    root.setLevel(min(root.level or logging.INFO, logging.INFO))


class _Spoken:
    """Writes events, not too many from one place."""

    def __init__(self, application: str, stream: Any) -> None:
        self._application = application
        self._stream = stream
        self._worker = os.environ.get("SPARK_EXECUTOR_ID", f"pid {os.getpid()}")
        self._places: dict[str, tuple[int, int]] = {}
        """By place: the second, and the lines in it."""

    def tell(self, text: str, level: str, place: str, more: dict[str, Any]) -> None:
        """Pass *text* on, which was said at *place*."""
        second = int(time.monotonic())
        if len(self._places) > _MOST_PLACES:
            self._places.clear()
        then, lines = self._places.get(place, (second, 0))
        if then != second:
            if lines > _LINES_A_SECOND:
                more = {**more, "left_out": lines - _LINES_A_SECOND}
            lines = 0
        self._places[place] = (second, lines + 1)
        if lines >= _LINES_A_SECOND:
            return
        from wallaroo.logs import line_of  # takes longer to load than the engine

        where = {"application": self._application, **_speaker(), "worker": self._worker}
        with contextlib.suppress(OSError, ValueError):  # nobody reads it: no message's fault
            self._stream.write(
                line_of(text, level, "application", {**where, "place": place, **more}) + "\n"
            )
            self._stream.flush()


class _Lines(io.TextIOBase):
    """Takes the place of stdout."""

    def __init__(self, spoken: _Spoken, level: str) -> None:
        self._spoken, self._level, self._rest = spoken, level, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line:
                frame = sys._getframe(1)  # noqa: SLF001
                self._spoken.tell(line, self._level, _place(frame), {"said": "print"})
        return len(text)


class _Handler(logging.Handler):
    """Takes what user code logs."""

    def __init__(self, spoken: _Spoken) -> None:
        super().__init__()
        self._spoken = spoken

    def emit(self, record: logging.LogRecord) -> None:
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
        self._spoken.tell(text, level, place, more)


def _place(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"  # noqa: PTH119


def _speaker() -> dict[str, str]:
    """The pipeline and the step that are under way, from the engine's frames on the stack."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(_ENGINE) and name != __name__:
            there = frame.f_locals
            owner = next((there[one] for one in _OWNERS if one in there), None)
            if owner is not None:
                step = there.get("step") or getattr(owner, "step", None)
                return {
                    "pipeline": owner.pipeline,
                    "step": "decoder" if step is None else step.name,
                }
        frame = frame.f_back
    return {}
