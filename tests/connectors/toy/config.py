"""Configurations of queues as sources and sinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wallaroo.api.connectors import AnySink, AnySource
from wallaroo.api.functions import Encoder, In_contra, Result_co
from wallaroo.api.places import calling_place


class QueueSourceConfig(AnySource[Result_co]):
    connector = __package__

    def __init__(self, queue: str, decoder: Callable[[bytes], Result_co | None]) -> None:
        self.queue = queue
        self.decoder = decoder
        self.place = calling_place()


class QueueSinkConfig(AnySink[In_contra]):
    connector = __package__

    def __init__(self, queue: str, encoder: Encoder[In_contra, Any]) -> None:
        self.queue = queue
        self.encoder = encoder
        self.place = calling_place()
