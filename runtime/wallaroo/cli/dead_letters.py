"""`wallaroo dead-letters`: lists, shows, replays and drops dead letters."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from wallaroo.cli.option_tree import together
from wallaroo.cli.options import STATE_DIR_OF_APP
from wallaroo.cli.saved_state import state_dir_of
from wallaroo.connectors.kafka.stored import is_refused, value_of
from wallaroo.errors import UsageError
from wallaroo.gateway.dead_letters.actions import DeadLetterActions
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter
from wallaroo.gateway.explaining import of_letter, shell_line
from wallaroo.run.state.dead_letters import dead_letter_actions
from wallaroo.system.printable import printable, printable_lines

_NUMBER = click.IntRange(1, 2**63 - 1)
"""A dead letter's number, up to the database's maximum."""
_MAX_LETTERS = 1_000_000
"""Maximum number of dead letters in one query."""

_filters = together(
    click.option("--source", help="Only dead letters of this source."),
    click.option("--pipeline", help="Only dead letters of this pipeline."),
)
"""Restrict a command to some dead letters."""
_selection = together(
    click.argument("given", nargs=-1, metavar="[APP] [NUMBER…]"),
    click.option("--all", "every", is_flag=True, help="All dead letters."),
    _filters,
)
"""Select dead letters for an action."""


def _app_and_numbers(given: tuple[str, ...]) -> tuple[str | None, tuple[int, ...]]:
    """The application in front of numbers, if there is one, and the numbers."""
    is_app = bool(given) and not given[0].isdecimal()
    numbers = tuple(_NUMBER(one) for one in given[int(is_app) :])
    return (given[0] if is_app else None), numbers


@contextmanager
def _selected(
    state_dir: Path | None,
    given: tuple[str, ...],
    every: bool,
    source: str | None,
    pipeline: str | None,
    *,
    replay: bool = False,
) -> Iterator[tuple[DeadLetterActions, Choice]]:
    """The dead letters that the options of `_selection` select, which exist."""
    app, numbers = _app_and_numbers(given)
    if not (numbers or every or source or pipeline):
        msg = "no dead letters selected: use numbers, --source, --pipeline or --all"
        raise UsageError(msg)
    if every and (numbers or source or pipeline):
        msg = "--all selects all dead letters: omit it, or omit numbers, --source and --pipeline"
        raise UsageError(msg)
    choice = Choice(tuple(dict.fromkeys(numbers)) or None, source, pipeline)
    state_dir = state_dir_of(app, state_dir)
    with dead_letter_actions(state_dir) as actions:
        _check_origin(actions, choice)
        _check_numbers(actions, choice, state_dir, replay=replay)
        yield actions, choice


def _check_origin(actions: DeadLetterActions, choice: Choice) -> None:
    """Refuse sources and pipelines that do not exist."""
    known = actions.letter_origins()
    for kind, name, names in (
        ("source", choice.source, known.sources),
        ("pipeline", choice.pipeline, known.pipelines),
    ):
        if name is not None and name not in names:
            existing = f"; the {kind}s are: {', '.join(map(repr, names))}" if names else ""
            msg = f"there is no {kind} {name!r}{existing}"
            raise UsageError(msg)


def _check_numbers(
    actions: DeadLetterActions, choice: Choice, state_dir: Path, *, replay: bool
) -> None:
    """Refuse numbers that do not exist and, for *replay*, those that cannot be replayed."""
    if choice.ids is None:
        return
    by_number = {letter.id: letter for letter in actions.letters(choice, len(choice.ids))}
    where = "".join(
        f" of {kind} {name!r}"
        for kind, name in (("source", choice.source), ("pipeline", choice.pipeline))
        if name is not None
    )
    for number in choice.ids:
        if number not in by_number:
            raise UsageError(_no_letter(number, where, state_dir))
        if replay and (reason := _not_replayable(by_number[number])) is not None:
            msg = f"{reason}; it cannot be replayed"
            raise UsageError(msg)


def _not_replayable(letter: DeadLetter) -> str | None:
    """Why *letter* cannot be replayed; None if it can."""
    if letter.payload is None:
        return _no_payload(letter)
    return None if letter.pipeline else f"dead letter {letter.id} was damaged on disk"


def _no_letter(number: int, where: str, state_dir: Path) -> str:
    return f"there is no dead letter {number}{where} in {state_dir}"


def _no_payload(letter: DeadLetter) -> str:
    return f"dead letter {letter.id} has no payload, because {_why_no_payload(letter)}"


def _why_no_payload(letter: DeadLetter) -> str | None:
    """Why *letter* has no payload; None if it has one."""
    if letter.payload is None:
        return "its message had passed a state"
    return "the source could not take its message" if is_refused(letter.payload) else None


@click.group(name="dead-letters")
def dead_letters() -> None:
    """List, show, replay and drop dead letters: messages that could not be processed.

    The application may be running. Name it, or its state directory with --state-dir.

    \b
    Example:
      wallaroo dead-letters list apps/word_count
      wallaroo dead-letters show apps/word_count 7
      wallaroo dead-letters replay --source Orders --state-dir .wallaroo/market-spread
    """  # noqa: D301  (click reads \b)


@dead_letters.command("list")
@click.argument("app", required=False)
@STATE_DIR_OF_APP
@_filters
@click.option(
    "--last",
    default=50,
    show_default=True,
    type=click.IntRange(1, _MAX_LETTERS),
    help="Only the most recent dead letters, at most this many.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects, one per line.")
def list_letters(
    app: str | None,
    state_dir: Path | None,
    source: str | None,
    pipeline: str | None,
    last: int,
    as_json: bool,
) -> None:
    """List dead letters, oldest first."""
    with dead_letter_actions(state_dir_of(app, state_dir)) as actions:
        choice = Choice(None, source, pipeline)
        _check_origin(actions, choice)
        letters = actions.letters(choice, last + 1)
    for letter in letters[-last:]:
        click.echo(json.dumps(_arrived(letter).to_json()) if as_json else _line(letter))
    if len(letters) > last:
        click.echo(f"there are more dead letters than these {last:,}: --last N lists N", err=True)


@dead_letters.command()
@click.argument("given", nargs=-1, required=True, metavar="[APP] NUMBER")
@STATE_DIR_OF_APP
@click.option("--payload", is_flag=True, help="Print only the payload, as it arrived.")
def show(given: tuple[str, ...], state_dir: Path | None, payload: bool) -> None:
    """Show one dead letter."""
    app, numbers = _app_and_numbers(given)
    if len(numbers) != 1:
        msg = f"{len(numbers)} numbers of dead letters; expected one"
        raise UsageError(msg)
    (number,), state_dir = numbers, state_dir_of(app, state_dir)
    with dead_letter_actions(state_dir) as actions:
        letters = actions.letters(Choice((number,)), 1)
    if not letters:
        raise UsageError(_no_letter(number, "", state_dir))
    (letter,) = letters
    if not payload:
        click.echo(_page(letter, app))
    elif (arrived := _arrived(letter).payload) is None:
        raise UsageError(_no_payload(letter))
    else:
        sys.stdout.buffer.write(arrived)


@dead_letters.command()
@_selection
@STATE_DIR_OF_APP
def replay(**selection: Any) -> None:
    """Send messages again, after everything that has arrived since, and remove their dead letters.

    They go to all pipelines of their source. Dead letters without a payload are kept: their
    messages have already changed a state.
    """
    with _selected(**selection, replay=True) as (actions, choice):
        count = actions.replay_letters(choice)
        left = actions.letters(choice, _MAX_LETTERS)  # with those that have failed again
        kept = sum(_not_replayable(letter) is not None for letter in left)
    click.echo(f"{count} replayed" + f", {kept} kept, which cannot be replayed" * bool(kept))


@dead_letters.command()
@_selection
@STATE_DIR_OF_APP
def drop(**selection: Any) -> None:
    """Remove dead letters."""
    with _selected(**selection) as (actions, choice):
        count = actions.drop_letters(choice)
    click.echo(f"{count} dropped")


def _line(letter: DeadLetter) -> str:
    when, key = _time(letter.set_aside_ns), f"key {letter.key}  " if letter.key else ""
    where = f"{letter.pipeline} / {letter.step}"
    return printable(f"{letter.id:>6}  {when}  {where}  {key}{letter.error}")


def _arrived(letter: DeadLetter) -> DeadLetter:
    """*letter* with its payload as it arrived."""
    why = _why_no_payload(letter)
    return replace(letter, payload=None if why else value_of(letter.payload or b""))


def _page(letter: DeadLetter, app: str | None) -> str:
    why, arrived = _why_no_payload(letter), _arrived(letter).payload
    fields = {
        "number": letter.id,
        "set aside": _time(letter.set_aside_ns),
        "arrived": "?" if letter.arrived_ns is None else _time(letter.arrived_ns),
        "source": letter.source,
        "pipeline": letter.pipeline,
        "step": letter.step,
        "place": letter.place,
        "error": letter.error,
        "key": letter.key or "?",
        "message": letter.message,
        "payload": f"none: {why}" + "; it cannot be replayed" * (letter.payload is None)
        if arrived is None
        else f"{len(arrived)} bytes: {arrived[:60]!r}",
    }
    if app is not None and (asked := of_letter(letter)) is not None:
        fields["see also"] = shell_line(["wallaroo", "explain", app, *asked])
    if letter.payload is not None and why:  # no decoder had it
        del fields["place"], fields["message"]
    page = "\n".join(f"{name:<10} {printable(value)}" for name, value in fields.items())
    return f"{page}\n\n{printable_lines(letter.traceback)}".rstrip()


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
