"""Figures of the open windows of one bucket: how many there are, and how far time has come."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wallaroo.model.windows import Windows
from wallaroo.wire.task_metrics import WindowFigures

_NEVER = float("-inf")


class OpenWindows:
    """Counts the open windows of a bucket, as those of its keys change.

    Example:
        >>> from wallaroo.model.windows import CountWindows
        >>> windows = CountWindows(5, None, aggregation=None)
        >>> entity, found = windows.new_entity(), OpenWindows()
        >>> before = windows.open_windows(entity)
        >>> entity.messages = 1
        >>> found.note(0, windows, entity, before)
        >>> found.figures(0)
        WindowFigures(open=1, watermark_ns=None)
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = defaultdict(int)
        """Open windows by partition."""
        self._watermarks: dict[int, int] = {}
        """The latest watermark by partition."""

    def note(self, partition: int, windows: Windows, entity: Any, before: int) -> None:
        """Note the *windows* of a key in *partition*, which *entity* holds.

        Args:
            partition: Number of the partition.
            windows: The windows.
            entity: The entity of the key.
            before: How many were open when they were noted last.
        """
        self._open[partition] += windows.open_windows(entity) - before
        watermark = windows.watermark(entity)
        if watermark is not None and watermark > self._watermarks.get(partition, _NEVER):
            self._watermarks[partition] = watermark

    def figures(self, partition: int) -> WindowFigures:
        """Return the figures of *partition*."""
        return WindowFigures(self._open[partition], self._watermarks.get(partition))
