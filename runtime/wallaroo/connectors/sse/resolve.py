"""Streams of server-sent events in the normal form of an application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wallaroo.connectors.sse.config import SSESinkConfig
from wallaroo.model.endpoints import Listening, Sink
from wallaroo.resolution.problems import origins_of_pages, url_path, whole_number
from wallaroo.resolution.sinks import SinkContext

_LEAST_KEPT = 64 * 1024
"""Bytes that a sink keeps at least: a viewer that is connected is always some behind."""


@dataclass(frozen=True)
class SSESink(Listening, Sink):
    """A sink that viewers connect to."""

    connector = __package__
    path: str = "/"
    event: str | None = None
    """Name of its events."""
    origins: tuple[str, ...] = ()
    """Origins of pages that may read them; `*` for all."""
    token_file: Path | None = None
    """File with the token of its viewers."""
    viewers: int = 100
    """Viewers at a time."""
    keep_bytes: int = 8 * 1024**2
    """Bytes of delivered outputs that are kept."""

    @property
    def label(self) -> str:  # noqa: D102
        return "server-sent events"


def sink(config: SSESinkConfig[Any], context: SinkContext) -> SSESink:
    """The sink that *config* describes."""
    encode = context.encode()
    context.report(*_problems(config))
    return SSESink(
        context.name,
        encode,
        context.place,
        config.host,
        config.port,
        config.path,
        config.event,
        tuple(config.origins),
        config.token_file,
        config.viewers,
        config.keep_bytes,
    )


def _problems(config: SSESinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its encoder."""
    yield from url_path(config.path)
    event = config.event
    if event is not None and not (isinstance(event, str) and event and event.isprintable()):
        yield f"event is {event!r}; expected a name on one line, or None"
    yield from origins_of_pages(config.origins)
    yield from whole_number("viewers", config.viewers, 1)
    yield from whole_number("keep_bytes", config.keep_bytes, _LEAST_KEPT)
