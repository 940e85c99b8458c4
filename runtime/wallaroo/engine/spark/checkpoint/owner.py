"""Which engine a checkpoint belongs to: their queries keep state alike, but not positions."""

from __future__ import annotations

from pathlib import Path

from wallaroo.errors import UsageError, damaged

_FILE = "engine"
"""File with the engine's name; a checkpoint without it is of the engine that came first."""
_FIRST = "micro-batch"
_NOT_OF_FIRST = ("begun", "noted")
"""Marks in checkpoints of the other engine."""
_ENGINES = (_FIRST, "real-time")


def take(checkpoint: Path, engine: str) -> None:
    """Make a new *checkpoint* that of *engine*."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / _FILE).write_text(engine)


def owner_of(checkpoint: Path) -> str | None:
    """Name of the engine that *checkpoint* belongs to; None if it is new.

    Raises:
        DamagedFile: The file with the name is damaged.
    """
    if not (checkpoint / "metadata").exists():
        return None
    file = checkpoint / _FILE
    if not file.exists():
        if any((checkpoint / name).exists() for name in _NOT_OF_FIRST):
            raise damaged(file, "it is missing")
        return _FIRST
    name = file.read_bytes().decode(errors="replace")
    if name not in _ENGINES:
        raise damaged(file, f"{name!r:.50} is no engine")
    return name


def check(checkpoint: Path, engine: str) -> None:
    """Refuse a *checkpoint* of another engine than *engine*.

    Raises:
        UsageError: It is one.
    """
    owner = owner_of(checkpoint)
    if owner not in (None, engine):
        msg = (
            f"the state in {checkpoint} is of the {owner} engine: use --engine {owner}; or give "
            f"another --state-dir, into which `wallaroo state import --engine {engine}` brings the "
            "entities that `wallaroo state export` writes of this one"
        )
        raise UsageError(msg)
