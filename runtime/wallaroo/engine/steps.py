"""Stateless user code over lists of messages: computations and encoders.

An exception sets aside the one message on which it was raised, of which nothing comes then; None is
no output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from time import perf_counter
from typing import Any, NamedTuple

from wallaroo.engine.program import Stretch
from wallaroo.engine.results import NOWHERE, Named, NamedStep, Origin, Owner, TaskResults
from wallaroo.model.application import Compute, Sink

_BYTES = {bytes}


class Messages(NamedTuple):
    """Messages, and what they were made of."""

    items: Sequence[Any]
    arrivals: Sequence[int] = ()
    """For each, the arrival number of what it was made of; none where those are not known."""

    def origin(self, place: int) -> Origin:
        """Where the message at *place* comes from."""
        return Origin(None, self.arrivals[place]) if self.arrivals else NOWHERE


def emit(stretch: Stretch, messages: Messages, results: TaskResults) -> None:
    """Encode *messages* for each sink of *stretch*."""
    if not messages.items:
        return
    for index, sink in stretch.sinks:
        encoded = applied(stretch, NamedStep("encoder", sink.place), sink.encode, messages, results)
        outputs = encoded.items
        assert isinstance(outputs, list)
        if not _BYTES.issuperset(map(type, outputs)):
            outputs = _as_bytes(stretch, sink, encoded, results)
        results.add(index, outputs)


def _as_bytes(owner: Owner, sink: Sink, encoded: Messages, results: TaskResults) -> list[bytes]:
    made: list[bytes] = []
    for place, output in enumerate(encoded.items):
        problem: Exception
        if isinstance(output, str):
            try:
                made.append(output.encode())
                continue
            except UnicodeEncodeError as error:  # half of a surrogate pair
                problem = error
        elif isinstance(output, (bytes, bytearray, memoryview)):
            made.append(bytes(output))
            continue
        else:
            problem = TypeError(f"the encoder returned {type(output).__name__}, and bytes are due")
        step = NamedStep("encoder", sink.place)
        results.failed(owner, step, output, problem, encoded.origin(place))
    return made


def through(
    owner: Owner, steps: Sequence[Compute], messages: Messages, results: TaskResults
) -> Messages:
    """What becomes of *messages* in *steps*, one after the other."""
    for step in steps:
        apply = applied_multi if step.multi else applied
        messages = apply(owner, step, step.function, messages, results)
    return messages


def applied(
    owner: Owner,
    step: Named,
    function: Callable[[Any], Any],
    messages: Messages,
    results: TaskResults,
) -> Messages:
    """The results of *function* on each of *messages*."""
    made: list[Any] = []
    dropped: list[int] = []
    """Places of the messages without a result."""
    append = made.append
    began = perf_counter()
    for message in messages.items:
        try:
            result = function(message)
        except (Exception, SystemExit) as error:
            results.failed(owner, step, message, error, messages.origin(len(made) + len(dropped)))
            result = None
        if result is None:
            dropped.append(len(made) + len(dropped))
        else:
            append(result)
    seconds = perf_counter() - began
    figures = results.figures.step(owner.pipeline, step.name)
    figures.note(len(messages.items), len(made), seconds)
    arrivals = messages.arrivals
    if dropped and arrivals:
        gone = set(dropped)
        arrivals = [number for place, number in enumerate(arrivals) if place not in gone]
    return Messages(made, arrivals)


def applied_multi(
    owner: Owner,
    step: Named,
    function: Callable[[Any], Any],
    messages: Messages,
    results: TaskResults,
) -> Messages:
    """The results of *function*, which gives several or None for a message."""
    made: list[Any] = []
    counts: list[int] = []
    """For each message, how many were made of it."""
    began = perf_counter()
    for message in messages.items:
        start = len(made)
        try:
            several = function(message)
            if several is not None:
                made += [result for result in several if result is not None]
        except (Exception, SystemExit) as error:
            results.failed(owner, step, message, error, messages.origin(len(counts)))
        counts.append(len(made) - start)
    seconds = perf_counter() - began
    figures = results.figures.step(owner.pipeline, step.name)
    figures.note(len(messages.items), len(made), seconds)
    return Messages(made, list(chain.from_iterable(map(repeat, messages.arrivals, counts))))
