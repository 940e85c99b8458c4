"""Configurations of the stream connectors of Wallaroo 0.5.3 and later.

The classes for connector scripts, such as `SourceConnector`, are not supported; see
`docs/migrating.md`.
"""

from typing import TYPE_CHECKING

from wallaroo.api.functions import encoder as octet_message_encoder
from wallaroo.api.unsupported import EXPERIMENTAL, unsupported_names
from wallaroo.connectors.tcp.upstream import (
    SinkConnectorConfig,
    SourceConnectorConfig,
    stream_message_decoder,
    stream_message_encoder,
)

__all__ = [
    "SinkConnectorConfig",
    "SourceConnectorConfig",
    "octet_message_encoder",
    "stream_message_decoder",
    "stream_message_encoder",
]
if not TYPE_CHECKING:  # type checkers must keep reporting unknown names
    __getattr__ = unsupported_names(__name__, EXPERIMENTAL)
