r"""Cutting a byte stream into frames: a header with the payload's length, then the payload.

Both ends of the journal use it: the gateway only finds where complete frames end (`scan`), the
engine takes the payloads out (`split`). A run of frames of one length, which is what binary
protocols send, is recognised by comparing bytes in bulk, at a fraction of a frame-by-frame walk.
Headers that only a function of the application can read are walked frame by frame.

Example:
    >>> framing = Framing(4, ">I")
    >>> framing.scan(b"\0\0\0\2hi\0\0\0\5wor")
    Scan(end=6, frames=1, needs=9)
    >>> framing.split(b"\0\0\0\2hi\0\0\0\0")
    [b'hi', b'']
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wallaroo.errors import FrameError

DEFAULT_MAX_FRAME = 16 * 1024 * 1024
"""Largest payload that a source accepts, in bytes, unless configured otherwise."""

_LOOK_FOR_RUN = 8
"""Frames of one length in a row after which it pays to look for more of them in bulk."""


class Piece(NamedTuple):
    """One message as it lies in a chunk."""

    header: int
    """Bytes before the payload, which takes the rest."""
    data: bytes
    """All of its bytes."""


class MessageFormat(Protocol):
    """How the messages of a source lie in the blocks of the journal.

    A chunk is the messages' bytes one after the other, so pieces of chunks make a chunk again.
    """

    def split(self, data: bytes) -> list[bytes]:
        """The payloads of *data*, which holds complete messages and nothing else."""

    def pieces(self, data: bytes) -> Iterator[Piece]:
        """The same messages, with the bytes before their payloads."""


class Scan(NamedTuple):
    """What a buffer holds."""

    end: int
    """Bytes that complete frames take, from the buffer's start."""
    frames: int
    """Complete frames."""
    needs: int
    """Bytes that the next frame needs, as far as its start shows; 0 if none of it is there."""


