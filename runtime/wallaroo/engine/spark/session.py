"""A Spark session that moves few, large rows and keeps state, with the reasons for its settings."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.spark.errors import cause_of
from wallaroo.engine.spark.java import Java
from wallaroo.engine.spark.protection import protected
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.system.private_files import DIRECTORY_MODE, MASK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_END_KNOWN_S = 1.0
"""Time to wait for the exit code of a virtual machine after a call to it has failed."""
_SOCKET_PATH, _SOCKET_NAME = 104, 48
"""Bytes of a Unix socket's path on the strictest system, and of the names that Spark makes."""
_STREAMING = "org.apache.spark.sql.execution.streaming"

SPARK_LEVEL = "ERROR"
"""The lowest level of log messages of Spark that are shown."""
_SETTINGS: Mapping[str, str] = {
    # PySpark's server of accumulators would listen on a port
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": SPARK_LEVEL,
    # nothing listens beyond this machine unless the master asks for it
    # compressing few, large rows between processes on one machine has no benefit
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    # to compile code for few rows takes seconds of a start
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # transformWithState requires RocksDB; with changelogs, a commit costs only what has changed
    "spark.sql.streaming.stateStore.providerClass": (
        f"{_STREAMING}.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # the default manager forks `readlink` about forty times per epoch
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # this would cost a second file for each file of a checkpoint; `check_files` reads those that
    # Spark begins with
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Hadoop sets the modes of what it creates, by its own umask
    "spark.hadoop.fs.permissions.umask-mode": f"{MASK:03o}",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
}


@dataclass(frozen=True)
class SparkSettings:
    """Settings with which Spark is started."""

    master: str
    """Spark master URL, for example `local[2]`."""
    partitions: int
    """Number of partitions of the exchange and of the state; fixed once a checkpoint exists."""
    local_dir: Path
    """Directory for Spark's scratch files."""
    memory: str = "1g"
    """Heap size of the driver's virtual machine."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Additional Spark settings, which override those of the runtime."""
    jars: tuple[Path, ...] = ()
    """Additional jars of Spark's driver."""


class Spark:
    """Running Spark, as started by `Launch`.

    Args:
        session: The session.
        java: Its virtual machine.
    """

    def __init__(self, session: SparkSession, java: Java) -> None:
        self.session = session
        self._java = java

    def is_alive(self) -> bool:
        """Whether its virtual machine is running."""
        return self._java.is_alive()

    def ended(self) -> str | None:
        """Return how its virtual machine ended by itself, and what to do; None while it runs."""
        return self._java.ended(_END_KNOWN_S)

    def will_stop(self) -> None:
        """Suppress Spark's error messages from now on, because running work will be interrupted."""
        self._java.will_end()

    def stop(self) -> None:
        """Stop Spark and its virtual machine."""
        self.will_stop()
        self.session.stop()
        self._java.stop()

    def kill(self) -> None:
        """Kill its virtual machine."""
        self._java.kill()

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Stop Spark if the block fails.

        Raises:
            RuntimeFailure: Its virtual machine has ended.
        """
        try:
            yield
        except Exception as error:
            ended = self.ended()
            if ended is None:
                self.stop()
                raise
            self.kill()
            raise RuntimeFailure(ended) from error


class Launch:
    """Starts Spark: its virtual machine starts immediately, in parallel to other work.

    Args:
        name: Name of the application.
        settings: Settings of Spark.
        java: Its virtual machine, if it has been started already, with the same settings.

    Raises:
        UsageError: Java did not start, see `Java.of_driver`, or Spark is already running in this
            process.
    """

    def __init__(self, name: str, settings: SparkSettings, java: Java | None = None) -> None:
        # PySpark has one virtual machine per process: an existing one would be reused, and stopped
        if "pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._gateway is not None:
            msg = (
                f"{name!r} cannot start Spark, because it is already running in this process; "
                "use another process"
            )
            raise UsageError(msg)
        self._name, self._settings = name, settings
        self._spark: Spark | None = None
        self._java = java or Java.of_driver(settings.extra, settings.memory, settings.jars)

    def finish(self) -> Spark:
        """Wait until Spark is ready; may be called again.

        Raises:
            RuntimeFailure: It did not start; its virtual machine has been stopped.
        """
        if self._spark is None:
            self._spark = self._finish()
        return self._spark

    def _finish(self) -> Spark:
        from pyspark.sql import SparkSession  # imported while Java starts

        settings = self._settings
        try:
            self._java.connect()
            builder = SparkSession.builder.master(settings.master).appName(self._name)
            builder = builder.config("spark.sql.shuffle.partitions", str(settings.partitions))
            builder = builder.config("spark.local.dir", str(settings.local_dir))
            chosen = {
                **_SETTINGS,
                **_sockets_in(settings.local_dir, settings.master),
                **protected(settings.master),
                **settings.extra,
            }
            for setting, value in chosen.items():
                builder = builder.config(setting, value)
            _quiet_accumulators()
            _no_values_of_numpy()
            with _signal_handlers_kept():
                session = builder.getOrCreate()
            _no_checksum_files(session)
            _no_installed_sources(session)
        except Exception as error:
            ended = self._java.ended(_END_KNOWN_S)
            cause = ended or cause_of(str(error))  # which asks Java for the text
            self._java.stop()
            if isinstance(error, RuntimeFailure):
                raise
            msg = f"Spark did not start on {settings.master}: {cause}"
            raise RuntimeFailure(msg) from error
        return Spark(session, self._java)

    def again(self) -> Spark:
        """Start it again after its virtual machine has ended; returns when it is ready.

        Raises:
            RuntimeFailure: It did not start; its virtual machine has been stopped.
            UsageError: As for the first start.
        """
        settings, ended, self._spark = self._settings, self._java, None
        self._java = Java.of_driver(settings.extra, settings.memory, settings.jars)
        ended.kill()
        return self.finish()

    def stop(self) -> None:
        """Stop what has been started, immediately; may be called again."""
        self._java.discard()


@contextlib.contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Within the block, keep PySpark from handling Ctrl-C, which is up to the caller."""
    from pyspark.core import context

    original = context.signal
    stub = types.SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda _number, _handler: None)
    context.signal = stub
    try:
        yield
    finally:
        context.signal = original


