"""Entities of an application that is simulated, as far as they have to be saved."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wallaroo.model.application import Application, StateCompute, Stateful
from wallaroo.model.raised import pass_interrupt
from wallaroo.model.savable import RECENT, Held, Unsavable, codec_of, saved, settled
from wallaroo.model.windows import Windows

_BYTES_A_MESSAGE = 64
"""Bytes that are pickled for each message: large entities are looked at less often."""
Where = tuple[str, Any]
"""State partition and key."""


@dataclass
class Suspects:
    """What runs of a simulation have found of its entities, for the next one."""

    checked: set[Where] = field(default_factory=set)
    """Which to check after each message, to find those that spoil them."""
    closely: set[Where] = field(default_factory=set)
    """Which of them to check after calls of later steps, too."""
    refused: dict[int, Unsavable] = field(default_factory=dict)
    """Calls of such steps that are not made, by number."""


class Watch:
    """Looks whether entities can be saved: of most now and then, of some after each message.

    Args:
        application: What is simulated.
        suspects: Which are to be checked; `found` adds to them.
    """

    def __init__(self, application: Application, suspects: Suspects) -> None:
        self._application = application
        self._suspects = suspects
        self._held: dict[Where, Held] = {}
        self._recent: deque[Held] = deque(maxlen=RECENT)
        """Those that messages came to of late, and are to be checked closely."""
        self._calls = 0
        self._spoiling: tuple[int, Unsavable] | None = None
        """The first call of a later step that spoilt an entity, and why: what follows it had a
        part of that entity, and goes otherwise once the call is not made."""
        self._looks: dict[Where, int] = {}
        """Entities that are to be saved, each with how many messages later to look at it again."""
        self._spoilt: set[Where] = set()
        self._codecs = {n: codec_of(application, p) for n, p in application.partitions.items()}

    def touched(
        self, step: Stateful, key: Any, entities: dict[Any, Any], function: Callable[[Any], Any]
    ) -> Any:
        """The result of *function* on the entity of *key* in *entities*.

        Raises:
            Unsavable: The entity cannot be saved afterwards, and is as it was before.
        """
        tells_save = isinstance(step, StateCompute) and step.tells_save
        counts = _is_saved if tells_save else _always
        where = (step.partition, key)
        if where in self._suspects.checked:
            return self._checked(step, where, entities, function, counts)
        to_save = True
        try:
            result = function(entities[key])
            to_save = where in self._looks or counts(result)
        finally:
            if to_save:
                self._look(where, entities[key])
        return result

    def function(self, step: StateCompute) -> Callable[[Any, Any], Any]:
        """The function of *step*, which `touched` checks."""
        return step.function

    def windows(self, windows: Windows, _partition: str) -> Windows:
        """*windows*, which `touched` checks."""
        return windows

    def other(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A *function* that is given no entity, checked: it may have a part of one."""
        if not self._suspects.closely:
            return function

        def checked(*arguments: Any) -> Any:
            self._calls += 1
            number = self._calls
            if (refused := self._suspects.refused.get(number)) is not None:
                raise refused
            try:
                return function(*arguments)
            finally:
                if self._spoiling is None and (problem := settled(self._recent)) is not None:
                    self._spoiling = number, problem

        return checked

    def found(self, state: Mapping[str, Mapping[Any, Any]]) -> bool:
        """Add to the suspects what is wrong with entities; tells whether to run once more.

        Args:
            state: The entities as they are in the end.
        """
        if self._spoiling is not None:
            number, problem = self._spoiling
            self._suspects.refused[number] = problem
            return True
        suspects, spoilt = self._suspects, self._unsaved(state)
        loose = {
            where
            for where, held in self._held.items()
            if held.loose or (where[1] in state[where[0]] and held.settle() is not None)
        }
        known = spoilt <= suspects.checked and loose <= suspects.closely
        suspects.checked |= spoilt
        suspects.closely |= loose
        return not known

    def _unsaved(self, state: Mapping[str, Mapping[Any, Any]]) -> set[Where]:
        """The entities in *state* that are to be saved and cannot be, or could not for a while."""
        for name, key in self._looks.keys() - self._spoilt:
            if key in state[name]:
                try:
                    saved(state[name][key], self._codecs[name])
                except Unsavable:
                    self._spoilt.add((name, key))
        return self._spoilt

    def _look(self, where: Where, entity: Any) -> None:
        left = self._looks.get(where, 0)
        if left:
            self._looks[where] = left - 1
            return
        try:
            codec = self._codecs[where[0]]
            size = len(pickle.dumps(entity if codec is None else codec.dump(entity), protocol=5))
        except BaseException as error:
            pass_interrupt(error)
            self._spoilt.add(where)
            size = 0
        self._looks[where] = size // _BYTES_A_MESSAGE

    def _checked(
        self,
        step: Stateful,
        where: Where,
        entities: dict[Any, Any],
        function: Callable[[Any], Any],
        counts: Callable[[Any], bool],
    ) -> Any:
        name, key = where
        held = self._held.get(where)
        if held is None or held.now is not entities[key]:
            new = self._application.partitions[name].new_entity
            held = self._held[where] = Held(name, entities[key], self._codecs[name], new)
        if where in self._suspects.closely:
            self._recent.append(held)
        try:
            return held.call(function, counts)
        except Unsavable as error:
            error.add_note(f"step {step.name!r}, {step.place}")
            raise
        finally:
            entities[key] = held.now


def _is_saved(result: Any) -> bool:
    _output, save = result
    return bool(save)


def _always(_result: Any) -> bool:
    return True
