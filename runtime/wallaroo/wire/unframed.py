r"""Cutting a byte stream without headers: messages end with a delimiter, or have one length.

Example:
    >>> lines = Delimited(b"\n", max_size=100)
    >>> lines.scan_until_error(b"one\ntwo\nthr")
    (Scan(end=8, frames=2, needs=4), None)
    >>> lines.split(b"one\ntwo\n")
    [b'one', b'two']
    >>> FixedLength(2).split(b"abcd")
    [b'ab', b'cd']
"""

from __future__ import annotations

from dataclasses import dataclass

from wallaroo.wire.framing import DEFAULT_MAX_FRAME, Framing, Scan


@dataclass(frozen=True)
class Delimited:
    r"""Messages that end with a delimiter, which is not part of them.

    Args:
        delimiter: One byte or more.
        max_size: Largest message, in bytes, without its delimiter.
        ends_with_stream: Whether the end of the stream ends its last message, too, as the end of
            a text file ends its last line.

    Raises:
        ValueError: There is no delimiter.
    """

    delimiter: bytes
    max_size: int = DEFAULT_MAX_FRAME
    ends_with_stream: bool = False

    def __post_init__(self) -> None:
        if not self.delimiter:
            msg = "a message ends with one byte at least"
            raise ValueError(msg)

    @property
    def most(self) -> int:
        """Bytes that a message and its delimiter take at most."""
        return self.max_size + len(self.delimiter)

    def scan_until_error(self, data: bytes) -> tuple[Scan, str | None]:
        """See `Framing.scan_until_error`; `needs` is one byte more than there is."""
        *pieces, rest = data.split(self.delimiter)
        end = 0
        for number, piece in enumerate(pieces):
            if len(piece) > self.max_size:
                return Scan(end, number, 0), self._over
            end += len(piece) + len(self.delimiter)
        # the rest can hold all of the delimiter but its last byte
        if len(rest) >= self.most:
            return Scan(end, len(pieces), 0), self._over
        return Scan(end, len(pieces), len(rest) + 1 if rest else 0), None

    def split(self, data: bytes) -> list[bytes]:
        """See `Framing.split`."""
        pieces = data.split(self.delimiter)
        pieces.pop()
        return pieces

    def ends_in(self, data: bytes | bytearray, start: int, end: int) -> bool:
        """Whether a delimiter ends in data[start:end], if none ends before."""
        return data.find(self.delimiter, max(0, start - len(self.delimiter) + 1), end) >= 0

    def last(self, rest: bytes) -> bytes | None:
        """The message that *rest* is at the end of a stream; None if it is incomplete."""
        return rest if self.ends_with_stream and 0 < len(rest) <= self.max_size else None

    @property
    def _over(self) -> str:
        what = "line" if self.delimiter == b"\n" else "message"
        end = "line feed" if self.delimiter == b"\n" else f"{self.delimiter!r}"
        return f"a {what} of more than {self.max_size} bytes without its {end}"


@dataclass(frozen=True)
class FixedLength:
    """Messages of one length.

    Args:
        length: Bytes of each message.
        max_size: Largest length that is accepted.

    Raises:
        ValueError: The length is below 1 or over the limit.
    """

    length: int
    max_size: int = DEFAULT_MAX_FRAME

    def __post_init__(self) -> None:
        if not 1 <= self.length <= self.max_size:
            msg = f"a message has 1 to {self.max_size} bytes"
            raise ValueError(msg)

    def scan_until_error(self, data: bytes) -> tuple[Scan, str | None]:
        """See `Framing.scan_until_error`."""
        frames, rest = divmod(len(data), self.length)
        return Scan(len(data) - rest, frames, self.length if rest else 0), None

    def split(self, data: bytes) -> list[bytes]:
        """See `Framing.split`."""
        return [data[at : at + self.length] for at in range(0, len(data), self.length)]


StreamFormat = Framing | Delimited | FixedLength
"""How a stream of bytes is cut into messages."""
