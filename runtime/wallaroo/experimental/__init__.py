"""Stream connectors of Wallaroo 0.5.3 and later: their configurations, for applications.

What their scripts used (`SourceConnector` and its like) is not offered: see `docs/migrating.md`.
"""

from typing import TYPE_CHECKING

from wallaroo.api.functions import encoder as octet_message_encoder
from wallaroo.api.not_offered import EXPERIMENTAL, refusing
from wallaroo.api.stream_connectors import (
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
if not TYPE_CHECKING:  # type checkers know the names that there are
    __getattr__ = refusing(__name__, EXPERIMENTAL)
