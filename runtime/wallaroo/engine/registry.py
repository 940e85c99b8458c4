"""The engines by name."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from wallaroo.engine.base import Engine
from wallaroo.engine.spark.checkpoint.owner import check, owner_of
from wallaroo.errors import UsageError

DEFAULT = "real-time"
"""Name of the default engine."""
VARIABLE = "WALLAROO_ENGINE"
"""Environment variable with the name of another engine."""
ENGINES = {
    "real-time": "wallaroo.engine.realtime.engine:RealTime",
}
"""Module and class of each engine; modules are imported on demand."""


def engine(name: str | None = None) -> Engine:
    """Return the engine *name*; None for the one that the environment names, or the default.

    Raises:
        UsageError: The engine does not exist.

    Example:
        >>> engine().name
        'real-time'
        >>> engine("batch")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        wallaroo.errors.UsageError: the engine 'batch' does not exist; use one of: ...
    """
    name = name or os.environ.get(VARIABLE) or DEFAULT
    if name not in ENGINES:
        msg = f"the engine {name!r} does not exist; use one of: {', '.join(ENGINES)}"
        raise UsageError(msg)
    module, _, kind = ENGINES[name].partition(":")
    created: Engine = getattr(importlib.import_module(module), kind)()
    return created


def engine_of(checkpoint: Path, name: str | None = None) -> Engine:
    """Return the engine that the state in *checkpoint* belongs to; if it is new, as `engine` does.

    Raises:
        UsageError: It belongs to another engine than *name*, or the engine does not exist.
    """
    if name is not None:
        check(checkpoint, name)
    return engine(name or owner_of(checkpoint))
