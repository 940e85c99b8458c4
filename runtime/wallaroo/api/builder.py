"""The application builder of the first two Wallaroo generations, as a chain of recorded calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wallaroo.api.class_api import PartitionFunctionClass
from wallaroo.api.connectors import AnyDeadLetters
from wallaroo.api.keywords import keyword_aliases
from wallaroo.api.places import Place, calling_place
from wallaroo.api.windows import Windowing

_FIRST_SOURCE_PORT = 7100
_FIRST_SINK_PORT = 7200
OtherKeys = Literal["add", "drop"]
"""How to handle a message whose key is not listed: add the key, or drop the message."""

StepKind = Literal[
    "to",
    "to_parallel",
    "to_stateful",
    "to_state_partition",
    "to_windows",
    "to_keyed",
    "key_by",
    "collect",
    "late",
]
"""Name of the call; `to_keyed` is the third generation's `to` over state, with the current key."""


@dataclass(frozen=True)
class DeclaredStep:
    """One call of the builder between `new_pipeline` and the pipeline's end."""

    kind: StepKind
    computation: Any
    place: Place
    state: Any = None
    """State class, or an object with `build()`."""
    state_name: str | None = None
    """Name of the state partition."""
    key: Any = None
    """Key extractor, or an object with `partition(data)`."""
    keys: Sequence[Any] | None = None
    """Listed keys; None or empty to accept any key."""
    other_keys: OtherKeys | None = None
    """How to handle messages with other keys; None for the default of the API in use."""


@dataclass(frozen=True)
class DeclaredBranch:
    """One branch of a fork in a pipeline."""

    steps: list[DeclaredStep]
    forks: list[DeclaredBranch]
    sinks: list[int] | None = None
    """Indices of the pipeline's sinks that follow; None for all of them."""


@dataclass
class DeclaredPipeline:
    """One pipeline as declared."""

    name: str
    source: Any
    place: Place
    steps: list[DeclaredStep] = field(default_factory=list)
    forks: list[DeclaredBranch] = field(default_factory=list)
    """Branches after the steps, each of which receives every message; empty if the sinks follow."""
    sinks: list[Any] = field(default_factory=list)
    ended: bool = False
    after_end: list[Place] = field(default_factory=list)
    """Calls made after the pipeline had ended."""
    last_sinks: list[int] | None = None
    """Indices of the sinks that follow the steps if there are no branches; None for all."""


@dataclass
class DeclaredApplication:
    """The result of `application_setup`: the application as declared."""

    name: str
    place: Place
    pipelines: list[DeclaredPipeline] = field(default_factory=list)
    before_pipeline: list[Place] = field(default_factory=list)
    """Calls made before the first `new_pipeline`."""
    dead_letters: Any = None
    """Where dead letters are published; None for nowhere."""


