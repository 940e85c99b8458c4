"""Stateless user code over lists of messages: computations and encoders.

An exception sets aside the one message on which it was raised; None is no output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from wallaroo.engine.program import Stretch
from wallaroo.engine.results import Named, NamedStep, Owner, TaskResults
from wallaroo.model.application import Compute, Sink

_BYTES = {bytes}


def emit(stretch: Stretch, messages: list[Any], results: TaskResults) -> None:
    """Encode *messages* for each sink of *stretch*."""
    if not messages:
        return
    for index, sink in stretch.sinks:
        encoded = applied(stretch, NamedStep("encoder", sink.place), sink.encode, messages, results)
        if not _BYTES.issuperset(map(type, encoded)):
            encoded = _as_bytes(stretch, sink, encoded, results)
        results.add(index, encoded)


def _as_bytes(owner: Owner, sink: Sink, encoded: list[Any], results: TaskResults) -> list[bytes]:
    made: list[bytes] = []
    for output in encoded:
        if isinstance(output, str):
            try:
                made.append(output.encode())
            except UnicodeEncodeError as error:  # half of a surrogate pair
                results.failed(owner, NamedStep("encoder", sink.place), output, error)
        elif isinstance(output, (bytes, bytearray, memoryview)):
            made.append(bytes(output))
        else:
            problem = TypeError(f"the encoder returned {type(output).__name__}, and bytes are due")
            results.failed(owner, NamedStep("encoder", sink.place), output, problem)
    return made


def through(
    owner: Owner, steps: Sequence[Compute], messages: list[Any], results: TaskResults
) -> list[Any]:
    """What becomes of *messages* in *steps*, one after the other."""
    for step in steps:
        apply = applied_multi if step.multi else applied
        messages = apply(owner, step, step.function, messages, results)
    return messages


def applied(
    owner: Owner,
    step: Named,
    function: Callable[[Any], Any],
    messages: Sequence[Any],
    results: TaskResults,
) -> list[Any]:
    """The results of *function* on each of *messages*."""
    made: list[Any] = []
    append = made.append
    began = perf_counter()
    for message in messages:
        try:
            result = function(message)
        except (Exception, SystemExit) as error:
            results.failed(owner, step, message, error)
            continue
        if result is not None:
            append(result)
    seconds = perf_counter() - began
    results.figures.step(owner.pipeline, step.name).note(len(messages), len(made), seconds)
    return made


def applied_multi(
    owner: Owner,
    step: Named,
    function: Callable[[Any], Any],
    messages: Sequence[Any],
    results: TaskResults,
) -> list[Any]:
    """The results of *function*, which gives several or None for a message."""
    made: list[Any] = []
    began = perf_counter()
    for message in messages:
        try:
            several = function(message)
            if several is not None:
                made.extend(result for result in several if result is not None)
        except (Exception, SystemExit) as error:
            results.failed(owner, step, message, error)
    seconds = perf_counter() - began
    results.figures.step(owner.pipeline, step.name).note(len(messages), len(made), seconds)
    return made
