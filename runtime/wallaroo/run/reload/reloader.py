"""Lets a run go on with the changed code of its application."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from wallaroo.errors import ApplicationError, UsageError, WallarooError
from wallaroo.loading.frozen_code import FrozenCode
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.run.reload.changes import Changes
from wallaroo.run.reload.trial import Outcome, Trial, tried

_ADVICE = "the previous code stays in use; correct the new code and save it again"

log = structlog.get_logger("wallaroo")


class Refused(WallarooError):
    """Changed code is refused; the run continues with the previous code."""


def check_reloadable(application: ApplicationRef, master: str) -> None:
    """Refuse what `--reload` is not made for.

    Raises:
        UsageError: It is.
    """
    if application.directory is None:
        msg = f"--reload: {application.app} is a module; name its directory or its .py file instead"
        raise UsageError(msg)
    if master.split("[", maxsplit=1)[0] != "local":
        msg = f"--reload is for local Spark, and --master is {master}: restart the application"
        raise UsageError(msg)


class Reloader:
    """Looks for changes, and lets a run go on with them.

    Args:
        trial: How the application is checked.
        scratch: Directory for files that processes of the run read.
        files: Contents by path of the source files that the run has imported.
        load: Imports the application of a reference in this process.
        go_on: Lets the run go on with another application, or raises `Refused`.
        stops: Waits for so many seconds; returns whether the run is to stop.
    """

    def __init__(
        self,
        trial: Trial,
        scratch: Path,
        files: dict[str, bytes],
        load: Callable[[ApplicationRef], Application],
        go_on: Callable[[ApplicationRef, Application], None],
        stops: Callable[[float], bool],
    ) -> None:
        directory = trial.application.directory
        assert directory is not None
        self._trial, self._scratch, self._directory = trial, scratch, directory
        self._load, self._go_on, self._stops = load, go_on, stops
        self._changes = Changes(directory, files)
        self._number = 0
        self.application = self._frozen(files)
        """What processes of the run import."""

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
        problem = outcome.problem or self._problem_with(outcome)
        if problem is None:
            log.info("reloaded", seconds=round(time.monotonic() - began, 2))
        else:
            log.error("not reloaded", reason=problem, advice=_ADVICE)

    def _problem_with(self, outcome: Outcome) -> str | None:
        """Go on with the code of *outcome*; returns why the run cannot, or None."""
        reference = self._frozen(outcome.files)
        try:
            self._go_on(reference, self._loaded(reference))
        except Refused as refused:
            with contextlib.suppress(ApplicationError, UsageError):
                self._load(self.application)  # for look-ups of state
            return str(refused)
        self.application = reference
        return None

    def _loaded(self, reference: ApplicationRef) -> Application:
        """The application of *reference*.

        Raises:
            Refused: It can be imported only in a new process.
        """
        try:
            return self._load(reference)
        except (ApplicationError, UsageError) as error:
            msg = f"it cannot be imported a second time in one process ({error}): start it again"
            raise Refused(msg) from error

    def _frozen(self, files: dict[str, bytes]) -> ApplicationRef:
        self._number += 1
        file = self._scratch / f"code-{self._number}"
        FrozenCode(self._directory, files).write(file)
        return replace(self._trial.application, code=file)
