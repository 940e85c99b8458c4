"""The line at which user code failed, and a traceback without the runtime's frames.

A flood of bad messages fails at the same lines again and again, so results are cached by line.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from wallaroo.api.places import RUNTIME, Place, is_application, is_library, is_unnamed
from wallaroo.user_code.exceptions import describe_error

MAX_CHARACTERS = 4_000
"""Length of a traceback; of a longer one, the middle is left out."""
_MAX_FRAMES = 24
"""Frames of one exception; of more, as of an endless recursion, the middle is left out."""
_MAX_CHAIN = 4
"""Exceptions of a chain of causes; the first ones of a longer chain are left out."""


class _Frame(NamedTuple):
    file: str
    line: int
    function: str


def place_of_failure(error: BaseException) -> Place | None:
    """Return the innermost line of the application in *error*'s traceback.

    If it has none, it is the innermost line typed into an interpreter or a notebook, or else
    that of an installed package; None if there is none either.

    Example:
        >>> import json
        >>> def decode(payload): return json.loads(payload)
        >>> try: decode("{")
        ... except ValueError as error: found = place_of_failure(error)
        >>> found.line
        1
    """
    return _innermost(_frames(error.__traceback__))


def traceback_of(error: BaseException) -> str:
    """Return the traceback of *error* and of what caused it, as Python prints it.

    The frames with which the runtime called the function are left out. It is empty if there are no
    others.
    """
    parts: list[str] = []
    for link, sentence in _chain(error):
        frames = _frames(link.__traceback__)
        rendered = _rendered(frames) if frames else ""
        notes = "".join(f"{note}\n" for note in getattr(link, "__notes__", ()))
        parts.append(f"{sentence}{rendered}{describe_error(link)}\n{notes}")
    text = "".join(parts)
    if "\n  File " not in text:
        return ""
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return f"{text[:half]}\n  […]\n{text[-half:]}"


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield *error* after what caused it, each with the sentence that leads to it."""
    chain: list[tuple[BaseException, str]] = []
    link: BaseException | None = error
    while link is not None and len(chain) < _MAX_CHAIN:
        before = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        sentence = ""
        if before is not None and len(chain) + 1 < _MAX_CHAIN:
            direct = link.__cause__ is not None
            sentence = (
                "\nThe above exception was the direct cause of the following exception:\n\n"
                if direct
                else "\nDuring handling of the above exception, another exception occurred:\n\n"
            )
        chain.append((link, sentence))
        link = before
    return reversed(chain)


def _frames(found: TracebackType | None) -> tuple[_Frame, ...]:
    """The frames from *found* on, without the first ones of the runtime and the middle of many."""
    frames: list[_Frame] = []
    while found is not None:
        code = found.tb_frame.f_code
        if frames or not code.co_filename.startswith(RUNTIME):
            frames.append(_Frame(code.co_filename, found.tb_lineno, code.co_name))
        if len(frames) > 2 * _MAX_FRAMES:
            del frames[_MAX_FRAMES // 2 : -_MAX_FRAMES // 2]
        found = found.tb_next
    return tuple(frames)


@functools.lru_cache(maxsize=256)
def _innermost(frames: tuple[_Frame, ...]) -> Place | None:
    for accepted in (is_application, is_unnamed, is_library):
        for frame in reversed(frames):
            if accepted(frame.file):
                return Place(frame.file, frame.line)
    return None


@functools.lru_cache(maxsize=256)
def _rendered(frames: tuple[_Frame, ...]) -> str:
    lines = ["Traceback (most recent call last):\n"]
    for number, (file, line, function) in enumerate(frames):
        if len(frames) > _MAX_FRAMES and number == _MAX_FRAMES // 2:
            lines.append("  […]\n")
        lines.append(f'  File "{file}", line {line}, in {function}\n')
        if text := linecache.getline(file, line).strip():
            lines.append(f"    {text}\n")
    return "".join(lines)
