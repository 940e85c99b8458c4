"""Which engine a checkpoint belongs to: their queries keep state alike, but not positions."""

from __future__ import annotations

from pathlib import Path

from wallaroo.errors import UsageError

_FILE = "engine"
"""File with the engine's name; a checkpoint without it is of the engine that came first."""
_FIRST = "micro-batch"


def take(checkpoint: Path, engine: str) -> None:
    """Make a new *checkpoint* that of *engine*."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / _FILE).write_text(engine)


def check(checkpoint: Path, engine: str) -> None:
    """Refuse a *checkpoint* of another engine than *engine*.

    Raises:
        UsageError: It is one.
    """
    if not (checkpoint / "metadata").exists():
        return
    file = checkpoint / _FILE
    owner = file.read_text() if file.exists() else _FIRST
    if owner != engine:
        msg = (
            f"the state in {checkpoint} is of the {owner} engine: use --engine {owner}, or give "
            "another --state-dir"
        )
        raise UsageError(msg)
