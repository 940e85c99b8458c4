"""Snapshots of messages as of the moment when they are emitted.

Messages on their way to a stateful step wait until many of them can be packed. In the meantime user
code may modify objects that it still refers to, such as a buffer that it reuses or a list in its
state. Snapshots wait instead. An immutable value is its own snapshot; the snapshot of an object of
a plain class with immutable attributes is a row of their values; anything else is pickled
immediately. Snapshots of one class are packed as columns, one per attribute, which `marshal`
processes at a fraction of the cost of pickling.

The result is the same as if the message had been pickled.

Example:
    >>> taken = [snapshot(message) for message in ("text", ("a", 1), ["a", 1])]
    >>> unpacked(packed(taken))
    ['text', ('a', 1), ['a', 1]]
"""

from __future__ import annotations

import copyreg
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import repeat
from operator import attrgetter, itemgetter
from types import MemberDescriptorType
from typing import Any, NamedTuple, NoReturn

from wallaroo.dataflow.columns import Columns, slots_of
from wallaroo.model.application import Serialization
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import (
    Raised,
    describe_unpicklable,
    pass_interrupt,
    raising_exceptions,
)

PLAIN = frozenset({bytes, str, int, float, bool, type(None)})
"""Immutable types that `marshal` preserves; excludes subclasses."""

Snapshot = Any
"""A value of a type in `PLAIN`; a named tuple of such values; a row, which is a tuple of a `Shape`
and such values; or a `Pickled`."""
Parcel = tuple[int, list[tuple[bytes, list[Any]]], bytes | list[int] | None]
"""Packed snapshots, for `marshal`: their number; each shape with its columns; and, if there are
several shapes, the shape of each snapshot."""

_MAX_SHAPES = 64
"""Maximum number of shapes per class; objects of further shapes are pickled."""
_MAX_CLASSES = 1_000
"""Number of cached classes, limited in case an application creates classes dynamically."""


class Unsendable(TypeError):
    """A message cannot be pickled, so it cannot be sent to the worker of its key."""


class Lost(NamedTuple):
    """Replaces a pickled message that cannot be loaded."""

    error: BaseException

    def fail(self) -> NoReturn:
        """Raise the exception that loading it raised."""
        raise Raised from self.error


class Pickled(bytes):
    """A message as its pickle."""

    __slots__ = ()


class Shape(NamedTuple):
    """Class and attributes that objects in the same columns share."""

    kind: type
    names: tuple[str, ...]
    """Names of the attributes; none for tuples."""


_PLAIN_VALUES = Shape(type(None), ())
_PICKLES = Shape(Pickled, ())

_are_plain = PLAIN.issuperset
_load = raising_exceptions(pickle.loads, interruptible=True)
_takers: dict[type, Callable[[Any], Snapshot | None] | None] = {}


@time_limited
def snapshot(message: Any) -> Snapshot:
    """Take a snapshot of *message*.

    Raises:
        Unsendable: It cannot be pickled.
    """
    kind = type(message)
    if kind in PLAIN:
        return message
    try:
        take = _takers[kind]
    except KeyError:
        if len(_takers) >= _MAX_CLASSES:
            _takers.clear()
        take = _takers[kind] = _taker(kind)
    if take is not None:
        taken = take(message)
        if taken is not None:
            return taken
    try:
        return Pickled(pickle.dumps(message, protocol=5))
    except BaseException as error:
        pass_interrupt(error)
        msg = (
            f"a message of class {kind.__qualname__} cannot be sent to the worker with the state "
            f"of its key, because it cannot be pickled: {describe_unpicklable(error)}"
        )
        raise Unsendable(msg) from error


@time_limited
def restored(taken: Snapshot) -> Any:
    """Restore the message of the snapshot *taken*.

    Raises:
        Exception: It was pickled, and loading it raises.
    """
    kind = type(taken)
    if kind is Pickled:
        return _load(taken)
    if kind is tuple:
        return _rebuilt(taken[0], [[value] for value in taken[1:]], 1)[0]
    return taken


def copied(message: Any) -> Any:
    """Copy *message* via its snapshot; an immutable message is returned itself.

    Raises:
        Exception: It cannot be pickled, or loading it raises.
    """
    return message if type(message) in PLAIN else restored(snapshot(message))


