"""Configuration of sources that are CSV files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

from wallaroo.api.connectors import AnySource, Row
from wallaroo.api.durations import AnyDuration, EventTime
from wallaroo.api.functions import Result_co
from wallaroo.api.places import calling_place


class CSVSourceConfig(AnySource[Result_co]):
    """A source that reads the rows of CSV files, each exactly once across restarts.

    A row is a dict from names of columns to texts. One that has another number of columns, or is
    not UTF-8, becomes a dead letter.

    Args:
        path: A file, a directory, or a pattern such as `"in/*.csv"`, relative to the application's
            directory. Several files are read in the order of their names.
        decoder: Makes a message of a row; None for the row itself.
        delimiter: Character between columns.
        columns: Names of the columns; None if the first row of each file has them.
        follow: Whether to wait for more: of a file for more rows, also if it is rotated in its
            directory; else for files with later names, which must be complete when they appear. If
            False, the source ends.
        time: From a message to its time, by which the source is read in the order of time with
            others, and its files with each other; see "Several sources" in the documentation of
            windows.
        idle: For how long others wait for it if it has more and cannot be read; a minute if None.

    Example:
        >>> CSVSourceConfig("orders.csv", delimiter=";").delimiter
        ';'
    """

    connector = __package__

    @overload
    def __init__(
        self: CSVSourceConfig[Row],
        path: str | os.PathLike[str],
        decoder: None = None,
        *,
        delimiter: str = ",",
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
        delimiter: str = ",",
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
        delimiter: str = ",",
        columns: Sequence[str] | None = None,
        follow: bool = False,
        time: EventTime | None = None,
        idle: AnyDuration | None = None,
    ) -> None:
        self.path = Path(path).absolute()
        self.decoder = decoder
        self.delimiter = delimiter
        self.columns = columns
        self.follow = follow
        self.time = time
        self.idle = idle
        self.place = calling_place()
