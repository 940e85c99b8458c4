"""Finding the message that kills or blocks the process that runs user code on it.

A task that is tried again runs its messages in a copy of its process first, a fork, which notes in
shared memory which call of a function of the application is under way, and in the end that it got
through. If the copy ends in any other way, or does not go on, twice at the same call, the call is
refused in the next copy, and so on until one gets through. Then the task itself runs, and the
refused calls raise: their messages are set aside like all others on which user code raises. What
the copies do to state and outputs is lost with them. Messages on which user code raises what is no
`Exception`, which fails a task, are set aside, too.

A copy that got through also looks whether the entities that it changed can be saved. If some
cannot, the next copies find the calls that are at fault (see `checks`); they are refused as well.
"""

from __future__ import annotations

import functools
import mmap
import os
import pickle
import signal
import struct
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple, TypeVar

from wallaroo.dataflow.entities import Changes
from wallaroo.dataflow.entity_checks import Checks, Saving, Suspects
from wallaroo.dataflow.guarding import guarded
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.user_logs import tell
from wallaroo.model.callers import time_limited
from wallaroo.model.raised import raising_exceptions
from wallaroo.model.savable import Refused, Unsavable
from wallaroo.system.lifeline import die_with_parent

_NUMBERS = struct.Struct("=QQQ")
"""The call under way; whether the copy got through; a call that returned in a further fork."""
_NUMBER = struct.Struct("=Q")
_SAVING = 2**64 - 1
"""In the place of a call: the entities are being saved."""
_LOOK_EVERY_S = 0.01
_SURE = 2
"""Copies that have to end at the same call: one may have been killed from outside."""
_MOST_COPIES = 1_000

T = TypeVar("T")
Run = Callable[[Program, TaskResults], T]
"""Runs messages through a program; the same way each time."""


class Saves(NamedTuple):
    """What a run changes, to be saved behind it."""

    saving: Saving
    changes: Callable[[Any], Changes]
    """What the run changed, of what it returned."""


def run_isolated(
    program: Program, results: TaskResults, limit_s: float, run: Run[T], saves: Saves | None = None
) -> T:
    """Call *run* with a program of which calls that kill or block the process raise `Refused`.

    So do calls that leave an entity that cannot be saved, with `Unsavable`.

    Args:
        program: What to run.
        results: Takes outputs and what is set aside.
        limit_s: Seconds that a call may take; 0 for as long as it likes.
        run: Runs the messages of the task.
        saves: What the run changes, if it changes entities.
    """
    refused = _find_refused(program, limit_s, run, saves)
    return run(_guarded(program, _Calls(refused)), results)


class _Report(NamedTuple):
    """What a copy that got through has to say of entities."""

    unsaved: Suspects
    """Those that cannot be saved."""
    loose: Suspects
    """Those that something else than a call that was given them left unsavable."""
    findings: dict[int, str]
    """Calls after which one could not be saved."""
    is_cut_short: bool = False
    """Whether there may be more of these."""


def _find_refused(
    program: Program, limit_s: float, run: Run[Any], saves: Saves | None
) -> dict[int, Refused]:
    refused: dict[int, Refused] = {}
    suspects, closely = Suspects(), Suspects()
    last, times = 0, 0
    with mmap.mmap(-1, _NUMBERS.size) as shared, tempfile.TemporaryFile() as file:
        for _ in range(_MOST_COPIES):
            copy = _Copy(program, _Calls(refused, shared), shared, file, (suspects, closely))
            ended = copy.run(limit_s, run, saves)
            number, _, forked = _NUMBERS.unpack_from(shared)
            if forked and forked not in refused:
                reason = "it forked its process, and returned in the new one, too"
                tell("warning", "a message forks its process", call=forked)
                refused[forked] = Refused(reason)
                continue
            if ended is None:
                report = _read_report(file)
                wider = suspects | report.unsaved
                closer = closely | report.loose | report.unsaved.among(suspects)
                if not report.is_cut_short and (wider, closer) != (suspects, closely):
                    suspects, closely = wider, closer
                    continue
                refused |= {n: Unsavable(why) for n, why in report.findings.items()}
                if not report.is_cut_short:
                    _log_findings(refused)
                    break
            elif number == _SAVING and not suspects.all:
                suspects = Suspects(all=True)  # saving one of them ends the process
            elif number in {0, _SAVING} or number in refused:
                break  # it was no function of the application
            else:
                last, times = number, times + 1 if number == last else 1
                if times == _SURE:
                    tell("warning", "a message ends its process", call=number, reason=ended)
                    refused[number] = Refused(ended)
    return refused


