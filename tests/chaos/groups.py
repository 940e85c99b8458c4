"""What a fault is, and of which runs it can be part."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.chaos.system import System
from tests.chaos.turn import APPLICATIONS, WITHOUT_TOPICS, Turn

Fault = Callable[[System, random.Random], bool]
"""Injects a fault; tells whether it could."""


@dataclass(frozen=True)
class Group:
    """Faults that fit the same applications and shapes."""

    faults: Mapping[str, Fault]
    """By name."""
    applications: frozenset[str] | None = None
    """Applications that they fit; None for all that are made for these tests."""
    shapes: frozenset[str] | None = None
    """Shapes that they fit; None for all without topics."""
    lacks: Callable[[], str | None] = lambda: None
    """Returns what this machine lacks for them; None if nothing."""

    def fits(self, turn: Turn) -> bool:
        """Whether they can be injected in *turn*."""
        chosen = (
            (APPLICATIONS if self.applications is None else self.applications, turn.application),
            (WITHOUT_TOPICS if self.shapes is None else self.shapes, turn.shape),
        )
        return turn.exists and all(name in known for known, name in chosen)
