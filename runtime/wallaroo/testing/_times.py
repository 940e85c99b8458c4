"""The times of keys in a simulation, with timers and expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from wallaroo.api.durations import since_epoch_ns
from wallaroo.api.timers import CallTimers
from wallaroo.model.application import Application, Branch, Pipeline, StateCompute
from wallaroo.model.timing import Due, KeyTime, Timing

OnTimer = Callable[[str, Any, Due, CallTimers, int | None], None]
"""Calls a timer. Takes the state, the key, the due timer, all timers of the key, and the clock at
the time at which it was due; None if a message made it due."""


class SimulatedTimes:
    """The times of all keys of timed states.

    Args:
        application: The simulated application.
        state: Its entities by state and key; those that expire are removed.
        on_timer: Calls a timer.
        on_expiry: Called with state and key of an entity that is about to expire.
    """

    def __init__(
        self,
        application: Application,
        state: dict[str, dict[Any, Any]],
        on_timer: OnTimer,
        on_expiry: Callable[[str, Any], None],
    ) -> None:
        self._state = state
        self._on_expiry = on_expiry
        self._on_timer = on_timer
        self._timings: dict[str, Timing] = {
            name: partition.timing
            for name, partition in application.partitions.items()
            if partition.timing is not None
        }
        self._times: dict[str, dict[Any, KeyTime]] = {name: {} for name in self._timings}
        self._owners: dict[str, tuple[Pipeline, StateCompute, Branch]] = {}
        for pipeline in application.pipelines:
            for step, rest in pipeline.trunk.walk_on():
                if isinstance(step, StateCompute) and step.on_timer is not None:
                    self._owners.setdefault(step.partition, (pipeline, step, rest))

    def of(self, state: str) -> dict[Any, KeyTime]:
        """The times of *state* by key, which can be changed."""
        return self._times[state]

    def contains(self, state: str) -> bool:
        """Whether *state* has timers or a time to live."""
        return state in self._timings

    def owner(self, state: str) -> tuple[Pipeline, StateCompute, Branch]:
        """A pipeline and the step that timers of *state* call, and what follows it."""
        return self._owners[state]

    def due(self) -> Iterator[tuple[int, str, Any]]:
        """Yield for each key on which the clock has an effect: when, its state, and the key."""
        for name, times in self._times.items():
            for key, time in times.items():
                if (due_ns := self._timings[name].due_ns(time)) is not None:
                    yield due_ns, name, key

    def due_ns(self, state: str, key: Any) -> int | None:
        """When the clock has an effect on *key*; None for never."""
        time = self._times[state].get(key)
        return None if time is None else self._timings[state].due_ns(time)

    def tick(self, state: str, key: Any, now_ns: int, *, is_silent: bool = True) -> None:
        """Run what is due for *key* by *now_ns*; right after a message, the key is not silent."""
        if (time := self._times[state].get(key)) is not None:
            self._settle(state, key, time.reached(now_ns), is_silent=is_silent)

    def begin(self, step: StateCompute, key: Any, message: Any, now_ns: int) -> int:
        """Call what is due before *message*, which arrives at *step*; returns the key's time then.

        Raises:
            Exception: The function for the event time raised.
        """
        name = step.partition
        self.tick(name, key, now_ns)
        event = None if step.event_time is None else since_epoch_ns(step.event_time(message))
        time = self._times[name].get(key)
        now = self._timings[name].time_of(time, now_ns, event)
        if time is not None:
            self._settle(name, key, now)
        return now

    def arrived(self, step: StateCompute, key: Any, now: int, now_ns: int) -> CallTimers:
        """Note that the message of `begin`, at the time *now* of its key, is processed.

        Returns:
            The timers for its call.
        """
        timing, times = self._timings[step.partition], self._times[step.partition]
        time = times[key] = timing.arrived(times.get(key), now_ns, now)
        return CallTimers(key, time.reached(now_ns), time.timers, in_timer=False)

    def _settle(self, state: str, key: Any, until: int, *, is_silent: bool = False) -> None:
        timing, times = self._timings[state], self._times[state]
        while (time := times.get(key)) is not None:
            due = timing.pop_due(time, until)
            if due is None:
                return
            if due.timer is None:
                self._on_expiry(state, key)
                del times[key]
                self._state[state].pop(key, None)
                return
            timers = CallTimers(key, due.at, time.timers, in_timer=True)
            at_ns = time.clock_at(due.at) if is_silent else None
            self._on_timer(state, key, due, timers, at_ns)
