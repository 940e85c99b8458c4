"""Files with rows as message sources: which files there are, and the rows of CSV and Parquet."""

from __future__ import annotations

import csv
import functools
import glob
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from wallaroo.api.connectors import MessageSource
from wallaroo.errors import FrameError, RuntimeFailure
from wallaroo.wire.rows import malformed_row, packed_row, unpacked_row

Within = tuple[int, ...]
"""A place in a file."""
Position = tuple[str, Within]
"""Name of a file, and what of it has been read."""
_BATCH_ROWS = 1024
"""Rows of a Parquet file that are in memory at a time."""
_PIECE_BYTES = 64 * 1024
"""Bytes that are looked at together for further rows."""
_MARK = b"\xef\xbb\xbf"
"""What a text in UTF-8 may begin with."""
_OPEN = "unexpected end of data"
"""What `csv` says of a quote that is not closed."""
_ALL = -1
"""Last part of the place of the last row: there was no more."""


class RowFiles(MessageSource[Position]):
    """Reads the rows of files, one file after the other in the order of their names.

    Args:
        path: A file, a directory or a pattern.
        follow: Whether to wait for more.
    """

    def __init__(self, path: Path, *, follow: bool) -> None:
        self._path = path
        self._follow = follow

    def read(self, position: Position | None) -> Iterator[tuple[bytes, Position] | None]:
        """See `MessageSource.read`."""
        name, within = position or ("", ())
        finished = ""
        while True:
            found = self._files()
            if not (found or self._follow or position is not None):
                raise RuntimeFailure(self._nothing())
            if name not in {"", finished} and name not in found and within[-1:] != (_ALL,):
                msg = f"{self._parent / name} is gone, but only a part of it is known to be read"
                raise RuntimeFailure(msg)
            for file in sorted(one for one in found if one >= name and one > finished):
                begin = within if file == name else ()
                for item in self._rows(found[file], begin, grows=self._follow and self._is_one):
                    if item is None:
                        yield None
                        continue
                    payload, within = item
                    name = file
                    yield payload, (name, within)
                finished = file
            if not self._follow:
                return
            yield None

    def __str__(self) -> str:
        return f"file {self._path}" if self._is_one else f"files {self._path}"

    @property
    def _is_one(self) -> bool:
        return not self._path.is_dir() and self._pattern is None

    @property
    def _pattern(self) -> tuple[Path, str] | None:
        """The directory before the first wildcard, and the pattern from there; None without one.

        A name that exists, such as `orders[1]`, is taken literally.
        """
        directory, names = Path(self._path.anchor), self._path.parts[1:]
        for number, name in enumerate(names):
            if glob.has_magic(name) and not (directory / name).exists():
                return directory, str(Path(*names[number:]))
            directory /= name
        return None

    @property
    def _parent(self) -> Path:
        """The directory from which files are named: the last one before wildcards."""
        if (pattern := self._pattern) is not None:
            return pattern[0]
        return self._path if self._path.is_dir() else self._path.parent

    def _files(self) -> dict[str, Path]:
        """The files by their paths from `_parent`, without hidden ones."""
        if self._is_one:
            return {self._path.name: self._path}
        parent = self._parent
        if (pattern := self._pattern) is None:
            found = [one for one in self._path.iterdir() if one.suffix == self.suffix]
        else:
            names = glob.glob(pattern[1], root_dir=parent, recursive=True)  # noqa: PTH207
            found = [parent / name for name in names]
        named = ((one.relative_to(parent), one) for one in found if one.is_file())
        return {
            name.as_posix(): one
            for name, one in named
            if not any(part[0] in "._" for part in name.parts)
        }

    def _nothing(self) -> str:
        """Where no file was found, and what to do."""
        parent, what = self._parent, f"whose name ends with {self.suffix}"
        if not self._path.is_dir():
            what = f"that the pattern {str(self._path.relative_to(parent))!r} matches"
        where = f"directory {parent}" if parent.is_dir() else f"{parent}, which does not exist,"
        return (
            f"{where} contains no file {what}; correct the path, or set follow=True to wait for "
            "files"
        )

    suffix: str
    """How the names of files in a directory end."""

    @abstractmethod
    def _rows(
        self, file: Path, begin: Within, *, grows: bool
    ) -> Iterator[tuple[bytes, Within] | None]:
        """Yield packed rows after *begin*, each with its place; None to wait, if the file grows."""


