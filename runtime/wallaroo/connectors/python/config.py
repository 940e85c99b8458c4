"""Configurations of sources and sinks that are implemented in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wallaroo.api.class_api import AnyEncoder, PayloadDecoder
from wallaroo.api.connectors import AnySink, AnySource, MessageSource, OutputSink
from wallaroo.api.durations import AnyDuration, EventTime
from wallaroo.api.functions import In_contra, Result_co
from wallaroo.api.places import calling_place


class SourceConfig(AnySource[Result_co]):
    """A custom source.

    Args:
        source: Reads the messages.
        decoder: Converts payloads to messages: a function, decorated or not, or an object with
            `decode`. Its frame layout is ignored.
        time: From a message to its time, by which the source is read in the order of time with
            others; see "Several sources" in the documentation of windows.
        idle: For how long others wait for it if it has more and cannot be read; a minute if None.
    """

    connector = __package__

    def __init__(
        self,
        source: MessageSource[Any],
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
        *,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
    ) -> None:
        self.source = source
        self.decoder = decoder
        self.time = time
        self.idle = idle
        self.place = calling_place()


class SinkConfig(AnySink[In_contra]):
    """A custom sink.

    Args:
        sink: Writes the outputs.
        encoder: Encoder of the outputs.
    """

    connector = __package__

    def __init__(self, sink: OutputSink, encoder: AnyEncoder[In_contra]) -> None:
        self.sink = sink
        self.encoder = encoder
        self.place = calling_place()
