"""Locations in user code, so that every message about an application can name file and line."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUNTIME = str(Path(__file__).parents[1]) + os.sep
"""Folder of the runtime's code."""
_API_FOLDER = str(Path(__file__).parent)
_NOT_CALLERS = (
    _API_FOLDER,
    os.path.join(RUNTIME, "codecs"),  # noqa: PTH118
    os.path.join(RUNTIME, "connectors"),  # noqa: PTH118
    "<frozen importlib",
)
_PYTHON = (RUNTIME, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<")
"""Where the runtime and Python itself are; code that is made at run time has a name in <>."""
_INSTALLED = (
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    os.path.dirname(RUNTIME.rstrip(os.sep)),  # noqa: PTH120  (where an image has an application's)
)
"""Folders of installed packages, which are below those of Python itself if there is no venv."""


@dataclass(frozen=True)
class Place:
    """A line of user code.

    Example:
        >>> str(Place("/srv/app/application.py", 12))
        'application.py:12'
    """

    file: str
    """Absolute path of the source file."""
    line: int
    """Line number, from 1; 0 if unknown."""

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def place_of(thing: Any, used_at: Place | None = None) -> Place:
    """Return where *thing* (a function, a class, an instance of a class) is defined.

    What a function of `wallaroo.codecs` has made is defined where that was called.

    Args:
        thing: What is looked for.
        used_at: Where the application uses it, which is returned if something else defines it, as
            Python does `json.loads` and `int`.
    """
    found = _definition(thing)
    if used_at is None or (found.line and (is_application(found.file) or is_unnamed(found.file))):
        return found
    return used_at


def _definition(thing: Any) -> Place:
    if isinstance(made := getattr(thing, "__dict__", {}).get("place"), Place) and callable(thing):
        return made
    thing = inspect.unwrap(thing) if callable(thing) else thing
    code = getattr(getattr(thing, "__func__", thing), "__code__", None)
    if code is not None:
        return Place(code.co_filename, code.co_firstlineno)
    cls = thing if inspect.isclass(thing) else type(thing)
    try:
        return Place(inspect.getfile(cls), inspect.getsourcelines(cls)[1])
    except (OSError, TypeError):
        return Place(f"<{cls.__module__}.{cls.__qualname__}>", 0)


def calling_place() -> Place:
    """Return the line of user code that called the API: the innermost frame outside of it.

    The module that asks is part of the API, wherever it is. Frames of the import machinery are
    skipped.
    """
    frame = sys._getframe(1)  # noqa: SLF001
    inside = (frame.f_code.co_filename, *_NOT_CALLERS)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def is_application(file: str) -> bool:
    """Whether *file*, the source of a frame, is neither the runtime's, Python's nor a package's."""
    return not file.startswith((*_PYTHON, *_INSTALLED))


def is_unnamed(file: str) -> bool:
    """Whether *file*, the source of a frame, is no file, as what was typed into an interpreter."""
    return file.startswith("<") and not file.startswith("<frozen")


def is_library(file: str) -> bool:
    """Whether *file*, the source of a frame, is that of an installed package."""
    return file.startswith(_INSTALLED) and not file.startswith(RUNTIME)