class CSVRows(RowFiles):
    """Reads CSV; the place of a row is the byte offset after it.

    Args:
        path: A file, a directory or a pattern.
        delimiter: What is between columns.
        columns: Names of the columns; None if the first row has them.
        max_frame: Largest row, in bytes.
        follow: Whether to wait for more.
    """

    suffix = ".csv"

    def __init__(
        self,
        path: Path,
        delimiter: str,
        columns: Sequence[str] | None,
        max_frame: int,
        *,
        follow: bool,
    ) -> None:
        super().__init__(path, follow=follow)
        self._delimiter = delimiter
        self._columns = None if columns is None else list(columns)
        self._max_frame = max_frame

    def _rows(
        self, file: Path, begin: Within, *, grows: bool
    ) -> Iterator[tuple[bytes, Within] | None]:
        csv.field_size_limit(max(csv.field_size_limit(), self._max_frame))
        names, offset = self._columns, begin[0] if begin else 0
        with file.open("rb") as stream:
            if stream.seek(0, 2) < offset:
                msg = (
                    f"{file} has {stream.tell()} bytes, but {offset} bytes of it have already "
                    "been read: the file must only grow"
                )
                raise RuntimeFailure(msg)
            stream.seek(0 if names is None else offset)
            cutter, head = _Cutter(self._delimiter, self._max_frame), 0
            while True:
                line = stream.readline()
                if line and (line.endswith(b"\n") or not grows):
                    record = cutter.add(line)
                elif grows:  # what has no line feed may be in mid line
                    stream.seek(-len(line), 1)
                    if (record := cutter.complete()) is None:
                        yield None
                        continue
                elif (record := cutter.end()) is None:
                    return
                if record is None:
                    continue
                raw, values, following = record
                if names is None:
                    head += len(raw)
                    if values:  # not an empty line
                        names = self._header(file, values)
                        offset = max(offset, head)
                        stream.seek(offset)
                    continue
                offset += len(raw)
                if following:
                    stream.seek(offset)
                if raw.strip(b"\r\n"):
                    at_end = not grows and _has_no_more_rows(stream)
                    place = (offset, _ALL) if at_end else (offset,)
                    yield self._packed(file, offset, raw, values, names), place

    def _header(self, file: Path, values: Sequence[str] | str) -> list[str]:
        if isinstance(values, str):
            msg = f"{file}: the first row, which names the columns, cannot be read: {values}"
            raise FrameError(msg)
        if len(set(values)) < len(values) or "" in values:
            msg = f"{file}: the first row is {values!r}; expected a different name for each column"
            raise FrameError(msg)
        return list(values)

    def _packed(
        self, file: Path, end: int, raw: bytes, values: Sequence[str] | str, names: Sequence[str]
    ) -> bytes:
        """A row, or what becomes a dead letter because it is none."""
        if not isinstance(values, str) and len(values) == len(names):
            return packed_row(dict(zip(names, values, strict=True)))
        problem = values
        if not isinstance(values, str):
            problem = f"it has {len(values)} columns instead of {len(names)}"
        text = raw.decode("utf-8", "backslashreplace")
        return malformed_row(f"{file.name}, before byte {end}: {problem}: {text!r}")


