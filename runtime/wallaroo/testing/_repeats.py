"""Checks decoders that are declared repeatable against samples, by decoding them twice."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from wallaroo.api.places import Place, place_of
from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.errors import ApplicationError
from wallaroo.model.application import Pipeline, Stateful
from wallaroo.model.immutable import IMMUTABLE
from wallaroo.resolution.problems import name_of
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import describe_error, pass_interrupt, short_repr

_PLAIN = (*(IMMUTABLE - {frozenset}), type, FunctionType, ModuleType)
"""Classes whose objects have no parts that can change."""
_MOST_PARTS = 1_000
"""Objects of a message that are looked at."""
_PROMISE = (
    "but it is declared repeatable: make it return an equal message for the same bytes, or leave "
    "out repeatable=True"
)


@has_role(Role.CHECK)
@time_limited
def check_repeats(pipeline: Pipeline, payload: Any) -> None:
    """Check that two calls of a decoder return equal messages, which the key leaves unchanged.

    Args:
        pipeline: A pipeline whose decoder is declared repeatable.
        payload: What to decode; not checked if the decoder raises.

    Raises:
        ApplicationError: The decoder or the key extractor breaks the promise.
    """
    source, step = pipeline.source, next(iter(pipeline.trunk.steps), None)
    decoder = f"decoder {name_of(source.decode)}"
    about = f"for the payload {short_repr(payload)}"
    try:
        message = source.decode(payload)
    except BaseException as error:  # the payload becomes a dead letter
        pass_interrupt(error)
        return
    try:
        again = source.decode(payload)
    except BaseException as error:
        pass_interrupt(error)
        problem = f"the second call raises {describe_error(error)} {about}"
        raise _error(pipeline, decoder, f"{problem}, {_PROMISE}") from error
    if found := _difference(message, again):
        raise _error(
            pipeline, decoder, f"two calls return different messages {about}: {found}, {_PROMISE}"
        )
    if (shared := _shared(message, again)) is not None:
        what = (
            "the same object" if shared is message else f"messages that share {short_repr(shared)}"
        )
        problem = f"two calls return {what} {about}, which one of its users may change"
        raise _error(pipeline, decoder, f"{problem}, {_PROMISE}")
    if isinstance(step, Stateful) and step.key is not None:
        try:
            step.key(again)
        except BaseException as error:  # the message becomes a dead letter
            pass_interrupt(error)
        if found := _difference(message, again):
            problem = f"it changes the message {short_repr(message)}: {found}"
            remedy = "change nothing, or leave out repeatable=True in the decoder"
            place = place_of(step.key, step.place)
            raise _error(pipeline, f"key of {step.name}", f"{problem}; {remedy}", place)


def _error(
    pipeline: Pipeline, what: str, problem: str, place: Place | None = None
) -> ApplicationError:
    where = f"{place or pipeline.source.place}: pipeline {pipeline.name!r}"
    return ApplicationError(f"{where}: {what}: {problem}")


def _difference(one: Any, other: Any) -> str | None:
    """What differs between two messages; None if they are equal."""
    if type(one) is not type(other):
        return f"an object of class {type(one).__name__}, then of class {type(other).__name__}"
    if _are_equal(one, other):
        return None
    before, after = _parts(one), _parts(other)
    for name in before | after:
        if name in before and name in after and _are_equal(before[name], after[name]):
            continue
        was, then = (short_repr(of[name]) if name in of else "missing" for of in (before, after))
        return f"{name} is {was}, then {then}"
    return f"{short_repr(one)}, then {short_repr(other)}"


def _are_equal(one: Any, other: Any) -> bool:
    with contextlib.suppress(Exception):  # a NaN and plain objects do not equal their copies
        if pickle.dumps(one) == pickle.dumps(other):
            return True
    try:
        return bool(one == other)
    except Exception:
        return False


def _parts(message: Any) -> dict[str, Any]:
    """The parts of *message*, by how Python writes them."""
    if isinstance(message, Mapping):
        return {f"[{key!r}]": value for key, value in message.items()}
    names: Any = getattr(message, "_fields", None) or getattr(message, "__slots__", ())
    if isinstance(message, (list, tuple)) and not names:
        return {f"[{number}]": value for number, value in enumerate(message)}
    names = [names] if isinstance(names, str) else [*names, *getattr(message, "__dict__", ())]
    return {f".{name}": getattr(message, name) for name in names if hasattr(message, name)}


def _shared(one: Any, other: Any) -> Any:
    """An object that can change and is part of both messages; None if none is found."""
    parts = {id(part): part for part in _reached(one) if _can_change(part)}
    return next((part for part in _reached(other) if id(part) in parts), None)


def _reached(message: Any) -> Iterator[Any]:
    """*message* and the objects in it, as far as they are seen from outside."""
    ahead, seen = deque([message]), set[int]()
    while ahead and len(seen) < _MOST_PARTS:
        part = ahead.popleft()
        if id(part) in seen or isinstance(part, _PLAIN):
            continue
        seen.add(id(part))
        yield part
        ahead.extend(part if isinstance(part, (set, frozenset)) else _parts(part).values())


def _can_change(message: Any) -> bool:
    """Whether *message* can change; not so what is the only one of its kind, as of an Enum."""
    of_values = getattr(type(message), "__hash__", None)
    if of_values is not None and of_values is not object.__hash__:
        return False
    try:
        return copy.copy(message) is not message
    except Exception:
        return True
