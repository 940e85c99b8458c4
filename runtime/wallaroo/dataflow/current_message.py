"""The message that is being processed, for `wallaroo.now` and `wallaroo.rng`: read from the stack.

Each message is processed to completion before the next, so functions of the runtime that are on the
stack know it. They are marked when a module is imported, with the names of their variables, as in
`user_code.callers`: applications that call neither pay nothing. What the stack does
not show comes once with each chunk: when the messages arrived, by their offsets.
"""

from __future__ import annotations

import hashlib
import random
import sys
import threading
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from enum import Enum, auto
from itertools import chain
from types import CodeType, FrameType
from typing import Any, NamedTuple, NoReturn, TypeVar

from wallaroo.api.repeatable import Origin, use
from wallaroo.model.application import MIXED
from wallaroo.model.keys.buckets import stable_hash
from wallaroo.model.migrations import Versions
from wallaroo.user_code.callers import (
    codes_of,
    is_loop_runner,
    is_of_task,
    is_time_limited,
    user_call,
)
from wallaroo.wire.records import MILLISECOND_NS

T = TypeVar("T")
SILENT = -2
"""In a stamp, after its clock: the message comes of a timer that was due before another message, or
without one, and the clock is the time at which it was due."""
Arrivals = list[tuple[int, int]]
"""Offsets from which on messages, or readings of the clock, arrived in another millisecond, in
order, and these, since the Unix epoch."""
FEW_BYTES = 256
"""Packed arrivals of at most so many bytes go along with messages that do not need them, too."""

_BEFORE = "call it in the step before, and pass on what it returns"
_IN_BATCH = f"a batch is not a single message: {_BEFORE}"
_IN_ASYNC = f"the calls of an async step have no order: {_BEFORE}"
_IN_TASK = (
    "a task or thread that a function has started belongs to no message: call it in the function "
    "itself, and pass on what it returns"
)
_IS_MIXED = (
    "behind a state, a key_by and an async or batched step, messages have no order: "
    "call it before that step, and pass on what it returns"
)
_NO_MESSAGE = (
    "there is none where entities are saved, loaded or migrated, and where time= finds the order "
    "of messages"
)
DECODER = "decoder"
"""Name of what runs before the first step."""
_MISSING = object()
_LATEST = float("inf")


class Role(Enum):
    """What a function does with several messages or calls."""

    COLLECTED = auto()
    """Has a list `taken` of messages, with offset or stamp, and key."""
    AWAITED = auto()
    """Makes one of many calls at a time, that of the message `number`."""
    ISOLATED = auto()
    """Leaves out some of these: `calls` has the others, with their number from `first` on."""
    BATCH = auto()
    """Calls a function for a list of messages."""
    THREAD = auto()
    """Runs in a thread what the function in the frame `caller` waits for."""
    SAVING = auto()
    """Loads or saves entities."""
    CHECK = auto()
    """Makes calls that belong to no message, whose results are only compared or looked at."""


class _Variables(NamedTuple):
    at: tuple[str, ...]
    key: str | None
    owner: str | None
    step: str | None
    state_key: str | None


class _Draw(NamedTuple):
    """Who draws numbers."""

    at: tuple[int, int]
    pipeline: str
    step: tuple[str, int]
    """Its name, and its number among the steps of the pipeline that have this name."""
    function: str
    key: Any
    """The current one, with that of the last state: these are together in one process."""


class _Found(NamedTuple):
    """What the stack says of the current message; see `knows_message`."""

    at: Any
    owner: Any
    step: Any
    key: Any
    is_async: bool


class _Last(NamedTuple):
    call: FrameType
    attempt: int
    number: int
    rng: random.Random


_variables: dict[CodeType, _Variables] = {}
_roles: dict[CodeType, Role] = {}


def knows_message(
    *at: str,
    key: str | None = None,
    owner: str | None = None,
    step: str | None = None,
    state_key: str | None = None,
) -> Callable[[T], T]:
    """Decorate a function, or a class with all its methods, that knows the current message.

    Where a variable does not exist, or is not assigned yet, that of an outer function counts.

    Args:
        at: Local variables with its offset, its stamp, `Simulated`, or None; the first that is not
            None counts.
        key: The one with the current key.
        owner: The one with the pipeline, or with an object that has its name.
        step: The one with the step or its name; without it, the owner's `step` counts.
        state_key: The one with the key of the state that the message is in, or was in last.

    What is decorated already, as a method of a class, stays as it is.
    """
    variables = _Variables(at, key, owner, step, state_key)

    def decorate(knowing: T) -> T:
        for code in codes_of(knowing):
            _variables.setdefault(code, variables)
        return knowing

    return decorate