def waiting(copy: Callable[[Any], Any], message: Any) -> Any:
    """Copy *message*, which is to wait for an async or a batched step, with *copy*.

    Raises:
        Exception: It cannot be copied.
    """
    try:
        return copy(message)
    except Unsendable as error:
        msg = (
            f"a message of class {type(message).__qualname__} cannot wait for this step, because "
            f"it cannot be pickled: {describe_unpicklable(error.__cause__ or error)}"
        )
        raise Unsendable(msg) from error.__cause__


def packed(taken: Sequence[Snapshot]) -> Parcel:
    """Pack snapshots."""
    kinds = set(map(type, [*taken]))  # the copy loads them all into the processor's cache
    if kinds <= PLAIN:
        return len(taken), [(_named(_PLAIN_VALUES), [list(taken)])], None
    if len(kinds) == 1:
        shapes = set(map(itemgetter(0), taken)) if tuple in kinds else {_shape_of(taken[0])}
        if len(shapes) == 1:
            return len(taken), [_group(shapes.pop(), taken)], None
    groups: dict[Shape, list[Snapshot]] = {}
    numbers: dict[Shape, int] = {}
    which: list[int] = []
    for one in taken:
        shape = _shape_of(one)
        number = numbers.get(shape)
        if number is None:
            number = numbers[shape] = len(numbers)
            groups[shape] = []
        groups[shape].append(one)
        which.append(number)
    few = len(numbers) <= 256  # noqa: PLR2004 - the numbers fit into a byte
    of_shapes = [_group(shape, members) for shape, members in groups.items()]
    return len(taken), of_shapes, bytes(which) if few else which


def unpacked(parcel: Parcel) -> list[Any]:
    """Restore the messages in *parcel*; those that cannot be loaded are replaced by `Lost`."""
    count, of_shapes, which = parcel
    if which is None:
        ((shape, columns),) = of_shapes
        return _rebuilt(_shape(shape), columns, count)
    counts = [0] * len(of_shapes)
    for number in which:
        counts[number] += 1
    iterators = [
        iter(_rebuilt(_shape(shape), columns, each))
        for (shape, columns), each in zip(of_shapes, counts, strict=True)
    ]
    return [next(iterators[number]) for number in which]


def _taker(kind: type) -> Callable[[Any], Snapshot | None] | None:
    """Return a function that takes snapshots of *kind* without pickling; None if impossible.

    The function returns None for an object that must be pickled nevertheless.
    """
    if kind is tuple:
        return _row_of_tuple
    slots = slots_of(kind)
    if not _can_be_found(kind):
        return None
    if _is_named_tuple(kind):
        return _itself_if_plain
    if slots == ():
        return partial(_row_of_attributes, {}, kind)
    if not slots or not all(isinstance(getattr(kind, s), MemberDescriptorType) for s in slots):
        return None
    get = attrgetter(*slots)
    return partial(
        _row_of_slots, Shape(kind, slots), get if len(slots) > 1 else lambda m: (get(m),)
    )


def _can_be_found(kind: type) -> bool:
    """Whether other processes can import *kind* by name."""
    try:
        pickle.dumps(kind, protocol=5)
    except Exception:
        return False
    return True


def _row_of_tuple(message: tuple[Any, ...]) -> Snapshot | None:
    return (_tuple_shape(len(message)), *message) if _are_plain(map(type, message)) else None


def _itself_if_plain(message: tuple[Any, ...]) -> Snapshot | None:
    return message if _are_plain(map(type, message)) else None


def _row_of_slots(
    shape: Shape, get: Callable[[Any], tuple[Any, ...]], message: Any
) -> Snapshot | None:
    try:
        values = get(message)
    except AttributeError:  # a slot without a value
        return None
    return (shape, *values) if _are_plain(map(type, values)) else None


def _row_of_attributes(
    shapes: dict[tuple[str, ...], Shape], kind: type, message: Any
) -> Snapshot | None:
    attributes = vars(message)
    values = attributes.values()
    if not _are_plain(map(type, values)):
        return None
    names = tuple(attributes)  # in their order, which is observable
    shape = shapes.get(names)
    if shape is None:
        if len(shapes) >= _MAX_SHAPES or set(map(type, names)) - {str}:
            return None
        shape = shapes[names] = Shape(kind, names)
    return (shape, *values)


