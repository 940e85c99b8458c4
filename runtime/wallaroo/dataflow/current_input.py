"""Key and timestamp of the record that is being processed, as outputs keep them.

Each message is processed to completion before the next, so one variable is enough. It is set where
a message begins, and goes along with messages that wait for others, or cross the exchange. Only
paths that keep something have to do with it, as decided when they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wallaroo.model.endpoints import Kept, Source

Path = Callable[[Any, Any, Any], None]


class CurrentInput:
    """What belongs to the message that is being processed; None if it comes of no single one.

    Example:
        >>> current = CurrentInput()
        >>> waiting = current.collecting()
        >>> for number, current.kept in (1, (b"a", None)), (2, (b"b", None)):
        ...     waiting.append((number,))
        >>> current.kept = None
        >>> [(*item, current.kept) for item in current.each(waiting)]
        [(1, (b'a', None)), (2, (b'b', None))]
        >>> current.kept is None
        True
    """

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: Kept | None = None

    def decoding(self, source: Source) -> Callable[[Any], Any]:
        """The decoder of *source*, which sets the input."""
        decode, apart = source.decode, source.apart

        def decode_input(payload: Any) -> Any:
            payload, self.kept = apart(payload)
            return decode(payload)

        return decode_input

    def encoding(self, encode: Callable[..., Any]) -> Callable[[Any], Any]:
        """An encoder that passes what outputs keep to *encode* as well."""

        def encode_output(message: Any) -> Any:
            return encode(message, self.kept)

        return encode_output

    def without(self, path: Path) -> Path:
        """A path like *path*, for messages that come of no single input."""

        def path_without(at: Any, key: Any, message: Any) -> None:
            before, self.kept = self.kept, None
            path(at, key, message)
            self.kept = before

        return path_without

    def collecting(self) -> list[Any]:
        """A list of tuples, to each of which the input is appended."""
        return _Collected(self)

    def collecting_offsets(self) -> list[Any]:
        """A list of offsets, each of which becomes a pair with the input."""
        return _Offsets(self)

    def offsets(self, collected: Iterable[tuple[int, Kept | None]]) -> Iterator[int]:
        """Yield the offsets that were appended, each while its input is the current one."""
        for offset, self.kept in collected:
            yield offset
        self.kept = None

    def each(self, collected: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield the tuples that were appended, each while its input is the current one."""
        before = self.kept
        for item in collected:
            self.kept = item[-1]
            yield item[:-1]
        self.kept = before


class _Collected(list[Any]):
    __slots__ = ("_current",)

    def __init__(self, current: CurrentInput) -> None:
        super().__init__()
        self._current = current

    def append(self, item: tuple[Any, ...]) -> None:
        list.append(self, item + (self._current.kept,))  # noqa: RUF005 - in half the time


class _Offsets(_Collected):
    def append(self, offset: Any) -> None:
        list.append(self, (offset, self._current.kept))


def offset_of(arrival: Any) -> int:
    """The offset of which `collecting_offsets` has made *arrival*, or another list."""
    offset: int = arrival if isinstance(arrival, int) else arrival[0]
    return offset
