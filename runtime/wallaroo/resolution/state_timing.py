"""Resolves what the steps of a state declare of timers and expiry."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from wallaroo.api.builder import DeclaredStep
from wallaroo.api.places import Place, place_of
from wallaroo.api.state_functions import AnyStateComputation
from wallaroo.model.timing import Timing
from wallaroo.resolution.problems import Problems, describe


def check_computation(
    computation: AnyStateComputation[Any, Any, Any], label: str, problems: Problems
) -> None:
    """Check the functions of a state computation, which messages call *label*."""
    timing = computation.timing
    several = None if computation.multi else "decorate it with @state_computation_multi"
    timers = () if timing.on_timer is None else ("timers",)
    for place, function, takes, if_generator in (
        (label, computation.function, ("message", "state", *timers), several),
        (f"{label}: on_timer", timing.on_timer, ("name", "state", "timers"), several),
        (f"{label}: event_time", timing.event_time, ("message",), "write return"),
    ):
        if function is not None and not callable(function):
            sentence = f"{place} is {describe(function)}; expected a function"
            problems.add(place_of(computation), sentence)
        elif function is computation.function and not timers and _takes_timers(function):
            sentence = (
                f"{place} takes timers, but has no on_timer=; give it the function that they call"
            )
            problems.add(place_of(function), sentence)
        elif function is not None:
            problems.check_arity(
                function, len(takes), place, ", ".join(takes), if_generator=if_generator
            )


def _takes_timers(function: Any) -> bool:
    """Whether *function* can be called with a message, a state and timers only."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    required = [
        one for one in parameters if one.default is one.empty and one.kind < one.VAR_POSITIONAL
    ]
    return len(required) == 3  # noqa: PLR2004


@dataclass(frozen=True)
class _Declared:
    """What one step of a state declares."""

    place: Place
    ttl_ns: int | None
    has_timers: bool
    has_event_time: bool


class DeclaredTimings:
    """Collects what steps declare, by state.

    Args:
        problems: Collects problems.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._declared: dict[str, list[_Declared]] = {}

    def note(
        self,
        step: DeclaredStep,
        computation: AnyStateComputation[Any, Any, Any],
        state: str,
        label: str,
    ) -> None:
        """Note what *computation* declares in *step* for *state*, and check it against the others.

        Args:
            step: The step.
            computation: Its computation.
            state: Name of the state.
            label: How messages refer to the step.
        """
        timing = computation.timing
        new = _Declared(
            step.place,
            timing.ttl_ns,
            timing.on_timer is not None,
            timing.event_time is not None,
        )
        others = self._declared.setdefault(state, [])
        for other in others if step.kind != "to_keyed" else ():  # merged pipelines share the step
            if None not in {new.ttl_ns, other.ttl_ns} and new.ttl_ns != other.ttl_ns:
                self._problems.add(
                    step.place,
                    f"{label}: the ttl of state {state!r} is {new.ttl_ns} ns here, "
                    f"but {other.ttl_ns} ns at {other.place}",
                )
            if new.has_timers and other.has_timers:
                self._problems.add(
                    step.place,
                    f"{label}: state {state!r} has timers of another step at {other.place}; "
                    "give on_timer to one step of a state only",
                )
        others.append(new)
        timed = any(one.has_timers or one.ttl_ns is not None for one in others)
        for other in others[:-1]:
            if timed and new.has_event_time != other.has_event_time:
                with_, without = (new, other) if new.has_event_time else (other, new)
                self._problems.add(
                    step.place,
                    f"{label}: state {state!r} has event_time at {with_.place}, but not at "
                    f"{without.place}; its steps need the same kind of time",
                )

    def of(self, state: str) -> Timing | None:
        """Timers and expiry of the entities of *state*; None if they have neither."""
        declared = self._declared.get(state, [])
        ttls = [one.ttl_ns for one in declared if one.ttl_ns is not None]
        if not ttls and not any(one.has_timers for one in declared):
            return None
        return Timing(ttls[0] if ttls else None, any(one.has_event_time for one in declared))
