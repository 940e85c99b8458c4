"""Lets a run continue with other code when that is requested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from wallaroo.run.promotion import Answer, Promotions, Request
from wallaroo.run.reload.switch import CodeSwitch, code_problem
from wallaroo.run.reload.trial import Trial, tried

log = structlog.get_logger("wallaroo")


class Promoter:
    """Takes requests for other code, and answers each once the code has proved to work, or not.

    Args:
        trial: How the application is checked.
        master: Spark's master.
        promotions: Where requests come from.
        switch: Lets the run continue with other code.
        stops: Waits for so many seconds; returns whether the run is to stop.
        reloads: Whether the run follows the files of its application, and refuses requests.
    """

    def __init__(
        self,
        trial: Trial,
        master: str,
        promotions: Promotions,
        switch: CodeSwitch,
        stops: Callable[[float], bool],
        *,
        reloads: bool,
    ) -> None:
        self._trial, self._master, self._stops = trial, master, stops
        self._promotions, self._switch, self._reloads = promotions, switch, reloads
        self._proves: tuple[Request, Callable[[Answer], None]] | None = None
        """The request whose code runs, and may still turn out not to work."""

    def look(self) -> None:
        """Go on with the code of the next request, or answer the last one.

        Raises:
            RuntimeFailure: The run cannot go on.
        """
        if self._proves is not None:
            if not self._switch.is_on_trial:
                _tell(*self._proves, self._switch.failure)
                self._proves = None
        elif (asked := self._promotions.next()) is not None:
            problem = self._problem_with(asked[0])
            if problem is None:
                self._proves = asked
            else:
                _tell(*asked, problem)

    def _problem_with(self, request: Request) -> str | None:
        """Go on with the code of *request*; returns why the run cannot, or None."""
        known = self._trial.application
        if self._reloads:
            return f"the run follows the files of {known.app} (--reload): save the new code there"
        application = replace(known, app=request.app, args=request.args or known.args)
        if (problem := code_problem(application, self._master)) is not None:
            return problem
        outcome = tried(replace(self._trial, application=application), self._stops)
        if outcome is None:
            return "the run is stopping"
        return outcome.problem or self._switch.to(application, outcome.files)


def _tell(request: Request, answer: Callable[[Answer], None], problem: str | None) -> None:
    if problem is None:
        log.info("promoted", application=request.app)
    else:
        log.error("not promoted", application=request.app, reason=problem)
    answer(Answer(problem))