def _read_report(file: IO[bytes]) -> _Report:
    file.seek(0)
    written = file.read()
    return _Report(*pickle.loads(written)) if written else _Report(Suspects(), Suspects(), {})


def _log_findings(refused: Mapping[int, Refused]) -> None:
    found = [error for _, error in sorted(refused.items()) if isinstance(error, Unsavable)]
    if found:
        told = "messages leave entities that cannot be saved"
        tell("warning", told, messages=len(found), first=str(found[0]))


class _Copy:
    """A copy of this process that runs what the task is to run.

    Args:
        program: What to run.
        calls: Counts its calls, and refuses some.
        shared: Memory of `_NUMBERS`, which the copy shares with this process.
        file: Takes the report.
        suspects: Entities to check, and those of them to check after every call.
    """

    def __init__(
        self,
        program: Program,
        calls: _Calls,
        shared: mmap.mmap,
        file: IO[bytes],
        suspects: tuple[Suspects, Suspects],
    ) -> None:
        self._program = program
        self._calls = calls
        self._shared = shared
        self._file = file
        self._suspects = suspects

    def run(self, limit_s: float, run: Run[Any], saves: Saves | None) -> str | None:
        """Make the copy and let it run; how it ended, None if it got through."""
        _NUMBERS.pack_into(self._shared, 0, 0, 0, 0)
        self._file.seek(0)
        self._file.truncate()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the copy leaves other threads
            child = os.fork()
        if child == 0:
            try:
                die_with_parent()
                self._run_here(run, saves)
            finally:
                _NUMBER.pack_into(self._shared, _NUMBER.size, 1)
                os._exit(0)  # what it raised, the task itself will raise
        ended = self._wait(child, limit_s)
        _, through, _ = _NUMBERS.unpack_from(self._shared)
        return None if through else ended

    def _run_here(self, run: Run[Any], saves: Saves | None) -> None:
        results = TaskResults(lambda _outputs, _tally: None)
        if saves is None:
            run(_guarded(self._program, self._calls), results)
            return
        checks = Checks(self._program, saves.saving, *self._suspects, self._calls)
        made = run(_guarded(self._program, self._calls, checks), results)
        _NUMBER.pack_into(self._shared, 0, _SAVING)
        unsaved = saves.saving.unsaved(checks.settled(saves.changes(made)))
        report = unsaved, checks.loose(), checks.findings, checks.is_cut_short
        self._file.write(pickle.dumps(report, protocol=5))
        self._file.flush()

    def _wait(self, child: int, limit_s: float) -> str:
        """Wait for the end of the copy; how it ended."""
        seen, since = 0, time.monotonic()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return _told(status)
            (number,) = _NUMBER.unpack_from(self._shared)
            now = time.monotonic()
            if number != seen:
                seen, since = number, now
            elif limit_s and number != _SAVING and now - since > limit_s:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return f"it took longer than {limit_s:g} s"
            time.sleep(_LOOK_EVERY_S)


def _told(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"it killed its process ({signal.Signals(-code).name})"
    return f"it ended its process (exit code {code})"


@time_limited
class _Calls:
    """Counts calls of functions of an application, and refuses some.

    Args:
        refused: Numbers of the calls that are refused, and what they raise instead.
        shared: Where to note the number of the call under way.
    """

    def __init__(self, refused: Mapping[int, Refused], shared: mmap.mmap | None = None) -> None:
        self.number = 0
        """Number of the last call."""
        self._refused = refused
        self._shared = shared

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """*function*, counted."""
        call = raising_exceptions(function, interruptible=False)

        def guarded(*arguments: Any) -> Any:
            self.number += 1
            if self._shared is not None:
                _NUMBER.pack_into(self._shared, 0, self.number)
            if (error := self._refused.get(self.number)) is not None:
                raise error
            process = os.getpid()
            try:
                return call(*arguments)
            finally:
                if self._shared is not None and os.getpid() != process:
                    _NUMBER.pack_into(self._shared, 2 * _NUMBER.size, self.number)
                    os._exit(1)

        functools.update_wrapper(guarded, function, updated=())
        return guarded


def _guarded(program: Program, calls: _Calls, checks: Checks | None = None) -> Program:
    """*program* with every function of the application guarded."""
    application = guarded(program.application, calls.guard, checks)
    return Program(application, program.buckets, program.repeated)
