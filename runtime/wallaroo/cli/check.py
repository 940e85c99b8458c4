"""`wallaroo check`: validates an application without starting anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from wallaroo.api.places import Place, is_application, place_of
from wallaroo.cli.options import FUNCTION_TIMEOUT, STATE_OF_APP, application_without_addresses
from wallaroo.cli.saved_state import next_start_lines
from wallaroo.codecs.waiting import without_waiting
from wallaroo.dataflow.call_timeout import CallTimeout
from wallaroo.errors import ApplicationError, FrameError, WallarooError
from wallaroo.loading.loader import ApplicationRef
from wallaroo.model.application import (
    Application,
    Branch,
    Pipeline,
    Stateful,
    StatePartition,
    WindowCompute,
)
from wallaroo.model.endpoints import Source
from wallaroo.model.order import time_function
from wallaroo.observability import logs
from wallaroo.resolution.hints import hints_of
from wallaroo.run.state.location import directory_of_log
from wallaroo.run.user_output import reported_exits, reserved_stdout
from wallaroo.system.printable import printable
from wallaroo.testing import messages_of
from wallaroo.testing._repeats import check_repeats
from wallaroo.user_code.exceptions import describe_error

_SAMPLE = 100
"""Messages of a file that are decoded twice, or whose times are looked at."""


@click.command()
@click.argument("app")
@STATE_OF_APP.but(show_default=None)
@FUNCTION_TIMEOUT.but(default=10.0, show_default=True)
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def check(
    app: str, state_dir: Path | None, function_timeout: float, app_args: tuple[str, ...]
) -> None:
    """Validate an application: report everything that is wrong with it, or else list its parts.

    Settings of Kafka are checked, too. Decoders of files that are declared repeatable decode the
    first messages twice, and the time= of files is called with theirs. With --state-dir, tell also
    what the next start does with the saved entities, which are loaded and migrated without changing
    them, and what does not fit, including messages and outputs that wait for a source or sink that
    the application lacks. It is an error if a function called for this does not return.

    \b
    Example:
      wallaroo check apps/market_spread
      wallaroo check apps/market_spread --state-dir apps/market_spread/.wallaroo/market-spread
    """  # noqa: D301  (click reads \b)
    logs.configure("warning")
    with reserved_stdout() as out, reported_exits(), without_waiting():
        application = application_without_addresses(app, app_args)
        for end in (*application.sources, *application.sinks):
            end.check()
        _check_repeats(application, function_timeout)
        for line in list(_lines(application, function_timeout)):
            click.echo(printable(line), file=out)
        if state_dir is not None:
            state_dir.exists()  # else an object store that is away would look like such a function
            with _returning(f"state in {state_dir}", function_timeout):
                directory = directory_of_log(state_dir, ApplicationRef(app), application.name)
                for line in next_start_lines(application, state_dir, directory):
                    click.echo(printable(line), file=out)


@contextmanager
def _returning(what: str, limit_s: float) -> Iterator[None]:
    """Within the block, interrupt a function that does not return, as Ctrl-C does.

    Raises:
        ApplicationError: There was one; *what* says of which part of the application.
    """
    problems: list[str] = []

    def interrupt(call: FrameType, at: FrameType) -> NoReturn:
        function = call.f_code
        while at is not call and not is_application(at.f_code.co_filename):
            at = at.f_back or call
        problems.append(
            f"{Place(function.co_filename, function.co_firstlineno)}: {what}: "
            f"{function.co_qualname} has not returned after {limit_s:g} s, "
            f"and is at {Place(at.f_code.co_filename, at.f_lineno)}"
        )
        raise KeyboardInterrupt

    timeout = CallTimeout(limit_s, interrupt)
    timeout.start()
    try:
        yield
    finally:
        timeout.stop()
        if problems:
            raise ApplicationError(problems[0]) from None


def _check_repeats(application: Application, limit_s: float) -> None:
    """Check decoders that are declared repeatable, as far as files have messages for them.

    Raises:
        ApplicationError: One of them is not repeatable, or does not return.
    """
    for pipeline in application.pipelines:
        source = pipeline.source
        if not source.repeatable or source.runs_code or source.read(None) is None:
            continue
        with (
            _returning(f"pipeline {pipeline.name!r}", limit_s),
            suppress(OSError, FrameError),  # a run says what is wrong with the file
        ):
            for _, payload in islice(messages_of(application, source.name), _SAMPLE):
                check_repeats(pipeline, payload)


def _problem_of_time(application: Application, source: Source, limit_s: float) -> str | None:
    """Why a message of *source* has no time, if that is found for the first ones of its file.

    Raises:
        ApplicationError: The function that returns the time, or the decoder, does not return.
    """
    problems: list[str] = []
    time_of = time_function(source, lambda error: problems.append(describe_error(error)))
    if time_of is None or source.runs_code or source.read(None) is None:
        return None
    with (
        _returning(f"time= of source {source.name!r}", limit_s),
        suppress(OSError, WallarooError),  # a run says what is wrong with the file
    ):
        for _, payload in islice(messages_of(application, source.name), _SAMPLE):
            time_of(payload)
    return problems[0] if problems else None


def _lines(application: Application, limit_s: float) -> Iterator[str]:
    yield f"{application.name} is well formed:"
    for pipeline in application.pipelines:
        for path in _paths(pipeline, pipeline.trunk):
            yield "  " + " → ".join([pipeline.name, *path])
    if application.dead_letters is not None:
        yield f"  dead letters → {application.dead_letters.sink.label}"
    for partition in application.partitions.values():
        keys = "any key" if partition.keys is None else f"{len(partition.keys)} keys"
        windows = [] if partition.windows is None else [str(partition.windows)]
        parts = [*windows, keys, *_times(partition, application)]
        yield f"  state {partition.name!r}: {', '.join(parts)}"
    for hint in hints_of(application):
        yield f"  hint: {hint}"
    for source in application.sources:
        if (problem := _problem_of_time(application, source, limit_s)) is not None:
            yield f"  hint: {place_of(source.time)}: time= of source {source.name!r}: {problem}"


def _times(partition: StatePartition, application: Application) -> Iterator[str]:
    """What *partition* has of timers and expiry."""
    timing = partition.timing
    for name in application.steps_with_timers(partition):
        yield f"timers of step {name!r}"
    if timing is not None and timing.ttl_ns is not None:
        yield f"entities expire after {timing.ttl_ns / 1e9:g} s"
    if timing is not None and timing.keeps_time:
        yield "by event time"


def _paths(pipeline: Pipeline, branch: Branch) -> list[list[str]]:
    """The steps of every path of a message through *branch* of *pipeline*, and its end."""
    steps: list[str] = []
    late: list[list[str]] = []
    for step in branch.steps:
        steps.append(f"{step.name} [{step.partition}]" if isinstance(step, Stateful) else step.name)
        if isinstance(step, WindowCompute) and step.late is not None:
            late += [[*steps, "late", *path] for path in _paths(pipeline, step.late)]
    sinks = pipeline.sinks_of(branch)
    end = [f"{len(sinks)} sinks"] if len(sinks) > 1 else ["sink"] * len(sinks)
    forks = [[*steps, *path] for fork in branch.forks for path in _paths(pipeline, fork)]
    return (forks or [[*steps, *end]]) + late
