"""Standard output in the normal form of an application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wallaroo.connectors.python.resolve import CustomSink
from wallaroo.connectors.stdout.config import PrintSinkConfig
from wallaroo.connectors.stdout.sink import PrintSink
from wallaroo.resolution.sinks import SinkContext


@dataclass(frozen=True)
class _ToStandardOutput(CustomSink):
    """A sink that prints."""

    @property
    def is_standard(self) -> bool:
        return True


def sink(config: PrintSinkConfig[Any], context: SinkContext) -> CustomSink:  # noqa: ARG001
    """The sink that *config* describes."""
    return printing(context)


def printing(context: SinkContext) -> CustomSink:
    """A sink that prints what the encoder of a configuration returns."""
    encode = context.encode()
    return _ToStandardOutput(context.name, encode, context.place, PrintSink(), runs_code=False)
