"""Finds messages that kill or block the process that runs user code on them.

A retried task first runs its messages in a copy of its process, a fork, which records in shared
memory which call of user code is running, and finally that it has finished. If the copy ends or
hangs without finishing, twice at the same call, that call is skipped in the next copy, and so on
until a copy finishes. The task itself then runs, and the skipped calls raise: their messages are
dead-lettered like all others on which user code raises. Changes of the copies to state and outputs
are discarded. Messages on which user code raises a non-`Exception`, which fails a task, are
dead-lettered, too.

A call after which the process is damaged, because it has closed connections or replaced parts of
Python (see `process_health`), is found and skipped in the same way. Copies look for damage at their
end, and after each call once one has ended early or damaged.

A call that allocates without end would let the kernel kill this process, or all of its container.
While copies run, and then the task itself, they may take a part of the memory that is available:
beyond it Python raises `MemoryError`, and the message is dead-lettered like others.

A copy that finishes also checks whether the entities that it changed can be saved. If not, the next
copies find the calls at fault (see `entity_checks`), which are skipped as well.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple, TypeVar

from wallaroo.dataflow.buckets import Changes
from wallaroo.dataflow.entity_checks import Checks, Saving, Suspects
from wallaroo.dataflow.guards import guarded
from wallaroo.dataflow.isolated_calls import (
    DAMAGE,
    FINISHED,
    NUMBER,
    NUMBERS,
    SAVING,
    Calls,
    is_awaiting,
    is_no_call,
    longest_await_s,
)
from wallaroo.dataflow.process_health import PROBLEMS, Health
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.results import TaskResults
from wallaroo.dataflow.savable import SkippedCall, Unsavable
from wallaroo.dataflow.user_logs import log_event
from wallaroo.system.lifeline import die_with_parent, fork_group, kill_group, reap_group
from wallaroo.system.memory import MemoryKills, limited
from wallaroo.system.process_end import signal_name

_exit, _getpid = os._exit, os.getpid  # user code may replace them
_POLL_S = 0.01
_START_S = 60.0
"""Seconds until the first call, at least: on a loaded machine, a process may stand still."""
_CONFIRMATIONS = 2
"""Number of copies that must end at the same call: one may have been killed from outside."""
_MAX_COPIES = 1_000
_MEMORY_SHARE = 0.75
"""Part of the available memory that a copy, or the task itself, may take."""

T = TypeVar("T")
Run = Callable[[Program, TaskResults], T]
"""Runs messages through a program, identically each time."""


class Saves(NamedTuple):
    """The changes of a run, which are saved after it."""

    saving: Saving
    changes: Callable[[Any], Changes]
    """From the result of the run to its changes."""


def run_isolated(
    program: Program, results: TaskResults, limit_s: float, run: Run[T], saves: Saves | None = None
) -> T:
    """Call *run* with a program in which calls that kill or block the process raise `SkippedCall`.

    Calls that make an entity unsavable raise `Unsavable`.

    Args:
        program: The program.
        results: Collects outputs and failed messages.
        limit_s: Time limit of a call, in seconds; 0 to disable it.
        run: Runs the messages of the task.
        saves: The changes of the run; None if it does not change entities.
    """
    with limited(_MEMORY_SHARE) as limit_bytes:
        skipped = _find_fatal_calls(program, (limit_s, limit_bytes), run, saves)
        return run(_guarded(program, Calls(skipped, limit_bytes)), results)


class _Report(NamedTuple):
    """The report of a finished copy on its entities."""

    unsaved: Suspects
    """Entities that cannot be saved."""
    changed_outside: Suspects
    """Entities that anything but a call that received them made unsavable."""
    findings: dict[int, str]
    """Why an entity could not be saved, by the number of the call."""
    is_incomplete: bool = False
    """Whether there may be more findings."""


def _find_fatal_calls(
    program: Program, limits: tuple[float, int | None], run: Run[Any], saves: Saves | None
) -> dict[int, SkippedCall]:
    limit_s, limit_bytes = limits
    skipped: dict[int, SkippedCall] = {}
    suspects, closely = Suspects(), Suspects()
    last, times = 0, 0
    watches = False
    """Whether copies look for damage after each call."""
    one_by_one = False
    """Whether calls of async steps are made one at a time."""
    with tempfile.TemporaryFile() as file:
        for _ in range(_MAX_COPIES):
            # for each copy: a process that an earlier one has forked may return only now
            with mmap.mmap(-1, NUMBERS.size) as shared:
                calls = Calls(skipped, limit_bytes, shared, watches=watches, one_by_one=one_by_one)
                copy = _Copy(program, calls, shared, file, (suspects, closely))
                reason = copy.run(limit_s, run, saves)
                number, _, forked, damage, damaging = NUMBERS.unpack_from(shared)
            if _skip_at_once(skipped, forked, damaging, PROBLEMS[damage]):
                last, times = 0, 0
                continue
            if reason is not None and is_awaiting(number) and not one_by_one:
                one_by_one = True
                last, times = 0, 0
                continue
            if reason is not None and not watches:
                watches = True
                last, times = number, 0 if damage or is_no_call(number) else 1
                continue
            if reason is None:
                report = _read_report(file)
                more = suspects | report.unsaved
                more_closely = closely | report.changed_outside | report.unsaved.among(suspects)
                if not report.is_incomplete and (more, more_closely) != (suspects, closely):
                    suspects, closely = more, more_closely
                    skipped.clear()  # messages that fail the checks make fewer calls from now on
                    last, times = 0, 0
                    continue
                skipped |= {n: Unsavable(problem) for n, problem in report.findings.items()}
                if not report.is_incomplete:
                    _log_findings(skipped)
                    break
            elif number == SAVING and not suspects.all:
                suspects = Suspects(all=True)  # saving one of them ends the process
                skipped.clear()
                last, times = 0, 0
            elif damage or is_no_call(number) or number in skipped:
                break  # not caused by a function of the application
            else:
                last, times = number, times + 1 if number == last else 1
                if times == _CONFIRMATIONS:
                    log_event("warning", "a message ends its process", call=number, reason=reason)
                    _skip(skipped, number, reason)
    return skipped


def _skip_at_once(skipped: dict[int, SkippedCall], forked: int, damaging: int, damage: str) -> bool:
    """Skip a call that could not have been interrupted from outside; returns whether one was."""
    if forked and forked not in skipped:
        log_event("warning", "a message forks its process", call=forked)
        _skip(skipped, forked, "the call forked its process and also returned in the child process")
    elif damaging:
        log_event("warning", "a message damages its process", call=damaging, reason=damage)
        _skip(skipped, damaging, damage)
    else:
        return False
    return True


def _skip(skipped: dict[int, SkippedCall], number: int, reason: str) -> None:
    """Skip a call, after which calls have other numbers than before."""
    for later in [other for other in skipped if other > number]:
        del skipped[later]
    skipped[number] = SkippedCall(reason)


def _read_report(file: IO[bytes]) -> _Report:
    file.seek(0)
    written = file.read()
    return _Report(*pickle.loads(written)) if written else _Report(Suspects(), Suspects(), {})


def _log_findings(skipped: Mapping[int, SkippedCall]) -> None:
    errors = [error for _, error in sorted(skipped.items()) if isinstance(error, Unsavable)]
    if errors:
        event = "messages leave entities that cannot be saved"
        log_event("warning", event, messages=len(errors), first=str(errors[0]))


class _Copy:
    """A copy of this process that runs the messages of the task.

    Args:
        program: The program.
        calls: Counts calls and skips some.
        shared: Shared memory with `NUMBERS`.
        file: Receives the report.
        suspects: Entities to check, and those to check after every call.
    """

    def __init__(
        self,
        program: Program,
        calls: Calls,
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
        """Run a copy; returns how it ended, or None if it finished."""
        self._file.seek(0)
        self._file.truncate()
        kills = MemoryKills()
        child = fork_group()
        if child == 0:
            try:
                die_with_parent()
                self._calls.health = Health([self._file.fileno()])
                self._run_here(run, saves)
            finally:
                health = self._calls.health
                if health is not None and (problem := health.problem()):
                    NUMBER.pack_into(self._shared, DAMAGE, problem)
                else:
                    NUMBER.pack_into(self._shared, FINISHED, 1)
                _exit(0)  # the task itself will raise the same exception
        reason = self._wait(child, limit_s, kills)
        _, finished, *_ = NUMBERS.unpack_from(self._shared)
        return None if finished else reason

    def _run_here(self, run: Run[Any], saves: Saves | None) -> None:
        results = TaskResults()
        if saves is None:
            run(_guarded(self._program, self._calls), results)
            return
        checks = Checks(self._program, saves.saving, *self._suspects, self._calls)
        result = run(_guarded(self._program, self._calls, checks), results)
        NUMBER.pack_into(self._shared, 0, SAVING)
        unsaved = saves.saving.unsaved(checks.current_changes(saves.changes(result)))
        report = unsaved, checks.changed_outside(), checks.findings, checks.is_incomplete
        self._file.write(pickle.dumps(report, protocol=5))
        self._file.flush()

    def _wait(self, child: int, limit_s: float, kills: MemoryKills) -> str:
        """Wait for the end of the copy; returns how it ended."""
        last, since = 0, time.monotonic()
        while True:
            status = reap_group(child)
            if status is not None:
                return _describe_exit(status, kills)
            (number,) = NUMBER.unpack_from(self._shared)
            now = time.monotonic()
            if number != last:
                last, since = number, now
            elif limit_s and number != SAVING and now - since > self._limit_s(number, limit_s):
                kill_group(child)
                os.waitpid(child, 0)
                return f"the call took longer than {limit_s:g} s"
            time.sleep(_POLL_S)

    def _limit_s(self, number: int, limit_s: float) -> float:
        """Seconds for which a copy may be at call *number*."""
        if number == 0:
            return max(limit_s, _START_S)
        if is_awaiting(number) or self._calls.one_by_one:
            return max(limit_s, longest_await_s(self._program.application))
        return limit_s


def _describe_exit(status: int, kills: MemoryKills) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL and kills.found():
        return "the call used up the memory, and the system killed its process (SIGKILL)"
    if code < 0:
        return f"the call killed its process ({signal_name(-code)})"
    return f"the call ended its process (exit code {code})"


def _guarded(program: Program, calls: Calls, checks: Checks | None = None) -> Program:
    """Return a copy of *program* with all functions of the application guarded."""
    application = guarded(program.application, calls.guard, checks, calls.guard_gathering)
    return Program(application, program.buckets)
