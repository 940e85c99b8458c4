"""Lets a run go on with other code of its application, and with the code before if that fails."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from wallaroo.engine.realtime.running import RunningEngine
from wallaroo.errors import ApplicationError, UsageError
from wallaroo.loading.frozen_code import FrozenCode
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import Application
from wallaroo.run.reload.running_code import Refused, RunningCode
from wallaroo.system.restarts import Restart

_TRIAL_S = 60.0
"""Seconds in which an epoch has to end with other code."""
ADVICE = "the previous code stays in use; correct the new code and save it again"

log = structlog.get_logger("wallaroo")


def code_problem(application: ApplicationRef, master: str) -> str | None:
    """Why a run cannot go on with other code of *application*; None if it can."""
    if application.directory is None:
        return f"{application.app} is a module; name its directory or its .py file instead"
    if master.split("[", maxsplit=1)[0] != "local":
        return f"other code requires local Spark, and --master is {master}: restart the application"
    return None


def frozen(
    application: ApplicationRef, files: Mapping[str, bytes], scratch: Path
) -> ApplicationRef:
    """*application*, imported from *files*, by a file in *scratch*, whatever its directory has."""
    assert application.directory is not None
    file = scratch / f"code-{uuid.uuid4()}"
    FrozenCode(application.directory, files).write(file)
    return replace(application, code=file)


class CodeSwitch:
    """Lets a run go on with other code.

    Until an epoch has ended with it, the code before is kept: the other may be unable to load an
    entity, or end its processes.

    Args:
        application: What the run imports now.
        code: The code that its parts have.
        engine: Its engine.
        scratch: Directory for files that processes of the run read.
        load: Imports the application of a reference in this process.
    """

    def __init__(
        self,
        application: ApplicationRef,
        code: RunningCode,
        engine: RunningEngine,
        scratch: Path,
        load: Callable[[ApplicationRef], Application],
    ) -> None:
        self._code, self._engine, self._scratch, self._load = code, engine, scratch, load
        self._restarts_before: Sequence[Restart] = ()
        """Those from before the last switch."""
        self._until = 0.0
        """When the trial of the present code ends, by the clock that does not run backwards."""
        self._before: ApplicationRef | None = None
        """What the run has imported before, until the present code is proven."""
        self.application = application
        """What processes of the run import."""
        self.failure: str | None = None
        """Why the run has gone back to the code before the last switch; None if it has not."""

    @property
    def is_on_trial(self) -> bool:
        """Whether the present code may still turn out not to work."""
        if self._before is not None and self._engine.has_ended_epoch:
            self._before = None
        return self._before is not None

    def _failure_on_trial(self) -> str | None:
        """Why the present code, which is on trial, does not work; None if it does.

        A query that has failed once would be started again; with other code, that is enough.
        """
        if (restarts := self._engine.restarts()) and restarts != self._restarts_before:
            return restarts[-1].reason
        if time.monotonic() > self._until:
            return (
                f"no epoch has ended with it within {_TRIAL_S:.0f} s: a step is slow or hangs, or "
                "Spark cannot save the state"
            )
        return None

    def to(self, application: ApplicationRef, files: Mapping[str, bytes]) -> str | None:
        """Go on with the code of *application*; returns why the run cannot, or None.

        Args:
            application: The application, from its directory.
            files: Contents by path of its source files.

        Raises:
            RuntimeFailure: The run cannot go on at all.
        """
        reference = frozen(application, files, self._scratch)
        self._restarts_before = self._engine.restarts()
        try:
            self._code.change(reference, self._loaded(reference))
        except Refused as refused:
            with contextlib.suppress(ApplicationError, UsageError):
                self._load(self.application)  # for look-ups of state
            return str(refused)
        self._before, self.application, self.failure = self.application, reference, None
        self._until = time.monotonic() + _TRIAL_S
        return None

    def go_back(self, failure: str | None) -> str | None:
        """Go on with the code before, if the present one has failed while on trial.

        Args:
            failure: What has ended the query for good, if it has.

        Returns:
            *failure*, or None if the run goes on.

        Raises:
            RuntimeFailure: The run cannot go on at all.
        """
        if not self.is_on_trial or (found := failure or self._failure_on_trial()) is None:
            return failure
        assert self._before is not None
        before, self._before = self._before, None
        self._code.restore_classes()
        try:
            self._code.change(before, self._loaded(before))
        except Refused as refused:
            return f"{found}; and the code before does not work any more: {refused}"
        self.application, self.failure = before, found
        log.error("gone back to the previous code", reason=found)
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
