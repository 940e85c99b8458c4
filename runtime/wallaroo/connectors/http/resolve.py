"""HTTP sources in the normal form of an application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wallaroo.connectors.http.config import HTTPSourceConfig
from wallaroo.model.endpoints import Listening, Source
from wallaroo.resolution.problems import origins_of_pages, url_path
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.framing import Framing


@dataclass(frozen=True)
class HTTPSource(Listening, Source):
    """A source that takes messages by POST."""

    connector = __package__
    framing: Framing
    path: str
    """Where messages are posted to."""
    origins: tuple[str, ...] = ()
    """Origins of pages that may post them; `*` for all."""

    @property
    def label(self) -> str:  # noqa: D102
        return "HTTP source"


def source(config: HTTPSourceConfig[Any], context: SourceContext) -> HTTPSource:
    """The source that *config* describes."""
    context.report(*url_path(config.path), *origins_of_pages(config.origins))
    framing, decode = Framing(4, ">I", context.max_size()), context.decode()
    place, host, port = context.place, config.host, config.port
    origins = tuple(config.origins)
    return HTTPSource(context.name, framing, decode, place, host, port, config.path, origins)
