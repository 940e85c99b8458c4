"""Whether an entity of a state can be saved and loaded again, and what happens if it cannot.

Entities are saved batch by batch, not message by message: that an entity cannot be saved shows only
then. The messages are then run again, with a check after each one that touches such an entity. The
message after which the check fails is set aside, and its entity is as it was before. Where a later
step spoilt it, which was given a part of it, they are run once more, with a check after each call:
then the message is set aside in that step.
"""

from __future__ import annotations

import contextlib
import pickle
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from wallaroo.model.application import Application, StatePartition
from wallaroo.model.raised import pass_interrupt, told

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, bytearray})
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
"""Types of what is saved by its name."""
_MARGIN = 50
"""Levels of nesting by which a check is stricter than saving, which nests entities in a record."""
RECENT = 16
"""Entities that are checked after the calls of later steps: those of the last messages."""
_MOST_LOOKED_AT = 500
"""Objects looked at in search of the one at fault."""


class Refused(Exception):
    """A call of a function of the application that is not made: it leaves nothing changed."""


class Unsavable(Refused):
    """A message left its entity so that it cannot be saved; the entity is as it was before."""


@dataclass(frozen=True)
class Codec:
    """An application's own way to save the entities of a partition: something that pickles."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def codec_of(application: Application, partition: StatePartition) -> Codec | None:
    """How the application saves the entities of *partition*; None where they are pickled."""
    own, windows = application.serialization, partition.windows
    if own is None:
        return None
    if windows is None:
        return Codec(own.serialize, own.deserialize)
    return Codec(
        lambda entity: windows.converted(entity, own.serialize),
        lambda kept: windows.converted(kept, own.deserialize),
    )


def saved(entity: Any, codec: Codec | None = None) -> bytes:
    """*entity* as bytes, which have been loaded once to see that they can be.

    Raises:
        Unsavable: It cannot be saved, or not be loaded again; the message says what is at fault.

    Example:
        >>> loaded(saved([1, 2]))
        [1, 2]
        >>> saved({"a": [1, (x for x in "")]})
        Traceback (most recent call last):
        wallaroo.model.savable.Unsavable: state['a'][1] cannot be saved: TypeError: cannot ...
    """
    try:
        data = _pickled(entity if codec is None else codec.dump(entity))
    except BaseException as error:
        pass_interrupt(error)
        path, cause = ("state", error) if codec is not None else _fault(entity, error)
        msg = f"{path} cannot be saved: {_shown(cause)}"
        raise Unsavable(msg) from error
    try:
        loaded(data, codec)
    except BaseException as error:
        pass_interrupt(error)
        name = type(entity).__qualname__
        msg = f"the entity, of class {name}, cannot be loaded after it is saved: {_shown(error)}"
        raise Unsavable(msg) from error
    return data


def loaded(data: bytes, codec: Codec | None = None) -> Any:
    """The entity that was `saved` as *data*."""
    value = pickle.loads(data)
    for _ in range(_MARGIN):
        (value,) = value
    return value if codec is None else codec.load(value)


class Held:
    """An entity that is checked after each message; a message that spoils it is taken back.

    Args:
        state: Name of its state partition.
        entity: The entity.
        codec: How it is saved.
        new: Makes a new entity: what it goes back to where it could not be saved before, either.
    """

    def __init__(
        self, state: str, entity: Any, codec: Codec | None, new: Callable[[], Any]
    ) -> None:
        self.now = entity
        """The entity: after a message that was taken back, another object."""
        self._state = state
        self._codec = codec
        self._new = new
        self.loose = False
        """Whether something else than a call here left it so that it could not be saved."""
        self._last: bytes | None = None
        with contextlib.suppress(Unsavable):
            self._last = saved(entity, codec)

    def call(self, function: Callable[[Any], Any], counts: Callable[[Any], bool]) -> Any:
        """The result of *function* on the entity.

        Args:
            function: Takes the entity, and may change it.
            counts: Whether, by the result of the function, the entity is to be saved.

        Raises:
            Unsavable: The entity cannot be saved after the call, and is as it was before.
        """
        self.loose = self.settle() is not None or self.loose
        try:
            result = function(self.now)
            to_save = counts(result)
        except (Exception, SystemExit):
            self._check(to_save=True)
            raise
        self._check(to_save)
        return result

    def settle(self) -> Unsavable | None:
        """Take back what was done to the entity since its last call, if it cannot be saved now.

        Returns:
            Why it cannot be saved; None if it can, or never could.
        """
        if self._last is None:
            return None
        try:
            self._last = saved(self.now, self._codec)
        except Unsavable as error:
            self.now = loaded(self._last, self._codec)
            return Unsavable(
                f"state {self._state!r}: {error}: this step changed a part of the entity; "
                "that is as it was before this step"
            )
        return None

    def _check(self, to_save: bool) -> None:
        try:
            self._last = saved(self.now, self._codec)
        except Unsavable as error:
            if self._last is None and not to_save:
                return  # it never could be, and need not be
            self.now = self._new() if self._last is None else loaded(self._last, self._codec)
            msg = f"state {self._state!r}: {error}; the entity is as it was before this message"
            raise Unsavable(msg) from error


def settled(entities: Iterable[Held]) -> Unsavable | None:
    """Settle all of *entities*; why one of them had to be taken back, if one had to."""
    problems = [problem for held in {*entities} if (problem := held.settle()) is not None]
    return problems[0] if problems else None


def _pickled(value: Any) -> bytes:
    for _ in range(_MARGIN):
        value = [value]
    return pickle.dumps(value, protocol=5)


def _shown(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "RecursionError: it is nested too deeply"
    return told(error)[:300]


def _fault(entity: Any, error: BaseException) -> tuple[str, BaseException]:
    """The path to the object in *entity* that does not pickle, and why it does not."""
    causes: dict[int, BaseException | None] = {id(entity): error}
    looked_at: list[Any] = [entity]  # as long as they live, their identities are their own
    found, queue = ("state", error), deque([("state", entity)])
    while queue and len(looked_at) < _MOST_LOOKED_AT:
        path, value = queue.popleft()
        at_fault = True
        for step, part in _parts(value):
            if type(part) in _PLAIN:
                continue
            if id(part) not in causes:
                causes[id(part)] = cause = _cause(part)
                looked_at.append(part)
                if cause is not None:
                    queue.append((path + step, part))
            at_fault = at_fault and causes[id(part)] is None
        cause = causes[id(value)]
        if at_fault and cause is not None:
            return path, cause
        if isinstance(error, RecursionError) and queue:
            return f"{queue[0][0]}…", error  # so deep that no object in it is at fault
    return found


def _cause(value: Any) -> BaseException | None:
    try:
        _pickled(value)
    except BaseException as error:
        pass_interrupt(error)
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What pickling *value* saves in it, each with how it is written behind the value."""
    if isinstance(value, _NAMED):
        return
    if type(value) is dict:
        yield from ((f"[{key!r:.60}]", item) for key, item in value.items())
    elif type(value) in {list, tuple}:
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif type(value) in {set, frozenset}:
        yield from (("{…}", item) for item in value)
    else:
        yield from _parts_of_object(value)


def _parts_of_object(value: Any) -> Iterator[tuple[str, Any]]:
    try:
        reduced = value.__reduce_ex__(5)
    except BaseException as error:
        pass_interrupt(error)
        return  # it is at fault itself
    if isinstance(reduced, str):
        return
    _, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    for part in state if isinstance(state, tuple) else (state,):
        if isinstance(part, dict):
            yield from ((f".{name}", item) for name, item in part.items())
        else:
            yield "", part
    yield from (("", argument) for argument in arguments)
    yield from ((f"[{place}]", item) for place, item in enumerate(items or ()))
    yield from ((f"[{key!r:.60}]", item) for key, item in pairs or ())
