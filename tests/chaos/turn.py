"""A turn of a run: which application on which engine, in which processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wallaroo.engine.registry import DEFAULT

_FOLDER = Path(__file__).parent / "applications"
ENGINES = ("micro-batch", "real-time")
APPLICATIONS = {name: _FOLDER / f"{name}.py" for name in ("counting", "levels", "windows")}
"""Their files, by name."""
TOGETHER, APART = "together", "apart"
SHAPES = (TOGETHER, APART)
"""`wallaroo run`, or `wallaroo gateway` and `wallaroo driver` with a network between them."""


@dataclass(frozen=True)
class Turn:
    """An application on an engine, in a shape."""

    engine: str = DEFAULT
    application: str = "counting"
    shape: str = TOGETHER

    def __str__(self) -> str:
        return f"{self.application} on {self.engine}, {self.shape}"

    def is_alike(self, other: Turn) -> bool:
        """Whether *other* is on the same engine."""
        return other.engine == self.engine

    @property
    def file(self) -> Path:
        """File of the application."""
        return APPLICATIONS[self.application]
