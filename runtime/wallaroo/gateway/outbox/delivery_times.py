"""Times that sinks take to write, and the gap between chunks that follows from them."""

from __future__ import annotations

_WEIGHT = 0.2
"""Weight of the last time that a sink took, of all."""
_SHARE = 0.6
"""Gap between chunks, as a share of the time that the fastest sink takes: a smaller one costs more
processor time, a larger one delays outputs."""
_MOST_S = 0.02
"""Longest gap, in seconds."""


class DeliveryTimes:
    """Average time that each sink takes to write, from taking outputs to knowing them safe.

    Outputs that are published while a sink is writing wait until it has finished. If that takes
    long, as a Kafka transaction does, more frequent chunks cost processor time without delivering
    outputs sooner.

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
        """Moving average in seconds, for each sink that has written since the start."""
        self.gap_s = 0.0
        """Gap between chunks, in seconds; any thread may read it."""

    def note(self, sink: int, took_s: float) -> None:
        """Note that the last write of *sink* took *took_s* seconds."""
        before = self._took_s.get(sink, 0.0)
        self._took_s[sink] = before + _WEIGHT * (took_s - before)
        self.gap_s = min(_SHARE * min(self._took_s.values()), _MOST_S)
