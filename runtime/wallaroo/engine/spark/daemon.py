"""The process from which Spark's Python workers are forked, with all modules preloaded.

A worker forked from PySpark's daemon would first have to import PySpark, Arrow and the runtime,
which takes more than a second of processor time while the first messages wait.
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
"""The module that runs tasks; Spark starts other daemons for work that does not need it."""
_NEEDED = (
    _WORKER,
    "pyarrow.flight",
    "pandas",
    "wallaroo.engine.microbatch.processor",
)


def preload() -> None:
    """Import the modules that workers need.

    Threads do not survive a fork; the libraries for linear algebra and memory allocation restart
    theirs.
    """
    for name in _NEEDED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # otherwise the first collection in each worker would copy all pages


def main() -> NoReturn:
    """Serve Spark with the protocol of `pyspark.daemon`, until Spark ends."""
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
