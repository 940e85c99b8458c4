"""Rates and percentiles, from the difference between two readings of counters and histograms."""

from __future__ import annotations

from collections.abc import Sequence


def rate(before: float, now: float, seconds: float) -> float:
    """The increase of a counter per second.

    Example:
        >>> rate(100, 150, 2.0)
        25.0
        >>> rate(100, 0, 2.0), rate(100, 150, 0.0)
        (0.0, 0.0)
    """
    return max(0.0, now - before) / seconds if seconds > 0 else 0.0


def percentile(part: float, counts: Sequence[int], bounds: Sequence[float]) -> float | None:
    """The value below which *part* of all values lie, interpolated; None if there are no values.

    Args:
        part: From 0 to 1.
        counts: Number of values in each bucket; the last bucket has no upper bound.
        bounds: Upper bounds of the other buckets.

    Example:
        >>> percentile(0.5, [0, 10, 0], [1.0, 2.0])
        1.5
        >>> percentile(0.99, [0, 0, 7], [1.0, 2.0])
        2.0
        >>> percentile(0.5, [0, 0, 0], [1.0, 2.0])
    """
    total = sum(counts)
    if total == 0:
        return None
    target, seen, lower = part * total, 0, 0.0
    for count, bound in zip(counts, bounds, strict=False):
        if count and seen + count >= target:
            return lower + (bound - lower) * (target - seen) / count
        seen, lower = seen + count, bound
    return bounds[-1]
