"""Migrations: functions that turn a saved entity into one of the next version of its class."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wallaroo.api.integers import integer
from wallaroo.api.places import Place, place_of
from wallaroo.errors import WallarooParameterError

Fields = dict[str, Any]
"""The attributes of an entity by name."""
Migrating = Callable[[Fields], Fields]
"""From the fields of one version to those of the next."""


@dataclass(frozen=True)
class Migration:
    """A function that migrates the fields of an entity."""

    function: Migrating
    place: Place


_migrations: weakref.WeakKeyDictionary[type, dict[int, Migration]] = weakref.WeakKeyDictionary()
"""By class and the version from which they lead."""


def migrate(state: type, *, from_version: int) -> Callable[[Migrating], Migrating]:
    """Declare how saved entities of an earlier version of a state class become the next version.

    The first version of a class is 1; with a migration from version 1, the class is version 2, and
    so on. When an entity is loaded, the migrations from its version on run one after the other.

    Args:
        state: The class as it is now.
        from_version: The version that the function takes.

    Returns:
        A decorator for a function that takes the attributes of an entity, a dictionary by name, and
        returns those of the next version. It may change and return the same dictionary.

    Raises:
        TypeError: The state is not a class of the application, or the version is no int.
        WallarooParameterError: The version is not positive, or already has a migration.

    Example:
        >>> class Totals:
        ...     def __init__(self):
        ...         self.votes = 0
        >>> @migrate(Totals, from_version=1)
        ... def rename_count(fields):
        ...     fields["votes"] = fields.pop("count")
        ...     return fields
        >>> rename_count({"count": 3})
        {'votes': 3}
    """
    if not isinstance(state, type) or state.__module__ == "builtins":
        msg = f"migrate is given {state!r}; expected a state class that the application defines"
        raise TypeError(msg)
    if integer("from_version", from_version) < 1:
        msg = f"from_version is {from_version}; the first version of a class is 1"
        raise WallarooParameterError(msg)

    def decorate(function: Migrating) -> Migrating:
        of_class = _migrations.setdefault(state, {})
        if from_version in of_class:
            msg = (
                f"class {state.__name__} already has a migration from version {from_version}, at "
                f"{of_class[from_version].place}"
            )
            raise WallarooParameterError(msg)
        of_class[from_version] = Migration(function, place_of(function))
        return function

    return decorate


def migrations_of(state: type) -> dict[int, Migration]:
    """The migrations of the class *state*, by the version from which they lead."""
    return dict(_migrations.get(state, {}))
