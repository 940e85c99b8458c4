"""Marks on the code that calls the application's, for whoever reads the stack.

What a call of the application's code takes and which step it belongs to is read off the stack when
somebody asks, so that a message pays nothing for it. The decorators in here collect the code
objects to look for when a module is imported: a mark goes with its function wherever that is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from wallaroo.api.places import RUNTIME

T = TypeVar("T")

_limited: set[CodeType] = set()


class _Variables(NamedTuple):
    owner: str
    step: str | None


_speakers: dict[CodeType, _Variables] = {}


class Speaker(NamedTuple):
    """Who speaks where the application's code prints or logs."""

    pipeline: str
    step: str


def limited(caller: T) -> T:
    """Decorates a function, or a class with all its methods, that calls the application's code.

    A call that takes too long is interrupted, with an exception that the function has to expect.
    """
    _limited.update(_codes_of(caller))
    return caller


def speaks_for(owner: str, step: str | None = None) -> Callable[[T], T]:
    """Decorates a function that runs a step, itself or in a function that it defines.

    Args:
        owner: The function's variable with what belongs to a pipeline.
        step: Its variable with the step; without it, the step is the owner's.

    Raises:
        TypeError: The function has no such variables.
    """
    variables = _Variables(owner, step)
    names = {name for name in variables if name is not None}

    def marked(caller: T) -> T:
        found = [code for code in _codes_of(caller) if names <= _variables_of(code)]
        if not found:
            msg = f"{caller!r} has no variables {sorted(names)}: name those that it has now"
            raise TypeError(msg)
        _speakers.update(dict.fromkeys(found, variables))
        return caller

    return marked


def call_at(frame: FrameType | None) -> FrameType | None:
    """The call of the application's code that *frame* is a part of, if its time is limited."""
    called: FrameType | None = None
    while frame is not None:
        if frame.f_code in _limited:
            return called
        if frame.f_code.co_filename.startswith(RUNTIME):
            return None
        called, frame = frame, frame.f_back
    return None


def speaker_at(frame: FrameType | None) -> Speaker | None:
    """Who speaks in *frame*: the innermost step under way; None where there is none."""
    while frame is not None:
        variables = _speakers.get(frame.f_code)
        if variables is not None:
            there = frame.f_locals
            owner = there.get(variables.owner)
            step = (
                getattr(owner, "step", None)
                if variables.step is None
                else there.get(variables.step)
            )
            if owner is not None and step is not None:  # else it has not got so far yet
                return Speaker(owner.pipeline, step.name)
        frame = frame.f_back
    return None


def _codes_of(thing: Any) -> Iterator[CodeType]:
    """The code of a function, or of the methods of a class, and of all functions in it."""
    if isinstance(thing, type):
        for member in vars(thing).values():
            yield from _codes_of(member)
        return
    thing = getattr(thing, "__func__", getattr(thing, "fget", thing))
    code = thing if isinstance(thing, CodeType) else getattr(thing, "__code__", None)
    if code is not None:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from _codes_of(constant)


def _variables_of(code: CodeType) -> set[str]:
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
