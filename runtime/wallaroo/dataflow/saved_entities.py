"""Serializes the entities of one state partition, in one of three forms.

* Columns (see `columns`), the fastest form: only if no part of an entity refers to an entity,
  because that would be loaded as another object.
* Together in one pickle.
* Each in a separate pickle, if they contain objects with custom pickling, so that an object that
  cannot be saved or loaded affects only one entity.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import io
import pickle
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from wallaroo.api.migrations import Fields
from wallaroo.dataflow.columns import Columns, has_getattr, is_plain
from wallaroo.model.migrations import Versions, fields_of
from wallaroo.user_code.exceptions import pass_interrupt

_SURE = frozenset(
    {
        *(complex, range, slice, deque, defaultdict, OrderedDict, Counter),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID),
    }
)
"""Classes with custom pickling that can always be loaded again."""


class Saved(NamedTuple):
    """Entities by key, as bytes."""

    keys: list[Any]
    """The keys of the entities."""
    form: Literal["columns", "together", "each"]
    content: Any
    """The pickle of all entities; a list of pickles if the form is `each`."""

    @classmethod
    def of(cls, entities: dict[Any, Any]) -> Saved:
        """Serialize *entities*.

        Raises:
            Exception: One of them cannot be pickled.

        Example:
            >>> entities = {}
            >>> Saved.of({"a": [1], "b": [2]}).put_into(entities)
            >>> entities
            {'a': [1], 'b': [2]}
        """
        keys = list(entities)
        try:
            columns = Columns.of(list(entities.values()))
            if columns is not None:
                try:
                    return cls(keys, "columns", _dumped(tuple(columns), columns.kind))
                except _RefersBack:
                    pass
            return cls(keys, "together", _dumped(list(entities.values()), None))
        except BaseException as error:  # raised again unless it is due to custom pickling
            pass_interrupt(error)
            return cls(keys, "each", [pickle.dumps(e, protocol=5) for e in entities.values()])

    def size(self) -> int:
        """Return the bytes of all entities together."""
        return sum(map(len, self.content)) if self.form == "each" else len(self.content)

    def put_into(self, entities: MutableMapping[Any, Any]) -> None:
        """Load these entities into *entities*.

        Raises:
            Exception: One of them cannot be loaded; others may have been loaded.
        """
        if self.form == "each":
            loaded: Any = map(pickle.loads, self.content)
        else:
            loaded = pickle.loads(self.content)
        if self.form == "columns":
            loaded = Columns(*loaded).objects(len(self.keys))
        entities.update(zip(self.keys, loaded, strict=True))

    def one_by_one(self) -> Iterator[tuple[Any, Any, BaseException | None]]:
        """Yield each key with its entity, or with the exception that loading it raises."""
        if self.form != "each":
            loaded: dict[Any, Any] = {}
            error = None
            try:
                self.put_into(loaded)
            except BaseException as raised:
                pass_interrupt(raised)
                error = raised
            yield from ((key, loaded.get(key), error) for key in self.keys)
            return
        for key, content in zip(self.keys, self.content, strict=True):
            entity, error = None, None
            try:
                entity = pickle.loads(content)
            except BaseException as raised:
                pass_interrupt(raised)
                error = raised
            yield key, entity, error

    def fields_one_by_one(
        self, versions: Versions, version: int
    ) -> Iterator[tuple[Any, Any, Fields, BaseException | None]]:
        """Yield each key with what stands in for its entity, and the fields of that.

        The entities are of the earlier *version*. Where loading raises, the exception takes the
        place of the fields. Nothing stands in for an entity that is saved as a row of columns.
        """
        found: list[tuple[Any, Fields]] | None = None
        error = None
        try:
            if self.form == "columns":
                (_, names, values), contained = versions.load(self.content)
                rows = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
                versions.migrate_in_place(contained, version)
                found = [(None, fields) for fields in rows or [{} for _ in self.keys]]
            elif self.form == "together":
                found = _with_fields(versions, self.content, version, list)
        except BaseException as raised:
            pass_interrupt(raised)
            error = raised
        for place, key in enumerate(self.keys):
            (entity, fields), problem = (None, {}) if found is None else found[place], error
            if self.form == "each":
                try:
                    ((entity, fields),) = _with_fields(
                        versions, self.content[place], version, lambda loaded: [loaded]
                    )
                except BaseException as raised:
                    pass_interrupt(raised)
                    problem = raised
            yield key, entity, fields, problem

    def only(self, place: int) -> Saved:
        """Return the part that is necessary to load the entity at *place*."""
        if self.form != "each":
            return self
        return Saved([self.keys[place]], "each", [self.content[place]])

    def class_name(self) -> str:
        """Return the name of the class of the (first) entity, even if it no longer exists."""
        content = self.content[0] if self.form == "each" else self.content
        try:
            _Naming(io.BytesIO(content)).load()
        except _Named as named:
            return str(named)
        except Exception:  # unreadable before the first class
            return "?"
        return "a built-in class"


def saved_alone(entity: Any) -> tuple[bytes, bool]:
    """Pickle one *entity*; also returns whether it can be loaded for sure.

    Raises:
        Exception: It cannot be pickled.

    Example:
        >>> data, is_sure = saved_alone([1])
        >>> loaded_alone(data), is_sure
        ([1], True)
    """
    try:
        return _dumped(entity, None), True
    except BaseException as error:  # raised again unless it is due to custom pickling
        pass_interrupt(error)
        return pickle.dumps(entity, protocol=5), False


def loaded_alone(data: bytes) -> Any:
    """The entity that `saved_alone` has pickled."""
    return pickle.loads(data)


class _RefersBack(Exception):
    """An attribute of an entity refers to an entity."""


class _CustomPickling(Exception):
    """An object has custom pickling, which may fail to load."""


class _Pickler(pickle.Pickler):
    """Rejects objects that load differently, or might not load at all.

    Args:
        file: File to write to.
        entities: Class whose objects to reject.
    """

    def __init__(self, file: io.BytesIO, entities: type | None) -> None:
        super().__init__(file, protocol=5)
        self._entities = entities

    def reducer_override(self, value: Any) -> Any:
        """Check each object that is not of a built-in class, and leave pickling it to `pickle`."""
        kind: Any = type(value)
        if kind is self._entities:
            raise _RefersBack
        if not _loads_for_sure(kind):
            raise _CustomPickling
        return NotImplemented


@lru_cache(maxsize=1024)
def _loads_for_sure(kind: type) -> bool:
    """Whether objects of *kind* can be loaded if their class exists; classes load by name."""
    named_tuple = kind.__mro__[1:2] == (tuple,) and hasattr(kind, "_fields")
    plain = is_plain(kind) and not has_getattr(kind)  # unpickling looks up hooks on the object
    return kind in _SURE or issubclass(kind, type) or named_tuple or plain


def _with_fields(
    versions: Versions, content: bytes, version: int, entities_in: Callable[[Any], list[Any]]
) -> list[tuple[Any, Fields]]:
    """The entities in *content*, of an earlier *version*, and their fields.

    Raises:
        Exception: They cannot be loaded, or what they contain cannot be migrated.
    """
    loaded, stand_ins = versions.load(content)
    entities = entities_in(loaded)
    own = set(map(id, entities))
    versions.migrate_in_place([one for one in stand_ins if id(one) not in own], version)
    return [(entity, fields_of(entity)) for entity in entities]


def _dumped(value: Any, entities: type | None) -> bytes:
    file = io.BytesIO()
    _Pickler(file, entities).dump(value)
    return file.getvalue()


class _Named(Exception):
    """Carries the name of the first class in a pickle."""


class _Naming(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in {"copyreg", "builtins"}:
            return super().find_class(module, name)
        full = f"{module}.{name}"
        raise _Named(full)
