"""Pipelines of the third generation: values that grow call by call and are never changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wallaroo.api.builder import DeclaredApplication, DeclaredPipeline, DeclaredStep, StepKind
from wallaroo.api.functions import StateComputation
from wallaroo.api.place import Place, calling_place


@dataclass(frozen=True)
class _Stage:
    """One call of `to`; branches that were merged before it share it, and its state."""

    computation: Any
    place: Place
    number: object = dataclasses.field(default_factory=object)


@dataclass(frozen=True)
class _Branch:
    """The way from one source: stages, each with the key that is in force there."""

    name: str
    source: Any
    place: Place
    stages: tuple[tuple[_Stage, Any], ...] = ()
    key: Any = None


class Pipeline:
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

    def to(self, computation: Any) -> Pipeline:
        """Add a computation, or a state computation over the entity of the key in force."""
        stage = _Stage(computation, calling_place())
        return self._grown(
            lambda b: dataclasses.replace(b, stages=(*b.stages, (stage, b.key))), stage.place
        )

    def key_by(self, key_extractor: Any) -> Pipeline:
        """Give the messages from here on the key that *key_extractor* finds."""
        return self._grown(lambda b: dataclasses.replace(b, key=key_extractor), calling_place())

    def collect(self) -> Pipeline:
        """Give all messages from here on one key."""
        return self._grown(lambda b: dataclasses.replace(b, key=None), calling_place())

    def merge(self, pipeline: Pipeline) -> Pipeline:
        """Let the messages of both pipelines go on together, in order of arrival."""
        after = self._after(calling_place(), ended=self._ended or pipeline._ended)
        return Pipeline(self._branches + pipeline._branches, after_end=after)

    def clone(self) -> Pipeline:
        """The same pipeline; as pipelines never change, this is for the reader."""
        return self

    def to_sink(self, sink_config: Any) -> Pipeline:
        """End the pipeline at a sink."""
        return self._ended_at([sink_config], calling_place())

    def to_sinks(self, sink_configs: Sequence[Any]) -> Pipeline:
        """End the pipeline at several sinks, each of which gets every output."""
        return self._ended_at(sink_configs, calling_place())

    def declared(self) -> list[DeclaredPipeline]:
        """A declared pipeline for each source."""
        names = _state_names(self._branches)
        return [
            DeclaredPipeline(
                branch.name,
                branch.source,
                branch.place,
                [_declared(stage, key, names) for stage, key in branch.stages],
                list(self._sinks),
                ended=self._ended,
                after_end=list(self._after_end),
            )
            for branch in self._branches
        ]

    def _ended_at(self, sinks: Sequence[Any], place: Place) -> Pipeline:
        after = self._after(place, ended=self._ended)
        return Pipeline(self._branches, sinks, ended=True, after_end=after)

    def _grown(self, grow: Callable[[_Branch], _Branch], place: Place) -> Pipeline:
        after = self._after(place, ended=self._ended)
        grown = [grow(branch) for branch in self._branches]
        return Pipeline(grown, self._sinks, ended=self._ended, after_end=after)

    def _after(self, place: Place, *, ended: bool) -> tuple[Place, ...]:
        """The calls that came after an end, with the one at *place* if it did."""
        return (*self._after_end, place) if ended else self._after_end


def source(name: str, source_config: Any) -> Pipeline:
    """A pipeline that begins at a source.

    Args:
        name: Name of the source.
        source_config: What the source is.
    """
    return Pipeline([_Branch(name, source_config, calling_place())])


def build_application(app_name: str, pipeline: Pipeline) -> DeclaredApplication:
    """The application whose messages go through *pipeline*, for `application_setup` to return.

    Each source makes a pipeline of its own; merged pipelines share their state and their sinks.
    """
    return DeclaredApplication(app_name, calling_place(), pipeline.declared())


def _declared(stage: _Stage, key: Any, names: dict[object, str]) -> DeclaredStep:
    if not isinstance(stage.computation, StateComputation):
        return DeclaredStep("to", stage.computation, stage.place)
    kind: StepKind = "to_stateful" if key is None else "to_state_partition"
    state, name = stage.computation.state, names[stage.number]
    return DeclaredStep(kind, stage.computation, stage.place, state, name, key)


def _state_names(branches: Sequence[_Branch]) -> dict[object, str]:
    """A name for the state of each stateful stage: that of its computation, numbered if need be."""
    names: dict[object, str] = {}
    for branch in branches:
        for stage, _ in branch.stages:
            if isinstance(stage.computation, StateComputation) and stage.number not in names:
                wanted = stage.computation.name
                taken = sum(name.split("#")[0] == wanted for name in names.values())
                names[stage.number] = f"{wanted}#{taken + 1}" if taken else wanted
    return names
