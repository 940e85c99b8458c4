"""Files of frames or lines in the normal form of an application."""

from __future__ import annotations

from typing import Any

from wallaroo.connectors.files.config import FileSinkConfig, FileSourceConfig
from wallaroo.connectors.files.sink import FileSink
from wallaroo.connectors.files.source import FileSource
from wallaroo.connectors.python.resolve import CustomSink, CustomSource
from wallaroo.resolution.problems import one_of
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.framing import Framing


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
    return CustomSink(
        context.name, encode, context.place, writer, joins_outputs=not lines, runs_code=False
    )
