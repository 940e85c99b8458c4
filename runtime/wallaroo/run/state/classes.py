"""A check that an application's state classes fit the saved entities.

State outlives the code that created it. The state directory records which attributes the entities
of each state have, as far as a new entity shows them. A start with a class that requires others is
refused before anything is written.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Self

import structlog

from wallaroo import saved_names
from wallaroo.errors import DamagedFile, UsageError
from wallaroo.model.application import Application, StatePartition
from wallaroo.model.migrations import FIRST, Versions
from wallaroo.system.atomic_write import write_durably
from wallaroo.system.sealed_files import sealed, unsealed

log = structlog.get_logger("wallaroo")

_FILE = "state-classes.json"
_WINDOWS = {
    "RangeEntity": "windows of time",
    "SessionEntity": "sessions",
    "CountEntity": "windows of a number of messages",
    "TableEntity": "a table join",
    "AsOfEntity": "an as-of join",
    "IntervalEntity": "an interval join",
}
"""Windows by the class of their entities."""
_WIDER = {("int", "float"), ("bool", "int")}
"""Changes of a type after which every old value is still valid."""


@dataclass(frozen=True)
class Shape:
    """What is known about the entities of a state."""

    module: str
    name: str
    """Qualified name of their class."""
    fields: dict[str, str]
    """The attributes that all of them have, with the names of their types."""
    version: int = FIRST
    """Version of the class to which the fields belong."""
    oldest: int = FIRST
    """The earliest version of which there may be entities in the state."""

    @classmethod
    def of(cls, partition: StatePartition) -> Self | None:
        """The shape of a new entity of *partition*; None if it is unknown."""
        if partition.windows is not None:
            kind = type(partition.windows.new_entity())
            return cls(kind.__module__, kind.__qualname__, {})
        try:
            entity = partition.new_entity()
        except (Exception, SystemExit):  # messages for it will become dead letters
            return None
        kind = type(entity)
        if kind.__module__ == "builtins":
            return cls(kind.__module__, kind.__qualname__, {})
        fields = {name: type(value).__name__ for name, value in _attributes(entity).items()}
        version = partition.version
        return cls(kind.__module__, kind.__qualname__, fields, version, version)

    def problem_with(self, new: Self, versions: Versions | None) -> str | None:
        """Why entities of this shape do not fit code that creates *new* ones; None if they do.

        Args:
            new: The shape of a new entity.
            versions: The versions of the class; None if it has only one.
        """
        if (problem := self._problem_with_version(new, versions)) is not None:
            return problem
        if self.version < new.version and (self.module, self.name) == (new.module, new.name):
            return None  # migrations provide the fields
        if _class_named(self.module, self.name) is None:
            return f"its entities are of class {self.module}.{self.name}, which no longer exists"
        if (self.module, self.name) == (new.module, new.name):
            return self._problem_with_fields(new, _class_named(new.module, new.name))
        return self._problem_with_other_class(new)

    def _problem_with_other_class(self, new: Self) -> str | None:
        if (was := self._windows()) != (now := new._windows()):
            return f"it holds {was or 'no windows'}, but the code now has {now or 'none'} there"
        if "builtins" in {self.module, new.module}:
            return f"its entities are of class {self.name}, but the code now creates {new.name}"
        return None

    def _windows(self) -> str | None:
        """Which windows the entities hold; None if they hold none."""
        return _WINDOWS.get(self.name) if self.module == saved_names.__name__ else None

    def _problem_with_version(self, new: Self, versions: Versions | None) -> str | None:
        if self.version > new.version:
            return (
                f"its entities are of version {self.version} of class {self.name}, and the code "
                f"has version {new.version}: start newer code"
            )
        if versions is not None and self.oldest < versions.oldest:
            return (
                f"it may have entities of version {self.oldest} of class {self.name}, and the "
                f"migrations begin at version {versions.oldest}: add @wallaroo.migrate("
                f"{new.name}, from_version={self.oldest})"
            )
        return None

    def _problem_with_fields(self, new: Self, kind: Any) -> str | None:
        if hasattr(kind, "__setstate__"):
            return None
        for field, type_ in new.fields.items():
            was = self.fields.get(field)
            if was is None and _lacks_value(kind, field):
                old = " or ".join(map(repr, sorted(self.fields.keys() - new.fields.keys())))
                migration = f"@wallaroo.migrate({new.name}, from_version={new.version})"
                ways = f"a default for it ({field} = …) or a __setstate__"
                return (
                    f"class {new.name} now has the field {field!r}, which the saved entities lack: "
                    + (f"if it was {old}, keep its values with {migration}; else " if old else "")
                    + f"give the class {ways}"
                    + ("" if old else f", or make it with {migration}")
                )
            fits = was in {None, type_, "NoneType"} or type_ == "NoneType"
            if not fits and (was, type_) not in _WIDER:
                return f"the field {field!r} of class {new.name} was {was} and is now {type_}"
        return None

    def hint_at(self, new: Self) -> str | None:
        """What is said of fields that may have another name in *new* code, which fits."""
        old, begun = self.fields.keys() - new.fields.keys(), new.fields.keys() - self.fields.keys()
        if not (old and begun) or self.version < new.version or self._windows():
            return None
        return (
            f"the saved entities have {_listed(old)}, which class {new.name} no longer has, and "
            f"{_listed(begun)} will begin with the default of the class; if only the name has "
            f"changed, keep the values with @wallaroo.migrate({new.name}, "
            f"from_version={new.version})"
        )

    def narrowed_to(self, new: Self) -> Shape:
        """What is known about all entities when *new* ones are added."""
        fields = {f: new.fields[f] for f in new.fields if f in self.fields}
        if self.version < new.version:
            fields = new.fields
        return Shape(new.module, new.name, fields, new.version, self.oldest)


def check_state_classes(state_dir: Path, application: Application) -> None:
    """Refuse *application* if its state classes do not fit the entities saved in *state_dir*.

    Raises:
        UsageError: A class does not fit; the message names the state and the field.
        DamagedFile: The record of the classes was changed.
    """
    if (problem := state_class_problem(state_dir, application)) is not None:
        raise UsageError(problem)
    saved = _read(state_dir)
    for name in sorted(saved.keys() - application.partitions.keys()):
        remedy = (
            "its entities are kept; if it has only another name now, give it the old one; "
            "a new --state-dir, and state export and import, leave it behind"
        )
        log.warning(
            "a state is no longer used", state=name, state_dir=str(state_dir), remedy=remedy
        )
    if application.serialization is not None:  # which handles versions itself
        return
    shapes = dict(saved)
    for name, partition in application.partitions.items():
        if (new := Shape.of(partition)) is not None:
            shapes[name] = saved[name].narrowed_to(new) if name in saved else new
    file = state_dir / _FILE
    write_durably(file, sealed({name: asdict(shape) for name, shape in shapes.items()}))


def record_of(state_dir: Path) -> str | None:
    """The record of the classes as it is, for `restore`; None if there is none."""
    file = state_dir / _FILE
    return file.read_text() if file.exists() else None


def restore(state_dir: Path, record: str | None) -> None:
    """Let the *record* be that of before code was checked that has saved no entity."""
    if record is not None:
        write_durably(state_dir / _FILE, record)


def state_class_problem(state_dir: Path, application: Application) -> str | None:
    """Why the state classes do not fit the entities saved in *state_dir*; None if they do.

    Raises:
        DamagedFile: The record of the classes was changed.
    """
    saved = _read(state_dir)
    if application.serialization is not None:
        return None
    for name, partition in application.partitions.items():
        if name in saved and (new := Shape.of(partition)) is not None:
            problem = saved[name].problem_with(new, partition.versions)
            if problem is not None:
                return (
                    f"state {name!r} in {state_dir} does not fit the application: {problem}; "
                    "or start with another --state-dir"
                )
    return None


def hints_of_fields(state_dir: Path, application: Application) -> Iterator[str]:
    """Yield a hint for each state whose fields may have other names than those in *state_dir*."""
    saved = {} if application.serialization is not None else _read(state_dir)
    for name, partition in application.partitions.items():
        new = Shape.of(partition) if name in saved else None
        if new is not None and (hint := saved[name].hint_at(new)) is not None:
            yield f"state {name!r}: {hint}"


def known_states(state_dir: Path) -> frozenset[str]:
    """The states that starts with *state_dir* have had, unless the application saves them itself.

    Raises:
        DamagedFile: The record of the classes was changed.
    """
    return frozenset(_read(state_dir))


def _read(state_dir: Path) -> dict[str, Shape]:
    file = state_dir / _FILE
    if not file.exists():
        return {}
    try:
        return {name: Shape(**shape) for name, shape in unsealed(file.read_text()).items()}
    except (ValueError, TypeError) as error:
        msg = f"{file} is damaged: {error}; restore {state_dir} from a copy"
        raise DamagedFile(msg) from error


class EntityShape:
    """The class and the fields that entities of a state must have.

    Args:
        new: A new entity.
    """

    def __init__(self, new: Any) -> None:
        self._kind = type(new)
        self._required = [
            name for name in sorted(_attributes(new)) if _lacks_value(self._kind, name)
        ]

    def problem_with(self, entity: Any) -> str | None:
        """Why *entity* does not fit; None if it does."""
        if type(entity) is not self._kind:
            expected = _name(self._kind)
            return f"the entity is of class {_name(type(entity))}; expected {expected}"
        for field in self._required:
            if not hasattr(entity, field):
                return f"the entity lacks the field {field!r} that class {_name(self._kind)} has"
        return None


def _listed(fields: Iterable[str]) -> str:
    return " and ".join(map(repr, sorted(fields)))


def _lacks_value(kind: type, field: str) -> bool:
    """Whether class *kind* has no default for *field*."""
    return not hasattr(kind, field) or field in getattr(kind, "__slots__", ())


def _name(kind: type) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _attributes(entity: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for base in type(entity).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(entity, name):
                attributes[name] = getattr(entity, name)
    return attributes | getattr(entity, "__dict__", {})


def _class_named(module: str, name: str) -> Any:
    """The class *name* of *module*; None if it does not exist."""
    try:
        return reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
