"""Entities of an application that is simulated, as far as they have to be saved."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

from wallaroo.model.application import Application, StateCompute, Stateful
from wallaroo.model.raised import pass_interrupt
from wallaroo.model.saving import Held, Unsavable, codec_of, saved

_BYTES_A_MESSAGE = 64
"""Bytes that are pickled for each message: large entities are looked at less often."""
Where = tuple[str, Any]
"""State partition and key."""


class Watch:
    """Looks whether entities can be saved: of most now and then, of some after each message.

    Args:
        application: What is simulated.
        suspects: Which to check after each message, to find the ones that spoil them.
    """

    def __init__(self, application: Application, suspects: set[Where]) -> None:
        self._application = application
        self._suspects = suspects
        self._held: dict[Where, Held] = {}
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
        if where in self._suspects:
            return self._checked(step, where, entities, function, counts)
        to_save = True
        try:
            result = function(entities[key])
            to_save = where in self._looks or counts(result)
        finally:
            if to_save:
                self._look(where, entities[key])
        return result

    def unsaved(self, state: Mapping[str, Mapping[Any, Any]]) -> set[Where]:
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
