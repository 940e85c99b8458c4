"""Entities of one state partition as bytes, in one of three forms.

* Columns (see `columns`): the fastest. Only where nothing in an entity refers back to an entity,
  because that would come back as another object.
* All in one pickle: what one entity holds comes back as pickling that entity would give it.
* Each in a pickle of its own, where they hold objects of classes that pickle in their own way: that
  an object cannot be saved, or not be loaded, concerns one entity then.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import io
import pickle
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from wallaroo.dataflow.columns import Columns, has_getattr, is_plain
from wallaroo.model.raised import pass_interrupt

_SURE = frozenset(
    {
        *(complex, range, slice, deque, defaultdict, OrderedDict, Counter),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID),
    }
)
"""Classes with a way of their own to pickle that loads again for sure."""


class Saved(NamedTuple):
    """Entities by key, as bytes."""

    keys: list[Any]
    """The key of each."""
    form: Literal["columns", "together", "each"]
    content: Any
    """The pickle of all; for `each`, a list of pickles."""

    @classmethod
    def of(cls, entities: dict[Any, Any]) -> Saved:
        """*entities* saved.

        Raises:
            Exception: One does not pickle.

        Example:
            >>> entities = {}
            >>> Saved.of({"a": [1], "b": [2]}).put_into(entities)
            >>> entities
            {'a': [1], 'b': [2]}
        """
        keys = list(entities)
        try:
            columns = Columns.of(entities)
            if columns is not None:
                try:
                    parts = (columns.kind, columns.names, columns.values)
                    return cls(keys, "columns", _dumped(parts, columns.kind))
                except _RefersBack:
                    pass
            return cls(keys, "together", _dumped(list(entities.values()), None))
        except BaseException as error:  # found again, if it is more than a way of its own
            pass_interrupt(error)
            return cls(keys, "each", [pickle.dumps(e, protocol=5) for e in entities.values()])

    def put_into(self, entities: dict[Any, Any]) -> None:
        """Make these the entities of their keys in *entities*.

        Raises:
            Exception: One cannot be loaded; some of the others may be there.
        """
        if self.form == "columns":
            kind, names, values = pickle.loads(self.content)
            Columns(kind, names, self.keys, values).put_into(entities)
        elif self.form == "together":
            entities.update(zip(self.keys, pickle.loads(self.content), strict=True))
        else:
            entities.update(zip(self.keys, map(pickle.loads, self.content), strict=True))

    def one_by_one(self) -> Iterator[tuple[Any, Any, BaseException | None]]:
        """Each key with its entity, or with what its loading raises."""
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

    def only(self, place: int) -> Saved:
        """What has to be kept of the entity at *place*, to load it by itself."""
        if self.form != "each":
            return self
        return Saved([self.keys[place]], "each", [self.content[place]])

    def class_name(self) -> str:
        """Name of the class of the (first) entity, also where there is no such class any more."""
        content = self.content[0] if self.form == "each" else self.content
        try:
            _Naming(io.BytesIO(content)).load()
        except _Named as named:
            return str(named)
        except Exception:  # no class comes before what cannot be read
            return "?"
        return "a built-in class"


class _RefersBack(Exception):
    """Something in the attributes of entities refers to an entity."""


class _OwnWay(Exception):
    """An object pickles in its own way, of which nothing is known."""


class _Pickler(pickle.Pickler):
    """Refuses what loads otherwise, or perhaps not at all.

    Args:
        file: Where to write.
        entities: Class whose objects are refused.
    """

    def __init__(self, file: io.BytesIO, entities: type | None) -> None:
        super().__init__(file, protocol=5)
        self._entities = entities

    def reducer_override(self, value: Any) -> Any:
        """Called for each object that is not of a built-in class; leaves it to `pickle`."""
        kind: Any = type(value)
        if kind is self._entities:
            raise _RefersBack
        if not _loads_for_sure(kind):
            raise _OwnWay
        return NotImplemented


@lru_cache(maxsize=1024)
def _loads_for_sure(kind: type) -> bool:
    """Whether objects of *kind* load if their class is there; classes load by their names."""
    named_tuple = kind.__mro__[1:2] == (tuple,) and hasattr(kind, "_fields")
    plain = is_plain(kind) and not has_getattr(kind)  # unpickling looks for hooks on the object
    return kind in _SURE or issubclass(kind, type) or named_tuple or plain


def _dumped(value: Any, entities: type | None) -> bytes:
    file = io.BytesIO()
    _Pickler(file, entities).dump(value)
    return file.getvalue()


class _Named(Exception):
    """The name that was looked for."""


class _Naming(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module in {"copyreg", "builtins"}:
            return super().find_class(module, name)
        full = f"{module}.{name}"
        raise _Named(full)