def _no_checksum_files(session: SparkSession) -> None:
    """Disable Hadoop's `.crc` files, each of which costs a fork to set its mode.

    State has checksums in RocksDB, and logs are read back completely.
    """
    java = session._jvm
    configuration = session._jsc.hadoopConfiguration()
    local = java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI("file:///"), configuration)
    local.setWriteChecksum(False)


def _no_installed_sources(session: SparkSession) -> None:
    """Avoid two processes that search Python packages for data sources."""
    java = session._jvm
    manager = getattr(java.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    none = java.PythonUtils.toScalaMap(java.java.util.HashMap())
    getattr(getattr(manager, "MODULE$"), "dataSourceBuilders_$eq")(java.scala.Option.apply(none))


def _sockets_in(directory: Path, master: str) -> dict[str, str]:
    """Settings that let PySpark's sockets be in *directory*, which is private.

    Those of executors are elsewhere, and a longer path would not fit in an address: then they are
    in `/tmp`.
    """
    fits = len(os.fsencode(directory)) + _SOCKET_NAME < _SOCKET_PATH
    if master.startswith("local") and fits:
        directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    else:
        directory = Path("/tmp")
    return {"spark.python.unix.domain.socket.dir": str(directory)}


def _no_values_of_numpy() -> None:
    """Keep PySpark from importing pandas, half a second, to see whether a string is an array."""
    from py4j import protocol

    protocol.INPUT_CONVERTER[:] = [
        converter
        for converter in protocol.INPUT_CONVERTER
        if not type(converter).__name__.startswith("Numpy")
    ]


def _quiet_accumulators() -> None:
    """Keep PySpark from printing tracebacks when Java closes its accumulator connection."""
    from pyspark import accumulators

    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = lambda *_: None
