"""Checks in a simulation whether entities can be saved."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wallaroo.dataflow.current_message import Role, has_role
from wallaroo.dataflow.entity_checks import always, is_saved
from wallaroo.dataflow.savable import RECENT, CheckedEntity, Unsavable, codec_of, saved, settle_all
from wallaroo.model.application import Application, StateCompute, Stateful
from wallaroo.model.windows import Windows
from wallaroo.user_code.exceptions import pass_interrupt

_BYTES_A_MESSAGE = 64
"""Bytes to pickle per message: large entities are checked less often."""
Where = tuple[str, Any]
"""State and key."""


@dataclass
class Suspects:
    """Entities that previous runs of a simulation found to be unsavable, for the next run."""

    checked: set[Where] = field(default_factory=set)
    """Entities to check after each message."""
    closely: set[Where] = field(default_factory=set)
    """Those to check after calls of later steps, too."""
    skipped: dict[int, Unsavable] = field(default_factory=dict)
    """Calls of later steps to skip, by number."""


class Watch:
    """Checks whether entities can be saved: most of them occasionally, suspects after each message.

    Args:
        application: The simulated application.
        suspects: Entities to check after each message; `update_suspects` adds to them.
    """

    def __init__(self, application: Application, suspects: Suspects) -> None:
        self._application = application
        self._suspects = suspects
        self._entities: dict[Where, CheckedEntity] = {}
        self._recent: deque[CheckedEntity] = deque(maxlen=RECENT)
        """Entities of recent messages that are to be checked closely."""
        self._calls = 0
        self._first_problem: tuple[int, Unsavable] | None = None
        """The first call of a later step that made an entity unsavable, and the problem. What
        follows may differ once that call is skipped."""
        self._countdowns: dict[Where, int] = {}
        """Entities that are to be saved, each with the number of messages until its next check."""
        self._unsavable: set[Where] = set()
        self._codecs = {n: codec_of(application, p) for n, p in application.partitions.items()}

    def touched(
        self, step: Stateful, key: Any, entities: dict[Any, Any], function: Callable[[Any], Any]
    ) -> Any:
        """Return the result of *function* on the entity of *key* in *entities*.

        Raises:
            Unsavable: The entity cannot be saved afterwards; it was restored.
        """
        returns_save = isinstance(step, StateCompute) and step.returns_save
        counts = is_saved if returns_save else always
        where = (step.partition, key)
        if where in self._suspects.checked:
            return self._checked(step, where, entities, function, counts)
        to_save = True
        try:
            result = function(entities[key])
            to_save = where in self._countdowns or counts(result)
        finally:
            if to_save:
                self._check_occasionally(where, entities[key])
        return result

    def function(self, step: StateCompute) -> Callable[..., Any]:
        """Return the function of *step*, which `touched` checks."""
        return step.function

    def windows(self, windows: Windows, _partition: str) -> Windows:
        """Return *windows*, which `touched` checks."""
        return windows

    def other(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a *function* that takes no entity, but may hold a part of one, with a check."""
        if not self._suspects.closely:
            return function

        def checked(*arguments: Any) -> Any:
            self._calls += 1
            number = self._calls
            if (skipped := self._suspects.skipped.get(number)) is not None:
                raise skipped
            try:
                return function(*arguments)
            finally:
                if (
                    self._first_problem is None
                    and (problem := settle_all(self._recent)) is not None
                ):
                    self._first_problem = number, problem

        return checked

    def update_suspects(self, state: Mapping[str, Mapping[Any, Any]]) -> bool:
        """Add unsavable entities to the suspects; returns whether the simulation must run again.

        Args:
            state: The entities at the end of the run.
        """
        if self._first_problem is not None:
            number, problem = self._first_problem
            self._suspects.skipped[number] = problem
            return True
        suspects, unsavable = self._suspects, self._find_unsavable(state)
        changed_outside = {
            where
            for where, entity in self._entities.items()
            if entity.changed_outside
            or (where[1] in state[where[0]] and entity.settle() is not None)
        }
        known = unsavable <= suspects.checked and changed_outside <= suspects.closely
        suspects.checked |= unsavable
        suspects.closely |= changed_outside
        return not known

    def _find_unsavable(self, state: Mapping[str, Mapping[Any, Any]]) -> set[Where]:
        """Return the entities that are to be saved and cannot be, or could not be at some time."""
        for name, key in self._countdowns.keys() - self._unsavable:
            if key in state[name]:
                try:
                    saved(state[name][key], self._codecs[name])
                except Unsavable:
                    self._unsavable.add((name, key))
        return self._unsavable

    @has_role(Role.SAVING)
    def _check_occasionally(self, where: Where, entity: Any) -> None:
        messages = self._countdowns.get(where, 0)
        if messages:
            self._countdowns[where] = messages - 1
            return
        try:
            codec = self._codecs[where[0]]
            size = len(pickle.dumps(entity if codec is None else codec.dump(entity), protocol=5))
        except BaseException as error:
            pass_interrupt(error)
            self._unsavable.add(where)
            size = 0
        self._countdowns[where] = size // _BYTES_A_MESSAGE

    def _checked(
        self,
        step: Stateful,
        where: Where,
        entities: dict[Any, Any],
        function: Callable[[Any], Any],
        counts: Callable[[Any], bool],
    ) -> Any:
        name, key = where
        entity = self._entities.get(where)
        if entity is None or entity.entity is not entities[key]:
            new = self._application.partitions[name].new_entity
            entity = CheckedEntity(name, entities[key], self._codecs[name], new)
            self._entities[where] = entity
        if where in self._suspects.closely:
            self._recent.append(entity)
        try:
            return entity.call(function, counts)
        except Unsavable as error:
            error.add_note(f"step {step.name!r}, {step.place}")
            raise
        finally:
            entities[key] = entity.entity
