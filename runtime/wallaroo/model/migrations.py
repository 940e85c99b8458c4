"""Versions of state classes, and entities of earlier versions.

An entity of an earlier version is not loaded as an object of the class, which may not accept its
attributes any more, but as a stand-in that takes all of them.
"""

from __future__ import annotations

import functools
import gc
import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from wallaroo.api.migrations import Fields, Migration, migrations_of
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import describe_error, pass_interrupt

FIRST = 1
"""The version of a class without migrations."""


class MigrationError(Exception):
    """An entity of an earlier version could not be migrated; the message says why."""


@time_limited
@dataclass(frozen=True)
class Versions:
    """The current version of a state class, and the migrations that lead there."""

    kind: type
    """The class."""
    migrations: Mapping[int, Migration]
    """By the version from which they lead."""

    @classmethod
    def of(cls, kind: object) -> Versions | None:
        """The versions of the class *kind*; None if it has no migrations."""
        migrations = migrations_of(kind) if isinstance(kind, type) else {}
        return cls(kind, migrations) if isinstance(kind, type) and migrations else None

    @property
    def current(self) -> int:
        """The version of the code."""
        return max(self.migrations) + 1

    @property
    def oldest(self) -> int:
        """The earliest version from which migrations lead to the current one."""
        version = self.current
        while version - 1 in self.migrations:
            version -= 1
        return version

    def problem(self) -> str | None:
        """Why the migrations do not fit together or the class; None if they do."""
        try:
            object.__new__(self.kind)
        except TypeError as error:
            return f"class {self.kind.__name__} cannot have migrations: {error}"
        gap = self.oldest - 1
        earlier = [version for version in self.migrations if version < gap]
        if not earlier:
            return None
        return (
            f"class {self.kind.__name__} has a migration from version {max(earlier)}, but none "
            f"from version {gap}"
        )

    def migrated(self, fields: Fields, version: int, stand_in: Any = None) -> Any:
        """Return the entity whose *fields* were saved by *version*.

        Args:
            fields: Its fields.
            version: The version of its class.
            stand_in: What was loaded in its place, and becomes the entity where its class allows
                that: other objects may refer to it. None if there is nothing.

        Raises:
            MigrationError: A migration raised, or is missing, or its result lacks a field.
        """
        if version < self.oldest:
            msg = (
                f"it is of version {version}, and the migrations of class {self.kind.__name__} "
                f"begin at version {self.oldest}"
            )
            raise MigrationError(msg)
        for number in range(version, self.current):
            migration = self.migrations[number]
            try:
                fields = migration.function(fields)
                _check_fields(fields)
            except BaseException as error:
                pass_interrupt(error)
                what = f"migration from version {number} ({migration.place})"
                msg = f"{what}: {describe_error(error)}"
                raise MigrationError(msg) from error
        try:
            missing = sorted(self._required - fields.keys())
        except Exception as error:  # the class cannot be created
            msg = f"class {self.kind.__name__} cannot be created: {describe_error(error)}"
            raise MigrationError(msg) from error
        if missing:
            last = self.current - 1
            msg = (
                f"migration from version {last} ({self.migrations[last].place}): the result lacks "
                f"the field {missing[0]!r} that class {self.kind.__name__} has"
            )
            raise MigrationError(msg)
        try:
            entity = self._made_of(stand_in)
            for name, value in fields.items():
                object.__setattr__(entity, name, value)
        except (AttributeError, TypeError) as error:
            msg = f"class {self.kind.__name__} does not take the result: {describe_error(error)}"
            raise MigrationError(msg) from error
        if stand_in is not None and stand_in is not entity and _leads_to(fields, stand_in):
            msg = (
                f"it refers to itself, and class {self.kind.__name__} has slots: other objects "
                "cannot be led to the migrated entity"
            )
            raise MigrationError(msg)
        return entity

    def _made_of(self, stand_in: Any) -> Any:
        if stand_in is not None:
            try:
                stand_in.__class__ = self.kind
            except TypeError:  # of a class with slots: objects of it have another layout
                pass
            else:
                vars(stand_in).clear()
                return stand_in
        return object.__new__(self.kind)

    @functools.cached_property
    def _required(self) -> frozenset[str]:
        """The fields of a new entity for which its class has no default."""
        kind = self.kind
        slots = set(slot_names(kind))
        entity = self.created()
        names = {name for name in slots if hasattr(entity, name)} | set(vars_of(entity))
        return frozenset(name for name in names if name in slots or not hasattr(kind, name))

    def created(self) -> Any:
        """Create an entity whose fields are inspected, outside the processing of any message."""
        return self.kind()

    def load(self, data: bytes) -> tuple[Any, list[Any]]:
        """Load a pickle; returns it with stand-ins for objects of the class, and these.

        Raises:
            Exception: It cannot be loaded.
        """
        unpickler = _Unpickler(data, self.kind)
        return unpickler.load(), unpickler.stand_ins

    def migrate_in_place(self, stand_ins: Iterable[Any], version: int) -> None:
        """Migrate objects of the class that entities contain.

        Raises:
            MigrationError: One of them cannot be migrated, or not in place.
        """
        for one in stand_ins:
            if self.migrated(fields_of(one), version, one) is not one:
                msg = (
                    f"it contains another object of class {self.kind.__name__}, which has slots: "
                    "only the entity itself can be migrated"
                )
                raise MigrationError(msg)


