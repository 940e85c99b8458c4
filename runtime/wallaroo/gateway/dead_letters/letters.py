"""Dead letters on their way from the log to their database.

A letter is in the record that publishes its chunk, or that delivers what its receiver refused, and
is stored once that is on disk: exactly once, as the database knows the last record it has.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

from wallaroo.gateway.dead_letters.evidence import Evidence
from wallaroo.wire.records import FailedMessage


class Letter(NamedTuple):
    """A failed message or a refused output, to be stored."""

    source: int
    name: str
    """Name of the source."""
    message: FailedMessage
    evidence: Evidence | None = None
    """What arrived; None if that is not known."""
    data: bytes | None = None
    """An output, which cannot be replayed."""

    def to_json(self) -> list[Any]:
        """As plain JSON values.

        Example:
            >>> letter = Letter(0, "in", FailedMessage("p", "s", "a.py:1", "E", "m"), data=b"x")
            >>> Letter.from_json(letter.to_json()) == letter
            True
        """
        evidence = self.evidence and [*self.evidence[:2], _text(self.evidence.frame)]
        return [self.source, self.name, self.message, evidence, _text(self.data)]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Letter:
        """What `to_json` returned."""
        source, name, message, evidence, data = values
        if evidence is not None:
            arrived_ns, header, frame = evidence
            evidence = Evidence(arrived_ns, header, base64.b64decode(frame))
        found = None if data is None else base64.b64decode(data)
        return cls(source, name, FailedMessage(*message), evidence, found)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")
