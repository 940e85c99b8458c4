"""The application builder of the first and second generation: a chain of calls that records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wallaroo.api.class_api import PartitionFunctionClass
from wallaroo.api.keywords import also_called
from wallaroo.api.places import Place, calling_place
from wallaroo.api.stream_connectors import (
    FIRST_SINK_PORT,
    FIRST_SOURCE_PORT,
    SinkConnectorConfig,
    SourceConnectorConfig,
)

OtherKeys = Literal["add", "drop"]
"""What becomes of a message whose key is not listed: its key is added, or it is dropped."""

StepKind = Literal[
    "to", "to_parallel", "to_stateful", "to_state_partition", "to_keyed", "key_by", "collect"
]
"""Name of the call; `to_keyed` is a `to` of the third generation over state, by the key in force.
"""


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
    """Key function, or an object with `partition(data)`."""
    keys: Sequence[Any] | None = None
    """Keys that are listed; None or none at all where any key makes its entity."""
    other_keys: OtherKeys | None = None
    """What becomes of messages of other keys; None where the API in use decides."""


@dataclass(frozen=True)
class DeclaredBranch:
    """One of the ways that go on where a pipeline forks."""

    steps: list[DeclaredStep]
    forks: list[DeclaredBranch]


@dataclass
class DeclaredPipeline:
    """One pipeline as it was written down."""

    name: str
    source: Any
    place: Place
    steps: list[DeclaredStep] = field(default_factory=list)
    forks: list[DeclaredBranch] = field(default_factory=list)
    """Ways that go on behind the steps, each with every message; none where the sinks follow."""
    sinks: list[Any] = field(default_factory=list)
    ended: bool = False
    after_end: list[Place] = field(default_factory=list)
    """Calls that came when the pipeline had ended already."""


@dataclass
class DeclaredApplication:
    """What `application_setup` returns: the application as its author wrote it."""

    name: str
    place: Place
    pipelines: list[DeclaredPipeline] = field(default_factory=list)
    before_pipeline: list[Place] = field(default_factory=list)
    """Calls that came before the first `new_pipeline`."""


class ApplicationBuilder:
    """Wires functions into pipelines; every method returns the builder, `build` ends it.

    Pipelines that name the same state partition share its entities.

    Args:
        name: Name of the application.

    Example:
        >>> from wallaroo.api.configs import TCPSinkConfig, TCPSourceConfig
        >>> from wallaroo.api.functions import computation, decoder, encoder
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
        self._sources: dict[str, SourceConnectorConfig] = {}
        self._sinks: dict[str, SinkConnectorConfig] = {}

    def source_connector(
        self, name: str, encoder: Any, decoder: Any, port: int | str | None = None
    ) -> ApplicationBuilder:
        """Describe a source connector, for `new_pipeline` to take by its name.

        Args:
            name: Name of the connector.
            encoder: Taken for compatibility: it was for the script that sends.
            decoder: Decoder of the payloads.
            port: Port to bind; None for 7100 and the next ones.
        """
        port = FIRST_SOURCE_PORT + len(self._sources) if port is None else port
        self._sources[name] = SourceConnectorConfig(name, encoder, decoder, port)
        return self

    def sink_connector(
        self, name: str, encoder: Any, decoder: Any, port: int | str | None = None
    ) -> ApplicationBuilder:
        """Describe a sink connector, for `to_sink` to take by its name.

        Args:
            name: Name of the connector.
            encoder: Encoder of the outputs.
            decoder: Taken for compatibility: it was for the script that receives.
            port: Port of the receiver; None for 7200 and the next ones.
        """
        port = FIRST_SINK_PORT + len(self._sinks) if port is None else port
        self._sinks[name] = SinkConnectorConfig(name, encoder, decoder, port)
        return self

    def new_pipeline(self, name: str, source_config: Any) -> ApplicationBuilder:
        """Start the pipeline *name* at the source that *source_config* describes or names."""
        source = _found(source_config, self._sources)
        pipeline = DeclaredPipeline(name, source, calling_place())
        self._application.pipelines.append(pipeline)
        return self

    @also_called(computation_cls="computation")
    def to(self, computation: Any) -> ApplicationBuilder:
        """Add a stateless step, which runs on all workers."""
        return self._step(DeclaredStep("to", computation, calling_place()))

    @also_called(computation_cls="computation")
    def to_parallel(self, computation: Any) -> ApplicationBuilder:
        """Add a stateless step, which runs on all workers; the same as `to`."""
        return self._step(DeclaredStep("to_parallel", computation, calling_place()))

    @also_called(state_class="state", state_builder="state")
    def to_stateful(self, computation: Any, state: Any, state_name: str) -> ApplicationBuilder:
        """Add a step over one state entity that all messages share.

        Args:
            computation: State computation.
            state: Class of the entity, made without arguments.
            state_name: Name of the state partition.
        """
        return self._step(
            DeclaredStep("to_stateful", computation, calling_place(), state, state_name)
        )

    @also_called(state_class="state", state_builder="state", state_partition_name="state_name")
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
            state: Class of the entities, made without arguments for each key.
            state_name: Name of the state partition; pipelines that give the same name share it.
            partition_function: From message to key, see `partition`.
            partition_keys: Keys to begin with. None, as an empty list, lets every key make its
                entity on its first message.
            other_keys: What becomes of a message whose key is not among them: "add" lets it make
                its entity, "drop" drops and counts the message. None does what the Wallaroo did
                whose API is in use: "drop" where *state* is an object with `build()`, as up to 0.3,
                "add" otherwise, as from 0.5 on.
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

    @also_called(state_class="state", state_builder="state", state_partition_name="state_name")
    def to_state_partition_u64(
        self,
        computation: Any,
        state: Any,
        state_name: str,
        partition_function: Any,
        partition_keys: Sequence[int],
    ) -> ApplicationBuilder:
        """Add a step over state of integer keys, as Wallaroo up to 0.4 called it.

        A message whose key is not listed is dropped and counted, unless none is listed.
        """
        other_keys: OtherKeys | None = "drop" if partition_keys else None
        return self.to_state_partition(
            computation, state, state_name, partition_function, partition_keys, other_keys
        )

    def to_sink(self, sink_config: Any) -> ApplicationBuilder:
        """End the pipeline at a sink."""
        return self.to_sinks([sink_config])

    def to_sinks(self, sink_configs: Sequence[Any]) -> ApplicationBuilder:
        """End the pipeline at several sinks, each of which gets every output."""
        if (pipeline := self._open_pipeline()) is not None:
            pipeline.sinks.extend(_found(config, self._sinks) for config in sink_configs)
            pipeline.ended = True
        return self

    def done(self) -> ApplicationBuilder:
        """End the pipeline without a sink; after `to_sink` it changes nothing."""
        if self._application.pipelines and self._application.pipelines[-1].ended:
            return self
        if (pipeline := self._open_pipeline()) is not None:
            pipeline.ended = True
        return self

    def build(self) -> DeclaredApplication:
        """The application as declared, for `application_setup` to return."""
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


def _found(config: Any, connectors: Mapping[str, Any]) -> Any:
    """The connector that *config* names, or *config* itself."""
    return connectors.get(config, config) if isinstance(config, str) else config
