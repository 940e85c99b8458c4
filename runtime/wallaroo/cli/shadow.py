"""`wallaroo shadow`: runs other code beside an application, on the same messages."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import click

from wallaroo.cli.comparison import (
    EXPECT,
    check_expected,
    comparison_lines,
    example_line,
    letter_lines,
    output_lines,
)
from wallaroo.cli.costs import BASELINE, baseline_of_command, cost_lines, rehearsal_beside
from wallaroo.cli.option_types import NumberType
from wallaroo.cli.options import CALL_LIMIT, READ_ARCHIVE, SNAPSHOT, STATE_DIR_OF_APP
from wallaroo.cli.promote import promote_to
from wallaroo.cli.saved_state import committed_state, log_of_application
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.history.publications import Publication
from wallaroo.history.records import followed
from wallaroo.history.rehearsal import Kind, Rehearsal
from wallaroo.run.state.directory import StateDirectory
from wallaroo.run.user_output import (
    empty_stdin,
    limited_calls,
    reported_exits,
    reserved_stdout,
)
from wallaroo.system.printable import counted, printable

_POLL_S = 0.1
"""Wait before looking whether the log has more."""
_LOOK_S = 1.0
"""Seconds between comparisons of entities."""
_LOOK_PAUSE = 2
"""The same as a multiple of the time that the last comparison took."""
_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
_TELL_S = 60.0
"""Seconds between progress lines if standard error is not a terminal."""


@click.command()
@click.argument("app")
@STATE_DIR_OF_APP
@READ_ARCHIVE
@SNAPSHOT
@EXPECT
@BASELINE
@click.option(
    "--for",
    "for_s",
    type=NumberType(positive=True),
    metavar="SECONDS",
    help="Seconds after which to end.  [default: until Ctrl-C]",
)
@click.option(
    "--promote",
    "promotes",
    is_flag=True,
    help="At the end, let the application continue with APP if nothing differs that --expect "
    "does not name; with --for only.",
)
@CALL_LIMIT
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def shadow(
    app: str,
    state_dir: Path | None,
    archive: Path | None,
    snapshot: Path | None,
    expected: tuple[str, ...],
    old: str | None,
    for_s: float | None,
    promotes: bool,
    function_timeout: float,
    app_args: tuple[str, ...],
) -> None:
    """Run changed code, APP, beside the application, and compare what comes of the same messages.

    It begins with the state as of the last checkpoint, which the new code has to be able to load,
    and runs each message that the application has processed since, as soon as it has. Each kind of
    difference is shown when it is found, with the message behind which it was, and all of them at
    the end. The exit code is 1 if something differs that --expect does not name. Nothing is sent,
    and the application is not touched, unless --promote lets it continue with the new code at the
    end. Side effects of functions, such as writes to a database, happen.

    One process runs up to some 20,000 messages a second. If the application processes more for so
    long that the log would have to keep 16 files for it, it ends with an error.

    \b
    Example:
      wallaroo shadow new/word_count --state-dir word_count/.wallaroo/word-count-application
      wallaroo shadow new/orders.py --state-dir orders/.wallaroo/orders --for 3600 --promote
    """  # noqa: D301  (click reads \b)
    if promotes and for_s is None:
        msg = "--promote requires --for: how long nothing may differ before the new code takes over"
        raise UsageError(msg)
    with (
        reserved_stdout() as out,
        empty_stdin(),
        reported_exits(),
        baseline_of_command(old, app_args, function_timeout) as baseline,
    ):
        application, directory = log_of_application(app, app_args, state_dir)
        live = _Live(for_s)
        failure: RuntimeFailure | None = None
        with (
            live.ending_on_signals(),
            followed(directory, live.waits, archive) as records_since,
            limited_calls(function_timeout),
        ):
            beginning = committed_state(application, snapshot or _checkpointed(directory.parent))
            records = records_since(beginning.offset if beginning else 0)
            rehearsal = rehearsal_beside(baseline, application, records, beginning)
            try:
                live.run(rehearsal)
                if baseline is not None:
                    baseline.finish()
            except RuntimeFailure as error:
                failure = error
            except KeyboardInterrupt:  # in a message, which may take for ever
                click.echo("interrupted; differences are those of the messages before", err=True)
            live.end()
        if failure is None or rehearsal.messages:
            rehearsal.compare()
            for line in (*comparison_lines(rehearsal), *cost_lines(baseline, rehearsal)):
                click.echo(printable(line), file=out)
            if live.is_behind:
                click.echo(f"not up to date: {live.behind} when it ended", file=out)
        if failure is not None:
            raise failure
        check_expected(rehearsal, application, expected)
    if rehearsal.differing_names() - set(expected):
        click.get_current_context().exit(1)
    if promotes:
        if not live.has_run_its_time or live.is_behind:
            why = f"is {live.behind}" if live.has_run_its_time else "was ended before its time"
            msg = f"not promoted: the shadow {why}"
            raise RuntimeFailure(msg)
        promote_to(app, directory.parent, app_args)


def _checkpointed(state_dir: Path) -> Path | None:
    """*state_dir*, if it has more than the log: that of a gateway alone has not."""
    return state_dir if StateDirectory.has_state(state_dir) else None


class _Live:
    """Reports what a rehearsal finds while it runs, and decides when it ends.

    Args:
        for_s: Seconds after which it ends; None for when there is a signal.
    """

    def __init__(self, for_s: float | None) -> None:
        self._for_s = for_s
        self._end_at = math.inf
        self.has_run_its_time = False
        """Whether it ends by the clock."""
        self._stopping = Event()
        self._rehearsal: Rehearsal | None = None
        self._reported: set[Kind | str | None] = set()
        """Kinds of differences and names of sinks that were reported; None for dead letters."""
        self._look_at = 0.0
        self._tell_at: float | None = None
        """When to tell of the progress; None until it is up to date for the first time."""
        self._behind_s = 0.0
        self._shown = 0
        """Characters of the line on the terminal."""

    @contextlib.contextmanager
    def ending_on_signals(self) -> Iterator[None]:
        """End on a signal; on the second one as always."""
        before = {number: signal.getsignal(number) for number in _SIGNALS}

        def restore(*_signal: object) -> None:
            self._stopping.set()
            for number, handler in before.items():
                signal.signal(number, handler)

        for number in before:
            signal.signal(number, restore)
        try:
            yield
        finally:
            restore()

    def run(self, rehearsal: Rehearsal) -> None:
        """Run *rehearsal* until it is to end, and show what it finds."""
        self._rehearsal = rehearsal
        if self._for_s is not None:
            self._end_at = time.monotonic() + self._for_s
        for publication in rehearsal:
            if self._is_over_after(publication):
                return

    @property
    def is_behind(self) -> bool:
        """Whether there is more to run than what has just been published."""
        return self._behind_s > _LOOK_S

    @property
    def behind(self) -> str:
        """How far it is behind the application."""
        return f"{self._behind_s:,.0f} s behind" if self.is_behind else "up to date"

    def waits(self) -> bool:
        """Wait for more messages; returns False when it is to end."""
        self._behind_s = 0.0
        self._look()
        self._stopping.wait(_POLL_S)
        return not self._is_over()

    def _is_over_after(self, publication: Publication) -> bool:
        """Whether it is to end after *publication*, which was the last one to be run."""
        if publication.blocks:
            self._behind_s = max(0.0, time.time() - publication.blocks[-1].arrived_ns / 1e9)
        self._look()
        return self._is_over()

    def end(self) -> None:
        """Remove the line from the terminal."""
        if self._shown:
            click.echo(f"\r{' ' * self._shown}\r", nl=False, err=True)
            self._shown = 0

    def _is_over(self) -> bool:
        self.has_run_its_time = time.monotonic() >= self._end_at
        return self.has_run_its_time or self._stopping.is_set()

    def _look(self) -> None:
        """Compare entities, and show what is new, from time to time."""
        if (now := time.monotonic()) < self._look_at or self._rehearsal is None:
            return
        rehearsal = self._rehearsal
        rehearsal.compare()
        for name, sink in rehearsal.sinks.items():
            if sink.differs:
                self._report(name, f"sink {name!r} differs", *output_lines(sink, 1))
        if rehearsal.letters != rehearsal.new_letters:
            self._report(None, *letter_lines(rehearsal))
        for kind, (first, *_) in rehearsal.kinds().items():
            self._report(kind, example_line(kind, first))
        self._show_progress(rehearsal, now)
        ended = time.monotonic()
        self._look_at = ended + max(_LOOK_S, _LOOK_PAUSE * (ended - now))

    def _show_progress(self, rehearsal: Rehearsal, now: float) -> None:
        differing = sum(
            sink.missing.total() + sink.further.total() for sink in rehearsal.sinks.values()
        )
        line = (
            f"{counted(rehearsal.messages, 'message')} run again, {self.behind}; "
            f"{counted(differing, 'output')} and {len(rehearsal.differing):,} entities differ"
        )
        if sys.stderr.isatty():
            self.end()
            click.echo(line, nl=False, err=True)
            self._shown = len(line)
        elif not self.is_behind if self._tell_at is None else now >= self._tell_at:
            self._tell_at = now + _TELL_S
            click.echo(line, err=True)

    def _report(self, what: Kind | str | None, *lines: str) -> None:
        """Print *lines* about *what*, unless that was reported before."""
        if what not in self._reported:
            self._reported.add(what)
            self.end()
            for line in lines:
                click.echo(printable(line), err=True)
