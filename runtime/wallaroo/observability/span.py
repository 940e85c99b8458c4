"""Spans, as they are handed to an exporter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Span(NamedTuple):
    """An operation with its duration."""

    name: str
    start_ns: int
    """Wall clock at its start, in nanoseconds since the Unix epoch."""
    end_ns: int
    """Wall clock at its end, in nanoseconds since the Unix epoch."""
    attributes: Mapping[str, str | int] = {}
    """Additional attributes."""


class PublicationId(NamedTuple):
    """The identity of a publication."""

    run: str
    """Name of the query that numbers the chunks."""
    number: int
    """Number of its last chunk."""
