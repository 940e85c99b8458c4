"""The engines by name."""

from __future__ import annotations

import importlib

from wallaroo.engine.base import Engine
from wallaroo.errors import UsageError

DEFAULT = "micro-batch"
"""Name of the default engine."""
_ENGINES = {"micro-batch": "wallaroo.engine.microbatch.engine:MicroBatch"}
"""Module and class of each engine; modules are imported on demand."""


def engine(name: str = DEFAULT) -> Engine:
    """Return the engine *name*.

    Raises:
        UsageError: The engine does not exist.

    Example:
        >>> engine().name
        'micro-batch'
        >>> engine("batch")
        Traceback (most recent call last):
            ...
        wallaroo.errors.UsageError: the engine 'batch' does not exist; use one of: micro-batch
    """
    if name not in _ENGINES:
        msg = f"the engine {name!r} does not exist; use one of: {', '.join(_ENGINES)}"
        raise UsageError(msg)
    module, _, kind = _ENGINES[name].partition(":")
    created: Engine = getattr(importlib.import_module(module), kind)()
    return created