def _has_no_more_rows(stream: BufferedReader) -> bool:
    """Whether *stream* has nothing but ends of lines from here on; leaves it where it is."""
    if stream.peek(1)[:1] not in {b"", b"\r", b"\n"}:
        return False
    here, rest = stream.tell(), b""
    while not rest and (piece := stream.read(_PIECE_BYTES)):
        rest = piece.strip(b"\r\n")
    stream.seek(here)
    return not rest


class _Record(NamedTuple):
    """A record of CSV."""

    raw: bytes
    values: list[str] | str
    """Its values, or what is wrong with it."""
    following: bool = False
    """Whether lines after it were taken, which are to be read again."""


class _Cutter:
    """Gathers lines until they are a record.

    Args:
        delimiter: What is between columns.
        most_bytes: Largest record. If a quote is not closed by then, or by the end of the file, the
            first line alone is a record, and malformed.
    """

    def __init__(self, delimiter: str, most_bytes: int) -> None:
        self._delimiter = delimiter
        self._most_bytes = most_bytes
        self._forget()

    def _forget(self) -> None:
        self._lines: list[bytes] = []
        self._size = self._quotes = self._looked_at = 0

    def add(self, line: bytes) -> _Record | None:
        """Add *line*; returns a record if it is complete."""
        self._lines.append(line)
        self._size += len(line)
        self._quotes += line.count(b'"')
        # whether a quote is closed is found out by reading all lines again: not after each one
        if self._quotes % 2 == 0 or len(self._lines) >= 2 * self._looked_at:
            record = self.complete()
            if record is not None:
                return record
        return self.end() if self._size > self._most_bytes else None

    def complete(self) -> _Record | None:
        """The record that the lines begin with; None if a quote is not closed."""
        if self._looked_at == len(self._lines):
            return None
        self._looked_at = len(self._lines)
        # a generator, as those after the record are not to be read
        texts = (line.decode("utf-8", "surrogateescape") for line in self._lines)
        first = next(texts).removeprefix(_MARK.decode())
        reader = csv.reader(
            itertools.chain((first,), texts), delimiter=self._delimiter, strict=True
        )
        try:
            values: list[str] | str = next(reader, [])
        except csv.Error as error:
            if str(error) == _OPEN:
                return None
            values = str(error)
        lines = reader.line_num
        try:
            b"".join(self._lines[:lines]).decode()
        except UnicodeDecodeError:
            values = "it is not UTF-8"
        return self._taken(lines, values)

    def end(self) -> _Record | None:
        """What is left at the end of the file."""
        if not self._lines:
            return None
        return self.complete() or self._taken(1, "a quote is not closed")

    def _taken(self, lines: int, values: list[str] | str) -> _Record:
        record = _Record(b"".join(self._lines[:lines]), values, lines < len(self._lines))
        self._forget()
        return record


class ParquetRows(RowFiles):
    """Reads Parquet; the place of a row is its row group, and the number of rows up to it there.

    Args:
        path: A file, a directory or a pattern.
        columns: Names of the columns to read; None for all.
        follow: Whether to wait for files.
    """

    suffix = ".parquet"

    def __init__(self, path: Path, columns: Sequence[str] | None, *, follow: bool) -> None:
        super().__init__(path, follow=follow)
        self._columns = None if columns is None else list(columns)

    def _rows(
        self,
        file: Path,
        begin: Within,
        *,
        grows: bool,  # noqa: ARG002  (it cannot)
    ) -> Iterator[tuple[bytes, Within] | None]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if begin[-1:] == (_ALL,):
            return
        first, done = begin or (0, 0)
        try:
            opened = pq.ParquetFile(file)
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
    return dict([((g, n), (_ALL,)) for g, n in enumerate(counts) if n][-1:])


def decoding_rows(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder of packed rows, from one of rows; it takes rows themselves as well."""

    @functools.wraps(decode)
    def decode_row(payload: bytes | Mapping[str, Any]) -> Any:
        return decode(payload if isinstance(payload, Mapping) else unpacked_row(payload))

    return decode_row