class ApplicationBuilder:
    """Wires functions into pipelines; every method except `build` returns the builder.

    Pipelines that use the same state name share its entities.

    Args:
        name: Name of the application.

    Example:
        >>> from wallaroo.api.functions import computation, decoder, encoder
        >>> from wallaroo.connectors.tcp.config import TCPSinkConfig, TCPSourceConfig
        >>> text = decoder(header_length=4, length_fmt=">I")(lambda bs: bs.decode())
        >>> shout = computation(name="shout")(str.upper)
        >>> application = (
        ...     ApplicationBuilder("Shout")
        ...     .new_pipeline("Shouting", TCPSourceConfig("127.0.0.1", 7010, text))
        ...     .to(shout)
        ...     .to_sink(TCPSinkConfig("127.0.0.1", 7002, encoder(str.encode)))
        ...     .build()
        ... )
        >>> [pipeline.name for pipeline in application.pipelines]
        ['Shouting']
    """

    def __init__(self, name: str) -> None:
        self._application = DeclaredApplication(name, calling_place())
        self._sources: dict[str, Any] = {}
        self._sinks: dict[str, Any] = {}

    def source_connector(
        self, name: str, encoder: Any, decoder: Any, port: int | str | None = None
    ) -> ApplicationBuilder:
        """Declare a source connector, which `new_pipeline` accepts by name.

        Args:
            name: Name of the connector.
            encoder: Ignored; accepted for compatibility. It was used by the sending script.
            decoder: Decoder of the payloads.
            port: Port to bind; None to assign ports from 7100 upwards.
        """
        from wallaroo.connectors.tcp.upstream import SourceConnectorConfig

        port = _FIRST_SOURCE_PORT + len(self._sources) if port is None else port
        self._sources[name] = SourceConnectorConfig(name, encoder, decoder, port)
        return self

    def sink_connector(
        self, name: str, encoder: Any, decoder: Any, port: int | str | None = None
    ) -> ApplicationBuilder:
        """Declare a sink connector, which `to_sink` accepts by name.

        Args:
            name: Name of the connector.
            encoder: Encoder of the outputs.
            decoder: Ignored; accepted for compatibility. It was used by the receiving script.
            port: Port of the receiver; None to assign ports from 7200 upwards.
        """
        from wallaroo.connectors.tcp.upstream import SinkConnectorConfig

        port = _FIRST_SINK_PORT + len(self._sinks) if port is None else port
        self._sinks[name] = SinkConnectorConfig(name, encoder, decoder, port)
        return self

    def new_pipeline(self, name: str, source_config: Any) -> ApplicationBuilder:
        """Start the pipeline *name*.

        Args:
            name: Name of the pipeline and of its source.
            source_config: Configuration of the source, or the name of a source connector.
        """
        source = _connector_or_config(source_config, self._sources)
        pipeline = DeclaredPipeline(name, source, calling_place())
        self._application.pipelines.append(pipeline)
        return self

    @keyword_aliases(computation_cls="computation")
    def to(self, computation: Any) -> ApplicationBuilder:
        """Add a stateless step, which runs on all workers."""
        return self._step(DeclaredStep("to", computation, calling_place()))

    @keyword_aliases(computation_cls="computation")
    def to_parallel(self, computation: Any) -> ApplicationBuilder:
        """Add a stateless step, which runs on all workers; same as `to`."""
        return self._step(DeclaredStep("to_parallel", computation, calling_place()))

    @keyword_aliases(state_class="state", state_builder="state")
    def to_stateful(self, computation: Any, state: Any, state_name: str) -> ApplicationBuilder:
        """Add a step over one state entity that all messages share.

        Args:
            computation: State computation.
            state: Class of the entity, created without arguments.
            state_name: Name of the state.
        """
        return self._step(
            DeclaredStep("to_stateful", computation, calling_place(), state, state_name)
        )

    @keyword_aliases(state_class="state", state_builder="state", state_partition_name="state_name")
    def to_state_partition(
        self,
        computation: Any,
        state: Any,
        state_name: str,
        partition_function: Callable[[Any], Any] | PartitionFunctionClass[Any],
        partition_keys: Sequence[Any] | None = None,
        other_keys: OtherKeys | None = None,
    ) -> ApplicationBuilder:
        """Add a step over the state entity of each message's key.

        Args:
            computation: State computation.
            state: Class of the entities; one is created without arguments for each key.
            state_name: Name of the state; pipelines that use the same name share it.
            partition_function: Key extractor, from message to key; see `partition`.
            partition_keys: Initial keys. If it is None or empty, every key gets an entity with its
                first message.
            other_keys: How to handle a message whose key is not listed: "add" creates an entity for
                it, "drop" drops and counts the message. None follows the Wallaroo version whose API
                is in use: "drop" if *state* is an object with `build()`, as in versions up to 0.3,
                otherwise "add", as in versions since 0.5.
        """
        step = DeclaredStep(
            "to_state_partition",
            computation,
            calling_place(),
            state,
            state_name,
            partition_function,
            partition_keys,
            other_keys,
        )
        return self._step(step)

    @keyword_aliases(state_class="state", state_builder="state", state_partition_name="state_name")
    def to_state_partition_u64(
        self,
        computation: Any,
        state: Any,
        state_name: str,
        partition_function: Any,
        partition_keys: Sequence[int],
    ) -> ApplicationBuilder:
        """Add a step over state with integer keys, as named in Wallaroo up to 0.4.

        A message whose key is not listed is dropped and counted, unless the list is empty.
        """
        other_keys: OtherKeys | None = "drop" if partition_keys else None
        return self.to_state_partition(
            computation, state, state_name, partition_function, partition_keys, other_keys
        )

    def to_windows(
        self,
        windows: Windowing[Any, Any],
        state_name: str,
        partition_function: Callable[[Any], Any] | PartitionFunctionClass[Any] | None = None,
    ) -> ApplicationBuilder:
        """Add a step that collects messages in windows, as pipelines do with `to`.

        Args:
            windows: Windows with their aggregation: `range_windows(seconds(5)).over(…)`.
            state_name: Name of the state that holds open windows; no other step can use it.
            partition_function: Key extractor, from message to key; each key has windows of its
                own. None for windows of all messages.

        Example:
            >>> import wallaroo
            >>> from wallaroo.testing import simulate
            >>> class Longest(wallaroo.Aggregation):
            ...     def initial_accumulator(self):
            ...         return [""]
            ...
            ...     def update(self, text, longest):
            ...         longest[0] = max(longest[0], text, key=len)
            ...
            ...     def combine(self, one, other):
            ...         return [max(one[0], other[0], key=len)]
            ...
            ...     def output(self, key, longest):
            ...         return longest[0]
            >>> text = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
            >>> builder = wallaroo.ApplicationBuilder("Longest of two")
            >>> _ = builder.new_pipeline("Texts", wallaroo.TCPSourceConfig("", 0, text))
            >>> _ = builder.to_windows(wallaroo.count_windows(2).over(Longest), "longest")
            >>> _ = builder.to_sink(wallaroo.TCPSinkConfig("", 1, wallaroo.encoder(str.encode)))
            >>> simulate(builder.build(), [("Texts", b"a"), ("Texts", b"bb")]).outputs
            [b'bb']
        """
        step = DeclaredStep(
            "to_windows", windows, calling_place(), None, state_name, partition_function
        )
        return self._step(step)

    def to_sink(self, sink_config: Any) -> ApplicationBuilder:
        """End the pipeline at a sink."""
        return self.to_sinks([sink_config])

    def to_sinks(self, sink_configs: Sequence[Any]) -> ApplicationBuilder:
        """End the pipeline at several sinks, each of which receives every output."""
        if (pipeline := self._open_pipeline()) is not None:
            pipeline.sinks.extend(_connector_or_config(c, self._sinks) for c in sink_configs)
            pipeline.ended = True
        return self

    def done(self) -> ApplicationBuilder:
        """End the pipeline without a sink; after `to_sink` it has no effect."""
        if self._application.pipelines and self._application.pipelines[-1].ended:
            return self
        if (pipeline := self._open_pipeline()) is not None:
            pipeline.ended = True
        return self

    def build(self, *, dead_letters: AnyDeadLetters | None = None) -> DeclaredApplication:
        """Return the declared application, which `application_setup` has to return.

        Args:
            dead_letters: Where dead letters are published, such as `KafkaDeadLetters(…)`.
        """
        self._application.dead_letters = dead_letters
        return self._application

    def _step(self, step: DeclaredStep) -> ApplicationBuilder:
        if (pipeline := self._open_pipeline()) is not None:
            pipeline.steps.append(step)
        return self

    def _open_pipeline(self) -> DeclaredPipeline | None:
        if not self._application.pipelines:
            self._application.before_pipeline.append(calling_place())
            return None
        pipeline = self._application.pipelines[-1]
        if pipeline.ended:
            pipeline.after_end.append(calling_place())
            return None
        return pipeline


def _connector_or_config(config: Any, connectors: Mapping[str, Any]) -> Any:
    """Return the connector named *config*, or *config* itself."""
    return connectors.get(config, config) if isinstance(config, str) else config