def has_role(role: Role) -> Callable[[T], T]:
    """Decorate a function, or a class with all its methods, that has this *role*."""

    def decorate(having: T) -> T:
        _roles.update(dict.fromkeys(codes_of(having), role))
        return having

    return decorate


class _OfThread(threading.local):
    processing: Processing
    """That of the chunk that is run in this thread."""


_of_thread = _OfThread()


class Simulated(ABC):
    """What runs messages in one process, and knows the current one.

    Attributes:
        processing: What has been drawn.
    """

    def __init__(self) -> None:
        self.processing = Processing()

    @property
    @abstractmethod
    def moment(self) -> tuple[int, int]:
        """Offset of the message, or of the next one, and its time in milliseconds."""


class Processing:
    """What is known of the messages of a chunk.

    Attributes:
        arrivals: When they arrived: packed, or a list that grows.
    """

    def __init__(self) -> None:
        self.arrivals: Arrivals | bytes | set[bytes] = []
        self._read: tuple[bytes | set[bytes], Arrivals] = b"", []
        """What has been unpacked, and the result."""
        self._counts: dict[tuple[Any, ...], tuple[int, dict[tuple[int, Any], int]]] = {}
        """Calls that have drawn numbers, by pipeline, step and function: the last offset at which
        they were, and how many there were by time, which timers have of their own, and key."""
        self._last: _Last | None = None

    def begin(self) -> None:
        """Let a chunk begin in this thread, whose messages may have come before."""
        _of_thread.processing = self
        if self._counts:
            self._counts, self._last = {}, None

    def arrived(self, offset: int) -> int:
        """When the message at *offset* arrived, in milliseconds since the Unix epoch."""
        arrivals = self.arrivals
        if not isinstance(arrivals, list):
            if self._read[0] is not arrivals:
                packed = arrivals if isinstance(arrivals, bytes) else joined_arrivals(arrivals)
                self._read = arrivals, unpacked_arrivals(packed)
            arrivals = self._read[1]
        return arrivals[bisect_right(arrivals, (offset, _LATEST)) - 1][1]

    def rng(self, draw: _Draw, call: FrameType | None, attempt: int) -> random.Random:
        """The generator of a *call*; an attempt after the first gets the same numbers again."""
        last = self._last
        if last is not None and last.call is call:
            if last.attempt == attempt:
                return last.rng
            number = last.number
        else:
            number = self._next_number(draw)
        made = seeded(draw, number)
        self._last = None if call is None else _Last(call, attempt, number, made)
        return made

    def _next_number(self, draw: _Draw) -> int:
        place, (offset, millisecond) = draw[1:-1], draw.at
        last, counts = self._counts.get(place, (None, {}))
        if last != offset:
            counts = {}
            self._counts[place] = offset, counts
        number = counts.get((millisecond, draw.key), 0)
        counts[millisecond, draw.key] = number + 1
        return number


def packed_arrivals(arrivals: Arrivals) -> bytes:
    """Pack *arrivals*, to go along with messages."""
    return array("q", chain.from_iterable(arrivals)).tobytes()


def unpacked_arrivals(packed: bytes) -> Arrivals:
    """Unpack the result of `packed_arrivals`."""
    numbers = array("q", packed)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def joined_arrivals(packed: set[bytes]) -> bytes:
    """Join *packed* arrivals of the same chunk."""
    if len(packed) == 1:
        return next(iter(packed))
    return packed_arrivals(sorted({one for each in packed for one in unpacked_arrivals(each)}))


def arrivals_of(offsets: Iterable[int], packed: bytes) -> bytes:
    """Those of the *packed* arrivals that the messages at *offsets* need.

    Example:
        >>> packed = packed_arrivals([(offset, 100 + offset) for offset in range(0, 1000, 10)])
        >>> unpacked_arrivals(arrivals_of([25, 27, 500], packed))
        [(20, 120), (500, 600)]
    """
    arrivals = unpacked_arrivals(packed)
    firsts = [first for first, _ in arrivals]
    places = sorted({bisect_right(firsts, offset) - 1 for offset in offsets})
    return packed_arrivals([arrivals[place] for place in places])


