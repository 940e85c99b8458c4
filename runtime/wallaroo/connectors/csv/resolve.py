"""CSV files in the normal form of an application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wallaroo.connectors.csv.config import CSVSourceConfig
from wallaroo.connectors.csv.source import CSVRows
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.connectors.row_files import problems_of_columns, row_source
from wallaroo.resolution.sources import SourceContext


def source(config: CSVSourceConfig[Any], context: SourceContext) -> CustomSource:
    """The source that *config* describes."""
    context.report(*_problems(config))
    reader = CSVRows(
        config.path, config.delimiter, config.columns, context.max_frame, follow=config.follow
    )
    return row_source(config, context, reader)


def _problems(config: CSVSourceConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its decoder."""
    delimiter = config.delimiter
    if not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '"\r\n'):
        yield f"delimiter is {delimiter!r}; expected one character, but not a quote or a line end"
    yield from problems_of_columns(config.columns)
