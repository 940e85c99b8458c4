"""Files with rows as message sources: which files there are, and what makes messages of rows."""

from __future__ import annotations

import glob
import heapq
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wallaroo.api.connectors import MessageSource
from wallaroo.connectors.python.resolve import CustomSource
from wallaroo.errors import RuntimeFailure
from wallaroo.model.endpoints import TimesOf
from wallaroo.model.order import Timeline, timed
from wallaroo.resolution.sources import SourceContext
from wallaroo.wire.rows import decoding_rows

Within = tuple[int, ...]
"""A place in a file."""
Position = tuple[str, Within, *tuple[tuple[str, Within], ...]]
"""Name of the last file that was begun, and what of it has been read; then the same of those before
it that have more, the last one first."""
_Row = tuple[int, str, Within, bytes]
"""Time of a row, its file, its place there, and itself packed; rows go in this order."""
ALL = -1
"""Last part of the place of the last row: there was no more."""


class RowFiles(MessageSource[Position]):
    """Reads the rows of files, in the order of the names of files or in that of time.

    Args:
        path: A file, a directory or a pattern.
        follow: Whether to wait for more.
    """

    def __init__(self, path: Path, *, follow: bool) -> None:
        self._path = path
        self._follow = follow

    def read(
        self, position: Position | None, times_of: TimesOf | None = None
    ) -> Iterator[tuple[bytes, Position] | None]:
        """See `MessageSource.read`; with *times_of*, files are read in the order of time.

        Of more than `at_once` files, those with the first names are; when one ends, the next joins.
        """
        if self._is_one:
            times_of = None  # there are no others to read it in order with
        begun: dict[str, Within] = {}
        if position is not None:
            name, within, *earlier = position
            begun = dict([*reversed(earlier), (name, within)])
        waiting, last = deque(begun), max(begun, default="")
        while True:
            found = self._files()
            if not (found or self._follow or position is not None):
                raise RuntimeFailure(self._nothing())
            waiting.extend(sorted(name for name in found if name > last))
            last = max(waiting, default=last)
            yield from self._merged(waiting, found, begun, times_of)
            if not self._follow:
                return
            yield None

    def _merged(
        self,
        waiting: deque[str],
        found: Mapping[str, Path],
        begun: dict[str, Within],
        times_of: TimesOf | None,
    ) -> Iterator[tuple[bytes, Position]]:
        """Yield the rows of the files *waiting*, with *begun*, what was read of each, after it."""
        heap: list[tuple[_Row, Iterator[_Row]]] = []
        while waiting or heap:
            if waiting and len(heap) < (1 if times_of is None else self.at_once):
                name = waiting.popleft()
                if name not in begun:  # all others that are known are open, or finished
                    for one in begun.keys() - {file for (_, file, *_), _ in heap}:
                        del begun[one]
                    begun[name] = ()
                rows = self._timed(name, found.get(name), begun[name], times_of)
                row = next(rows, None)
            else:
                row, rows = heapq.heappop(heap)
                while row is not None and not (heap and heap[0][0] < row):
                    _, name, begun[name], payload = row
                    (last, within), *earlier = reversed(begun.items())
                    yield payload, (last, within, *earlier)
                    row = next(rows, None)
            if row is not None:
                heapq.heappush(heap, (row, rows))
            elif name != max(begun):
                del begun[name]

    def _timed(
        self, name: str, file: Path | None, begin: Within, times_of: TimesOf | None
    ) -> Iterator[_Row]:
        """Yield the rows of *file*, which is None if it is gone, after *begin*."""
        if file is None:
            if begin and begin[-1] != ALL:
                msg = f"{self._parent / name} is gone, but only a part of it is known to be read"
                raise RuntimeFailure(msg)
            return
        rows = self._rows(file, begin)
        if times_of is None:
            yield from ((0, name, place, payload) for payload, place in rows)
            return
        times = Timeline()
        for row, at in timed(rows, times_of):
            if row is not None:
                payload, place = row
                yield times.reached(at), name, place, payload

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
    at_once: int
    """How many files are open together, to be read in the order of time."""

    @abstractmethod
    def _rows(self, file: Path, begin: Within) -> Iterator[tuple[bytes, Within]]:
        """Yield packed rows after *begin*, each with its place."""


@dataclass(frozen=True)
class RowSource(CustomSource):
    """A source that reads rows of files."""

    reader: RowFiles = field(compare=False)

    def read_in_order(  # noqa: D102
        self, position: Any, times_of: TimesOf | None
    ) -> Iterator[tuple[bytes, Any] | None]:
        return self.reader.read(position, times_of)


def row_source(config: Any, context: SourceContext, reader: RowFiles) -> RowSource:
    """The source that *config* describes, whose rows *reader* reads."""
    decode: Callable[[Any], Any] = dict
    place = context.declared_at
    if config.decoder is not None:
        decode, place = context.decode(), context.place
        context.check_takes("a row, which is a dict: write lambda row: …, or no decoder")
    decode = decoding_rows(decode)
    return RowSource(context.name, context.frames, decode, place, reader, runs_code=False)


def problems_of_columns(columns: object) -> Iterator[str]:
    """What is wrong with a list of columns."""
    if columns is None:
        return
    if not (isinstance(columns, (list, tuple)) and all(isinstance(one, str) for one in columns)):
        yield f"columns is {columns!r}; expected a list of names, or None"
    elif len(set(columns)) < len(columns) or not columns:
        yield f"columns is {columns!r}; expected a different name for each column"