def fields_of(entity: Any) -> Fields:
    """The fields of an *entity* of an earlier version.

    Raises:
        MigrationError: It was pickled in a way of its own.
    """
    if isinstance(entity, _Earlier) and _Earlier.OWN_STATE in vars(entity):
        msg = "it was saved with a __getstate__ whose result has no fields"
        raise MigrationError(msg)
    found = {
        name: getattr(entity, name) for name in slot_names(type(entity)) if hasattr(entity, name)
    }
    return found | vars_of(entity)


def vars_of(entity: Any) -> Fields:
    """The attributes of *entity* outside slots."""
    return dict(getattr(entity, "__dict__", {}))


class _Earlier:
    """Takes the place of an object of an earlier version."""

    OWN_STATE = "__getstate__()"
    """Attribute with a state that has no fields."""

    made: ClassVar[list[Any]] = []
    """What was made of it."""

    def __new__(cls, *_arguments: Any, **_named: Any) -> Any:
        made = object.__new__(cls)
        cls.made.append(made)
        return made

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        pass


def _set_state(self: _Earlier, state: Any) -> None:
    for part in state if isinstance(state, tuple) else (state,):
        if isinstance(part, dict):
            vars(self).update(part)
        elif part is not None:
            vars(self)[_Earlier.OWN_STATE] = part


class _EarlierPickled(_Earlier):
    """Takes the state that pickle has of an object; without it, a stand-in is a plain class."""

    __setstate__: Callable[[Any, Any], None] = _set_state


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, kind: type) -> None:
        super().__init__(io.BytesIO(data))
        self._kind = kind.__module__, kind.__qualname__
        self.stand_ins: list[Any] = []
        self._stand_in = type("_EarlierPickled", (_EarlierPickled,), {"made": self.stand_ins})

    def find_class(self, module: str, name: str) -> Any:
        return self._stand_in if (module, name) == self._kind else super().find_class(module, name)


def _leads_to(start: Any, sought: Any) -> bool:
    """Whether *start* refers to the object *sought*, directly or by other objects."""
    known, waiting = {id(start)}, [start]
    while waiting:
        for one in gc.get_referents(waiting.pop()):
            if one is sought:
                return True
            if id(one) not in known and not isinstance(one, (type, ModuleType, FunctionType)):
                known.add(id(one))
                waiting.append(one)
    return False


def _check_fields(fields: Any) -> None:
    if not isinstance(fields, dict):
        hint = "; return the fields" if fields is None else ""
        msg = f"it returned {fields!r:.60}, and not a dictionary{hint}"
        raise TypeError(msg)


def slot_names(kind: type) -> list[str]:
    """The fields of objects of *kind* that have slots, those of base classes, too."""
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if name not in {"__dict__", "__weakref__"}]
