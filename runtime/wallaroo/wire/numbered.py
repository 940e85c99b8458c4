r"""Numbered outputs: a receiver reports what it has, and recognises repeats.

Each output is sent after its number and its length. The numbers of a sink run from 1 without gaps
for as long as its outbox lives. Each connection begins with number 0, whose payload names the
numbering: if it changes, the receiver starts again. The receiver answers, as often as it likes,
with the number of the last output that it has; what comes after it is sent again on the next
connection.

Example:
    >>> name = sequenced(0, [b"outbox/0"])
    >>> seen = {}
    >>> SequenceCutter(seen).feed(name + sequenced(1, [b"a", b"b"]))
    [b'a', b'b']
    >>> again = SequenceCutter(seen)  # a new connection
    >>> again.feed(name + sequenced(2, [b"b", b"c"])), again.repeated
    ([b'c'], 1)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from wallaroo.errors import FrameError

HEADER = struct.Struct(">QI")
"""Number and length, unsigned and big-endian."""
NUMBER = struct.Struct(">Q")
"""The receiver's answer."""


def sequenced(first: int, outputs: Iterable[bytes]) -> bytes:
    """*outputs*, the first of which has the number *first*, each after its number and length."""
    parts: list[bytes] = []
    for number, output in enumerate(outputs, first):
        parts += (HEADER.pack(number, len(output)), output)
    return b"".join(parts)


class SequenceCutter:
    """Cuts one connection's bytes into outputs, and drops those that came before.

    Args:
        seen: The number of the last output of each numbering; shared by all connections.
    """

    def __init__(self, seen: dict[str, int]) -> None:
        self._seen = seen
        self._numbering: str | None = None
        self.rest = b""
        """Bytes of an incomplete output."""
        self.repeated = 0
        """Outputs dropped because they had come before."""

    @property
    def last(self) -> int:
        """Number of the last output that came, of this connection's numbering; 0 for none."""
        return self._seen.get(self._numbering or "", 0)

    def feed(self, piece: bytes) -> list[bytes]:
        """The outputs that *piece* completes and that had not come before.

        Raises:
            FrameError: The connection does not begin with number 0, or an output is missing.
        """
        data = self.rest + piece if self.rest else piece
        fresh: list[bytes] = []
        start = 0
        while len(data) - start >= HEADER.size:
            number, length = HEADER.unpack_from(data, start)
            end = start + HEADER.size + length
            if end > len(data):
                break
            payload = data[start + HEADER.size : end]
            if self._is_fresh(number, payload):
                fresh.append(payload)
            start = end
        self.rest = data[start:]
        return fresh

    def _is_fresh(self, number: int, payload: bytes) -> bool:
        if self._numbering is None or number == 0:
            if number or self._numbering is not None:
                msg = f"output {number}: a connection starts with number 0, once"
                raise FrameError(msg)
            self._numbering = payload.decode("utf-8", "replace")
            return False
        last = self._seen.get(self._numbering)
        if last is not None and number <= last:
            self.repeated += 1
            return False
        if last is not None and number > last + 1:
            msg = f"output {number} comes after {last}: those in between are missing"
            raise FrameError(msg)
        self._seen[self._numbering] = number
        return True
