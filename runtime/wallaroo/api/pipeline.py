"""Pipelines of the third generation: immutable values, of which every call returns a new one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, Self, TypeVar, overload

from wallaroo.api.builder import (
    DeclaredApplication,
    DeclaredPipeline,
)
from wallaroo.api.class_api import (
    ComputationClass,
    MultiComputationClass,
    PartitionFunctionClass,
)
from wallaroo.api.connectors import AnyDeadLetters, AnySink, AnySource
from wallaroo.api.functions import Computation, MultiComputation
from wallaroo.api.gathered_functions import AsyncComputation, BatchComputation
from wallaroo.api.inline_steps import filtering, flat_mapping, inspecting, mapping, splitting
from wallaroo.api.joins import Join, JoinCall, JoinInput
from wallaroo.api.pipeline_paths import PipelinePaths, declared_pipelines
from wallaroo.api.places import calling_place
from wallaroo.api.stages import Origin, SourcePath, Stage
from wallaroo.api.state_functions import (
    MultiStateComputation,
    StateComputation,
    TimedMultiStateComputation,
    TimedStateComputation,
)
from wallaroo.api.windows import Windowing

Message = TypeVar("Message")
"""Type of the messages at the end of a pipeline."""
Next = TypeVar("Next")
"""Type of the messages after a step; `None` stands for no message."""
Other = TypeVar("Other")
"""Type of the messages of another pipeline."""
In = TypeVar("In")
"""Type of the messages that windows aggregate."""


class Pipeline(Generic[Message]):
    """A part of an application: one or more sources and the steps that their messages pass through.

    Created by `source`. Every method returns a new pipeline, so a common prefix can be reused.

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

    def __init__(self, paths: PipelinePaths) -> None:
        self._paths = paths

    @overload
    def to(
        self,
        computation: Computation[Message, Next | None]
        | ComputationClass[Message, Next | None]
        | Callable[[], ComputationClass[Message, Next | None]],
    ) -> Pipeline[Next]: ...

    @overload
    def to(
        self,
        computation: MultiComputation[Message, Iterable[Next | None] | None]
        | MultiComputationClass[Message, Iterable[Next | None] | None]
        | Callable[[], MultiComputationClass[Message, Iterable[Next | None] | None]],
    ) -> Pipeline[Next]: ...

    @overload
    def to(self, computation: AsyncComputation[Message, Next | None]) -> Pipeline[Next]: ...

    @overload
    def to(
        self, computation: BatchComputation[Message, Iterable[Next | None]]
    ) -> Pipeline[Next]: ...

    @overload
    def to(
        self, computation: TimedStateComputation[Message, Any, Next | None, Other | None]
    ) -> Pipeline[Next | Other]: ...

    @overload
    def to(
        self,
        computation: TimedMultiStateComputation[
            Message, Any, Iterable[Next | None] | None, Iterable[Other | None] | None
        ],
    ) -> Pipeline[Next | Other]: ...

    @overload
    def to(self, computation: StateComputation[Message, Any, Next | None]) -> Pipeline[Next]: ...

    @overload
    def to(
        self, computation: MultiStateComputation[Message, Any, Iterable[Next | None] | None]
    ) -> Pipeline[Next]: ...

    @overload
    def to(self, computation: Windowing[Message, Next]) -> WindowedPipeline[Next, Message]: ...

    def to(self, computation: Any) -> Pipeline[Any]:
        """Add a step: a computation, or a state computation or windows over the current key.

        After windows, the result has a method more: `WindowedPipeline.late`.
        """
        kind = WindowedPipeline if isinstance(computation, Windowing) else Pipeline
        return self._with_stage(Stage("to", calling_place(), computation), kind)

    def map(
        self, function: Callable[[Message], Next | None], *, name: str | None = None
    ) -> Pipeline[Next]:
        """Add a step of a plain function or lambda, from a message to one message or None.

        Args:
            function: The function; decorated ones are given to `to`.
            name: Name of the step in logs, metrics and errors; by default that of the function,
                or its kind, file and line if it has none, as a lambda.

        Raises:
            TypeError: *function* is not a function, or is decorated.

        Example:
            >>> import wallaroo
            >>> from wallaroo.testing import simulate
            >>> words = wallaroo.TCPSourceConfig("", 0, bytes.decode, framing="lines")
            >>> text = wallaroo.encoder(str.encode)
            >>> pipeline = (
            ...     wallaroo.source("Texts", words)
            ...     .flat_map(str.split)
            ...     .filter(str.isalpha)
            ...     .map(lambda word: word.lower(), name="lower")
            ... )
            >>> long, short = pipeline.split(lambda word: len(word) > 2)
            >>> application = wallaroo.build_application(
            ...     "Words",
            ...     long.to_sink(wallaroo.TCPSinkConfig("", 1, text)),
            ...     short.map(str.upper).to_sink(wallaroo.TCPSinkConfig("", 2, text)),
            ... )
            >>> simulate(application, [("Texts", b"To be or NOT 2 be")]).by_sink
            {'Texts': [b'not'], 'Texts 2': [b'TO', b'BE', b'OR', b'BE']}
        """
        place = calling_place()
        return self._with_stage(Stage("to", place, mapping(function, name, place)))

    def filter(
        self, predicate: Callable[[Message], object], *, name: str | None = None
    ) -> Pipeline[Message]:
        """Add a step that keeps the messages for which *predicate* is true; see `map`."""
        place = calling_place()
        return self._with_stage(Stage("to", place, filtering(predicate, name, place)))

    def flat_map(
        self,
        function: Callable[[Message], Iterable[Next | None] | None],
        *,
        name: str | None = None,
    ) -> Pipeline[Next]:
        """Add a step from a message to any number of messages; see `map`.

        The function may return a list, or yield.
        """
        place = calling_place()
        return self._with_stage(Stage("to", place, flat_mapping(function, name, place)))

    def inspect(
        self, show: Callable[[Message], object] = repr, *, name: str | None = None
    ) -> Pipeline[Message]:
        """Add a step that prints what *show* returns of each message, and passes the message on.

        As with every `print` in an application, the lines become events of the log with pipeline
        and step, at most 20 in a second.

        Example:
            >>> import wallaroo
            >>> from wallaroo.testing import simulate
            >>> words = wallaroo.TCPSourceConfig("", 0, bytes.decode, framing="lines")
            >>> lengths = wallaroo.source("Words", words).inspect().map(len)
            >>> lengths = lengths.inspect("{} bytes".format)
            >>> sink = wallaroo.TCPSinkConfig("", 1, str.encode)
            >>> application = wallaroo.build_application("Lengths", lengths.map(str).to_sink(sink))
            >>> simulate(application, [("Words", b"tea")]).outputs
            'tea'
            3 bytes
            [b'3']
        """
        place = calling_place()
        return self._with_stage(Stage("to", place, inspecting(show, name, place)))

    def split(
        self, predicate: Callable[[Message], object], *, name: str | None = None
    ) -> tuple[Pipeline[Message], Pipeline[Message]]:
        """Return two pipelines: the messages for which *predicate* is true, and all others.

        The predicate is called once for each message. End each pipeline at its own sinks and pass
        both to `build_application`, or merge them again. See `map` for an example.
        """
        step, of_true, of_false = splitting(predicate, name, calling_place())
        both = self.to(step)
        return both.to(of_true), both.to(of_false)

    def key_by(
        self, key_extractor: Callable[[Message], Hashable] | PartitionFunctionClass[Message]
    ) -> Pipeline[Message]:
        """Assign to each message the key that *key_extractor* returns for it.

        Outputs of later steps inherit the key of their message, until the next `key_by`.
        """
        return self._with_stage(Stage("key_by", calling_place(), key_extractor))

    def collect(self) -> Pipeline[Message]:
        """Assign the same key to all messages."""
        return self._with_stage(Stage("collect", calling_place()))

    def merge(self, pipeline: Pipeline[Other]) -> Pipeline[Message | Other]:
        """Merge the messages of both pipelines, in order of arrival.

        If both have a common prefix, its messages pass through both branches.
        """
        _check_pipeline(pipeline, "merge(pipeline)")
        return Pipeline(self._paths.merged(pipeline._paths, calling_place()))

    def join(
        self, pipeline: Pipeline[Other], join: Join[Message, Other, Next | None]
    ) -> WindowedPipeline[Next, Message | Other]:
        """Join the messages of this pipeline, the left ones, with those of another, by key.

        Both need a `key_by` before it, of the same keys. Outputs have the key of their messages.

        Args:
            pipeline: The pipeline of the right messages.
            join: A function decorated with `table_join`, `asof_join` or `interval_join`.

        Raises:
            TypeError: *pipeline* is not a pipeline.
        """
        _check_pipeline(pipeline, "join(pipeline, function)")
        place = calling_place()
        call = JoinCall(join, place)
        right = pipeline._paths.with_stage(Stage("to", place, JoinInput(call, is_left=False)))
        left = self._paths.with_stage(Stage("to", place, JoinInput(call, is_left=True)))
        return WindowedPipeline(left.merged(right, place))

    def clone(self) -> Self:
        """Return the same pipeline: pipelines are immutable, so no copy is necessary."""
        return self

    def to_sink(self, sink_config: AnySink[Message]) -> Pipeline[Message]:
        """End the pipeline at a sink."""
        return self.to_sinks([sink_config])

    def to_sinks(self, sink_configs: Sequence[AnySink[Message]]) -> Pipeline[Message]:
        """End the pipeline at several sinks, each of which receives every output."""
        return Pipeline(self._paths.with_sinks(sink_configs, calling_place()))

    def declared(self) -> list[DeclaredPipeline]:
        """Return one declared pipeline per source."""
        return declared_pipelines([self._paths])

    def _with_stage(self, stage: Stage, kind: type[Pipeline[Any]] | None = None) -> Pipeline[Any]:
        return (kind or Pipeline)(self._paths.with_stage(stage))


