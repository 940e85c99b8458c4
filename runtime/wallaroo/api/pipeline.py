"""Pipelines of the third generation: values that grow call by call and are never changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, overload

from wallaroo.api.builder import (
    DeclaredApplication,
    DeclaredBranch,
    DeclaredPipeline,
    DeclaredStep,
)
from wallaroo.api.class_api import (
    ComputationClass,
    MultiComputationClass,
    PartitionFunctionClass,
)
from wallaroo.api.configs import (
    FileSinkConfig,
    FileSourceConfig,
    GenSourceConfig,
    TCPSinkConfig,
    TCPSourceConfig,
)
from wallaroo.api.connectors import SinkConfig, SourceConfig
from wallaroo.api.functions import (
    AnyStateComputation,
    Computation,
    MultiComputation,
    MultiStateComputation,
    StateComputation,
)
from wallaroo.api.places import Place, calling_place
from wallaroo.api.windows import Windowing

Message = TypeVar("Message")
"""Type of the messages that come out of a pipeline."""
Next = TypeVar("Next")
"""Type of the messages behind a step; its `None` is no message."""
Other = TypeVar("Other")
"""Type of the messages of another pipeline."""

AnySource = (
    TCPSourceConfig[Message]
    | FileSourceConfig[Message]
    | GenSourceConfig[Message]
    | SourceConfig[Message]
)
AnySink = TCPSinkConfig[Message] | FileSinkConfig[Message] | SinkConfig[Message]


@dataclass(frozen=True, eq=False)
class _Stage:
    """One call of `to`, `key_by` or `collect`; branches that grew from it share it."""

    kind: Literal["to", "key_by", "collect"]
    place: Place
    function: Any = None
    """Computation, windows or key extractor."""


@dataclass(frozen=True, eq=False)
class _Origin:
    """One call of `source`."""

    name: str
    source: Any
    place: Place


@dataclass(frozen=True)
class _Branch:
    """The way from one source through stages."""

    origin: _Origin
    stages: tuple[_Stage, ...] = ()


class Pipeline(Generic[Message]):
    """A part of an application: one or more sources and what their messages go through.

    Made by `source`; every method returns a new pipeline, so that a beginning can be used twice.

    Example:
        >>> import wallaroo
        >>> text = wallaroo.decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
        >>> shout = wallaroo.computation(name="shout")(str.upper)
        >>> left = wallaroo.source("Left", wallaroo.TCPSourceConfig("127.0.0.1", 7010, text))
        >>> right = wallaroo.source("Right", wallaroo.TCPSourceConfig("127.0.0.1", 7011, text))
        >>> sink = wallaroo.TCPSinkConfig("127.0.0.1", 7002, wallaroo.encoder(str.encode))
        >>> application = wallaroo.build_application(
        ...     "Shout", left.merge(right).to(shout).to_sink(sink)
        ... )
        >>> [pipeline.name for pipeline in application.pipelines]
        ['Left', 'Right']
    """

    def __init__(
        self,
        branches: Sequence[_Branch],
        sinks: Sequence[Any] = (),
        *,
        ended: bool = False,
        after_end: Sequence[Place] = (),
    ) -> None:
        self._branches = tuple(branches)
        self._sinks = tuple(sinks)
        self._ended = ended
        self._after_end = tuple(after_end)

    @overload
    def to(
        self,
        computation: Computation[Message, Next | None] | ComputationClass[Message, Next | None],
    ) -> Pipeline[Next]: ...

    @overload
    def to(
        self,
        computation: MultiComputation[Message, Iterable[Next | None] | None]
        | MultiComputationClass[Message, Iterable[Next | None] | None],
    ) -> Pipeline[Next]: ...

    @overload
    def to(self, computation: StateComputation[Message, Any, Next | None]) -> Pipeline[Next]: ...

    @overload
    def to(
        self, computation: MultiStateComputation[Message, Any, Iterable[Next | None] | None]
    ) -> Pipeline[Next]: ...

    @overload
    def to(self, computation: Windowing[Message, Next]) -> Pipeline[Next]: ...

    def to(self, computation: Any) -> Pipeline[Any]:
        """Add a computation, or a state computation or windows over the key in force."""
        return self._grown(_Stage("to", calling_place(), computation))

    def key_by(
        self, key_extractor: Callable[[Message], Hashable] | PartitionFunctionClass[Message]
    ) -> Pipeline[Message]:
        """Give the messages from here on the key that *key_extractor* finds.

        What becomes of a message in later steps keeps its key, until the next `key_by`.
        """
        return self._grown(_Stage("key_by", calling_place(), key_extractor))

    def collect(self) -> Pipeline[Message]:
        """Give all messages from here on one key."""
        return self._grown(_Stage("collect", calling_place()))

    def merge(self, pipeline: Pipeline[Other]) -> Pipeline[Message | Other]:
        """Let the messages of both pipelines go on together, in order of arrival.

        Where both grew out of one pipeline, its messages go both ways.
        """
        after = self._after(calling_place(), ended=self._ended or pipeline._ended)
        return Pipeline(self._branches + pipeline._branches, after_end=after)

    def clone(self) -> Pipeline[Message]:
        """The same pipeline; as pipelines never change, this is for the reader."""
        return self

    def to_sink(self, sink_config: AnySink[Message]) -> Pipeline[Message]:
        """End the pipeline at a sink."""
        return self._ended_at([sink_config], calling_place())

    def to_sinks(self, sink_configs: Sequence[AnySink[Message]]) -> Pipeline[Message]:
        """End the pipeline at several sinks, each of which gets every output."""
        return self._ended_at(sink_configs, calling_place())

    def declared(self) -> list[DeclaredPipeline]:
        """A declared pipeline for each source."""
        names = _state_names(self._branches)
        declared: list[DeclaredPipeline] = []
        for origin in dict.fromkeys(branch.origin for branch in self._branches):
            ways = [branch.stages for branch in self._branches if branch.origin is origin]
            way = _joined(ways, names)
            declared.append(
                DeclaredPipeline(
                    origin.name,
                    origin.source,
                    origin.place,
                    way.steps,
                    way.forks,
                    list(self._sinks),
                    ended=self._ended,
                    after_end=list(self._after_end),
                )
            )
        return declared

    def _ended_at(self, sinks: Sequence[Any], place: Place) -> Pipeline[Message]:
        after = self._after(place, ended=self._ended)
        return Pipeline(self._branches, sinks, ended=True, after_end=after)

    def _grown(self, stage: _Stage) -> Pipeline[Any]:
        after = self._after(stage.place, ended=self._ended)
        grown = [_Branch(branch.origin, (*branch.stages, stage)) for branch in self._branches]
        return Pipeline(grown, self._sinks, ended=self._ended, after_end=after)

    def _after(self, place: Place, *, ended: bool) -> tuple[Place, ...]:
        """The calls that came after an end, with the one at *place* if it did."""
        return (*self._after_end, place) if ended else self._after_end


def source(name: str, source_config: AnySource[Message]) -> Pipeline[Message]:
    """A pipeline that begins at a source.

    Args:
        name: Name of the source.
        source_config: What the source is.
    """
    return Pipeline([_Branch(_Origin(name, source_config, calling_place()))])


def build_application(app_name: str, pipeline: Pipeline[Any]) -> DeclaredApplication:
    """The application whose messages go through *pipeline*, for `application_setup` to return.

    Each source makes a pipeline of its own; merged pipelines share their state and their sinks.
    """
    return DeclaredApplication(app_name, calling_place(), pipeline.declared())


def _joined(ways: list[tuple[_Stage, ...]], names: dict[_Stage, str]) -> DeclaredBranch:
    """*ways* as one: what they have in common at their beginning, then a fork."""
    steps: list[DeclaredStep] = []
    for place in zip(*ways, strict=False):
        if any(stage is not place[0] for stage in place):
            break
        steps.append(_declared(place[0], names))
    rests = [way[len(steps) :] for way in ways]
    if len(ways) == 1:
        return DeclaredBranch(steps, [])
    alike: dict[_Stage | None, list[tuple[_Stage, ...]]] = {}
    for rest in rests:
        alike.setdefault(rest[0] if rest else None, []).append(rest)
    forks: list[DeclaredBranch] = []
    for first, some in alike.items():
        forks += [DeclaredBranch([], [])] * len(some) if first is None else [_joined(some, names)]
    return DeclaredBranch(steps, forks)


def _declared(stage: _Stage, names: dict[_Stage, str]) -> DeclaredStep:
    if stage.kind != "to":
        return DeclaredStep(stage.kind, None, stage.place, key=stage.function)
    if stage not in names:
        return DeclaredStep("to", stage.function, stage.place)
    state = getattr(stage.function, "state", None)
    return DeclaredStep("to_keyed", stage.function, stage.place, state, names[stage])


def _state_names(branches: Sequence[_Branch]) -> dict[_Stage, str]:
    """A name for the state of each stateful stage: that of its computation, numbered if need be."""
    names: dict[_Stage, str] = {}
    for stage in (stage for branch in branches for stage in branch.stages):
        if stage not in names and isinstance(stage.function, (AnyStateComputation, Windowing)):
            wanted = _name_of(stage.function)
            taken = sum(name.split("#")[0] == wanted for name in names.values())
            names[stage] = f"{wanted}#{taken + 1}" if taken else wanted
    return names


def _name_of(function: AnyStateComputation[Any, Any, Any] | Windowing[Any, Any]) -> str:
    if isinstance(function, AnyStateComputation):
        return function.name
    return str(getattr(function.aggregation, "__name__", "windows"))
