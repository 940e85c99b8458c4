"""`wallaroo rehearse`: shows what other code makes of the messages that the log keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from wallaroo.cli.options import STATE_DIR_OF_APP
from wallaroo.cli.saved_state import log_of_application, read_log
from wallaroo.errors import UsageError
from wallaroo.history.rehearsal import DEAD_LETTERS, OfSink, Rehearsal
from wallaroo.run.user_output import empty_stdin, reported_exits, reserved_stdout
from wallaroo.system.printable import counted, printable
from wallaroo.user_code.exceptions import short_repr

_EXAMPLES = 3
"""Outputs that are shown of each sort."""
_SHOWN = 100
"""Characters of an output."""


@click.command()
@click.argument("app")
@STATE_DIR_OF_APP
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME",
    help="Name of a sink, state or source that is to differ, or 'dead letters'; may be repeated.",
)
@click.argument("app_args", nargs=-1, metavar="[-- APP ARGS…]")
def rehearse(
    app: str, state_dir: Path | None, expected: tuple[str, ...], app_args: tuple[str, ...]
) -> None:
    """Run changed code, APP, over the messages that the log keeps, and compare what comes of it.

    Outputs and state are compared with those that were published, and differences are shown by
    kind, each with an example. The exit code is 1 if something differs that --expect does not
    name. Nothing is sent, and a running application is not touched. Side effects of functions, such
    as writes to a database, happen.

    If the log does not begin with the first message, the state of a key is compared from its first
    change in the log on, and outputs are not compared.

    \b
    Example:
      wallaroo rehearse new/word_count --state-dir word_count/.wallaroo/word-count-application
      wallaroo rehearse new/orders.py --state-dir recorded --expect totals
    """  # noqa: D301  (click reads \b)
    with reserved_stdout() as out, empty_stdin(), reported_exits():
        application, directory = log_of_application(app, app_args, state_dir)
        rehearsal = Rehearsal.of(application, read_log(directory))
        names = {DEAD_LETTERS, *application.partitions, *rehearsal.others, *rehearsal.sinks}
        names.update(sink.name for sink in application.output_sinks)
        names.update(rehearsal.unread)
        for name in expected:
            if name not in names:
                known = ", ".join(map(repr, sorted(names)))
                msg = f"--expect: there is nothing named {name!r} to differ; there is {known}"
                raise UsageError(msg)
        if not (rehearsal.messages or rehearsal.unread):
            msg = f"the log in {directory} has no message that was processed"
            raise UsageError(msg)
        for line in _lines(rehearsal):
            click.echo(printable(line), file=out)
    if rehearsal.differing_names() - set(expected):
        click.get_current_context().exit(1)


def _lines(rehearsal: Rehearsal) -> Iterator[str]:
    yield f"{counted(rehearsal.messages, 'message')} run again"
    for source, count in rehearsal.unread.items():
        yield f"source {source!r}: {counted(count, 'message')} left out: no source has this name"
    for name, sink in rehearsal.sinks.items():
        yield f"sink {name!r}: {_outputs(sink.same)} the same{_differing(sink)}"
        yield from _examples("  only published: ", sink.missing)
        yield from _examples("  only in this run: ", sink.further)
    if not rehearsal.is_whole:
        yield "outputs are not compared: the log does not begin with the first message"
    for state, count in sorted(rehearsal.entities.items()):
        differing = rehearsal.differing[state]
        verb = "differs" if differing == 1 else "differ"
        more = f", {differing:,} {verb}" if differing else ""
        yield f"state {state!r}: {count - differing:,} of {_entities(count)} the same{more}"
        for kind, number in rehearsal.kinds.most_common():
            if kind.state == state:
                key, difference = rehearsal.examples[kind]
                where = kind.place or "as a whole"
                yield f"  {where}: {_entities(number)}, such as {short_repr(key)}: {difference}"
    for state, count in rehearsal.others.items():
        yield f"state {state!r}: {_entities(count)} published, and no state has this name"
    then, now = rehearsal.letters
    if then or now:
        yield f"dead letters: {then:,} then, {now:,} now"


def _differing(sink: OfSink) -> str:
    parts = [
        f", {outputs.total():,} {what}"
        for outputs, what in ((sink.missing, "missing"), (sink.further, "new"))
        if outputs
    ]
    return "".join(parts)


def _examples(head: str, outputs: Counter[bytes]) -> Iterator[str]:
    for output, number in list(outputs.items())[:_EXAMPLES]:
        times = f" ({number:,} times)" if number > 1 else ""
        yield f"{head}{short_repr(output, _SHOWN)}{times}"


def _outputs(count: int) -> str:
    return counted(count, "output")


def _entities(count: int) -> str:
    return f"{count:,} {'entity' if count == 1 else 'entities'}"
