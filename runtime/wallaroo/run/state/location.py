"""The default place of an application's state."""

from __future__ import annotations

import os
import re
from pathlib import Path

from wallaroo.loading.loader import ApplicationRef
from wallaroo.run.state.directory import StateDirectory
from wallaroo.system.object_store import is_stored

_FOLDER = ".wallaroo"
"""Folder beside an application that has its state directories."""


def default_state_dir(application: ApplicationRef, name: str) -> Path:
    """The state directory of *application*, which does not depend on where a command is called.

    It is `.wallaroo/NAME` in the directory of the application. If nothing can be written there, and
    for a module, it is `wallaroo/NAME` in the directory that the XDG specification has for state.

    Args:
        application: The application.
        name: The name that it gives itself.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as directory:
        ...     found = default_state_dir(ApplicationRef(directory), "Word Count")
        ...     str(found.relative_to(Path(directory).resolve()))
        '.wallaroo/word-count'
        >>> _file_name("..")  # and not the directory of the application
        'application'
    """
    directory, own = application.directory, _file_name(name)
    if directory is not None:
        folder = directory / _FOLDER
        if os.access(folder if folder.exists() else directory, os.W_OK):
            return folder / own
    home = os.environ.get("XDG_STATE_HOME", "")
    states = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"  # noqa: PTH117
    return states / "wallaroo" / own


def directory_of_log(state: Path, application: ApplicationRef, name: str) -> Path:
    """The directory with the log of *state*: on this machine, also for state on an object store."""
    return default_state_dir(application, name) if is_stored(state) else state


def state_here(used: Path, name: str) -> Path | None:
    """State of an application *name* below the current directory, if that is not the one *used*."""
    here = Path(_FOLDER, _file_name(name)).resolve()
    return here if here != used.resolve() and StateDirectory.has_state(here) else None


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.").lower() or "application"
