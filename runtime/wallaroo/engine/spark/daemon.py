"""What Spark's Python workers are forked from: a process that has loaded what they need.

One that is forked from PySpark's own daemon has yet to load PySpark, Arrow and the runtime, for a
second of processor time and more, while the first messages wait for it.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import NoReturn

from pyspark import daemon
from pyspark.serializers import write_with_length

from wallaroo.engine.spark.workers import Workers
from wallaroo.observability import log_channel

_WORKER = "pyspark.worker"
"""What runs tasks; Spark has daemons for other, smaller work, which need none of it."""
_NEEDED = (
    _WORKER,
    "pyarrow.flight",
    "pandas",
    "wallaroo.engine.microbatch.processor",
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


def main() -> NoReturn:
    """Serve Spark as `pyspark.daemon` does, by its protocol, until Spark is gone."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    place = Path(os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"], f".{uuid.uuid4()}.sock")

    def end(*_: object) -> NoReturn:
        place.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(0, signal.SIGHUP)  # to the workers
        sys.exit()

    signal.signal(signal.SIGTERM, end)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen(1024)
        with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as spark:
            write_with_length(str(place).encode(), spark)
        log_channel.take_over()
        Workers(listener, sys.stdin.fileno(), _run).serve()
    end()


def _run(connection: socket.socket) -> bool:
    return bool(daemon.worker(connection, authenticated=True) == 0)


if __name__ == "__main__":
    authenticated = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true"
    if sys.argv[1:2] == [_WORKER]:
        preload()
        if authenticated:  # by who may open the socket; a port asks for a secret first
            main()
    daemon.manager()
