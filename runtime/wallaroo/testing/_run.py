"""The simulation itself: one message after the other, with a clock and dead letters."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wallaroo.api.timers import CallTimers
from wallaroo.connectors.kafka.records import KafkaRecord
from wallaroo.dataflow.current_message import Simulated, knows_message
from wallaroo.dataflow.guards import guarded
from wallaroo.dataflow.message_snapshots import Carrier, waiting
from wallaroo.dataflow.paths import as_bytes
from wallaroo.dataflow.results import NamedStep
from wallaroo.dataflow.steps.multiple_outputs import pair_of
from wallaroo.dataflow.steps.retrying import without_pauses
from wallaroo.dataflow.unlisted_keys import UnlistedWatch
from wallaroo.errors import UsageError
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    KeyBy,
    Pipeline,
    StateCompute,
    Stateful,
    Step,
    WindowCompute,
)
from wallaroo.model.endpoints import Kept, Source
from wallaroo.model.keys.buckets import stable_hash
from wallaroo.model.timing import Due, describe_timer
from wallaroo.model.windows import Late, Windows, overdue
from wallaroo.testing._letters import SimulatedLetters
from wallaroo.testing._repeats import check_repeats
from wallaroo.testing._times import SimulatedTimes
from wallaroo.testing._watched_entities import Suspects, Watch
from wallaroo.user_code.callers import time_limited
from wallaroo.user_code.exceptions import raised, raising_exceptions
from wallaroo.wire.records import MILLISECOND_NS


class UnlistedKeysWarning(UserWarning):
    """Most messages of a source were dropped, because their keys are not listed."""


@dataclass
class Simulation:
    """The results of a simulation."""

    outputs: list[bytes] = field(default_factory=list)
    """Encoded outputs of all sinks, in the order of their emission."""
    by_sink: dict[str, list[bytes]] = field(default_factory=dict)
    """Encoded outputs by sink; a sink has the name of its pipeline."""
    set_aside: list[tuple[str, str, Any, BaseException]] = field(default_factory=list)
    """Messages on which user code raised: (pipeline, step, message, exception)."""
    unknown_keys: list[tuple[str, Any]] = field(default_factory=list)
    """Messages dropped because their key is not listed: (state, key)."""
    late: list[tuple[str, str, Any]] = field(default_factory=list)
    """Messages that came after their windows had closed: (pipeline, step, message)."""
    records: dict[str, list[KafkaRecord]] = field(default_factory=dict)
    """Outputs of sinks that are topics, by sink, as records with key, headers and timestamp; those
    that name a topic are under its name, dead letters under the name `dead letters`."""
    state: dict[str, dict[Any, Any]] = field(default_factory=dict)
    """Entities by state and key, after the last message."""


def source_of(application: Application, name: str) -> Source:
    """Return the source *name*.

    Raises:
        UsageError: It does not exist.
    """
    for source in application.sources:
        if source.name == name:
            return source
    names = ", ".join(repr(source.name) for source in application.sources)
    msg = f"the source {name!r} does not exist; the application has {names}"
    raise UsageError(msg)


NEVER = 1 << 80
"""A time that no clock shows, in nanoseconds since the Unix epoch."""


class Raised(Exception):
    """User code raised, and the message has been dead-lettered."""


_IN_STATE = knows_message("self", key="key", owner="pipeline", step="step", state_key="key")


@knows_message("self", key="key", owner="pipeline", step="step")
@time_limited
class Run(Simulated):
    """A simulation in progress.

    Args:
        application: The application.
        suspects: Entities to check after each message.
    """

    def __init__(self, application: Application, suspects: Suspects) -> None:
        super().__init__()
        self._watch = Watch(application, suspects)
        self._repeated = [each for each in application.pipelines if each.source.repeatable]
        application = without_pauses(application)
        self._application = application = guarded(application, self._guard, self._watch)
        self._now_ns = self._offset = 0
        self._carrier = Carrier(application.serialization)
        self._windows: dict[str, tuple[Pipeline, Stateful, Branch]] = {}
        """For each partition with windows, a pipeline and step that use it, and what follows."""
        for pipeline in application.pipelines:
            for step, rest in pipeline.trunk.walk_on():
                if isinstance(step, WindowCompute):
                    self._windows.setdefault(step.partition, (pipeline, step, rest))
        self._processed: Counter[tuple[str, str]] = Counter()
        """Messages that reached an entity, by pipeline and step."""
        self._unlisted: Counter[tuple[str, str]] = Counter()
        """Messages whose keys are not listed, by pipeline and step."""
        self.result = Simulation(
            by_sink={sink.name: [] for sink in application.output_sinks},
            records={sink.name: [] for sink in application.sinks if sink.has_records},
            state={name: {} for name in application.partitions},
        )
        self._letters = SimulatedLetters(application, self.result.records)
        self._kept: Kept | None = None
        """What outputs keep of the record that is being processed."""
        self._times = SimulatedTimes(
            application, self.result.state, self._call_timer, self._expires
        )
        self._soonest = NEVER
        """Clock before which time alone has no effect on any entity."""

    @property
    def moment(self) -> tuple[int, int]:
        return self._offset, self._now_ns // MILLISECOND_NS

    def _guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a *function* of the application."""
        return raising_exceptions(function, interruptible=True)

    def warn_of_unlisted(self) -> None:
        """Warn if most messages of a source were dropped because of their keys."""
        watch = UnlistedWatch(self._application)
        for at, dropped in self._unlisted.items():
            if (report := watch.note(*at, dropped, self._processed[at])) is not None:
                warnings.warn(str(report), UnlistedKeysWarning, stacklevel=3)

    def take(self, name: str, payload: Any) -> None:
        """Run one message through all pipelines of the source *name*."""
        source = source_of(self._application, name)
        payload = source.given(payload)
        for pipeline in self._repeated:
            if pipeline.source.name == name:
                check_repeats(pipeline, payload)
        self._process(source, payload)
        self._offset += 1

    def _process(self, source: Source, payload: Any) -> None:
        """Run one message, as its decoder takes it, through all pipelines of *source*."""
        for pipeline in self._application.pipelines:
            if pipeline.source.name != source.name:
                continue
            first = next(iter(pipeline.trunk.steps), None)
            step = first if isinstance(first, Stateful) else None  # noqa: F841 - see `Router`
            kept = source.apart(payload)[1] if pipeline.keeps_inputs else None
            with (
                contextlib.suppress(Raised),
                self._letters.about(payload),
                self._keeping(kept),
            ):
                message = (
                    payload
                    if source.gives_messages
                    else self._call(pipeline, "decoder", source.decode, payload)
                )
                if message is not None:
                    self._run_branch(pipeline, pipeline.trunk, None, message)

    @contextlib.contextmanager
    def _keeping(self, kept: Kept | None) -> Iterator[None]:
        """Let outputs keep this of the record that they come from; None if of no single one."""
        before, self._kept = self._kept, kept
        try:
            yield
        finally:
            self._kept = before

    def advance_clock(self, now_ns: int) -> None:
        """Advance the clock to *now_ns*; close windows and call timers on the way."""
        while self._soonest <= now_ns:  # else no entity need be looked at
            timers = self._due()
            due, name, key = min(timers, key=lambda timer: timer[0], default=(NEVER, "", None))
            self._soonest = due
            if due > now_ns:
                break
            self._now_ns = max(self._now_ns, due)
            self._tick(name, key)
        self._now_ns = max(self._now_ns, now_ns)

    def _due(self) -> Iterator[tuple[int, str, Any]]:
        """Yield for each key on which the clock has an effect: when, its state, and the key."""
        for name in self._windows:
            for key, entity in self._waiting(name):
                if (due := _next_ns(self._windows_of(name), entity)) is not None:
                    yield due, name, key
        yield from self._times.due()

    def _clock_of(self, name: str) -> int:  # noqa: ARG002
        """The clock of a state."""
        return self._now_ns

    def _expires(self, name: str, key: Any) -> None:
        """Note that the entity of a key is about to expire."""

    def _waiting(self, name: str) -> Iterable[tuple[Any, Any]]:
        """Keys of a state with windows, and their entities, that time may have an effect on."""
        return self.result.state[name].items()

    @_IN_STATE
    def _tick(self, name: str, key: Any) -> None:
        if self._times.contains(name):
            self._times.tick(name, key, self._clock_of(name))
            return
        pipeline, step, rest = self._windows[name]
        assert isinstance(step, WindowCompute)
        entity = self.result.state[name][key]
        failed = functools.partial(self._failed, pipeline, step)
        outputs = step.windows.tick(entity, key, self._clock_of(name), failed)
        self._delete_if_disposable(step, key, entity)
        for output in outputs:
            self._run_behind(pipeline, rest, key, output)

    def _run_branch(self, pipeline: Pipeline, branch: Branch, key: Any, message: Any) -> None:
        """Run *message* through *branch*, up to the sinks."""
        with contextlib.suppress(Raised):
            if not branch.steps:
                for fork in branch.forks:
                    self._run_branch(pipeline, fork, key, message)
                self._send(pipeline, branch, message)
                return
            step, rest = branch.steps[0], branch.after(0)
            if isinstance(step, KeyBy):
                key = self._call(pipeline, step.name, step.key, message)
                self._call(pipeline, step.name, stable_hash, key, about=message)
                self._run_branch(pipeline, rest, key, message)
            elif isinstance(step, Compute):
                if step.gathers:  # as it waits for others
                    copy = functools.partial(waiting, self._carrier.copied)
                    message = self._call(pipeline, step.name, copy, message)
                result = self._call(pipeline, step.name, step.function, message)
                for output in self._outputs(step, result):
                    self._run_branch(pipeline, rest, key, output)
            else:
                if step.key is not None:
                    key = self._call(pipeline, f"key of {step.name}", step.key, message)
                with self._letters.at(key):
                    if isinstance(step, WindowCompute):
                        self._with_windows(pipeline, step, rest, key, message)
                        return
                    for output in self._with_state(pipeline, step, key, message):
                        self._run_behind(pipeline, rest, key, output)

    @_IN_STATE
    def _run_behind(self, pipeline: Pipeline, branch: Branch, key: Any, message: Any) -> None:
        """Run *message*, which a state has emitted, through *branch*."""
        with self._letters.behind_state():
            self._run_branch(pipeline, branch, key, message)

    def _arrived(self, pipeline: Pipeline, step: Stateful, key: Any, message: Any) -> Any:
        """Return *message* as it arrives at *step*, with a key that is listed.

        Raises:
            Raised: It was dead-lettered, or dropped because its key is not listed.
        """
        self._call(pipeline, f"key of {step.name}", stable_hash, key, about=message)
        partition = self._application.partitions[step.partition]
        if not partition.accepts(key):
            self.result.unknown_keys.append((partition.name, key))
            why = partition.explain_refusal(key)
            self._letters.add(pipeline.name, step.name, message, why, self._now_ns)
            self._unlisted[pipeline.name, step.name] += 1
            raise Raised
        self._processed[pipeline.name, step.name] += 1
        return self._call(pipeline, step.name, self._carrier.copied, message)

    @_IN_STATE
    def _find_or_create(self, pipeline: Pipeline, step: Stateful, key: Any, message: Any) -> None:
        """Make sure that there is an entity for *key*, which *message* is about to change."""
        partition = self._application.partitions[step.partition]
        entities = self.result.state[partition.name]
        if key not in entities:
            entities[key] = self._call(pipeline, step.name, partition.new_entity, about=message)

    def _with_state(
        self, pipeline: Pipeline, step: StateCompute, key: Any, message: Any
    ) -> Iterable[Any]:
        message = self._arrived(pipeline, step, key, message)
        if self._times.contains(step.partition):
            return self._with_time(pipeline, step, key, message)
        self._find_or_create(pipeline, step, key, message)
        return self._compute(pipeline, step, key, message)

    @_IN_STATE
    def _compute(
        self,
        pipeline: Pipeline,
        step: StateCompute,
        key: Any,
        message: Any,
        *timers: CallTimers,
        about: Any = None,
    ) -> list[Any]:
        """Run *message* through *step*, and report what it raises *about* another; its outputs."""
        about = message if about is None else about

        def function(message: Any) -> Any:
            def of_entity(entity: Any) -> Any:
                return step.function(message, entity, *timers)

            return self._watch.touched(step, key, self.result.state[step.partition], of_entity)

        result = self._call(pipeline, step.name, function, message, about=about)
        if step.returns_save:
            result = self._call(pipeline, step.name, _output_of_pair, result, about=about)
        return self._outputs(step, result)

    @_IN_STATE
    def _with_time(
        self, pipeline: Pipeline, step: StateCompute, key: Any, message: Any
    ) -> Iterator[Any]:
        """Run *message* through *step* of a timed state, and what is due before and after it."""
        now_ns = self._clock_of(step.partition)
        begin = functools.partial(self._times.begin, step, key, message, now_ns)
        try:
            now = self._call(pipeline, step.name, begin, about=message)
            self._find_or_create(pipeline, step, key, message)
            timers = self._times.arrived(step, key, now, now_ns)
            with contextlib.suppress(Raised):
                passed = (timers,) if step.on_timer is not None else ()
                yield from self._compute(pipeline, step, key, message, *passed)
            timers.end()
            # what it has set to a time that has passed
            self._times.tick(step.partition, key, now_ns, is_silent=False)
        finally:
            self._note_due(self._times.due_ns(step.partition, key))

    @_IN_STATE
    def _call_timer(
        self,
        state: str,
        key: Any,
        due: Due,
        timers: CallTimers,
        at_ns: int | None,  # noqa: ARG002
    ) -> None:
        pipeline, step, rest = self._times.owner(state)
        assert step.on_timer is not None
        timed = dataclasses.replace(step, function=step.on_timer)
        outputs = list[Any]()
        with contextlib.suppress(Raised), self._letters.timer(key):
            about = describe_timer(key, due)
            outputs = self._compute(pipeline, timed, key, due.timer, timers, about=about)
        timers.end()
        with self._keeping(None):
            for output in outputs:
                self._run_behind(pipeline, rest, key, output)

    def has_new_suspects(self) -> bool:
        """Whether the simulation must run again, because more entities cannot be saved."""
        return self._watch.update_suspects(self.result.state)

    def _with_windows(
        self, pipeline: Pipeline, step: WindowCompute, rest: Branch, key: Any, message: Any
    ) -> None:
        """Aggregate *message*, and run what comes of it through *rest*."""
        message = self._arrived(pipeline, step, key, message)
        self._find_or_create(pipeline, step, key, message)
        outputs, late = self._aggregate(pipeline, step, key, message)
        with self._keeping(None):
            for output in outputs:
                self._run_behind(pipeline, rest, key, output)
        if late and step.late is not None:
            self._run_behind(pipeline, step.late, key, message)

    @_IN_STATE
    def _aggregate(
        self, pipeline: Pipeline, step: WindowCompute, key: Any, message: Any
    ) -> tuple[list[Any], bool]:
        """Return the outputs, and whether *message* is late."""
        failed = functools.partial(self._failed, pipeline, step)

        now_ns = self._clock_of(step.partition)

        def take(entity: Any) -> list[Any]:
            return step.windows.take(entity, key, message, now_ns, failed)

        entities, late = self.result.state[step.partition], False
        outputs = overdue(step.windows, entities[key], key, now_ns, failed)
        try:
            outputs += self._watch.touched(step, key, entities, take)
        except Late:
            late = True
            self.result.late.append((pipeline.name, step.name, message))
        except (Exception, SystemExit) as error:
            self._failed(pipeline, step, message, error)
        finally:
            self._note_due(_next_ns(self._windows_of(step.partition), entities[key]))
            self._delete_if_disposable(step, key, entities[key])
        return outputs, late

    def _windows_of(self, state: str) -> Windows:
        """The windows that the clock closes in *state*, to which several steps may add."""
        _, step, _ = self._windows[state]
        assert isinstance(step, WindowCompute)
        return step.windows

    def _note_due(self, due_ns: int | None) -> None:
        """Note that time has an effect on an entity at *due_ns*; None for never."""
        if due_ns is not None:
            self._soonest = min(self._soonest, due_ns)

    def _delete_if_disposable(self, step: WindowCompute, key: Any, entity: Any) -> None:
        if step.windows.is_disposable(entity):
            self.result.state[step.partition].pop(key, None)

    def _failed(self, pipeline: Pipeline, step: Step, message: Any, error: BaseException) -> None:
        self._set_aside(pipeline, step.name, message, error)

    def _set_aside(self, pipeline: Pipeline, step: str, message: Any, error: BaseException) -> None:
        cause = raised(error)
        self.result.set_aside.append((pipeline.name, step, message, cause))
        self._letters.add(pipeline.name, step, message, cause, self._now_ns)

    def _outputs(self, step: Compute | StateCompute, result: Any) -> list[Any]:
        if result is None or not step.multi:
            return [] if result is None else [result]
        return [output for output in result if output is not None]

    @knows_message("self", owner="pipeline", step="step")
    def _send(self, pipeline: Pipeline, branch: Branch, message: Any) -> None:
        for sink in pipeline.sinks_of(branch):
            with contextlib.suppress(Raised):
                encoder = pipeline.encoder_of(sink)
                step = NamedStep(encoder, sink.place, branch.number)  # noqa: F841 - as in `Paths`
                kept = (self._kept,) if sink.keeps else ()
                encoded = self._call(pipeline, encoder, sink.encode, message, *kept)
                if encoded is None:
                    continue
                output = self._call(pipeline, encoder, as_bytes, encoded, about=message)
                if sink.has_records:
                    record = sink.record(output)
                    name = sink.name if record.topic is None else record.topic
                    self.result.records.setdefault(name, []).append(record)
                self._sent(sink.name, sink.value(output))

    def _sent(self, sink: str, output: bytes) -> None:
        """Note an *output* for a sink."""
        self.result.outputs.append(output)
        self.result.by_sink[sink].append(output)

    @knows_message("self")
    def _call(
        self,
        pipeline: Pipeline,
        step: str,
        function: Callable[..., Any],
        *args: Any,
        about: Any = None,
    ) -> Any:
        try:
            return function(*args)
        except (Exception, SystemExit) as error:
            message = args[0] if about is None else about
            self._set_aside(pipeline, step, message, error)
            raise Raised from error


def _next_ns(windows: Windows, entity: Any) -> int | None:
    """Return the clock at which a tick has an effect on *entity*; None for never."""
    times = (windows.due_ns(entity), windows.idle_ns(entity))
    return min((time for time in times if time is not None), default=None)


def _output_of_pair(result: Any) -> Any:
    output, _save = pair_of(result)
    return output
