"""CSV files as message sources."""

from __future__ import annotations

import csv
import itertools
from codecs import BOM_UTF8
from collections.abc import Generator, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from wallaroo.connectors.rotation import FollowedFile, Trail, has
from wallaroo.connectors.row_files import ALL, Position, RowFiles, Within
from wallaroo.errors import FrameError, RuntimeFailure
from wallaroo.model.endpoints import TimesOf
from wallaroo.system.printable import counted
from wallaroo.wire.refusals import beginning
from wallaroo.wire.rows import malformed_row, packed_row

_PIECE_BYTES = 64 * 1024
"""Bytes that are looked at together for further rows."""
_OPEN = "unexpected end of data"
"""What `csv` says of a quote that is not closed."""


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
    at_once = 64

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

    def read(
        self, position: Position | None, times_of: TimesOf | None = None
    ) -> Iterator[tuple[bytes, Position] | None]:
        """See `RowFiles.read`."""
        if not (self._follow and self._is_one):
            yield from super().read(position, times_of)
            return
        followed, file, offset = FollowedFile(self._path), self._path, 0
        match position:
            case (_, (offset, device, inode, checksum), *_):
                file, offset = followed.found((offset, device, inode, checksum))
            case (_, (offset, *_), *_):  # of a run that did not follow it
                pass
        while True:
            with file.open("rb") as stream:
                trail = Trail(stream.fileno(), offset)
                for row in self._cut(file, stream, trail, followed):
                    yield None if row is None else (row, (self._path.name, trail.seen))
                file, offset = followed.after(stream.fileno(), trail.seen)

    def _rows(self, file: Path, begin: Within) -> Iterator[tuple[bytes, Within]]:
        with file.open("rb") as stream:
            trail = Trail(stream.fileno(), begin[0] if begin else 0)
            for row in self._cut(file, stream, trail):
                if row is not None:
                    at_end = (ALL,) if _has_no_more_rows(stream) else ()
                    yield row, (trail.offset, *at_end)

    def _cut(
        self,
        file: Path,
        stream: BufferedReader,
        trail: Trail,
        followed: FollowedFile | None = None,
    ) -> Iterator[bytes | None]:
        """Yield packed rows from where *trail* is, with it after each; None to wait for more."""
        csv.field_size_limit(max(csv.field_size_limit(), self._max_frame))
        if stream.seek(0, 2) < trail.offset:
            msg = (
                f"{file} has {stream.tell()} bytes, but {trail.offset} bytes of it have already "
                "been read: the file must only grow"
            )
            raise RuntimeFailure(msg)
        names, head = self._columns, 0
        stream.seek(0 if names is None else trail.offset)
        for record in self._records(stream, trail, followed):
            if record is None:
                yield None
                continue
            raw, values, following, size = record
            if names is None:
                head += len(raw)
                if trail.offset < head:
                    trail.note(raw)
                if values:  # not an empty line
                    names = self._header(file, values)
                    stream.seek(trail.offset)
                continue
            if size:
                trail.pass_over(size)
                yield malformed_row(f"{file}, before byte {trail.offset}: {values}")
                continue
            trail.note(raw)
            if following:
                stream.seek(trail.offset)
            if raw.strip(b"\r\n"):
                yield self._packed(file, trail.offset, raw, values, names)

    def _records(
        self, stream: BufferedReader, trail: Trail, followed: FollowedFile | None
    ) -> Iterator[_Record | None]:
        """Yield the records from where *stream* is; None to wait for more."""
        cutter, grows = _Cutter(self._delimiter, self._max_frame), followed is not None
        while True:
            line = stream.readline(self._max_frame + 1)
            if len(line) > self._max_frame and not line.endswith(b"\n"):
                if (record := cutter.end()) is not None:  # a row with an open quote before it
                    yield record._replace(following=True)
                    continue
                size = yield from self._rest_of_line(stream, trail, followed)
                if size is None:
                    return  # it was truncated
                size += len(line)
                record = _Record(
                    b"",
                    f"a row of {size} bytes; the limit is {self._max_frame}: raise --max-frame; it "
                    f"begins with {beginning(line)}",
                    size=size,
                )
            elif line and (line.endswith(b"\n") or not grows):
                record = cutter.add(line)
            elif followed is not None and grows:  # what has no line feed may be in mid line
                stream.seek(-len(line), 1)
                if followed.is_left(stream.fileno()):
                    grows = False
                elif (record := cutter.complete()) is not None:
                    yield record
                else:
                    yield None
                    if not has(stream.fileno(), trail.seen):
                        return  # it was truncated
                continue
            elif (record := cutter.end()) is None:
                return
            if record is not None:
                yield record

    def _rest_of_line(
        self, stream: BufferedReader, trail: Trail, followed: FollowedFile | None
    ) -> Generator[None, None, int | None]:
        """Read the rest of a line in pieces; returns how long it is, or None if it is gone."""
        size, end = 0, b""
        while end != b"\n":
            piece = stream.readline(_PIECE_BYTES)
            size, end = size + len(piece), piece[-1:]
            if not piece:
                if followed is None or followed.is_left(stream.fileno()):
                    break
                yield None
                if not has(stream.fileno(), trail.seen):
                    return None
        return size

    def _header(self, file: Path, values: Sequence[str] | str) -> list[str]:
        if isinstance(values, str):
            msg = f"{file}: the first row, which names the columns, cannot be read: {values}"
            raise FrameError(msg)
        if len(set(values)) < len(values) or "" in values[1:]:  # pandas leaves its index unnamed
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
            problem = f"it has {counted(len(values), 'column')} instead of {len(names)}"
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
    size: int = 0
    """Bytes of a line over the limit, which is not kept."""


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
        first = next(texts).removeprefix(BOM_UTF8.decode())
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
