"""Files of frames or lines in the normal form of an application."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from wallaroo.connectors.files.config import FileSinkConfig, FileSourceConfig
from wallaroo.connectors.files.sink import FileSink
from wallaroo.connectors.files.source import FileSource
from wallaroo.connectors.python.resolve import CustomSink, CustomSource
from wallaroo.resolution.problems import one_of
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.framing import Framing


@dataclass(frozen=True)
class _ToFile(CustomSink):
    """A sink that writes to a file."""

    writer: FileSink = field(compare=False)

    def skipping_lost(self) -> Self:
        return replace(self, writer=self.writer.skipping_lost())


def source(config: FileSourceConfig[Any], context: SourceContext) -> CustomSource:
    """The source that *config* describes."""
    framing: Framing | None
    context.report(*one_of("framing", config.framing, "frames", "lines"))
    if config.framing == "frames":
        framing, decode = context.framed()
    else:
        framing, decode = None, context.decode()
    reader = FileSource(config.path, framing, context.max_frame, follow=config.follow)
    return CustomSource(
        context.name, context.frames, decode, context.place, reader, runs_code=False
    )


def sink(config: FileSinkConfig[Any], context: SinkContext) -> CustomSink:
    """The sink that *config* describes."""
    encode, lines = context.encode(), config.framing == "lines"
    context.report(*one_of("framing", config.framing, "none", "lines"))
    other = context.claimed(config.path.resolve())
    if other is not config:
        context.report(f"{config.path} is written by the sink at {other.place} already")
    context.report(*one_of("on_lost", config.on_lost, "stop", "skip"))
    writer = FileSink(config.path, lines=lines, skips_lost=config.on_lost == "skip")
    return _ToFile(
        context.name, encode, context.place, writer, joins_outputs=not lines, runs_code=False
    )
