"""Parquet files as message sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wallaroo.connectors.row_files import ALL, RowFiles, Within
from wallaroo.errors import FrameError, RuntimeFailure
from wallaroo.wire.rows import malformed_row, packed_row

_BATCH_ROWS = 1024
"""Rows of a file that are in memory at a time."""
_BUFFER_BYTES = 64 * 1024
"""Bytes of a column that are read at a time: with the defaults, its whole row group is."""


class ParquetRows(RowFiles):
    """Reads Parquet; the place of a row is its row group, and the number of rows up to it there.

    Args:
        path: A file, a directory or a pattern.
        columns: Names of the columns to read; None for all.
        follow: Whether to wait for files.
    """

    suffix = ".parquet"
    at_once = 16

    def __init__(self, path: Path, columns: Sequence[str] | None, *, follow: bool) -> None:
        super().__init__(path, follow=follow)
        self._columns = None if columns is None else list(columns)

    def _rows(self, file: Path, begin: Within) -> Iterator[tuple[bytes, Within]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if begin[-1:] == (ALL,):
            return
        first, done = begin or (0, 0)
        try:
            opened = pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        except pa.ArrowInvalid as error:
            msg = f"{file} is not a Parquet file: {error}"
            raise FrameError(msg) from None
        with opened:
            self._check_columns(file, opened.schema_arrow.names)
            groups = opened.num_row_groups
            if begin and (first >= groups or opened.metadata.row_group(first).num_rows < done):
                msg = f"{file} is shorter than what has been read of it: it must not change"
                raise RuntimeFailure(msg)
            last = _last_row(opened.metadata)
            for group in range(first, groups):
                skipped, row = (done if group == first else 0), 0
                for batch in self._batches(file, opened, group):
                    count = batch.num_rows
                    here = batch.slice(max(0, min(skipped - row, count)))
                    row += count - here.num_rows
                    for packed in _packed_rows(here, f"{file.name}, row group {group}", row):
                        row += 1
                        yield packed, (*(group, row), *last.get((group, row), ()))

    def _check_columns(self, file: Path, names: Sequence[str]) -> None:
        if missing := set(self._columns or ()) - {*names}:
            msg = f"{file} has no column {', '.join(map(repr, sorted(missing)))}"
            raise FrameError(msg)
        read = names if self._columns is None else [n for n in names if n in self._columns]
        if twice := sorted({name for name in read if read.count(name) > 1}):
            msg = f"{file} has several columns of the name {', '.join(map(repr, twice))}"
            raise FrameError(msg)

    def _batches(self, file: Path, opened: Any, group: int) -> Iterator[Any]:
        """The batches of a row group.

        Raises:
            FrameError: It is damaged.
        """
        try:
            for batch in opened.iter_batches(_BATCH_ROWS, [group], self._columns):
                # "a.b" also names the field b of a
                yield batch if self._columns is None else batch.select(self._columns)
        except (OSError, ValueError) as error:  # Arrow's own errors are among them
            if getattr(error, "errno", None) is not None:
                raise  # of the disk: it may read the file later
            msg = f"{file} cannot be read from row group {group} on: {error}"
            raise FrameError(msg) from None


def _packed_rows(batch: Any, where: str, row: int) -> Iterator[bytes]:
    """The rows of *batch*, which are those after the first *row* ones *where* they are."""
    try:
        found = batch.to_pylist()
    except Exception:  # one value is enough, such as a date in the year 10000
        found = None
    if found is not None:
        yield from map(packed_row, found)
        return
    for place in range(batch.num_rows):
        values: dict[str, Any] = {}
        problems: list[str] = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                values[name] = column[place].as_py()
            except Exception as error:
                problems.append(f"column {name!r} has no value that Python can have: {error}")
        if problems:
            yield malformed_row(f"{where}, row {row + place + 1}: {'; '.join(problems)}")
        else:
            yield packed_row(values)


def _last_row(metadata: Any) -> dict[tuple[int, int], Within]:
    """Row group and number of the last row, with what is added to its place."""
    counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return dict([((g, n), (ALL,)) for g, n in enumerate(counts) if n][-1:])
