"""`wallaroo explain`: shows the messages that made the state of a key, or an output."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

import click

from wallaroo.cli.changes import change_json, change_lines
from wallaroo.cli.option_types import MOMENT, WithOptionalArgument
from wallaroo.cli.options import CALL_LIMIT, READ_ARCHIVE, SNAPSHOT, STATE_DIR_OF_APP
from wallaroo.cli.saved_state import committed_state, log_of_application, read_log
from wallaroo.dataflow.look_ups import is_written
from wallaroo.engine.stored import Committed
from wallaroo.errors import UsageError
from wallaroo.gateway.log.records import Record
from wallaroo.history.changes import Arrival, Change
from wallaroo.history.debugger import AttachedDebugger, Debugger, TerminalDebugger
from wallaroo.history.explanation import Explanation
from wallaroo.history.moments import Moment
from wallaroo.history.origins import LateMessages, WantedOutput, find_output, origin_of
from wallaroo.model.application import Application
from wallaroo.run.user_output import (
    empty_stdin,
    limited_calls,
    reported_exits,
    reserved_stdout,
)
from wallaroo.system.binding import MAX_PORT
from wallaroo.system.printable import counted, printable

_LACKS = (
    "note: the log does not go back to the first messages, so what was before its first change of "
    "an entity is not known, unless --archive or --snapshot has it; --keep-messages-gib keeps more"
)
_LATE_MISSING = (
    "note: {} more came too late and cannot be shown: the entity was there before the log begins, "
    "or the code has changed"
)
_ONE_OF = "note: one of {count:,} messages that were processed together made it{more}"
_OTHER = (
    "note: no message makes this output again; shown is what makes one now that was not published: "
    "the code has changed, or depends on something else, such as the clock"
)


_Read = Callable[..., Iterable[Record]]
"""Reads the log, up to the record with a number if one is given."""


class _Asked(NamedTuple):
    """What is to be explained."""

    key: str | None
    state: str | None
    at: Moment | None
    beginning: Committed | None

    def has(self, change: Change) -> bool:
        """Whether *change* is before the moment that was given, if one was."""
        return self.at is None or (
            change.arrival is not None and not self.at.is_before(change.arrival)
        )

    def __str__(self) -> str:
        of = "" if self.key is None else f" of an entity with the key {self.key!r}"
        since = f" from offset {self.beginning.offset:,} on" if self.beginning else ""
        return f"{of}{since} up to {self.at.shown()}" if self.at else f"{of}{since}"


@click.command(cls=WithOptionalArgument)
@click.argument("app")
@click.argument("key", required=False)
@STATE_DIR_OF_APP
@READ_ARCHIVE
@SNAPSHOT
@click.option("--state", metavar="NAME", help="Name of the state.  [default: all with the key]")
@click.option(
    "--output",
    metavar="SINK:NUMBER",
    help="In place of KEY: what made an output of a sink, by its number or by what is in it.",
)
@click.option(
    "--late",
    is_flag=True,
    help="Only messages that came too late for their windows; without KEY, those of all keys.",
)
@click.option(
    "--at",
    type=MOMENT,
    help="Only changes up to a message or a time, as in 1200 or 2026-11-29T13:00:00.",
)
@click.option(
    "--changes",
    "most",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Number of changes, the latest ones; with --output, of messages that may have made it.",
)
@click.option(
    "--with-app",
    "other",
    metavar="NEW_APP",
    help="Run the messages through other code; the state stays as that makes it.",
)
@click.option(
    "--debug",
    is_flag=True,
    help="Stop in pdb where a function of the application gets the entity; with --at OFFSET, for "
    "that message alone.",
)
@click.option(
    "--debug-port",
    type=click.IntRange(0, MAX_PORT),
    metavar="PORT",
    help="Debug as with --debug, but wait for a debugger that attaches at this port of the "
    "loopback address, such as that of an editor; 0 chooses one. Requires the package debugpy.",
)
@CALL_LIMIT
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one per line.")
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def explain(
    app: str,
    key: str | None,
    state_dir: Path | None,
    archive: Path | None,
    snapshot: Path | None,
    state: str | None,
    output: str | None,
    late: bool,
    at: Moment | None,
    most: int,
    other: str | None,
    debug: bool,
    debug_port: int | None,
    function_timeout: float,
    as_json: bool,
    app_args: tuple[str, ...],
) -> None:
    """Show which messages made the state of KEY what it is, step by step.

    The messages, and the state before them, are read from the log, and run through the
    application's code again in this process: each with its path through the steps, the differences
    that it made to the entity, and the outputs that came of it. The application may be running,
    and nothing of it is changed. Side effects of functions, such as writes to a database, happen
    again.

    With --output in place of KEY, the message is shown that made an output. The outputs of a sink
    are numbered from 1 on, and the receiver of a numbered sink gets these numbers. SINK:TEXT is the
    latest output of that content.

    The log keeps at least the latest messages, and more with `wallaroo run --keep-messages-gib`.
    Where the code does not do again what it did, the state that was published is shown, too.

    \b
    Example:
      wallaroo explain apps/word_count z
      wallaroo explain apps/market_spread AAPL --at 1200 --changes 3
      wallaroo explain apps/word_count z --with-app new/word_count
      wallaroo explain apps/word_count --output "Split and Count:1200"
    """  # noqa: D301  (click reads \b)
    reruns = other is not None or debug or debug_port is not None
    _check_together(key, output, state, at, snapshot, late=late, reruns=reruns)
    with reported_exits(), ExitStack() as stack:
        write: TextIO = sys.stdout
        debugs = debug or debug_port is not None
        if not debugs:  # the debugger reads and writes, too
            write = stack.enter_context(reserved_stdout())
            stack.enter_context(empty_stdin())
            stack.enter_context(limited_calls(function_timeout))
        application, directory = log_of_application(app, app_args, state_dir, other)
        if state is not None and state not in application.partitions:
            names = ", ".join(map(repr, application.partitions))
            msg = f"there is no state {state!r}; the application has {names or 'none'}"
            raise UsageError(msg)
        beginning = committed_state(application, snapshot)
        asked = _Asked(key, state, at, beginning)
        read = partial(read_log, directory, archive=archive, beginning=beginning, quiet=debugs)
        if output is not None:
            found = _of_output(application, read, output, most)
        elif late:
            late_messages = LateMessages(application, read(), state, beginning)
            found = _of_late(late_messages, directory, asked, most)
        else:
            explanation = Explanation(
                application,
                read(),
                str(key),
                state,
                beginning=beginning,
                is_other=other is not None,
                debugger=_debugger(at, debug_port) if debugs else None,
            )
            found = _of_key(explanation, directory, asked, most)
        if found.title and not as_json:
            click.echo(printable(found.title), file=write)
        for change in found.changes:
            lines = [change_json(change)] if as_json else change_lines(change)
            click.echo("\n".join(lines), file=write)
    for note in () if as_json and output is None else found.notes:
        click.echo(note, err=True)


def _debugger(at: Moment | None, port: int | None) -> Debugger:
    """The debugger, for one message if there is an offset."""

    def debugs(arrival: Arrival) -> bool:
        return at is None or at.offset in {None, arrival.offset}

    def wait(host: str, port: int) -> None:
        click.echo(f"waiting for a debugger at {host}:{port}", err=True)

    return TerminalDebugger(debugs) if port is None else AttachedDebugger(debugs, port, wait)


class _Found(NamedTuple):
    """What is shown."""

    changes: Iterable[Change]
    notes: Sequence[str]
    title: str = ""


def _check_together(
    key: str | None,
    output: str | None,
    state: str | None,
    at: Moment | None,
    snapshot: Path | None,
    *,
    late: bool,
    reruns: bool,
) -> None:
    """Refuse options that exclude each other.

    Raises:
        UsageError: There are such, or there is nothing to explain.
    """
    if key is None and output is None and not late:
        msg = "name a KEY, or give --output SINK:NUMBER or --late"
    elif output is not None and (key is not None or state or at or late or snapshot):
        msg = "--output takes the place of KEY; omit KEY, --state, --at, --late and --snapshot"
    elif reruns and (output is not None or late):
        msg = (
            "--with-app, --debug and --debug-port need a KEY, without --output and --late, which "
            "show keys"
        )
    else:
        return
    raise UsageError(msg)


def _of_key(explanation: Explanation, directory: Path, asked: _Asked, most: int) -> _Found:
    """What changed the entities of a key."""
    latest, count = _latest(explanation, asked, most)
    if not latest:
        msg = f"the log in {directory} has no change{asked}"
        if explanation.begins:
            msg += f"; it has only messages from offset {explanation.begins:,} on"
        for source in explanation.unread:
            msg += f"; it has messages of the source {source!r}, which the application lacks"
        raise UsageError(msg)
    notes = _left_out(latest, count)
    return _Found(latest, [*notes, _LACKS] if explanation.lacks else notes)


def _of_late(messages: LateMessages, directory: Path, asked: _Asked, most: int) -> _Found:
    """What came too late."""
    of_key = (
        change
        for change in messages
        if asked.key is None or (change.where and is_written(change.where[1], asked.key))
    )
    latest, count = _latest(of_key, asked, most)
    notes = _left_out(latest, count)
    if messages.missing > 0:
        notes.append(_LATE_MISSING.format(counted(messages.missing, "message")))
    if not latest and not notes:
        msg = f"the log in {directory} has no late message{asked}"
        raise UsageError(msg)
    return _Found(latest, notes)


def _of_output(application: Application, read: _Read, text: str, most: int) -> _Found:
    """What made an output."""
    wanted = WantedOutput.parse(text, application)
    found = find_output(wanted, read, application)
    origin = origin_of(found, application, read(found.record), most)
    notes = []
    if origin.count > 1:
        left = counted(origin.count - len(origin.ways), "message")
        more = f"; {left} left out" if origin.count > len(origin.ways) else ""
        notes.append(_ONE_OF.format(count=origin.count, more=more))
    if origin.is_other:
        notes.append(_OTHER)
    changes = [change for way in origin.ways for change in way]
    return _Found(changes, notes, f"{found}")


def _latest(changes: Iterable[Change], asked: _Asked, most: int) -> tuple[deque[Change], int]:
    """The latest of *changes* that are asked for, and how many there are."""
    latest: deque[Change] = deque(maxlen=most)
    count = 0
    for change in changes:
        if asked.has(change):
            latest.append(change)
            count += 1
    return latest, count


def _left_out(latest: Sized, count: int) -> list[str]:
    """That there were more, if so."""
    if count == len(latest):
        return []
    earlier = counted(count - len(latest), "earlier change")
    return [f"{earlier} left out; --changes {count} shows all"]
