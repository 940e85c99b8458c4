"""The engines by name."""

from __future__ import annotations

import importlib
import os

from wallaroo.engine.base import Engine
from wallaroo.errors import UsageError

DEFAULT = "micro-batch"
"""Name of the engine that runs an application unless another one is asked for."""
VARIABLE = "WALLAROO_ENGINE"
"""Environment variable with the name of another one."""
ENGINES = {
    "micro-batch": "wallaroo.engine.microbatch.engine:MicroBatch",
    "real-time": "wallaroo.engine.realtime.engine:RealTime",
}
"""Where each engine is: its modules are loaded when it is asked for."""


def engine(name: str | None = None) -> Engine:
    """The engine called *name*; None for the one that the environment asks for.

    Raises:
        UsageError: There is no such engine.

    Example:
        >>> engine().name
        'micro-batch'
        >>> engine("batch")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        wallaroo.errors.UsageError: there is no engine 'batch'; choose one of: micro-batch, ...
    """
    name = name or os.environ.get(VARIABLE) or DEFAULT
    if name not in ENGINES:
        msg = f"there is no engine {name!r}; choose one of: {', '.join(ENGINES)}"
        raise UsageError(msg)
    module, _, kind = ENGINES[name].partition(":")
    found: Engine = getattr(importlib.import_module(module), kind)()
    return found
