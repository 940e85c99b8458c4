"""Marks the functions that call user code, so that they can be recognised on the stack.

How long a call of user code has taken, and which step it belongs to, is read from the stack on
demand, at no cost per message. The decorators in this module register the code objects to look for
when a module is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from wallaroo.api.functions import Decorated
from wallaroo.api.places import RUNTIME
from wallaroo.wire.refusals import decoding_refusals
from wallaroo.wire.rows import decoding_rows

T = TypeVar("T")

_CALL_OF_DECORATED = Decorated.__call__.__code__
_limited: set[CodeType] = set()
_one_call: set[CodeType] = set()
"""Functions of the runtime that count as user code, because several calls of it are one call."""


_loop_runners: set[CodeType] = set()
"""Functions of the runtime that run an event loop."""
_loop_calls: set[CodeType] = set()
"""Functions of Python that such a loop calls for each piece of work, which may be user code's."""
_COROUTINE = CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR
"""Flags of code that waits in an event loop, of whatever library."""


class _Variables(NamedTuple):
    owner: str
    step: str | None


_steps: dict[CodeType, _Variables] = {}


class RunningStep(NamedTuple):
    """The step whose code is running."""

    pipeline: str
    step: str


def time_limited(caller: T) -> T:
    """Decorate a function, or a class with all its methods, that calls user code.

    A call that takes too long is interrupted by an exception, which the function must expect.
    """
    _limited.update(codes_of(caller))
    return caller


def one_call(caller: T) -> T:
    """Decorate a function that calls user code several times, in what counts as one call."""
    _one_call.update(codes_of(caller))
    return caller


def user_call(frame: FrameType | None) -> tuple[FrameType | None, int]:
    """Return the call of user code that *frame* belongs to, and the number of its attempt.

    It is the outermost frame of user code that the runtime has called.
    """
    called: FrameType | None = None
    while frame is not None and (
        frame.f_code is _CALL_OF_DECORATED or not frame.f_code.co_filename.startswith(RUNTIME)
    ):
        called, frame = frame, frame.f_back
    if frame is not None and frame.f_code in _one_call and "attempt" in frame.f_code.co_varnames:
        return frame, frame.f_locals["attempt"]
    return called, 0


def is_time_limited(code: CodeType) -> bool:
    """Whether *code* is marked by `time_limited`."""
    return code in _limited


def is_loop_runner(code: CodeType) -> bool:
    """Whether *code* is marked by `runs_loop`."""
    return code in _loop_runners


def is_of_task(code: CodeType) -> bool:
    """Whether *code* runs in a task of some event loop, or calls what such a loop runs."""
    return bool(code.co_flags & _COROUTINE) or code in _loop_calls


def is_repeated(frame: FrameType | None, line: Any) -> bool:
    """Count *line*, which user code in *frame* says; returns whether an earlier attempt said it.

    The attempts of a call are those of the innermost function with `one_call` that has a variable
    `said`: for each attempt, how often it has said each line.
    """
    while frame is not None:
        if frame.f_code in _one_call and "said" in frame.f_code.co_varnames:
            *earlier, now = frame.f_locals["said"]
            now[line] = now.get(line, 0) + 1
            return any(said.get(line, 0) >= now[line] for said in earlier)
        frame = frame.f_back
    return False


def runs_loop(calls: Any) -> Callable[[T], T]:
    """Decorate a function that runs an event loop.

    Args:
        calls: The function that the loop calls for each piece of work. What it calls has the time
            limit for itself, unless a time-limited function is nearer.
    """

    def decorate(runner: T) -> T:
        _loop_runners.update(codes_of(runner))
        _loop_calls.update(codes_of(calls))
        return runner

    return decorate


def runs_step(owner: str, step: str | None = None) -> Callable[[T], T]:
    """Decorate a function that runs a step, itself or in a nested function.

    Args:
        owner: Name of its local variable with an object that has a pipeline.
        step: Name of its local variable with the step; None to use the owner's attribute `step`.

    Raises:
        TypeError: The function has no such variables.
    """
    variables = _Variables(owner, step)
    names = {name for name in variables if name is not None}

    def decorate(caller: T) -> T:
        codes = [code for code in codes_of(caller) if names <= _variables_of(code)]
        if not codes:
            msg = f"{caller!r} has no variables {sorted(names)}; pass the names of existing ones"
            raise TypeError(msg)
        _steps.update(dict.fromkeys(codes, variables))
        return caller

    return decorate


def call_at(frame: FrameType | None) -> FrameType | None:
    """Return the outermost frame of the time-limited call of user code that *frame* belongs to."""
    called: FrameType | None = None
    of_loop: FrameType | None = None
    while frame is not None:
        if frame.f_code in _limited:
            return called
        if frame.f_code in _loop_calls and of_loop is None:
            of_loop = called
        if frame.f_code in _loop_runners:
            return of_loop
        if frame.f_code in _one_call:
            called, frame = frame, frame.f_back
            continue
        if frame.f_code is _CALL_OF_DECORATED:  # by user code: the caller is found further out
            frame = frame.f_back
            continue
        if frame.f_code.co_filename.startswith(RUNTIME):
            return None
        called, frame = frame, frame.f_back
    return None


def running_step(frame: FrameType | None) -> RunningStep | None:
    """Return the innermost step that is running in *frame*; None if there is none."""
    while frame is not None:
        variables = _steps.get(frame.f_code)
        if variables is not None:
            values = frame.f_locals
            owner = values.get(variables.owner)
            step = (
                getattr(owner, "step", None)
                if variables.step is None
                else values.get(variables.step)
            )
            if owner is not None and step is not None:  # None if they are not assigned yet
                return RunningStep(owner.pipeline, step.name)
        frame = frame.f_back
    return None


def codes_of(thing: Any) -> Iterator[CodeType]:
    """Yield the code of a function, or of all methods of a class, and of nested functions."""
    if isinstance(thing, type):
        for member in vars(thing).values():
            yield from codes_of(member)
        return
    thing = getattr(thing, "__func__", getattr(thing, "fget", thing))
    code = thing if isinstance(thing, CodeType) else getattr(thing, "__code__", None)
    if code is not None:
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from codes_of(constant)


def _variables_of(code: CodeType) -> set[str]:
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars}


for _wrapping in (decoding_refusals, decoding_rows):  # their decoders call the application's
    time_limited(_wrapping)
