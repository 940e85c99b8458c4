"""The engines by name."""

from __future__ import annotations

import importlib

from wallaroo.engine.base import Engine
from wallaroo.errors import UsageError

DEFAULT = "micro-batch"
"""Name of the engine that runs an application unless another one is asked for."""
_ENGINES = {"micro-batch": "wallaroo.engine.microbatch.engine:MicroBatch"}
"""Where each engine is: its modules are loaded when it is asked for."""


def engine(name: str = DEFAULT) -> Engine:
    """The engine called *name*.

    Raises:
        UsageError: There is no such engine.

    Example:
        >>> engine().name
        'micro-batch'
        >>> engine("batch")
        Traceback (most recent call last):
            ...
        wallaroo.errors.UsageError: there is no engine 'batch'; choose one of: micro-batch
    """
    if name not in _ENGINES:
        msg = f"there is no engine {name!r}; choose one of: {', '.join(_ENGINES)}"
        raise UsageError(msg)
    module, _, kind = _ENGINES[name].partition(":")
    found: Engine = getattr(importlib.import_module(module), kind)()
    return found
