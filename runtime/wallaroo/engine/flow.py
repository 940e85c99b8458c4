"""The way of single messages through stateless steps and forks, each with its stamp and its key.

Where the order of arrival does not show by itself, messages are stamped with their place in it;
what steps make of a message gets its stamp, and which it was of what they made. So wherever such
messages meet, sorting by stamp gives the order in which one process would have run them, each
through all that it leads to before the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from time import perf_counter
from typing import Any

from wallaroo.api.place import place_of
from wallaroo.engine.figures import StepFigures
from wallaroo.engine.packing import Packed, Stamp, Stamped, packed_items, problem_of_pickling
from wallaroo.engine.program import Leg, Program, Stretch
from wallaroo.engine.results import NOWHERE, NamedStep, Origin, TaskResults
from wallaroo.engine.steps import Messages, emit
from wallaroo.model.application import Compute, KeyBy

SAMPLE = 16
"""Of so many messages that go their way on their own, one is timed."""
_Item = tuple[Stamp, Any, Any]
"""(stamp, key in force, message)."""


class Flow:
    """Takes messages through stretches, to legs and to sinks.

    Args:
        program: What to run.
        results: Takes outputs and what is set aside.
        arrive: Called with each message that has come to a leg.
        fresh: Whether no state has seen the messages before.
    """

    def __init__(
        self,
        program: Program,
        results: TaskResults,
        arrive: Callable[[Stamped], None],
        *,
        fresh: bool,
    ) -> None:
        self._program = program
        self._results = results
        self._arrive = arrive
        self._fresh = fresh
        self._outputs: dict[int, list[tuple[Stretch, list[Any], list[int]]]] = defaultdict(list)
        """By tail, in order: what goes to the sinks of a stretch."""
        self._figures: dict[int, list[StepFigures]] = {}
        """By the stretch's identity, those of its steps."""
        self._gone = 0

    def go(self, stretch: Stretch, stamp: Stamp, key: Any, message: Any) -> None:
        """Take *message* through *stretch* and all that comes behind it."""
        items = [(stamp, key, message)]
        if stretch.steps:
            self._gone += 1
            timed = self._gone % SAMPLE == 0
            for step, figures in zip(stretch.steps, self._figures_of(stretch), strict=True):
                entered, began = len(items), perf_counter() if timed else 0.0
                if isinstance(step, KeyBy):
                    items = [made for item in items for made in self._keyed(stretch, step, item)]
                else:
                    items = [made for item in items for made in self._computed(stretch, step, item)]
                figures.entered += entered
                figures.left += len(items)
                if timed:
                    figures.timed += entered
                    figures.seconds += perf_counter() - began
        for item in items:
            self._go_on(stretch, item)

    def finish(self) -> None:
        """Encode what has come to the sinks."""
        for runs in self._outputs.values():
            for stretch, items, arrivals in runs:
                messages = Messages(items, arrivals) if self._fresh else Messages(items)
                emit(stretch, messages, self._results)
        self._outputs.clear()

    def _go_on(self, stretch: Stretch, item: _Item) -> None:
        stamp, key, message = item
        if stretch.leg is not None:
            self.cross(self._program.legs[stretch.leg], stamp, key, message)
        elif stretch.forks:
            for number, fork in enumerate(stretch.forks):
                self.go(fork, (*stamp, number), key, message)
        else:
            runs = self._outputs[stretch.tail]
            if not runs or runs[-1][0] is not stretch:
                runs.append((stretch, [], []))
            runs[-1][1].append(message)
            runs[-1][2].append(stamp[0])

    def _figures_of(self, stretch: Stretch) -> list[StepFigures]:
        found = self._figures.get(id(stretch))
        if found is None:
            step = self._results.figures.step
            found = [step(stretch.pipeline, one.name) for one in stretch.steps]
            self._figures[id(stretch)] = found
        return found

    def _computed(self, stretch: Stretch, step: Compute, item: _Item) -> list[_Item]:
        stamp, key, message = item
        try:
            result = step.function(message)
            if result is None:
                return []
            if not step.multi:
                return [(stamp, key, result)]
            outputs = enumerate(result)
            return [((*stamp, at), key, output) for at, output in outputs if output is not None]
        except (Exception, SystemExit) as error:
            self._results.failed(stretch, step, message, error, self._origin(stamp))
            return []

    def _keyed(self, stretch: Stretch, step: KeyBy, item: _Item) -> list[_Item]:
        stamp, _, message = item
        try:
            return [(stamp, step.key(message), message)]
        except (Exception, SystemExit) as error:
            named = NamedStep(step.name, step.place)
            self._results.failed(stretch, named, message, error, self._origin(stamp))
            return []

    def cross(
        self, leg: Leg, stamp: Stamp, key: Any, message: Any, payload: bytes | None = None
    ) -> None:
        """Send *message*, or the *payload* that it was decoded from, to *leg* with its key there.

        Args:
            leg: Where it goes.
            stamp: Its stamp.
            key: Its key so far.
            message: The message.
            payload: What to send in its place, if anything.
        """
        partition = self._program.partitions[leg.partition]
        try:
            if leg.step.key is not None:
                key = leg.step.key(message)
            if not partition.holds(key):
                origin = self._origin(stamp)
                step = leg.step
                self._results.unroutable(leg, step, partition.name, key, message, origin)
                return
        except (Exception, SystemExit) as error:
            key_failed(leg, message, error, self._results, self._origin(stamp).arrival)
            return
        self._arrive((stamp, leg.number, key, message if payload is None else payload))

    def _origin(self, stamp: Stamp) -> Origin:
        return Origin(None, stamp[0]) if self._fresh else NOWHERE


