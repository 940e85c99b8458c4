"""What Spark's Python workers are forked from: a process that has loaded what they need.

Spark ends a worker that had nothing to do for a minute. One that is forked from PySpark's own
daemon has yet to load PySpark, Arrow and the runtime, for a second of processor time and more,
while the first messages after a pause wait for it.
"""

from __future__ import annotations

import gc
import importlib
import sys

from pyspark import daemon

_WORKER = "pyspark.worker"
"""What runs tasks; Spark has daemons for other, smaller work, which need none of it."""
_NEEDED = (
    _WORKER,
    "pyarrow.flight",
    "pandas",
    "wallaroo.engine.spark.processor",
)


def preload() -> None:
    """Load what workers need.

    A thread that this starts is not there after a fork. Those that the libraries start, of linear
    algebra and of memory, are looked after by them.
    """
    for name in _NEEDED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else each worker's first collection would copy every page of it


if __name__ == "__main__":
    if sys.argv[1:2] == [_WORKER]:
        preload()
    daemon.manager()