class WindowedPipeline(Pipeline[Message], Generic[Message, In]):
    """A pipeline that ends with windows or a join; `Pipeline.to` and `Pipeline.join` return it."""

    def late(self) -> Pipeline[In]:
        """Return a pipeline of the messages that came too late for these windows or this join.

        They keep their key. Without this, and with the late data policy `"drop"`, they are only
        counted. Merge the two pipelines again, or give each its own sink in `build_application`.

        Example:
            >>> import wallaroo
            >>> from wallaroo.testing import simulate
            >>> class Count(wallaroo.Aggregation):
            ...     def initial_accumulator(self):
            ...         return []
            ...
            ...     def update(self, message, accumulator):
            ...         accumulator.append(message)
            ...
            ...     def combine(self, one, other):
            ...         return one + other
            ...
            ...     def output(self, key, accumulator):
            ...         return f"{len(accumulator)} messages"
            >>> text = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
            >>> line = wallaroo.encoder(str.encode)
            >>> minutes = wallaroo.range_windows(wallaroo.minutes(1)).with_event_time(
            ...     lambda text: int(text) * wallaroo.seconds(1)
            ... )
            >>> texts = wallaroo.source("Texts", wallaroo.TCPSourceConfig("", 0, text)).collect()
            >>> counts = texts.to(minutes.over(Count))
            >>> application = wallaroo.build_application(
            ...     "Minutes",
            ...     counts.to_sink(wallaroo.TCPSinkConfig("", 1, line)),
            ...     counts.late().to_sink(wallaroo.TCPSinkConfig("", 2, line)),
            ... )
            >>> sent = [("Texts", b"59"), ("Texts", b"60"), ("Texts", b"58")]
            >>> simulate(application, sent).by_sink
            {'Texts': [b'1 messages'], 'Texts 2': [b'58']}
        """
        return self._with_stage(Stage("late", calling_place()))


