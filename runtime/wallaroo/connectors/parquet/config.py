"""Configurations of sources and sinks that are Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from wallaroo.api.class_api import AnyEncoder
from wallaroo.api.connectors import AnySink, AnySource, Row
from wallaroo.api.durations import AnyDuration, EventTime
from wallaroo.api.functions import In_contra, Result_co
from wallaroo.api.places import calling_place

if TYPE_CHECKING:
    import pyarrow


class ParquetSourceConfig(AnySource[Result_co]):
    """A source that reads the rows of Parquet files, each exactly once across restarts.

    A row is a dict from names of columns to values as Python has them; times are cut to
    microseconds.

    Args:
        path: A file, a directory, or a pattern such as `"in/*.parquet"`, relative to the
            application's directory. Several files are read in the order of their names.
        decoder: Makes a message of a row; None for the row itself.
        columns: Names of the columns to read; None for all.
        follow: Whether to wait for files with later names, which must be complete when they
            appear. If False, the source ends.
        time: From a message to its time, by which the source is read in the order of time with
            others, and its files with each other; see "Several sources" in the documentation of
            windows.
        idle: For how long others wait for it if it has more and cannot be read; a minute if None.

    Example:
        >>> ParquetSourceConfig("orders.parquet", columns=["item"]).columns
        ['item']
    """

    connector = __package__

    @overload
    def __init__(
        self: ParquetSourceConfig[Row],
        path: str | os.PathLike[str],
        decoder: None = None,
        *,
        columns: Sequence[str] | None = None,
        follow: bool = False,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        path: str | os.PathLike[str],
        decoder: Callable[[Row], Result_co | None],
        *,
        columns: Sequence[str] | None = None,
        follow: bool = False,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
    ) -> None: ...

    def __init__(
        self,
        path: str | os.PathLike[str],
        decoder: Callable[[Row], Any] | None = None,
        *,
        columns: Sequence[str] | None = None,
        follow: bool = False,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
    ) -> None:
        self.path = Path(path).absolute()
        self.decoder = decoder
        self.columns = columns
        self.follow = follow
        self.time = time
        self.idle = idle
        self.place = calling_place()


class ParquetSinkConfig(AnySink[In_contra]):
    """A sink that writes Parquet files to a directory, each output in exactly one of them.

    A file appears when it is complete, with the numbers of its first and last output in its name.

    Args:
        directory: Where the files are written, relative to the application's directory. It is
            created if necessary.
        encoder: Encoder of the outputs. It returns a dict from names of columns to values; None
            writes nothing.
        schema: Names and types of the columns; None to infer them for each file.
        rows: Rows after which a file is complete.
        seconds: Seconds after which a file is complete, from its first row on. Until then its
            outputs wait on disk.
        on_lost: What to do if the directory has lost outputs that were delivered, because it was
            restored from a backup: `"stop"` writing with an error, or `"skip"` them with a warning.

    Example:
        >>> ParquetSinkConfig("totals", dict, rows=1000).rows
        1000
    """

    connector = __package__

    def __init__(
        self,
        directory: str | os.PathLike[str],
        encoder: AnyEncoder[In_contra],
        *,
        schema: pyarrow.Schema | None = None,
        rows: int = 100_000,
        seconds: float = 10.0,
        on_lost: Literal["stop", "skip"] = "stop",
    ) -> None:
        self.directory = Path(directory).absolute()
        self.encoder = encoder
        self.schema = schema
        self.rows = rows
        self.seconds = seconds
        self.on_lost = on_lost
        self.place = calling_place()
