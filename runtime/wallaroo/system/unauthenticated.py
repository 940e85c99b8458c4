"""Connections whose peers have not shown yet that they know a secret."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable


class Strangers:
    """Bounds how many there are; a flood from one address costs that address its own.

    Args:
        most: How many there may be.

    Example:
        >>> ended, strangers = [], Strangers(most=2)
        >>> for peer in ("flood", "flood", "engine"):
        ...     _ = strangers.admit(peer, lambda peer=peer: ended.append(peer))
        >>> ended
        ['flood']
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._ends: dict[int, tuple[str, Callable[[], None]]] = {}
        """Address and how to end the connection, by number; the oldest first."""
        self._admitted = 0

    def admit(self, peer: str, end: Callable[[], None]) -> int:
        """Count a connection from *peer*, and return its number.

        If there are too many, the oldest one of the address with the most is ended.

        Args:
            peer: Address of the peer.
            end: Ends the connection; may be called by any thread, until `dismiss`.
        """
        with self._lock:
            self._admitted += 1
            number = self._admitted
            self._ends[number] = peer, end
            if len(self._ends) > self._most:
                counts = Counter(peer for peer, _ in self._ends.values())
                crowd = max(counts, key=counts.__getitem__)
                oldest = next(n for n, (peer, _) in self._ends.items() if peer == crowd)
                _, end_it = self._ends.pop(oldest)
                end_it()
        return number

    def dismiss(self, number: int) -> None:
        """Count a connection no more: it is known now, or has ended."""
        with self._lock:
            self._ends.pop(number, None)