def key_failed(
    leg: Leg, message: Any, error: BaseException, results: TaskResults, arrival: int | None
) -> None:
    """Set *message* aside, because its key at *leg* cannot be found or used."""
    # finding the place costs more than all the rest of a small chunk: only where it is told
    place = leg.step.place if leg.step.key is None else place_of(leg.step.key)
    step = NamedStep(f"key of {leg.step.name}", place)
    results.failed(leg, step, message, error, Origin(None, arrival))


class Outgoing:
    """Messages on their way to the buckets of later levels.

    Args:
        program: What is run.
        results: Takes what is set aside.
        fresh: Whether no state has seen the messages before.
    """

    def __init__(self, program: Program, results: TaskResults, *, fresh: bool) -> None:
        self._fresh = fresh
        self._program = program
        self._results = results
        self._serialization = program.application.serialization
        self._items: dict[tuple[int, int], list[Stamped]] = defaultdict(list)

    def add(self, item: Stamped) -> None:
        """Send *item* to the level and bucket of its leg's partition and its key."""
        stamp, number, key, message = item
        leg, arrival = self._program.legs[number], stamp[0] if self._fresh else None
        try:
            bucket = self._program.bucket_in(leg.partition, key)
        except Exception as error:
            key_failed(leg, leg.message(message), error, self._results, arrival)
            return
        if self._serialization is not None and not leg.ships_payloads:
            try:
                message = self._serialization.serialize(message)
            except (Exception, SystemExit) as error:
                origin = Origin(None, arrival)
                self._results.failed(leg, leg.step, message, error, origin)
                return
        level = self._program.levels.level(leg.partition)
        self._items[level, bucket].append((stamp, number, key, message))

    def add_tick(self, tick: Stamped) -> None:
        """Send *tick* to every bucket of every level that has windows."""
        for level in {self._program.levels.level(number) for number in self._program.timed}:
            for bucket in range(self._program.buckets):
                self._items[level, bucket].append(tick)

    def packed(self) -> list[Packed]:
        """What there is to send; there is nothing left then."""
        packed = [
            Packed(level, bucket, self._blob(items))
            for (level, bucket), items in self._items.items()
        ]
        self._items.clear()
        return packed

    def _blob(self, items: list[Stamped]) -> bytes:
        try:
            return packed_items(items)
        except Exception:
            return packed_items([item for item in items if self._is_packable(item)])

    def _is_packable(self, item: Stamped) -> bool:
        stamp, number, key, message = item
        error = problem_of_pickling(key, message)
        if error is not None:
            leg = self._program.legs[number]
            origin = Origin(None, stamp[0] if self._fresh else None)
            self._results.failed(leg, leg.step, leg.message(message), error, origin)
        return error is None
