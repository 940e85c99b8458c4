"""Parquet files in the normal form of an application."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wallaroo.api.durations import Duration
from wallaroo.connectors.parquet.config import ParquetSinkConfig, ParquetSourceConfig
from wallaroo.connectors.parquet.source import ParquetRows
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.connectors.row_files import problems_of_columns, row_source
from wallaroo.model.endpoints import Sink
from wallaroo.resolution.problems import one_of, whole_number
from wallaroo.resolution.sinks import SinkContext
from wallaroo.resolution.sources import SourceContext

_INDEX_BITS = 32
"""Least size of the indices of a dictionary, of which 8 bits would allow 127 values in a file."""


@dataclass(frozen=True)
class ParquetSink(Sink):
    """A sink that writes files to a directory; its outputs are packed rows."""

    connector = __package__
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


def source(config: ParquetSourceConfig[Any], context: SourceContext) -> CustomSource:
    """The source that *config* describes."""
    context.report(*problems_of_columns(config.columns))
    reader = ParquetRows(config.path, config.columns, follow=config.follow)
    return row_source(config, context, reader)


def sink(config: ParquetSinkConfig[Any], context: SinkContext) -> ParquetSink:
    """The sink that *config* describes."""
    encode = context.encode_rows()
    context.report(*_problems(config))
    return ParquetSink(
        context.name,
        encode,
        context.place,
        config.directory,
        config.schema,
        config.rows,
        config.seconds,
        skips_lost=config.on_lost == "skip",
    )


def _problems(config: ParquetSinkConfig[Any]) -> Iterator[str]:
    """Mistakes in *config*, besides its encoder."""
    import pyarrow

    if isinstance(config.schema, pyarrow.Schema):
        yield from _problems_of_schema(config.schema)
    elif config.schema is not None:
        yield f"schema is {config.schema!r}; expected a pyarrow.Schema, or None"
    yield from one_of("on_lost", config.on_lost, "stop", "skip")
    yield from whole_number("rows", config.rows, 1)
    seconds = config.seconds
    if isinstance(seconds, Duration):
        yield f"seconds is {seconds!r} ns; expected a number of seconds: {seconds / 1e9:g}"
    elif isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        yield f"seconds is {seconds!r}; expected a number above 0"


def problem_of_type(kind: Any) -> str | None:
    """Why no file of Parquet has columns of the type *kind*; None if they do.

    Example:
        >>> import pyarrow
        >>> problem_of_type(pyarrow.int64())
        >>> problem_of_type(pyarrow.month_day_nano_interval()) is None
        False
    """
    import pyarrow
    import pyarrow.parquet

    empty = pyarrow.schema([("column", kind)]).empty_table()
    try:
        pyarrow.parquet.write_table(empty, pyarrow.BufferOutputStream())
    except (pyarrow.ArrowException, NotImplementedError) as error:
        return str(error).strip()
    return None


def _problems_of_schema(schema: Any) -> Iterator[str]:
    import pyarrow

    for name in sorted({name for name in schema.names if schema.names.count(name) > 1}):
        yield f"schema has several columns of the name {name!r}"
    for column in schema:
        if (problem := problem_of_type(column.type)) is not None:
            yield f"schema has a type for {column.name!r} that Parquet has not: {problem}"
        has_indices = pyarrow.types.is_dictionary(column.type)
        if has_indices and column.type.index_type.bit_width < _INDEX_BITS:
            yield (
                f"schema has {column.type} for {column.name!r}, which is for few different values: "
                "write pyarrow.dictionary(pyarrow.int32(), …)"
            )
