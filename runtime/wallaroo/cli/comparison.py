"""Comparisons of what other code makes of messages with what was published, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from wallaroo.errors import UsageError
from wallaroo.history.changes import Arrival
from wallaroo.history.other_calls import other_calls
from wallaroo.history.rehearsal import DEAD_LETTERS, UNSAVABLE, Example, Kind, OfSink, Rehearsal
from wallaroo.model.application import Application
from wallaroo.system.printable import counted
from wallaroo.user_code.exceptions import short_repr

EXPECT = click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME",
    help="Name of a sink, state or source that is to differ, or 'dead letters'; may be repeated.",
)
_EXAMPLES = 3
"""Outputs that are shown of each sort."""
_SHOWN = 100
"""Characters of an output, or of a message."""


def check_expected(rehearsal: Rehearsal, application: Application, expected: Sequence[str]) -> None:
    """Refuse names that nothing has which could differ.

    Raises:
        UsageError: There is one.
    """
    names = {DEAD_LETTERS, *application.partitions, *rehearsal.others, *rehearsal.sinks}
    names.update(rehearsal.unread)
    for name in expected:
        if name not in names:
            known = ", ".join(map(repr, sorted(names)))
            msg = f"--expect: there is nothing named {name!r} to differ; there is {known}"
            raise UsageError(msg)


def comparison_lines(rehearsal: Rehearsal) -> Iterator[str]:
    """What is the same, and what differs."""
    yield f"{counted(rehearsal.messages, 'message')} run again"
    if not (rehearsal.messages or rehearsal.unread):
        return
    for source, count in rehearsal.unread.items():
        yield f"source {source!r}: {counted(count, 'message')} left out: no source has this name"
    for name, sink in rehearsal.sinks.items() if rehearsal.knows_all else ():
        yield f"sink {name!r}: {counted(sink.same, 'output')} the same{_differing(sink)}"
        yield from output_lines(sink, _EXAMPLES)
    if not rehearsal.knows_all:
        yield "outputs are not compared: the log does not begin with the first message"
    differing = Counter(name for name, _ in rehearsal.differing)
    kinds = rehearsal.kinds()
    for state, count in sorted(rehearsal.entities().items()):
        if not (count or state in {kind.state for kind in rehearsal.passed}):
            continue
        verb = "differs" if differing[state] == 1 else "differ"
        more = f", {differing[state]:,} {verb}" if differing[state] else ""
        yield f"state {state!r}: {count - differing[state]:,} of {_entities(count)} the same{more}"
        for kind, examples in kinds.items():
            if kind.state == state:
                such = f"such as {short_repr(examples[0].key)}: {examples[0].difference}"
                then = "; their messages would become dead letters" * (kind.place == UNSAVABLE)
                yield f"  {_place(kind)}: {_entities(len(examples))}, {such}{then}"
        for kind, example in rehearsal.passed.items():
            if kind.state == state:
                yield f"  not any more: {example_line(kind, example)}"
    for state, count in rehearsal.others.items():
        yield f"state {state!r}: {_entities(count)} published, and no state has this name"
    if rehearsal.letters or rehearsal.new_letters:
        yield from letter_lines(rehearsal)
    yield from _other_call_lines(rehearsal)


def _other_call_lines(rehearsal: Rehearsal) -> Iterator[str]:
    """The calls in the code that return something else each time, if anything differs."""
    if not rehearsal.differing_names():
        return
    places = dict[str, list[str]]()
    for call, place in other_calls(rehearsal.application):
        places.setdefault(call, []).append(str(place))
    if places:
        yield "calls with other results each time, unlike those of wallaroo.now and wallaroo.rng:"
        yield from (f"  {call}: {', '.join(at)}" for call, at in places.items())


def letter_lines(rehearsal: Rehearsal) -> Iterator[str]:
    """How many dead letters there were and are, and the first ones if the numbers differ."""
    then, now = rehearsal.letters, rehearsal.new_letters
    yield f"dead letters: {then:,} then, {now:,} now"
    for failed in rehearsal.failed if then != now else ():
        yield f"  in this run: step {failed.step!r}{_behind(failed.arrival)}: {failed.error}"


def output_lines(sink: OfSink, most: int) -> Iterator[str]:
    """The first outputs of *sink* that differ, at most so many of each sort."""
    for head, outputs in (("only published", sink.missing), ("only in this run", sink.further)):
        for output, number in list(outputs.items())[:most]:
            times = f" ({number:,} times)" if number > 1 else ""
            yield f"  {head}: {short_repr(output, _SHOWN)}{times}"


def example_line(kind: Kind, example: Example) -> str:
    """One difference of an entity, with the message behind which it was found."""
    line = f"state {kind.state!r}, {_place(kind)}: {short_repr(example.key)}: {example.difference}"
    return f"{line}{_behind(example.arrival)}"


def _behind(arrival: Arrival | None) -> str:
    """The message after which something was found, if there is one."""
    if arrival is None:
        return ""
    message = "the clock" if arrival.source is None else short_repr(arrival.message, _SHOWN)
    return f", after offset {arrival.offset:,}, {message}"


def _place(kind: Kind) -> str:
    return kind.place or "as a whole"


def _differing(sink: OfSink) -> str:
    parts = [
        f", {outputs.total():,} {what}"
        for outputs, what in ((sink.missing, "missing"), (sink.further, "new"))
        if outputs
    ]
    return "".join(parts)


def _entities(count: int) -> str:
    return f"{count:,} {'entity' if count == 1 else 'entities'}"
