"""Running an application in one process, message by message, without Spark or sockets.

What comes out is what the engine on Spark makes of the same messages in the same order; so this is
how applications are tested, and what the engine itself is held against.

Example:
    >>> from wallaroo.testing import simulate
    >>> import wallaroo
    >>> text = wallaroo.decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
    >>> shout = wallaroo.computation(name="shout")(str.upper)
    >>> builder = wallaroo.ApplicationBuilder("Shout")
    >>> _ = builder.new_pipeline("Shouting", wallaroo.TCPSourceConfig("", 0, text)).to(shout)
    >>> _ = builder.to_sink(wallaroo.TCPSinkConfig("", 0, wallaroo.encoder(str.encode)))
    >>> simulate(builder.build(), [("Shouting", b"hello")]).outputs
    [b'HELLO']
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wallaroo.dataflow.guarding import guarded
from wallaroo.dataflow.paths import as_bytes
from wallaroo.dataflow.snapshots import Carrier
from wallaroo.errors import UsageError
from wallaroo.model.application import (
    Application,
    Branch,
    Compute,
    CustomSource,
    KeyBy,
    Pipeline,
    Source,
    StateCompute,
    Stateful,
    Step,
    WindowCompute,
)
from wallaroo.model.keys.buckets import stable_hash
from wallaroo.model.loader import ApplicationRef
from wallaroo.model.multiple_outputs import pair_of
from wallaroo.model.raised import raised, raising_exceptions
from wallaroo.model.resolve import resolve
from wallaroo.model.unlisted_keys import UnlistedWatch
from wallaroo.model.watched_entities import Suspects, Watch
from wallaroo.model.windows import Late

__all__ = ["Simulation", "UnlistedKeysWarning", "load", "messages_of", "simulate"]


class UnlistedKeysWarning(UserWarning):
    """Most messages of a source were dropped, because their keys are not listed."""


@dataclass
class Simulation:
    """What an application made of its messages."""

    outputs: list[bytes] = field(default_factory=list)
    """Encoded outputs of all sinks, in the order they were made."""
    by_sink: dict[str, list[bytes]] = field(default_factory=dict)
    """The same by sink; a sink is named as its pipeline."""
    set_aside: list[tuple[str, str, Any, BaseException]] = field(default_factory=list)
    """Messages on which user code raised: (pipeline, step, message, exception)."""
    unknown_keys: list[tuple[str, Any]] = field(default_factory=list)
    """Messages dropped for a key that is not listed: (state partition, key)."""
    late: list[tuple[str, str, Any]] = field(default_factory=list)
    """Messages dropped because their windows had closed: (pipeline, step, message)."""
    state: dict[str, dict[Any, Any]] = field(default_factory=dict)
    """State entities by partition and key, as they are after the last message."""


def load(app: str | pathlib.Path, args: Sequence[str] = ()) -> Application:
    """Load the application APP, as `wallaroo run` would.

    Args:
        app: Directory, `.py` file or module name.
        args: Arguments of its `application_setup`. Without any, it gets `--in` and `--out` with
            addresses enough.

    Raises:
        UsageError: There is no such application.
        ApplicationError: It does not load, or is not well formed.
    """
    enough = ",".join(["127.0.0.1:0"] * 8)
    return ApplicationRef(str(app), tuple(args or ("--in", enough, "--out", enough))).load()


def simulate(
    application: Any,
    messages: Iterable[tuple[str, Any] | tuple[str, Any, int]],
    *,
    until_ns: int | None = None,
) -> Simulation:
    """Run *application* over *messages*, one after the other.

    Windows close when the time comes: between two messages the clock goes on to the arrival of
    the second.

    Whatever user code raises sets its message aside; `KeyboardInterrupt` itself, which is Ctrl-C,
    ends the simulation.

    Where an entity cannot be saved in the end, the messages are run again, with a check of that
    entity after each: those that spoil it are set aside, in the step that does.

    Args:
        application: What `ApplicationBuilder.build` or `load` gave.
        messages: A source's name (that of its pipeline), a payload and, if it matters, the time of
            arrival in nanoseconds since the epoch; without it the clock stands still. It begins at
            0. A payload has no header where the source has frames, and no line feed where it has
            lines; for a generator it is the value itself.
        until_ns: Time to which the clock goes on behind the last message.

    Raises:
        ApplicationError: The application is not well formed.
        UsageError: There is no source of such a name.

    Warns:
        UnlistedKeysWarning: Most messages of a source were dropped for keys that are not listed.
    """
    made, taken = _resolved(application), list[tuple[Any, ...]]()
    suspects = Suspects()
    run = _simulated(made, _noted(messages, taken), until_ns, suspects)
    while run.has_found_more():
        run = _simulated(made, taken, until_ns, suspects)
    run.warn_of_unlisted()
    return run.result


def _simulated(
    application: Application,
    messages: Iterable[tuple[Any, ...]],
    until_ns: int | None,
    suspects: Suspects,
) -> _Run:
    """A run of *application* over *messages*.

    Args:
        application: What to run.
        messages: The messages.
        until_ns: Time to which the clock goes on.
        suspects: Entities that are checked after each message.
    """
    run = _Run(application, suspects)
    for source, payload, *arrived in messages:
        if arrived:
            run.go_on_to(int(arrived[0]))
        run.take(source, payload)
    if until_ns is not None:
        run.go_on_to(until_ns)
    return run


def _noted(
    messages: Iterable[tuple[Any, ...]], taken: list[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """*messages*, each of which is put into *taken*."""
    for message in messages:
        taken.append(message)
        yield message


def messages_of(application: Any, source: str, position: Any = None) -> Iterator[tuple[str, Any]]:
    """What a generator, a file or a source of the application's own has now, for `simulate`.

    Args:
        application: What `ApplicationBuilder.build` or `load` gave.
        source: Name of the source.
        position: Where to go on; None for the beginning.

    Raises:
        ApplicationError: The application is not well formed.
        UsageError: There is no such source, or it is one that listens.

    Example:
        >>> import itertools, wallaroo
        >>> class Numbers:
        ...     def initial_value(self):
        ...         return 1
        ...     def apply(self, previous):
        ...         return previous + 1
        >>> builder = wallaroo.ApplicationBuilder("Count")
        >>> _ = builder.new_pipeline("Numbers", wallaroo.GenSourceConfig(Numbers())).done()
        >>> list(itertools.islice(messages_of(builder.build(), "Numbers"), 3))
        [('Numbers', 1), ('Numbers', 2), ('Numbers', 3)]
    """
    found = _source_of(_resolved(application), source)
    if not isinstance(found, CustomSource):
        msg = f"source {source!r} listens on {found.where}: it has no messages before it runs"
        raise UsageError(msg)
    for item in found.reader.read(position):
        if item is None:
            return
        yield source, found.decode(item[0]) if found.gives_messages else item[0]


def _resolved(application: Any) -> Application:
    return application if isinstance(application, Application) else resolve(application)


def _source_of(application: Application, name: str) -> Source:
    for source in application.sources:
        if source.name == name:
            return source
    names = ", ".join(repr(source.name) for source in application.sources)
    msg = f"there is no source {name!r}; the application has {names}"
    raise UsageError(msg)


class _Raised(Exception):
    """User code raised, and the message is set aside already."""


class _Run:
    def __init__(self, application: Application, suspects: Suspects) -> None:
        self._watch = Watch(application, suspects)
        guard = functools.partial(raising_exceptions, interruptible=True)
        self._application = application = guarded(application, guard, self._watch)
        self._now_ns = 0
        self._carrier = Carrier(application.serialization)
        self._behind: dict[str, tuple[Pipeline, Stateful, Branch]] = {}
        """For each partition of windows, a pipeline and step over it, and what comes behind."""
        for pipeline in application.pipelines:
            self._find_windows(pipeline, pipeline.trunk)
        self._passed: Counter[tuple[str, str]] = Counter()
        """Messages that got to an entity, by pipeline and step."""
        self._unlisted: Counter[tuple[str, str]] = Counter()
        """Messages whose keys are not listed, by the same."""
        self.result = Simulation(
            by_sink={sink.name: [] for sink in application.sinks},
            state={name: {} for name in application.partitions},
        )

    def _find_windows(self, pipeline: Pipeline, branch: Branch) -> None:
        for number, step in enumerate(branch.steps):
            if isinstance(step, WindowCompute):
                rest = Branch(branch.steps[number + 1 :], branch.forks)
                self._behind.setdefault(step.partition, (pipeline, step, rest))
        for fork in branch.forks:
            self._find_windows(pipeline, fork)

    def warn_of_unlisted(self) -> None:
        """Warn where most messages of a source were dropped for their keys."""
        watch = UnlistedWatch(self._application)
        for at, dropped in self._unlisted.items():
            if (found := watch.note(*at, dropped, self._passed[at])) is not None:
                warnings.warn(str(found), UnlistedKeysWarning, stacklevel=3)

    def take(self, name: str, payload: Any) -> None:
        """Run one message through every pipeline of the source *name*."""
        source = _source_of(self._application, name)
        is_message = isinstance(source, CustomSource) and source.gives_messages
        for pipeline in self._application.pipelines:
            if pipeline.source.name != name:
                continue
            with contextlib.suppress(_Raised):
                message = (
                    payload
                    if is_message
                    else self._call(pipeline, "decoder", source.decode, payload)
                )
                if message is not None:
                    self._go_on(pipeline, pipeline.trunk, None, message)

    def go_on_to(self, now_ns: int) -> None:
        """Let the clock go on, and close windows as it does."""
        while True:
            dues = [
                (due, name, key)
                for name, (_, step, _) in self._behind.items()
                for key, entity in self.result.state[name].items()
                if isinstance(step, WindowCompute)
                and (due := step.windows.due_ns(entity)) is not None
                and due <= now_ns
            ]
            if not dues:
                break
            due, name, key = min(dues, key=lambda entry: entry[0])
            self._now_ns = max(self._now_ns, due)
            self._tick(name, key)
        self._now_ns = max(self._now_ns, now_ns)

    def _tick(self, name: str, key: Any) -> None:
        pipeline, step, rest = self._behind[name]
        assert isinstance(step, WindowCompute)
        entity = self.result.state[name][key]
        failed = functools.partial(self._failed, pipeline, step)
        outputs = step.windows.tick(entity, key, self._now_ns, failed)
        self._forget_if_spent(step, key, entity)
        for output in outputs:
            self._go_on(pipeline, rest, key, output)

    def _go_on(self, pipeline: Pipeline, branch: Branch, key: Any, message: Any) -> None:
        """Run *message* through *branch*, to every sink that it leads to."""
        with contextlib.suppress(_Raised):
            if not branch.steps:
                for fork in branch.forks:
                    self._go_on(pipeline, fork, key, message)
                if not branch.forks:
                    self._send(pipeline, message)
                return
            step, rest = branch.steps[0], Branch(branch.steps[1:], branch.forks)
            if isinstance(step, KeyBy):
                key = self._call(pipeline, step.name, step.key, message)
                self._call(pipeline, step.name, stable_hash, key, about=message)
                self._go_on(pipeline, rest, key, message)
            elif isinstance(step, Compute):
                result = self._call(pipeline, step.name, step.function, message)
                for output in self._outputs(step, result):
                    self._go_on(pipeline, rest, key, output)
            else:
                if step.key is not None:
                    key = self._call(pipeline, f"key of {step.name}", step.key, message)
                for output in self._with_state(pipeline, step, key, message):
                    self._go_on(pipeline, rest, key, output)

    def _with_state(self, pipeline: Pipeline, step: Stateful, key: Any, message: Any) -> list[Any]:
        self._call(pipeline, f"key of {step.name}", stable_hash, key, about=message)
        partition = self._application.partitions[step.partition]
        entities = self.result.state[partition.name]
        if not partition.accepts(key):
            self.result.unknown_keys.append((partition.name, key))
            self._unlisted[pipeline.name, step.name] += 1
            return []
        self._passed[pipeline.name, step.name] += 1
        message = self._call(pipeline, step.name, self._carrier.copied, message)
        if key not in entities:
            entities[key] = self._call(pipeline, step.name, partition.new_entity, about=message)
        if isinstance(step, WindowCompute):
            return self._gathered(pipeline, step, key, message)

        def function(message: Any) -> Any:
            of_entity = functools.partial(step.function, message)
            return self._watch.touched(step, key, entities, of_entity)

        result = self._call(pipeline, step.name, function, message)
        if step.returns_save:
            result = self._call(pipeline, step.name, _output_of_pair, result, about=message)
        return self._outputs(step, result)

    def has_found_more(self) -> bool:
        """Whether to run once more, because of entities that cannot be saved."""
        return self._watch.update_suspects(self.result.state)

    def _gathered(
        self, pipeline: Pipeline, step: WindowCompute, key: Any, message: Any
    ) -> list[Any]:
        failed = functools.partial(self._failed, pipeline, step)

        def take(entity: Any) -> list[Any]:
            return step.windows.take(entity, key, message, self._now_ns, failed)

        entities, outputs = self.result.state[step.partition], list[Any]()
        try:
            outputs = self._watch.touched(step, key, entities, take)
        except Late:
            self.result.late.append((pipeline.name, step.name, message))
        except (Exception, SystemExit) as error:
            self._failed(pipeline, step, message, error)
        finally:
            self._forget_if_spent(step, key, entities[key])
        return outputs

    def _forget_if_spent(self, step: WindowCompute, key: Any, entity: Any) -> None:
        if step.windows.is_disposable(entity):
            self.result.state[step.partition].pop(key, None)

    def _failed(self, pipeline: Pipeline, step: Step, message: Any, error: BaseException) -> None:
        self.result.set_aside.append((pipeline.name, step.name, message, raised(error)))

    def _outputs(self, step: Compute | StateCompute, result: Any) -> list[Any]:
        if result is None or not step.multi:
            return [] if result is None else [result]
        return [output for output in result if output is not None]

    def _send(self, pipeline: Pipeline, message: Any) -> None:
        for sink in pipeline.sinks:
            with contextlib.suppress(_Raised):
                encoded = self._call(pipeline, "encoder", sink.encode, message)
                if encoded is None:
                    continue
                output = self._call(pipeline, "encoder", as_bytes, encoded)
                self.result.outputs.append(output)
                self.result.by_sink[sink.name].append(output)

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
            self.result.set_aside.append((pipeline.name, step, message, raised(error)))
            raise _Raised from error


def _output_of_pair(result: Any) -> Any:
    output, _save = pair_of(result)
    return output