@lru_cache(maxsize=1_000)
def _tuple_shape(length: int) -> Shape:
    """Return the shape of tuples of *length*, with numbers instead of names."""
    return Shape(tuple, tuple(map(str, range(length))))


def _is_named_tuple(kind: type) -> bool:
    """Whether *kind* is a named tuple created by Python, without custom pickling."""
    creator = getattr(kind.__new__, "__module__", None) or ""
    getnewargs = getattr(kind, "__getnewargs__", None)
    return (
        issubclass(kind, tuple)
        and kind.__dictoffset__ == 0
        and creator.startswith("namedtuple_")
        and getattr(getnewargs, "__module__", None) == "collections"
        and all(getattr(kind, hook) is getattr(object, hook) for hook in _OBJECT_HOOKS)
        and not hasattr(kind, "__setstate__")
        and not hasattr(kind, "__getnewargs_ex__")
        and kind not in copyreg.dispatch_table
    )


_OBJECT_HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__")


def _shape_of(taken: Snapshot) -> Shape:
    kind = type(taken)
    if kind is tuple:
        shape: Shape = taken[0]
        return shape
    if kind in PLAIN:
        return _PLAIN_VALUES
    return _PICKLES if kind is Pickled else Shape(kind, ())


def _group(shape: Shape, taken: Sequence[Snapshot]) -> tuple[bytes, list[Any]]:
    """Pack snapshots of one shape."""
    if shape in {_PLAIN_VALUES, _PICKLES}:
        return _named(shape), [list(taken)]
    columns = list(zip(*taken, strict=True))
    return _named(shape), columns[1:] if type(taken[0]) is tuple else columns


@lru_cache(maxsize=_MAX_CLASSES)
def _named(shape: Shape) -> bytes:
    return pickle.dumps(tuple(shape), protocol=5)


@lru_cache(maxsize=_MAX_CLASSES)
def _shape(named: bytes) -> Shape:
    kind, names = pickle.loads(named)
    return Shape(kind, tuple(map(sys.intern, names)))


def _rebuilt(shape: Shape, columns: Sequence[Sequence[Any]], count: int) -> list[Any]:
    kind, names = shape
    if shape == _PLAIN_VALUES:
        return list(columns[0])
    if kind is Pickled:
        return _loaded(columns[0])
    rows: Iterator[tuple[Any, ...]] = (
        zip(*columns, strict=True) if columns else iter(repeat((), count))
    )
    if kind is tuple:
        return list(rows)
    if issubclass(kind, tuple):
        return list(map(partial(tuple.__new__, kind), rows))
    return Columns(kind, names, columns).objects(count)


@time_limited
def _loaded(pickles: Sequence[bytes]) -> list[Any]:
    try:
        return list(map(pickle.loads, pickles))
    except BaseException as error:
        pass_interrupt(error)
        return list(map(_loaded_one, pickles))


@time_limited
def _loaded_one(pickled: bytes) -> Any:
    try:
        return pickle.loads(pickled)
    except BaseException as error:
        pass_interrupt(error)
        return Lost(error)


@time_limited
class Carrier:
    """Takes and restores snapshots of an application's messages.

    Args:
        serialization: Custom serialization of the application; None if it has none.
    """

    def __init__(self, serialization: Serialization | None) -> None:
        self._custom = serialization
        self.take: Callable[[Any], Snapshot] = snapshot if serialization is None else self._take
        """Takes the snapshot of a message; raises if it cannot be serialized."""

    @property
    def restore(self) -> Callable[[Any], Any] | None:
        """Function that restores a message from an unpacked item; None if they are the same."""
        return None if self._custom is None else self._custom.deserialize

    def _take(self, message: Any) -> Snapshot:
        assert self._custom is not None
        return snapshot(self._custom.serialize(message))

    def copied(self, message: Any) -> Any:
        """Copy *message* as if it crossed to a stateful step; immutable messages are not copied.

        Raises:
            Exception: It cannot be serialized, or not be loaded.
        """
        if self._custom is None:
            return copied(message)
        return self._custom.deserialize(copied(self._custom.serialize(message)))
