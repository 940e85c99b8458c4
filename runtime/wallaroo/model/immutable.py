"""Classes whose objects cannot change."""

from __future__ import annotations

IMMUTABLE: frozenset[type] = frozenset(
    {bool, bytes, complex, float, frozenset, int, str, type(None)}
)
"""The built-in ones."""
