"""The times that sinks take to write, and how far chunks may be apart because of them."""

from __future__ import annotations

_WEIGHT = 0.2
"""Weight of the last time that a sink took, of all."""
_SHARE = 0.6
"""Part of the time that the fastest sink takes, for which a chunk waits for more messages: less
costs more processor time, and more delays outputs."""
_MOST_S = 0.02
"""A chunk never waits longer than this."""


class DeliveryTimes:
    """Times that sinks take from taking outputs until the receiver surely has them.

    Outputs that are published while a sink writes wait until it has written. Where this takes long,
    as a transaction of Kafka does, chunks that are smaller and more frequent cost processor time
    and bring no output sooner.

    Example:
        >>> times = DeliveryTimes()
        >>> for _ in range(50):
        ...     times.note(sink=0, took_s=0.03)
        >>> round(times.gap_s, 4)
        0.018
        >>> times.note(sink=1, took_s=0.0)  # this one waits for nothing
        >>> times.gap_s
        0.0
    """

    def __init__(self) -> None:
        self._took_s: dict[int, float] = {}
        """About how long each sink takes that has written since the start."""
        self.gap_s = 0.0
        """Seconds that may lie between chunks without delaying outputs much; for any thread."""

    def note(self, sink: int, took_s: float) -> None:
        """Note how long *sink* has taken for what it wrote last."""
        before = self._took_s.get(sink, 0.0)
        self._took_s[sink] = before + _WEIGHT * (took_s - before)
        self.gap_s = min(_SHARE * min(self._took_s.values()), _MOST_S)
