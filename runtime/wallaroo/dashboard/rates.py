"""Rates and percentiles, from what counters and histograms showed a moment ago and show now."""

from __future__ import annotations

from collections.abc import Sequence


def rate(before: float, now: float, seconds: float) -> float:
    """What a counter counts in a second.

    Example:
        >>> rate(100, 150, 2.0)
        25.0
    """
    return max(0.0, now - before) / seconds if seconds > 0 else 0.0


def percentile(part: float, counts: Sequence[int], bounds: Sequence[float]) -> float | None:
    """The value under which *part* of all values lie, as near as the classes tell; None of none.

    Args:
        part: From 0 to 1.
        counts: Values in each class; the last has no upper bound.
        bounds: Upper bounds of the others.

    Example:
        >>> percentile(0.5, [0, 10, 0], [1.0, 2.0])
        1.5
        >>> percentile(0.99, [0, 0, 7], [1.0, 2.0])
        2.0
    """
    total = sum(counts)
    if total == 0:
        return None
    wanted, seen, lower = part * total, 0, 0.0
    for count, bound in zip(counts, bounds, strict=False):
        if count and seen + count >= wanted:
            return lower + (bound - lower) * (wanted - seen) / count
        seen, lower = seen + count, bound
    return bounds[-1]
