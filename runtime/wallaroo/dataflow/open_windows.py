"""Figures of the open windows of one bucket: how many there are, and how far time has come."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from wallaroo.model.windows import Windows

_NEVER = float("-inf")


class WindowFigures(NamedTuple):
    """Figures of the windows of one state in one bucket."""

    open: int
    """Number of open windows with messages."""
    watermark_ns: int | None
    """The latest watermark of a key since the bucket was opened; None if there is none."""


class OpenWindows:
    """Counts the open windows of a bucket, key by key, as they change.

    Example:
        >>> from wallaroo.model.windows import CountWindows
        >>> windows = CountWindows(5, None, None)
        >>> entity, found = windows.new_entity(), OpenWindows()
        >>> entity.messages = 1
        >>> found.note(0, "a", windows, entity)
        >>> found.figures(0)
        WindowFigures(open=1, watermark_ns=None)
        >>> found.forget(0, "a")
        >>> found.figures(0).open
        0
    """

    def __init__(self) -> None:
        self._of_key: dict[tuple[int, Any], int] = {}
        """Open windows by partition and key, if there are any."""
        self._open: dict[int, int] = defaultdict(int)
        """Open windows by partition."""
        self._watermarks: dict[int, int] = {}
        """The latest watermark by partition."""

    def note(self, partition: int, key: Any, windows: Windows, entity: Any) -> None:
        """Note the *windows* of *key* in *partition*, which *entity* holds."""
        count = windows.open_windows(entity)
        if count != self._of_key.get((partition, key), 0):
            self._set(partition, key, count)
        watermark = windows.watermark(entity)
        if watermark is not None and watermark > self._watermarks.get(partition, _NEVER):
            self._watermarks[partition] = watermark

    def forget(self, partition: int, key: Any) -> None:
        """Note that *key* of *partition* has no windows any more."""
        self._set(partition, key, 0)

    def figures(self, partition: int) -> WindowFigures:
        """Return the figures of *partition*."""
        return WindowFigures(self._open[partition], self._watermarks.get(partition))

    def _set(self, partition: int, key: Any, count: int) -> None:
        self._open[partition] += count - self._of_key.pop((partition, key), 0)
        if count:
            self._of_key[partition, key] = count
