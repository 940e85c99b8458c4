"""Directories of Parquet files as sinks, in the normal form of an application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wallaroo.api.durations import Duration
from wallaroo.api.row_files import CSVSourceConfig, ParquetSinkConfig
from wallaroo.model.endpoints import Sink
from wallaroo.model.problems import whole_number
from wallaroo.model.tables import encoding_rows


@dataclass(frozen=True)
class ParquetSink(Sink):
    """A sink that writes files to a directory; its outputs are packed rows."""

    directory: Path
    schema: Any = field(default=None, hash=False)
    """Schema of Arrow; None to find it out."""
    rows: int = 100_000
    """Rows after which a file is complete."""
    seconds: float = 10.0
    """Seconds after which a file is complete."""

    @property
    def where(self) -> str:  # noqa: D102
        return f"files of Parquet in {self.directory}"

    @property
    def label(self) -> str:  # noqa: D102
        return f"Parquet {self.directory.name}"


def parquet_sink(name: str, encode: Any, config: ParquetSinkConfig[Any], place: Any) -> ParquetSink:
    """The sink that *config* describes."""
    encoded: Any = encoding_rows(encode) if callable(encode) else encode
    return ParquetSink(
        name, encoded, place, config.directory, config.schema, config.rows, config.seconds
    )


def problems_of(config: ParquetSinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its encoder."""
    import pyarrow

    if config.schema is not None and not isinstance(config.schema, pyarrow.Schema):
        yield f"schema is {config.schema!r}; expected a pyarrow.Schema, or None"
    yield from whole_number("rows", config.rows, 1)
    seconds = config.seconds
    if isinstance(seconds, Duration):
        yield f"seconds is {seconds!r} ns; expected a number of seconds: {seconds / 1e9:g}"
    elif isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        yield f"seconds is {seconds!r}; expected a number above 0"


def problems_of_csv(config: CSVSourceConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its decoder."""
    delimiter = config.delimiter
    if not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '"\r\n'):
        yield f"delimiter is {delimiter!r}; expected one character, but not a quote or a line end"
    yield from problems_of_columns(config.columns)


def problems_of_columns(columns: object) -> Iterator[str]:
    """What is wrong with a list of columns."""
    if columns is None:
        return
    if not (isinstance(columns, (list, tuple)) and all(isinstance(one, str) for one in columns)):
        yield f"columns is {columns!r}; expected a list of names, or None"
    elif len(set(columns)) < len(columns) or not columns:
        yield f"columns is {columns!r}; expected a different name for each column"
