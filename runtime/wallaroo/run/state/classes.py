"""Whether the classes of the state still fit what is saved of their objects.

State outlives the code that made it. The state directory tells which attributes the entities of
each state partition have, as far as a new entity shows them; a start with a class that needs others
is refused, before anything is written.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Self

from wallaroo.errors import UsageError
from wallaroo.model.application import Application, StatePartition
from wallaroo.system.atomic_write import write_durably

_FILE = "state-classes.json"
_WIDER = {("int", "float"), ("bool", "int")}
"""Changes of a type that every value of the old one survives."""


@dataclass(frozen=True)
class Shape:
    """What is known of the entities of a state partition."""

    module: str
    name: str
    """Qualified name of their class."""
    fields: dict[str, str]
    """Name of the type of each attribute that all of them have."""

    @classmethod
    def of(cls, partition: StatePartition) -> Self | None:
        """The shape of a new entity of *partition*; None where nothing can be said."""
        if partition.windows is not None:
            return None
        try:
            entity = partition.new_entity()
        except (Exception, SystemExit):  # it will set messages aside
            return None
        kind = type(entity)
        if kind.__module__ == "builtins":
            return cls(kind.__module__, kind.__qualname__, {})
        fields = {name: type(value).__name__ for name, value in _attributes(entity).items()}
        return cls(kind.__module__, kind.__qualname__, fields)

    def problem_with(self, new: Self) -> str | None:
        """Why entities of this shape are of no use for code that makes *new* ones, if they are."""
        if _found(self.module, self.name) is None:
            return f"its entities are of class {self.module}.{self.name}, which is not there now"
        if (self.module, self.name) == (new.module, new.name):
            return self._problem_with_fields(new, _found(new.module, new.name))
        if "builtins" in {self.module, new.module}:
            return f"its entities are of class {self.name}, and the code makes {new.name} now"
        return None

    def _problem_with_fields(self, new: Self, kind: Any) -> str | None:
        if hasattr(kind, "__setstate__"):
            return None
        for field, type_ in new.fields.items():
            was = self.fields.get(field)
            if was is None and _lacks_value(kind, field):
                return (
                    f"class {new.name} has the field {field!r} now, which the saved entities "
                    f"lack: give the class a value for it ({field} = …) or a __setstate__"
                )
            fits = was in {None, type_, "NoneType"} or type_ == "NoneType"
            if not fits and (was, type_) not in _WIDER:
                return f"the field {field!r} of class {new.name} was {was} and is {type_} now"
        return None

    def narrowed_to(self, new: Self) -> Shape:
        """What is known of all entities when *new* ones come to these."""
        return Shape(
            new.module, new.name, {f: new.fields[f] for f in new.fields if f in self.fields}
        )


def check_state_classes(state_dir: Path, application: Application) -> None:
    """Refuse *application* where its state classes do not fit what is saved in *state_dir*.

    Raises:
        UsageError: One does not; the message names the state and the field.
    """
    file = state_dir / _FILE
    saved: dict[str, Shape] = {}
    if file.exists():
        told = json.loads(file.read_text())
        saved = {name: Shape(**shape) for name, shape in told.items()}
    if application.serialization is not None:  # it knows its own versions
        return
    shapes = dict(saved)
    for name, partition in application.partitions.items():
        if (new := Shape.of(partition)) is None:
            continue
        if name in saved and (problem := saved[name].problem_with(new)) is not None:
            msg = (
                f"state {name!r} in {state_dir} does not fit: {problem}; "
                "or start with another --state-dir"
            )
            raise UsageError(msg)
        shapes[name] = saved[name].narrowed_to(new) if name in saved else new
    told = {name: asdict(shape) for name, shape in shapes.items()}
    write_durably(file, json.dumps(told, indent=2) + "\n")


class EntityShape:
    """What entities of a state partition have to be like.

    Args:
        new: A new entity.
    """

    def __init__(self, new: Any) -> None:
        self._kind = type(new)
        self._needed = [name for name in sorted(_attributes(new)) if _lacks_value(self._kind, name)]

    def problem_with(self, entity: Any) -> str | None:
        """Why *entity* is of no use where new ones are of this kind, if it is."""
        if type(entity) is not self._kind:
            due = _name(self._kind)
            return f"the entity is of class {_name(type(entity))}, and the application makes {due}"
        for field in self._needed:
            if not hasattr(entity, field):
                return f"the entity lacks the field {field!r} that class {_name(self._kind)} has"
        return None


def _lacks_value(kind: type, field: str) -> bool:
    """Whether an object of class *kind* has *field* only if it was given one."""
    return not hasattr(kind, field) or field in getattr(kind, "__slots__", ())


def _name(kind: type) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _attributes(entity: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in type(entity).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(entity, name):
                found[name] = getattr(entity, name)
    return found | getattr(entity, "__dict__", {})


def _found(module: str, name: str) -> Any:
    """The class of that name; None if there is none."""
    try:
        return reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