@dataclass(frozen=True)
class Framing:
    """How the frames of a source are laid out.

    Args:
        header_length: Bytes of the header, 1 or more.
        length_fmt: `struct` format of one integer, which takes exactly the header; or a function
            from header to the payload's length, which must be the same in every process.
        max_frame: Largest payload accepted, in bytes.

    Raises:
        ValueError: The format does not describe one integer of the header's length.

    Example:
        >>> tens = Framing(1, lambda header: 10 * (header[0] - ord("a")))
        >>> tens.split(b"a" + b"b0123456789")
        [b'', b'0123456789']
    """

    header_length: int
    length_fmt: str | Callable[[bytes], int]
    max_frame: int = DEFAULT_MAX_FRAME

    def __post_init__(self) -> None:
        if not isinstance(self.length_fmt, str):
            if not callable(self.length_fmt):
                msg = f"length_fmt is {self.length_fmt!r}; expected a struct format or a function"
                raise ValueError(msg)  # noqa: TRY004  (like every other mistake in it)
            if not isinstance(self.header_length, int) or self.header_length < 1:
                msg = f"header_length is {self.header_length!r}; expected a number of bytes"
                raise ValueError(msg)
            return
        try:
            header = struct.Struct(self.length_fmt)
            values = header.unpack(bytes(header.size))
        except struct.error as error:
            msg = f"length_fmt {self.length_fmt!r} is not a valid struct format: {error}"
            raise ValueError(msg) from None
        if header.size != self.header_length:
            msg = (
                f"length_fmt {self.length_fmt!r} takes {header.size} bytes, "
                f"and header_length is {self.header_length!r}"
            )
            raise ValueError(msg)
        if len(values) != 1 or type(values[0]) is not int:
            msg = f"length_fmt {self.length_fmt!r} does not give one whole number"
            raise ValueError(msg)

    def scan(self, data: bytes) -> Scan:
        """Find where the complete frames at the start of *data* end.

        Raises:
            FrameError: A header has a length below zero or over `max_frame`. The frames before
                it are complete: `FrameError` carries nothing of them, `scan` of the part before
                the header does (see `scan_until_error`).
        """
        scan, error = self.scan_until_error(data)
        if error is not None:
            raise FrameError(error)
        return scan

    def scan_until_error(self, data: bytes) -> tuple[Scan, str | None]:
        """Like `scan`, but gives the complete frames before a bad header along with its error."""
        if not isinstance(self.length_fmt, str):
            return self._scan_calling(data)
        unpack = struct.Struct(self.length_fmt).unpack_from
        header, largest, size = self.header_length, self.max_frame, len(data)
        position, count, last, same = 0, 0, -1, 0
        most = size - header
        while position <= most:
            (length,) = unpack(data, position)
            if not 0 <= length <= largest:
                return Scan(position, count, 0), _over(length, largest)
            end = position + header + length
            if end > size:
                return Scan(position, count, header + length), None
            position = end
            count += 1
            if length != last:
                last, same = length, 0
                continue
            same += 1
            if same == _LOOK_FOR_RUN:
                run = self._run(data, position, header + length)
                position += run * (header + length)
                count += run
                same = 0
        return Scan(position, count, header if position < size else 0), None

    def split(self, data: bytes) -> list[bytes]:
        """The payloads of *data*, which holds complete frames and nothing else.

        Raises:
            FrameError: The function that reads headers returns another length than before.
        """
        if not isinstance(self.length_fmt, str):
            return self._split_calling(data)
        unpack = struct.Struct(self.length_fmt).unpack_from
        header, size = self.header_length, len(data)
        position, last, same = 0, -1, 0
        payloads: list[bytes] = []
        append = payloads.append
        while position < size:
            start = position + header
            (length,) = unpack(data, position)
            position = start + length
            append(data[start:position])
            if length != last:
                last, same = length, 0
                continue
            same += 1
            if same == _LOOK_FOR_RUN:
                end = position + self._run(data, position, header + length) * (header + length)
                frames = struct.iter_unpack(f"{header}x{length}s", data[position:end])
                payloads += [payload for (payload,) in frames]
                position, same = end, 0
        return payloads

    def pieces(self, data: bytes) -> Iterator[Piece]:
        """See `MessageFormat.pieces`."""
        position = 0
        for payload in self.split(data):
            end = position + self.header_length + len(payload)
            yield Piece(self.header_length, data[position:end])
            position = end

    def length(self, header: bytes) -> int | None:
        """The length of the payload after *header*, also over `max_frame`; None if it has none."""
        if isinstance(self.length_fmt, str):
            (length,) = struct.unpack(self.length_fmt, header)
        else:
            try:
                length = operator.index(self.length_fmt(header))
            except (Exception, SystemExit):  # the function is the application's
                return None
        return length if length >= 0 else None

    def frame(self, payload: bytes) -> bytes:
        """*payload* with its header.

        Raises:
            struct.error: The header cannot hold the payload's length.
            FrameError: A function reads the headers, and no usual header makes it return the
                payload's length.

        Example:
            >>> Framing(3, lambda header: int(header)).frame(b"abc")
            b'003abc'
        """
        if not isinstance(self.length_fmt, str):
            return self._header_for(len(payload), self.length_fmt) + payload
        return struct.pack(self.length_fmt, len(payload)) + payload

    def frame_all(self, payloads: Sequence[bytes]) -> bytes:
        r"""*payloads* with their headers, as `frame` gives them, one after the other.

        Raises:
            struct.error: A header cannot hold its payload's length.
            FrameError: As `frame`.

        Example:
            >>> Framing(1, "B").frame_all([b"hi", b"", b"you"])
            b'\x02hi\x00\x03you'
        """
        if not isinstance(self.length_fmt, str):
            return b"".join(map(self.frame, payloads))
        headers = map(struct.Struct(self.length_fmt).pack, map(len, payloads))
        pairs = zip(headers, payloads, strict=True)
        return b"".join(itertools.chain.from_iterable(pairs))

    def _header_for(self, length: int, read: Callable[[bytes], int]) -> bytes:
        """A header from which *read* gets *length*: a binary number, or decimal digits."""
        size, candidates = self.header_length, list[bytes]()
        if length < 256**size:
            candidates += [length.to_bytes(size, "big"), length.to_bytes(size, "little")]
        digits = b"%d" % length
        candidates += [digits.rjust(size, fill) for fill in (b"0", b" ")]
        for header in candidates:
            with contextlib.suppress(Exception):  # the function is the application's
                if len(header) == size and read(header) == length:
                    return header
        msg = (
            f"the function that reads the source's headers gets a length of {length} bytes from no "
            "binary or decimal header: send the source's frames, without acknowledgements"
        )
        raise FrameError(msg)

    def _run(self, data: bytes, position: int, stride: int) -> int:
        """How many complete frames follow *position* with the header of the frame before it.

        Looks ahead in steps that double while they succeed.
        """
        header = data[position - stride : position - stride + self.header_length]
        left = (len(data) - position) // stride
        run, step = 0, _LOOK_FOR_RUN
        while run < left:
            step = min(step, left - run)
            start = position + run * stride
            stop = start + step * stride
            for place in range(self.header_length):
                if data[start + place : stop : stride] != header[place : place + 1] * step:
                    return run
            run += step
            step *= 2
        return run

    def _scan_calling(self, data: bytes) -> tuple[Scan, str | None]:
        header, size = self.header_length, len(data)
        position, count = 0, 0
        while size - position >= header:
            try:
                length = self._called(data[position : position + header])
            except FrameError as error:
                return Scan(position, count, 0), str(error)
            end = position + header + length
            if end > size:
                return Scan(position, count, header + length), None
            position = end
            count += 1
        return Scan(position, count, header if position < size else 0), None

    def _split_calling(self, data: bytes) -> list[bytes]:
        position, payloads = 0, []
        while position < len(data):
            start = position + self.header_length
            position = start + self._called(data[position:start])
            payloads.append(data[start:position])
        return payloads

    def _called(self, header: bytes) -> int:
        """What the application's function says of *header*.

        Raises:
            FrameError: It raises, or returns a length outside the limits.
        """
        assert callable(self.length_fmt)
        try:
            length = operator.index(self.length_fmt(header))
        except (Exception, SystemExit) as error:
            msg = f"payload_length({header!r}): {type(error).__name__}: {error}"
            raise FrameError(msg) from error
        if not 0 <= length <= self.max_frame:
            raise FrameError(_over(length, self.max_frame))
        return length


def _over(length: int, largest: int) -> str:
    return f"a frame of {length} bytes; the limit is {largest}"
