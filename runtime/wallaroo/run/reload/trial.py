"""Checks changed code in a process of its own, before a run goes on with it.

The process imports the application as a start does, and ends. Imports may fail, hang or end it:
the run does not notice.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from wallaroo.errors import UsageError, WallarooError
from wallaroo.gateway.dead_letters.policy import policies
from wallaroo.gateway.settings import check_sinks
from wallaroo.loading.frozen_code import recorded
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.run.settings import LocalSettings
from wallaroo.run.state.classes import state_class_problem

_LONGEST_S = 60.0
"""Seconds after which a trial is given up: imports that take longer would delay every restart."""
_LOOK_S = 0.01


@dataclass(frozen=True)
class Trial:
    """What is tried."""

    application: ApplicationRef
    """The application, from its directory."""
    name: str
    """Name that it has while it runs."""
    state_dir: Path
    """Its state directory."""
    on_error: tuple[str, ...] = ()
    """See `TrafficSettings.on_error`."""
    until_done: bool = False
    """Whether its sources are to end."""

    @classmethod
    def of(cls, settings: LocalSettings, name: str, state_dir: Path) -> Self:
        """That of the application *name* with its *settings*."""
        application, on_error = settings.engine.application, settings.traffic.on_error
        return cls(application.absolute(), name, state_dir, tuple(on_error), settings.until_done)

    def run(self) -> Outcome:
        """Import the application, in this process, and check it like a start."""
        directory = self.application.directory
        assert directory is not None
        problem = None
        with recorded(directory) as files:
            try:
                problem = self._problem_with(self.application.load())
            except WallarooError as error:
                problem = str(error)
        return Outcome(problem, dict(files))

    def _problem_with(self, application: Application) -> str | None:
        if application.name != self.name:
            return (
                f"the application is called {application.name!r} now, and its state belongs to "
                f"{self.name!r}: stop it, and start it again under its new name"
            )
        policies(self.on_error, application)
        check_sinks(application)
        if self.until_done:
            check_that_sources_end(application)
        return state_class_problem(self.state_dir, application)


@dataclass(frozen=True)
class Outcome:
    """What a trial has shown."""

    problem: str | None
    """Why the run cannot go on with the code; None if it can."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Contents by path of the source files that were imported."""


def check_that_sources_end(application: Application) -> None:
    """Refuse sources that never end.

    Raises:
        UsageError: There is one.
    """
    for source in application.sources:
        if not (source.ends or source.is_standard):
            msg = f"--until-done: source {source.name!r} listens on {source.where} and never ends"
            raise UsageError(msg)


def tried(trial: Trial, stops: Callable[[float], bool]) -> Outcome | None:
    """Run *trial* in a process of its own.

    Args:
        trial: What is tried.
        stops: Waits for so many seconds; returns whether to stop meanwhile.

    Returns:
        What it has shown; None if it was stopped.
    """
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "wallaroo.run.reload.trial_process", str(write)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[write],
        start_new_session=True,  # Ctrl-C must not reach it
    )
    os.close(write)
    with os.fdopen(read, "rb", buffering=0) as answer:
        os.set_blocking(read, False)
        try:
            assert process.stdin is not None
            with contextlib.suppress(OSError), process.stdin as request:  # it may have ended
                request.write(pickle.dumps(trial))
            return _outcome(process, answer.read, stops)
        finally:
            process.kill()
            process.wait()


def _outcome(
    process: subprocess.Popen[bytes],
    read: Callable[[], bytes | None],
    stops: Callable[[float], bool],
) -> Outcome | None:
    answer = b""
    until = time.monotonic() + _LONGEST_S
    while True:
        ended = process.poll()
        while piece := read():
            answer += piece
        if piece is not None or ended is not None:  # it has said all
            with contextlib.suppress(pickle.UnpicklingError, EOFError):
                outcome: Outcome = pickle.loads(answer)
                return outcome
            how = f"ended the process with exit code {process.wait()}"
            return Outcome(f"the application cannot be imported: it {how}")
        if time.monotonic() > until:
            return Outcome(f"importing the application takes more than {_LONGEST_S:.0f} s")
        if stops(_LOOK_S):
            return None
