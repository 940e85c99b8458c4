"""Lets a run go on with its application's code whenever that changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from wallaroo.run.reload.changes import Changes
from wallaroo.run.reload.switch import ADVICE, CodeSwitch
from wallaroo.run.reload.trial import Trial, tried

log = structlog.get_logger("wallaroo")


class Reloader:
    """Looks for changes, and lets a run go on with them.

    Args:
        trial: How the application is checked.
        files: Contents by path of the source files that the run has imported.
        switch: Lets the run go on with other code.
        stops: Waits for so many seconds; returns whether the run is to stop.
    """

    def __init__(
        self,
        trial: Trial,
        files: Mapping[str, bytes],
        switch: CodeSwitch,
        stops: Callable[[float], bool],
    ) -> None:
        directory = trial.application.directory
        assert directory is not None
        self._trial, self._switch, self._stops = trial, switch, stops
        self._changes = Changes(directory, files)

    def look(self) -> None:
        """Go on with changed code, if there is any that works.

        Raises:
            RuntimeFailure: The run cannot go on.
        """
        if not self._changes.found():
            return
        began, others = time.monotonic(), self._changes.others()
        outcome = tried(self._trial, self._stops)
        if outcome is None:
            return
        self._changes.note(outcome.files, None if outcome.problem is None else others)
        problem = outcome.problem or self._switch.to(self._trial.application, outcome.files)
        if problem is None:
            log.info("reloaded", seconds=round(time.monotonic() - began, 2))
        else:
            log.error("not reloaded", reason=problem, advice=ADVICE)
