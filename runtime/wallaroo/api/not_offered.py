"""Names of Wallaroo's own API that are not offered, and what to use in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wallaroo.api.places import calling_place
from wallaroo.errors import ApplicationError

_KAFKA_SOURCE = (
    "there is no Kafka source; write a class that reads the topic as a wallaroo.MessageSource "
    "and use wallaroo.SourceConfig (docs/connectors.md)"
)
_KAFKA_SINK = (
    "there is no Kafka sink; write a class that produces to the topic as a wallaroo.OutputSink "
    "and use wallaroo.SinkConfig (docs/connectors.md)"
)
_CONNECTOR_SOURCE = (
    "send frames of a 4-byte big-endian length and the message to the source's port with any "
    "program, `wallaroo send` or wallaroo.client (docs/migrating.md)"
)
_CONNECTOR_SINK = (
    "receive the sink's frames with any program or `wallaroo receive`, or write a "
    "wallaroo.OutputSink (docs/migrating.md)"
)

WALLAROO = {
    "StateBuilder": "give the class of the state itself, or an object of your own with build()",
    "KafkaSourceConfig": _KAFKA_SOURCE,
    "DefaultKafkaSourceCLIParser": _KAFKA_SOURCE,
    "CustomKafkaSourceCLIParser": _KAFKA_SOURCE,
    "kafka_parse_source_options": _KAFKA_SOURCE,
    "KafkaSinkConfig": _KAFKA_SINK,
    "DefaultKafkaSinkCLIParser": _KAFKA_SINK,
    "CustomKafkaSinkCLIParser": _KAFKA_SINK,
    "kafka_parse_sink_options": _KAFKA_SINK,
}
"""Names in `wallaroo`."""
EXPERIMENTAL = {
    "SourceConnector": _CONNECTOR_SOURCE,
    "AtLeastOnceSourceConnector": _CONNECTOR_SOURCE,
    "MultiSourceConnector": _CONNECTOR_SOURCE,
    "BaseSource": "subclass wallaroo.MessageSource and use wallaroo.SourceConfig "
    "(docs/connectors.md)",
    "BaseIter": "subclass wallaroo.MessageSource, whose read(position) yields messages "
    "(docs/connectors.md)",
    "FramedFileReader": "use wallaroo.FileSourceConfig (docs/connectors.md)",
    "ThrottledFileReader": "use wallaroo.FileSourceConfig, or `wallaroo send --rate` "
    "(docs/connectors.md)",
    "SinkConnector": _CONNECTOR_SINK,
    "connector_wire_messages": "the protocol of Wallaroo's connectors is not spoken here; "
    "wallaroo.client sends messages exactly once (docs/protocol.md)",
}
"""Names in `wallaroo.experimental` and `wallaroo.experimental.connectors`."""


def refusing(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for *module* that says of *names* that they are not offered.

    The error is not an AttributeError: `from wallaroo import …` would hide its sentence.
    """

    def missing(name: str) -> Any:
        if name in names:
            msg = f"{calling_place()}: {module}.{name} is not offered: {names[name]}"
            raise ApplicationError(msg)
        msg = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return missing
