"""Checks whether entities can be saved and loaded again, and finds the messages that prevent it.

Entities are saved per chunk, not per message, so an entity that cannot be saved is discovered only
at the end of a chunk. The messages are then processed again, with a check after each one that
touches such an entity. The message after which the check fails is dead-lettered, and its entity is
restored. If a later step changed a part of the entity that it had received, the messages are
processed once more with a check after each call, and the message is dead-lettered in that step.
"""

from __future__ import annotations

import contextlib
import pickle
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.model.application import Application, StatePartition
from wallaroo.user_code.exceptions import describe_unpicklable, pass_interrupt

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, bytearray})
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
"""Types that are saved by name."""
_MIB = 1024**2
_MARGIN = 50
"""Levels of nesting that a check adds, because saving nests entities in a record."""
RECENT = 16
"""Number of recent entities that are checked after the calls of later steps."""
_MAX_SEARCHED = 500
"""Maximum number of objects to search for the one that cannot be pickled."""


class SkippedCall(Exception):
    """A call of a function of the application was skipped; it has changed nothing."""


class Unsavable(SkippedCall):
    """A message left its entity in a state that cannot be saved; the entity was restored."""


@dataclass(frozen=True)
class Codec:
    """Custom serialization of the entities of a state; the result of `dump` must be picklable."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def codec_of(application: Application, partition: StatePartition) -> Codec | None:
    """Return the custom serialization of the entities of *partition*; None for pickle."""
    own, windows = application.serialization, partition.windows
    if own is None:
        return None
    if windows is None:
        return Codec(own.serialize, own.deserialize)
    return Codec(
        lambda entity: windows.convert_accumulators(entity, own.serialize),
        lambda dumped: windows.convert_accumulators(dumped, own.deserialize),
    )


@has_role(Role.SAVING)
def saved(entity: Any, codec: Codec | None = None, limit_bytes: int | None = None) -> bytes:
    """Serialize *entity*, and load the result once as a check.

    Args:
        entity: The entity.
        codec: Custom serialization; None for pickle.
        limit_bytes: Largest result; None for any size.

    Raises:
        Unsavable: It cannot be saved, or not be loaded again, or is too large; the message names
            the cause.

    Example:
        >>> loaded(saved([1, 2]))
        [1, 2]
        >>> saved({"a": [1, (x for x in "")]})
        Traceback (most recent call last):
        wallaroo.dataflow.savable.Unsavable: state['a'][1] cannot be saved: TypeError: cannot ...
    """
    try:
        data = _pickled(entity if codec is None else codec.dump(entity))
    except BaseException as error:
        pass_interrupt(error)
        path, cause = ("state", error) if codec is not None else _fault(entity, error)
        msg = f"{path} cannot be saved: {_describe(cause)}"
        raise Unsavable(msg) from error
    if limit_bytes is not None and len(data) > limit_bytes:
        raise Unsavable(too_large(len(data), limit_bytes))
    try:
        loaded(data, codec)
    except BaseException as error:
        pass_interrupt(error)
        name = type(entity).__qualname__
        msg = f"the entity, of class {name}, can be saved but not loaded: {_describe(error)}"
        raise Unsavable(msg) from error
    return data


def too_large(size: int, limit_bytes: int) -> str:
    """The message that an entity of *size* bytes is over the limit.

    Example:
        >>> too_large(200 * 1024**2, 64 * 1024**2)
        'the entity takes 200.0 MiB when saved, and the limit is 64 MiB (--max-entity-mib)'
    """
    return (
        f"the entity takes {size / _MIB:.1f} MiB when saved, and the limit is "
        f"{limit_bytes / _MIB:g} MiB (--max-entity-mib)"
    )


@has_role(Role.SAVING)
def loaded(data: bytes, codec: Codec | None = None) -> Any:
    """Deserialize *data*, the result of `saved`."""
    value = pickle.loads(data)
    for _ in range(_MARGIN):
        (value,) = value
    return value if codec is None else codec.load(value)


class CheckedEntity:
    """An entity that is checked after each message, and restored if it can no longer be saved.

    Args:
        state: Name of its state.
        entity: The entity.
        codec: Custom serialization; None for pickle.
        new: Creates a new entity, to replace one that could not be saved before, either.
        limit_bytes: Largest size of the entity when it is saved; None for any.
    """

    def __init__(
        self,
        state: str,
        entity: Any,
        codec: Codec | None,
        new: Callable[[], Any],
        limit_bytes: int | None = None,
    ) -> None:
        self.entity = entity
        """The current entity: another object after it was restored."""
        self._state = state
        self._codec = codec
        self._new = new
        self._limit_bytes = limit_bytes
        self.changed_outside = False
        """Whether anything other than `call` left the entity in a state that cannot be saved."""
        self._last: bytes | None = None
        with contextlib.suppress(Unsavable):
            self._last = saved(entity, codec, limit_bytes)

    def call(self, function: Callable[[Any], Any], counts: Callable[[Any], bool]) -> Any:
        """Return the result of *function* on the entity.

        Args:
            function: Takes the entity and may change it.
            counts: From the function's result to whether the entity is to be saved.

        Raises:
            Unsavable: The entity cannot be saved after the call; it was restored.
        """
        self.changed_outside = self.settle() is not None or self.changed_outside
        try:
            result = function(self.entity)
            to_save = counts(result)
        except (Exception, SystemExit):
            self._check(to_save=True)
            raise
        self._check(to_save)
        return result

    def settle(self) -> Unsavable | None:
        """Restore the entity as of its last call if it cannot be saved.

        Returns:
            Why it cannot be saved; None if it can, or never could.
        """
        if self._last is None:
            return None
        try:
            self._last = saved(self.entity, self._codec, self._limit_bytes)
        except Unsavable as error:
            self.entity = loaded(self._last, self._codec)
            return Unsavable(
                f"state {self._state!r}: {error}: this step changed a part of the entity; the "
                "entity was restored to its state before this step"
            )
        return None

    def _check(self, to_save: bool) -> None:
        try:
            self._last = saved(self.entity, self._codec, self._limit_bytes)
        except Unsavable as error:
            if self._last is None and not to_save:
                return  # it never could be saved, and need not be
            self.entity = self._new() if self._last is None else loaded(self._last, self._codec)
            msg = (
                f"state {self._state!r}: {error}; the entity was restored to its state before "
                "this message"
            )
            raise Unsavable(msg) from error


def settle_all(entities: Iterable[CheckedEntity]) -> Unsavable | None:
    """Settle all *entities*; return why one of them had to be restored, or None."""
    problems = [problem for entity in {*entities} if (problem := entity.settle()) is not None]
    return problems[0] if problems else None


def _pickled(value: Any) -> bytes:
    for _ in range(_MARGIN):
        value = [value]
    return pickle.dumps(value, protocol=5)


def _describe(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "RecursionError: it is nested too deeply"
    return describe_unpicklable(error)[:300]


def _fault(entity: Any, error: BaseException) -> tuple[str, BaseException]:
    """Return the path to the object in *entity* that cannot be pickled, and the error."""
    causes: dict[int, BaseException | None] = {id(entity): error}
    searched: list[Any] = [entity]  # keeps them alive, so that their ids stay unique
    whole, queue = ("state", error), deque([("state", entity)])
    while queue and len(searched) < _MAX_SEARCHED:
        path, value = queue.popleft()
        at_fault = True
        for step, part in _parts(value):
            if type(part) in _PLAIN:
                continue
            if id(part) not in causes:
                causes[id(part)] = cause = _cause(part)
                searched.append(part)
                if cause is not None:
                    queue.append((path + step, part))
            at_fault = at_fault and causes[id(part)] is None
        cause = causes[id(value)]
        if at_fault and cause is not None:
            return path, cause
        if isinstance(error, RecursionError) and queue:
            return f"{queue[0][0]}…", error  # the nesting is too deep, not a single object
    return whole


def _cause(value: Any) -> BaseException | None:
    try:
        _pickled(value)
    except BaseException as error:
        pass_interrupt(error)
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of *value* that pickle saves, each with its suffix in a path."""
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
        return  # *value* itself is at fault
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
