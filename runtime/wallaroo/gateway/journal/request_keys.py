"""Keys of requests whose messages are on disk: one that is repeated is not accepted again.

A client whose connection breaks before the answer cannot know whether its messages were accepted.
If its request has a key, it may repeat it: the key is in the record that accepts the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class KeyedRequest(NamedTuple):
    """A request with a key, to be stored with its messages."""

    source: int
    """Index of the source."""
    key: bytes
    """Digest of its key."""
    body: bytes
    """Digest of its messages."""
    messages: int
    """Number of its messages."""
    forgets: bytes | None = None
    """The key that is given up for it."""

    def to_json(self) -> list[Any]:
        """As plain JSON values."""
        forgets = self.forgets and self.forgets.hex()
        return [self.source, self.key.hex(), self.body.hex(), self.messages, forgets]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> KeyedRequest:
        """What `to_json` returned."""
        source, key, body, messages, forgets = values
        forgotten = bytes.fromhex(forgets) if forgets else None
        return cls(source, bytes.fromhex(key), bytes.fromhex(body), messages, forgotten)


class RequestKeys:
    """The keys that are stored, by source; the caller holds a lock.

    Example:
        >>> keys = RequestKeys()
        >>> keys.add(KeyedRequest(0, b"key", b"digest", 3))
        >>> keys.of(0)
        {b'key': (b'digest', 3)}
    """

    def __init__(self) -> None:
        self._of_source: dict[int, dict[bytes, tuple[bytes, int]]] = {}

    def of(self, source: int) -> dict[bytes, tuple[bytes, int]]:
        """Digest and number of the messages of each key of *source*, the oldest first."""
        return dict(self._of_source.get(source, {}))

    def add(self, request: KeyedRequest) -> None:
        """Store the key of a request, and forget the one that it gives up."""
        keys = self._of_source.setdefault(request.source, {})
        keys.pop(request.key, None)  # the newest is the last
        keys[request.key] = request.body, request.messages
        if request.forgets is not None:
            keys.pop(request.forgets, None)

    def to_json(self) -> list[list[Any]]:
        """As plain JSON values."""
        return [
            KeyedRequest(source, key, *about).to_json()
            for source, keys in self._of_source.items()
            for key, about in keys.items()
        ]
