"""Configurations of sources and sinks that are implemented in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wallaroo.api.class_api import EncoderClass, PayloadDecoder
from wallaroo.api.connectors import AnySink, AnySource, MessageSource, OutputSink
from wallaroo.api.functions import Encoder, In_contra, Result_co
from wallaroo.api.places import calling_place


class SourceConfig(AnySource[Result_co]):
    """A custom source.

    Args:
        source: Reads the messages.
        decoder: Converts payloads to messages: a function, decorated or not, or an object with
            `decode`. Its frame layout is ignored.
    """

    connector = __package__

    def __init__(
        self,
        source: MessageSource[Any],
        decoder: Callable[[bytes], Result_co | None] | PayloadDecoder[Result_co | None],
    ) -> None:
        self.source = source
        self.decoder = decoder
        self.place = calling_place()


class SinkConfig(AnySink[In_contra]):
    """A custom sink.

    Args:
        sink: Writes the outputs.
        encoder: Encoder of the outputs.
    """

    connector = __package__

    def __init__(
        self, sink: OutputSink, encoder: Encoder[In_contra, Any] | EncoderClass[In_contra]
    ) -> None:
        self.sink = sink
        self.encoder = encoder
        self.place = calling_place()
