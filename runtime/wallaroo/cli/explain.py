"""`wallaroo explain`: shows the messages that made the state of a key."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import click

from wallaroo.cli.option_types import MOMENT
from wallaroo.cli.options import CALL_LIMIT, STATE_DIR_OF_APP
from wallaroo.cli.saved_state import log_of_application, read_log
from wallaroo.dataflow.json_codec import to_plain
from wallaroo.errors import UsageError
from wallaroo.history.changes import UNKNOWN, Change
from wallaroo.history.differences import ABSENT, differences, shown
from wallaroo.history.explanation import Explanation
from wallaroo.history.moments import Moment, shown_time
from wallaroo.run.user_output import (
    empty_stdin,
    limited_calls,
    reported_exits,
    reserved_stdout,
)
from wallaroo.system.printable import counted, printable, printable_json
from wallaroo.user_code.exceptions import short_repr

_DIFFERENCES = 10
"""Differences of an entity that are shown."""
_NOT_KEPT = "was there before the log begins"
_LACKS = (
    "note: the log does not go back to the first messages, so what was before its first change of "
    "an entity is not known; --keep-messages-gib keeps more of it"
)


@click.command()
@click.argument("app")
@click.argument("key")
@STATE_DIR_OF_APP
@click.option("--state", metavar="NAME", help="Name of the state.  [default: all with the key]")
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
    help="Number of changes, the latest ones.",
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
@CALL_LIMIT
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one per line.")
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def explain(
    app: str,
    key: str,
    state_dir: Path | None,
    state: str | None,
    at: Moment | None,
    most: int,
    other: str | None,
    debug: bool,
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

    The log keeps at least the latest messages, and more with `wallaroo run --keep-messages-gib`.
    Where the code does not do again what it did, the state that was published is shown, too.

    \b
    Example:
      wallaroo explain apps/word_count z
      wallaroo explain apps/market_spread AAPL --at 1200 --changes 3
      wallaroo explain apps/word_count z --with-app new/word_count
    """  # noqa: D301  (click reads \b)
    with reported_exits(), ExitStack() as stack:
        write: TextIO = sys.stdout
        if not debug:  # the debugger reads and writes, too
            write = stack.enter_context(reserved_stdout())
            stack.enter_context(empty_stdin())
            stack.enter_context(limited_calls(function_timeout))
        application, directory = log_of_application(app, app_args, state_dir, other)
        if state is not None and state not in application.partitions:
            names = ", ".join(map(repr, application.partitions))
            msg = f"there is no state {state!r}; the application has {names or 'none'}"
            raise UsageError(msg)
        explanation = Explanation(
            application,
            read_log(directory, quiet=debug),
            key,
            state,
            is_other=other is not None,
            debugs=(lambda one: at is None or at.offset in {None, one.offset}) if debug else None,
        )
        latest: deque[Change] = deque(maxlen=most)
        count = 0
        for change in explanation:
            if at is None or (change.arrival is not None and not at.is_before(change.arrival)):
                latest.append(change)
                count += 1
        if not latest:
            msg = f"the log in {directory} has no change of an entity with the key {key!r}"
            for source in explanation.unread:
                msg += f"; it has messages of the source {source!r}, which the application lacks"
            raise UsageError(f"{msg} up to {at.shown()}" if at else msg)
        for change in latest:
            click.echo(_json(change) if as_json else "\n".join(_lines(change)), file=write)
    if not as_json:
        if count > len(latest):
            earlier = counted(count - len(latest), "earlier change")
            click.echo(f"{earlier} left out; --changes {count} shows all", err=True)
        if explanation.lacks:
            click.echo(_LACKS, err=True)


def _lines(change: Change) -> Iterator[str]:
    state, key = change.where
    of = f"{state}[{short_repr(key)}]"
    if change.arrival is None:
        yield printable(
            f"{of} changed by messages that the log does not have, or that are not found"
        )
    elif change.arrival.source is None:
        yield printable(
            f"offset {change.arrival.offset:,}  {shown_time(change.arrival.at_ns)}  the clock"
        )
    else:
        source, message = repr(change.arrival.source), shown(to_plain(change.arrival.message))
        place = (
            f"offset {change.arrival.offset:,}  {shown_time(change.arrival.at_ns)}  from {source}"
        )
        yield printable(f"{place}: {message}")
    rows = [(step, shown(value)) for step, value in change.path]
    if change.is_new:
        of = f"{of} (new)"
    rows += [(change.step or "state", f"{of} {text}") for text in _differences(change)]
    rows += [("emits", shown(output)) for output in change.outputs]
    rows += [(f"sends to {sink!r}", repr(output)) for sink, output in change.sent]
    if change.error is not None:
        rows.append(("fails", change.error))
    if change.recorded is not None:
        parts = [
            f"{one.place} {shown(one.after)} instead of {shown(one.before)}".lstrip()
            for one in differences(change.after, change.recorded)
        ]
        rows += [("but published", text) for text in _first(parts)]
    width = max((len(name) for name, _ in rows), default=0)
    yield from (f"  {printable(name):<{width}}  {printable(text)}" for name, text in rows)


def _differences(change: Change) -> list[str]:
    before, after = change.before, change.after
    if UNKNOWN in (before, after):
        return [f"{_NOT_KEPT}: {shown(after)} now" if after != UNKNOWN else _NOT_KEPT]
    if ABSENT in (before, after):
        return [f"+ {shown(after)}" if before == ABSENT else f"- {shown(before)}"]
    return _first([str(one) for one in differences(before, after)]) or ["unchanged"]


def _first(parts: Sequence[str]) -> list[str]:
    """The first of *parts*, and how many more there are."""
    more = len(parts) - _DIFFERENCES
    return [*parts[:_DIFFERENCES], *([f"and {more:,} more differences"] if more > 0 else [])]


def _json(change: Change) -> str:
    state, key = change.where
    arrival = change.arrival
    values: dict[str, Any] = {
        "state": state,
        "key": to_plain(key),
        "offset": arrival and arrival.offset,
        "time": arrival and shown_time(arrival.at_ns),
        "source": arrival and arrival.source,
        "message": arrival and to_plain(arrival.message),
        "pipeline": change.pipeline,
        "step": change.step,
        "path": [{"step": step, "message": value} for step, value in change.path],
        "before": None if change.is_new else change.before,
        "after": change.after,
        "outputs": change.outputs,
        "sent": [{"sink": sink, "output": to_plain(output)} for sink, output in change.sent],
    }
    if change.error is not None:
        values["error"] = change.error
    if change.recorded is not None:
        values["published"] = change.recorded
    return printable_json(json.dumps(values))
