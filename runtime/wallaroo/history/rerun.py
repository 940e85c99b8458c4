"""Runs messages again, from the state as it was, and notes what they do to some entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wallaroo.api.timers import CallTimers
from wallaroo.dataflow.buckets import Bucket
from wallaroo.dataflow.json_codec import to_plain
from wallaroo.dataflow.program import Program
from wallaroo.history.changes import (
    NOT_KNOWN,
    NOTHING,
    Arrival,
    Change,
    Snapshot,
    Touched,
    Where,
    all_of,
)
from wallaroo.history.debugger import Debugger
from wallaroo.history.differences import ABSENT
from wallaroo.history.publications import Publication
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    Pipeline,
    StateCompute,
    Stateful,
    WindowCompute,
)
from wallaroo.model.endpoints import Source
from wallaroo.model.timing import Due, KeyTime
from wallaroo.testing._run import NEVER, Raised, Run
from wallaroo.testing._watched_entities import Suspects
from wallaroo.user_code.exceptions import describe_error, raised
from wallaroo.wire.records import TICK_SOURCE


class _NotKept(Raised):
    """The entity of a message's key was there before the log begins."""


class Rerun(Run):
    """Runs the messages of publications again.

    Args:
        application: The application.
        program: The same, in stages.
        bucket: Its entities as of the publication before; they are changed.
        is_known: Whether a key that is not among them had no entity.
        stays: Whether entities stay as they are made here from one publication to the next.
        debugger: Stops in functions that get an entity in question; None for none.

    Attributes:
        messages: How many messages were run.
        unread: How many were not, by the name of their source, which the application lacks.
        dead_letters: How many failed.
        lacking: How many calls were left out because their entity was there before the log begins.
    """

    def __init__(
        self,
        application: Application,
        program: Program,
        bucket: Bucket,
        is_known: Callable[[Where], bool],
        *,
        stays: bool = False,
        debugger: Debugger | None = None,
    ) -> None:
        super().__init__(application, Suspects())
        self._stays = stays
        self.messages = self.dead_letters = self.lacking = 0
        self.unread = Counter[str]()
        self.on_sent: Callable[[str, bytes, Arrival], None] = lambda _sink, _output, _arrival: None
        """Called with the name of a sink, an output, and the arrival that caused it."""
        self.on_arrival: Callable[[Arrival], None] = lambda _arrival: None
        """Called before a message is run, or the clock is read."""
        self.on_reached: Callable[[Where, Arrival | None], None] = lambda _where, _arrival: None
        """Called when a message, or the clock, is about to change an entity."""
        self.on_set_aside: Callable[[str, BaseException, Arrival | None], None] = (
            lambda _step, _error, _arrival: None
        )
        """Called with the name of a step, and what it raised, for a message that failed."""
        self.on_late: Callable[[Change], None] = lambda _change: None
        """Called with what a message did that came after its windows had closed."""
        self.notes_all = False
        """Whether changes of all entities are noted, each until the message behind it."""
        self._bucket, self._is_known = bucket, is_known
        self._sources = {source.name: source for source in self._application.sources}
        self._numbers = program.partition_numbers
        self._names = {number: name for name, number in self._numbers.items()}
        for name, number in self._numbers.items():
            self.result.state[name] = bucket.entities[number]
        self._wanted: set[Where] = set()
        self._touched: Touched = {}
        self._next_ms: int | None = None
        """See `Block.next_ms`."""
        self._held: dict[str, int] = {}
        """For how long the clock of a state has stood still, where it does."""
        sources = application.sources
        self._by_event = {
            program.partitions[number].name: sources[program.source_of[number]].name
            for number in program.by_event
        }
        """States whose clocks stand still while a source is held, and the names of these."""
        self._arrival: Arrival | None = None
        self._path: list[tuple[str, Any]] = []
        self._changes: list[Change] = []
        self._change: Change | None = None
        """The last one on the way of the message that is processed."""
        self._emitted: Any = None
        """What is encoded for sinks."""
        self._made = False
        """Whether the entity that a step is about to get is new."""
        self._closing: Change | None = None
        """That of windows that close now."""
        self._debugger = debugger

    def changes(
        self, publication: Publication, wanted: set[Where], touched: Touched
    ) -> list[Change]:
        """Run the messages of a publication, and return what they did to some entities.

        Args:
            publication: The publication.
            wanted: The entities.
            touched: Keys of all entities that it changed, by state.
        """
        self._wanted, self._touched, self._changes = wanted, touched, []
        for name, number in () if self._stays else self._numbers.items():
            if self._times.contains(name):
                times = self._times.of(name)
                times.clear()
                for key in touched.get(name, ()):
                    if (time := self._bucket.times.get((number, key))) is not None:
                        times[key] = time
        for block in publication.blocks:
            held = dict(block.held)
            if block.source == TICK_SOURCE:
                self._reads_clock(block.first, block.arrived_ns, held)
            elif (source := self._sources.get(str(block.source))) is None:
                self.unread[str(block.source)] += block.messages
            else:
                self.messages += block.messages
                held_ns = held.get(block.source, 0)
                self._held = dict.fromkeys(self._by_event, held_ns)
                payloads = source.framing.split(block.data)
                self._next_ms = block.next_ms
                for offset, payload in enumerate(payloads, block.first):
                    self._takes(source, offset, block.arrived_ns, payload)
        self._free_idle(wanted if not self._stays else all_of(touched))
        return self._changes

    def way(self) -> list[Change]:
        """What was changed on the way of the output that is sent, in order.

        If there is no state on its way, that is a change without an entity.
        """
        found: list[Change] = []
        change = self._change
        while change is not None:
            found.insert(0, change)
            change = change.cause
        return found or [Change(None, self._arrival, path=self._steps(self._emitted))]

    def begin_with(self, where: Where, entity: Any, time: KeyTime | None) -> None:
        """Let an entity be there that this code has not made."""
        name, key = where
        if key not in self.result.state[name]:
            self.result.state[name][key] = entity
            self._soonest = 0
            if time is not None and self._times.contains(name):
                self._times.of(name)[key] = time

    def take_times(self) -> None:
        """Take over the times of entities that this code has not made."""
        for (number, key), time in self._bucket.times.items():
            if self._times.contains(self._names[number]):  # as they may not be in this code
                self._times.of(self._names[number])[key] = time
        self._soonest = 0

    @property
    def moment(self) -> tuple[int, int]:  # noqa: D102
        offset, millisecond = super().moment
        return offset, millisecond + (self._next_ms is not None and offset >= self._next_ms)

    def is_expired(self, where: Where, time: KeyTime | None) -> bool:
        """Whether an entity that has this *time* is only there because nothing has freed it yet."""
        timing = self._application.partitions[where[0]].timing
        if time is None or time.timers or timing is None:
            return False
        due_ns = timing.due_ns(time)
        return due_ns is not None and due_ns <= self._clock_of(where[0])

    def time_of(self, where: Where) -> KeyTime | None:
        """The time of an entity that this code has made; None if it has none."""
        name, key = where
        return self._times.of(name).get(key) if self._times.contains(name) else None

    def snapshot(self, where: Where) -> Snapshot:
        """A snapshot of the entity of a key."""
        entity = self._bucket.entities[self._numbers[where[0]]].get(where[1], ABSENT)
        if entity is not ABSENT:
            return Snapshot.of(entity)
        return NOTHING if self._is_known(where) else NOT_KNOWN

    def _takes(self, source: Source, offset: int, arrived_ns: int, payload: bytes) -> None:
        self._now_ns = arrived_ns  # as the engine does, even if it is earlier
        self._begin(Arrival(offset, arrived_ns, source.name, source.shown(payload)))
        self._process(source, source.decode(payload) if source.gives_messages else payload)

    def _reads_clock(self, offset: int, now_ns: int, held: Mapping[Any, int]) -> None:
        self._next_ms = None
        self._begin(Arrival(offset, now_ns, None))
        self._now_ns = now_ns
        self._held = {name: held.get(source, 0) for name, source in self._by_event.items()}
        if self._stays and now_ns < self._soonest:
            return
        due = [one for one in self._due() if one[0] <= self._clock_of(one[1])]
        for _, name, key in sorted(due, key=lambda one: one[0]):  # what comes of it: the next time
            if key in self.result.state[name]:
                self._tick(name, key)
        self._soonest = min((at for at, _, _ in self._due()), default=NEVER)

    def _free_idle(self, entities: Iterable[Where]) -> None:
        """Free what no message depends on, as is done at the end of each chunk."""
        for name, key in entities:
            entity = self.result.state[name].get(key)
            if name in self._windows and entity is not None:
                windows, now_ns = self._windows_of(name), self._clock_of(name)
                if (idle_ns := windows.idle_ns(entity)) is not None and idle_ns <= now_ns:
                    self._tick(name, key)

    def _call_timer(
        self, state: str, key: Any, due: Due, timers: CallTimers, at_ns: int | None
    ) -> None:
        """Call a timer; what it emits has the time at which it was due."""
        before, next_ms = self._now_ns, self._next_ms
        if at_ns is not None:
            self._now_ns -= max(0, self._clock_of(state) - at_ns)
            self._next_ms = None
        try:
            super()._call_timer(state, key, due, timers, at_ns)
        finally:
            self._now_ns, self._next_ms = before, next_ms

    def _clock_of(self, name: str) -> int:
        """See `wallaroo.dataflow.clocks`."""
        return self._now_ns - self._held.get(name, 0)

    def _expires(self, name: str, key: Any) -> None:
        self.on_reached((name, key), self._arrival)
        if self._is_noted((name, key)):
            begun = self.snapshot((name, key))
            change = Change((name, key), self._arrival, "", "expires", begun=begun, ended=NOTHING)
            self._changes.append(change)

    def _begin(self, arrival: Arrival) -> None:
        self._arrival, self._change = arrival, None
        if self.notes_all:
            self._changes.clear()
        self._offset = arrival.offset
        self._path.clear()
        self.on_arrival(arrival)
        result = self.result
        for records in result.records.values():
            records.clear()
        result.set_aside.clear()
        result.late.clear()
        result.unknown_keys.clear()

    # --- what is noted on the way ----------------------------------------------------------------

    def _is_noted(self, where: Where) -> bool:
        return self.notes_all or where in self._wanted

    def _waiting(self, name: str) -> Iterable[tuple[Any, Any]]:
        entities = self.result.state[name]
        if self._stays:
            return entities.items()
        return [(key, entities[key]) for key in self._touched.get(name, ()) if key in entities]

    def _run_branch(self, pipeline: Pipeline, branch: Branch, key: Any, message: Any) -> None:
        before = self._change
        step = branch.steps[0] if branch.steps else None
        shown = isinstance(step, Compute | Stateful)
        if step is not None and shown:
            self._path.append((step.name, message))
        try:
            super()._run_branch(pipeline, branch, key, message)
        finally:
            self._change = before
            if shown:
                self._path.pop()

    def _find_or_create(self, pipeline: Pipeline, step: Stateful, key: Any, message: Any) -> None:
        where = (step.partition, key)
        if key not in self.result.state[step.partition] and not self._is_known(where):
            if self._is_noted(where):
                self._note(pipeline, step, where)
            self.lacking += 1
            raise _NotKept
        self.on_reached(where, self._arrival)
        self._made = key not in self.result.state[step.partition]
        super()._find_or_create(pipeline, step, key, message)

    def _compute(
        self,
        pipeline: Pipeline,
        step: StateCompute,
        key: Any,
        message: Any,
        *timers: CallTimers,
        about: Any = None,
    ) -> list[Any]:
        where = (step.partition, key)
        if not self._is_noted(where):
            return super()._compute(pipeline, step, key, message, *timers, about=about)
        change = self._note(pipeline, step, where)
        if about is not None and timers:  # the message is the name of the timer
            change.path = [("timer", to_plain(message))]
        try:
            call: Any = super()._compute
            if self._debugger and self._arrival and self._debugger.debugs(self._arrival):
                call = self._debugger.stopping_in(call)
            outputs: list[Any] = call(pipeline, step, key, message, *timers, about=about)
            change.outputs = [to_plain(output) for output in outputs]
        finally:
            change.ended = self.snapshot(where)
        return outputs

    def _aggregate(
        self, pipeline: Pipeline, step: WindowCompute, key: Any, message: Any
    ) -> tuple[list[Any], bool]:
        where = (step.partition, key)
        if not self._is_noted(where):
            return super()._aggregate(pipeline, step, key, message)
        change = self._note(pipeline, step, where)
        outputs, late = super()._aggregate(pipeline, step, key, message)
        change.ended = self.snapshot(where)
        change.outputs = [to_plain(output) for output in outputs]
        if late:
            change.error = "it came too late for its windows"
            self.on_late(change)
        return outputs, late

    def _tick(self, name: str, key: Any) -> None:
        where, found = (name, key), len(self._changes)
        self.on_reached(where, self._arrival)
        self._change = None
        if not self._is_noted(where) or name not in self._windows:
            super()._tick(name, key)
            return
        pipeline, step, _ = self._windows[name]
        self._closing = change = self._note(pipeline, step, where)
        super()._tick(name, key)
        self._closing, change.ended = None, self.snapshot(where)
        if change.after == change.before and not change.sent and not change.outputs:
            del self._changes[found]

    def _run_behind(self, pipeline: Pipeline, branch: Branch, key: Any, message: Any) -> None:
        if self._closing is not None and not self._path:
            self._change = self._closing
            self._closing.outputs.append(to_plain(message))
        super()._run_behind(pipeline, branch, key, message)

    def _send(self, pipeline: Pipeline, branch: Branch, message: Any) -> None:
        self._emitted = message
        super()._send(pipeline, branch, message)

    def _sent(self, sink: str, output: bytes) -> None:
        assert self._arrival is not None
        self.on_sent(sink, output, self._arrival)
        if self._change is not None:
            self._change.sent.append((sink, output))

    def _set_aside(self, pipeline: Pipeline, step: str, message: Any, error: BaseException) -> None:
        super()._set_aside(pipeline, step, message, error)
        self.dead_letters += 1
        self.on_set_aside(step, raised(error), self._arrival)
        if self._change is not None:
            where = "" if step == self._change.step else f"{step}: "
            self._change.error = f"{where}{describe_error(raised(error))}"

    def _note(self, pipeline: Pipeline, step: Stateful, where: Where) -> Change:
        """Note that *step* is about to change an entity."""
        path = self._steps()
        state, is_new = self.snapshot(where), self._made
        self._made = False
        change = Change(
            where, self._arrival, pipeline.name, step.name, path, state, state, is_new=is_new
        )
        change.cause = self._change
        self._changes.append(change)
        self._change = change
        return change

    def _steps(self, *last: Any) -> list[tuple[str, Any]]:
        """The steps on the way so far, each with what it passed on, the last one with *last*."""
        steps = ["decoder", *(name for name, _ in self._path)]
        values = [*(value for _, value in self._path), *last]
        return [(name, to_plain(value)) for name, value in zip(steps, values, strict=False)]