class _OfMessages(Origin):
    def now_ns(self, caller: FrameType) -> int:
        found = _read(caller, "now", whole=False)
        return super().now_ns(caller) if found is None else _moment(found.at)[1] * MILLISECOND_NS

    def rng(self, caller: FrameType) -> random.Random:
        found = _read(caller, "rng", whole=True)
        if found is None:
            return super().rng(caller)
        at, owner, step, key, is_async = found
        if is_async:
            _refuse("rng", _IN_ASYNC)
        pipeline = getattr(owner, "pipeline", None) or getattr(owner, "name", "")
        if getattr(step, "number", 0) == MIXED:
            _refuse("rng", _IS_MIXED)
        place = (step, 0) if isinstance(step, str) else (step.name, getattr(step, "number", 0))
        call, attempt = user_call(caller)
        function = "" if call is None else call.f_code.co_qualname
        draw = _Draw(_moment(at), str(pipeline), place, function, key)
        known = isinstance(at, (int, tuple))
        return (_of_thread if known else at).processing.rng(draw, call, attempt)


def _read(caller: FrameType, asked: str, *, whole: bool) -> _Found | None:  # noqa: PLR0912, PLR0915
    """Return the current message, with step and key only if it is the *whole*; None if outside."""
    at: Any = None
    owner: Any = _MISSING
    step: Any = None
    key: Any = _MISSING
    state_key: Any = _MISSING
    number, is_limited, is_task = None, False, False
    frame: FrameType | None = caller
    while frame is not None and (at is None or (whole and _MISSING in (owner, key, state_key))):
        code = frame.f_code
        if (role := _roles.get(code)) is not None:
            values = frame.f_locals
            if role is Role.CHECK:
                return None
            if role is Role.BATCH and at is None:
                _refuse(asked, _IN_BATCH)
            if role is Role.SAVING and at is None:
                _refuse(asked, _NO_MESSAGE)
            if role is Role.AWAITED:
                number, is_task = values["number"], False
            elif role is Role.ISOLATED and number is not None:
                number = values["calls"][number][0] - values["first"]
            elif role is Role.THREAD and "caller" in values:
                frame = values["caller"]
                continue
            elif role is Role.COLLECTED and number is not None and at is None:
                at, key = values["taken"][number][:2]
        elif at is None and number is None:
            if is_loop_runner(code):
                _refuse(asked, _IN_TASK)
            is_task = is_task or is_of_task(code)
        if (names := _variables.get(code)) is not None:
            values = frame.f_locals
            for name in names.at:
                at = values.get(name) if at is None else at
            if names.key is not None and key is _MISSING:
                key = values.get(names.key, _MISSING)
            if names.state_key is not None and state_key is _MISSING:
                state_key = values.get(names.state_key, _MISSING)
            if names.owner is not None and owner is _MISSING and names.owner in values:
                owner = values[names.owner]
                step = owner.step if names.step is None else values.get(names.step)
        if at is None:
            is_limited = is_limited or is_time_limited(code)
        frame = frame.f_back
    if at is None:
        if is_limited:
            _refuse(asked, _NO_MESSAGE)
        if any(map(_is_processing, sys._current_frames().values())):  # noqa: SLF001
            _refuse(asked, _IN_TASK)
        return None
    if is_task:
        _refuse(asked, _IN_TASK)
    keys = (key, state_key)
    key, state_key = (None if one is _MISSING else one for one in keys)
    return _Found(at, owner, step or DECODER, (key, state_key), number is not None)


def _is_processing(frame: FrameType | None) -> bool:
    """Whether messages are processed in *frame*, the innermost one of a thread."""
    while frame is not None and frame.f_code not in _variables:
        frame = frame.f_back
    return frame is not None


def _moment(at: int | tuple[int, ...] | Simulated) -> tuple[int, int]:
    """Offset and time, in milliseconds, of a message."""
    if isinstance(at, int):
        return at, _of_thread.processing.arrived(at)
    if not isinstance(at, tuple):
        return at.moment
    if SILENT in at[3:4]:
        return at[0], at[1] // MILLISECOND_NS
    return at[0], _of_thread.processing.arrived(at[0])


def seeded(draw: _Draw, number: int) -> random.Random:
    """The generator for the call *number* of *draw*."""
    text = repr((draw[:-1], _plain(draw.key), number)).encode("utf-8", "backslashreplace")
    return random.Random(int.from_bytes(hashlib.blake2b(text, digest_size=16).digest()))


def _plain(key: Any) -> Any:
    """What stands for *key*: the same for equal keys."""
    if key is None or type(key) in (str, bytes):
        return key
    if type(key) is tuple:
        return tuple(map(_plain, key))
    return int(key) if isinstance(key, int) else stable_hash(key)


def _refuse(asked: str, why: str) -> NoReturn:
    msg = f"wallaroo.{asked} is for the message that is processed, and {why}"
    raise RuntimeError(msg)


has_role(Role.CHECK)(Versions.created)
use(_OfMessages())