def source(name: str, source_config: AnySource[Message]) -> Pipeline[Message]:
    """Start a pipeline at a source.

    Args:
        name: Name of the source.
        source_config: Configuration of the source.
    """
    return Pipeline(PipelinePaths([SourcePath(Origin(name, source_config, calling_place()))]))


def build_application(
    app_name: str, *pipelines: Pipeline[Any], dead_letters: AnyDeadLetters | None = None
) -> DeclaredApplication:
    """Build an application from *pipelines*, for `application_setup` to return.

    Each source becomes a separate pipeline; merged pipelines share their state and their sinks.
    Several pipelines may have a common prefix, which its messages pass through once; each ends at
    sinks of its own.

    Args:
        app_name: Name of the application.
        pipelines: One or more pipelines, each with its sinks.
        dead_letters: Where dead letters are published, such as `KafkaDeadLetters(…)`.

    Raises:
        TypeError: An argument is of another type.
    """
    if not isinstance(app_name, str):
        msg = (
            f"the first argument of build_application is an object of class "
            f"{type(app_name).__name__}; expected the name of the application, a str"
        )
        raise TypeError(msg)
    for pipeline in pipelines:
        _check_pipeline(pipeline, 'build_application("Name", pipeline, …)')
    declared = declared_pipelines([pipeline._paths for pipeline in pipelines])  # noqa: SLF001
    return DeclaredApplication(app_name, calling_place(), declared, dead_letters=dead_letters)


def _check_pipeline(pipeline: Any, call: str) -> None:
    """Check that *pipeline*, an argument of *call*, is one.

    Raises:
        TypeError: It is not.
    """
    if not isinstance(pipeline, Pipeline):
        msg = (
            f"{call} is given an object of class {type(pipeline).__name__}; expected a pipeline, "
            "which wallaroo.source(…) begins"
        )
        raise TypeError(msg)
