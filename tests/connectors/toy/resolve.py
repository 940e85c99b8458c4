"""Queues in the normal form of an application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.connectors.toy.config import QueueSinkConfig, QueueSourceConfig
from wallaroo.model.endpoints import Endpoint, Sink, Source
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.framing import Piece


class Marked:
    """How messages lie in the journal: without lengths, each after a mark."""

    MARK = b"\n>"

    def split(self, data: bytes) -> list[bytes]:
        return data.split(self.MARK)[1:]

    def pieces(self, data: bytes) -> Iterator[Piece]:
        for payload in self.split(data):
            yield Piece(len(self.MARK), self.MARK + payload)


@dataclass(frozen=True)
class OnQueue(Endpoint):
    queue: str

    @property
    def where(self) -> str:
        return f"queue {self.queue}"


@dataclass(frozen=True)
class QueueSource(OnQueue, Source):
    connector = __package__


@dataclass(frozen=True)
class QueueSink(OnQueue, Sink):
    connector = __package__


def source(config: QueueSourceConfig[Any], context: SourceContext) -> QueueSource:
    return QueueSource(context.name, Marked(), context.decode(), context.place, config.queue)


def sink(config: QueueSinkConfig[Any], context: SinkContext) -> QueueSink:
    encode = context.encode()
    if context.claimed(config.queue) is not config:
        context.report(f"queue {config.queue} has a sink already")
    return QueueSink(context.name, encode, context.place, config.queue)
