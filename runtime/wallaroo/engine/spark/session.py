"""A Spark session set up for short batches of large rows, and why each setting is as it is."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.spark.errors import cause_of
from wallaroo.engine.spark.java import Java
from wallaroo.errors import RuntimeFailure, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_END_KNOWN_S = 1.0
"""Time for the end of a virtual machine to be known, of which calls say only that it is away."""
_STREAMING = "org.apache.spark.sql.execution.streaming"

_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # nothing listens beyond this machine unless the master asks for it
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "wallaroo.engine.spark.daemon",
    # it is in the environment of readers' workers alone, and workers whose environments differ are
    # forked from daemons of their own: twice the processes
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # rows are large and few: compressing them between two processes of one machine only costs
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # one stage after the other, at once: waiting for a better place costs more than it gains
    "spark.locality.wait": "0s",
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    # transformWithState needs RocksDB; its changelog makes a commit cost what has changed
    "spark.sql.streaming.stateStore.providerClass": (
        f"{_STREAMING}.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # the other manager forks `readlink` some forty times a batch
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # a second file, and a second fork, for each file of a checkpoint
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # for pieces of 16 MiB and more, Arrow takes memory from the system anew each time
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1024**2),
    # a failed task means a failed batch, which is done over with the query's restart
    "spark.task.maxFailures": "4",
    # What a lost executor has left for others is not made again while some tasks have used it
    # already: user code may give something else the second time. The whole batch runs again.
    "spark.stage.maxConsecutiveAttempts": "1",
}


@dataclass(frozen=True)
class SparkSettings:
    """How Spark is started."""

    master: str
    """Spark master URL, for example `local[2]`."""
    partitions: int
    """Partitions of the exchange and of the state; a checkpoint keeps to its first."""
    local_dir: Path
    """Directory for Spark's scratch files."""
    memory: str = "1g"
    """Heap of the driver's virtual machine: rows pass through it in blocks, none are kept."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark, which win over the runtime's own."""
    jars: tuple[Path, ...] = ()
    """Jars that Spark's driver needs besides its own."""


class Spark:
    """Spark, as `Launch` leaves it.

    Args:
        session: The session.
        java: Its virtual machine.
    """

    def __init__(self, session: SparkSession, java: Java) -> None:
        self.session = session
        self._java = java

    def is_alive(self) -> bool:
        """Whether its virtual machine runs."""
        return self._java.is_alive()

    def ended(self) -> str | None:
        """How its virtual machine ended by itself, and what to do; None while it runs."""
        return self._java.ended(_END_KNOWN_S)

    def will_stop(self) -> None:
        """Let Spark complain unheard from now on: work under way is broken off."""
        self._java.will_end()

    def stop(self) -> None:
        """Stop Spark and its virtual machine."""
        self.will_stop()
        self.session.stop()
        self._java.stop()

    def kill(self) -> None:
        """End its virtual machine, and with it all that Spark does, at once."""
        self._java.kill()

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Stop Spark where the block, which starts something on it, fails.

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
    """Spark on its way: its virtual machine starts at once, and the caller may use those seconds.

    Args:
        name: Name of the application.
        settings: How to start it.
        python_path: Directories that workers must be able to import from.
        log_line: Called with each line that Spark or a worker prints.

    Raises:
        UsageError: There is no usable Java, or Spark runs in this process already.
    """

    def __init__(
        self,
        name: str,
        settings: SparkSettings,
        python_path: Sequence[str] = (),
        log_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        # PySpark has one virtual machine a process: the first would be used, and stopped with this
        if "pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._gateway is not None:
            msg = (
                f"{name!r} cannot start Spark: this process runs Spark already; use another process"
            )
            raise UsageError(msg)
        # workers must run this interpreter, with what it can import
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [*python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        self._name, self._settings = name, settings
        options = shlex.split(settings.extra.get("spark.driver.extraJavaOptions", ""))
        self._java = Java(settings.memory, options, log_line, settings.jars)

    def finish(self) -> Spark:
        """Wait until Spark is there.

        Raises:
            RuntimeFailure: It did not start; its virtual machine is stopped.
        """
        from pyspark.sql import SparkSession  # Java starts meanwhile

        settings = self._settings
        try:
            self._java.connect()
            builder = SparkSession.builder.master(settings.master).appName(self._name)
            builder = builder.config("spark.sql.shuffle.partitions", str(settings.partitions))
            builder = builder.config("spark.local.dir", str(settings.local_dir))
            for setting, value in {**_SETTINGS, **settings.extra}.items():
                builder = builder.config(setting, value)
            _quiet_accumulators()
            with _signals_left_alone():
                session = builder.getOrCreate()
            _no_checksum_files(session)
            _no_installed_sources(session)
        except Exception as error:
            ended = self._java.ended(_END_KNOWN_S)
            self._java.stop()
            if isinstance(error, RuntimeFailure):
                raise
            cause = ended or cause_of(str(error))
            msg = f"Spark did not start on {settings.master}: {cause}"
            raise RuntimeFailure(msg) from error
        return Spark(session, self._java)

    def stop(self) -> None:
        """End what has started of it, at once; does nothing to what has stopped."""
        if self._java.is_alive():
            self._java.kill()
        self._java.stop()


def _quiet_accumulators() -> None:
    """Keep PySpark from printing tracebacks where its connection for counts ends with Java."""
    from pyspark import accumulators

    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = lambda *_: None


@contextlib.contextmanager
def _signals_left_alone() -> Iterator[None]:
    """Inside the block, keep PySpark from taking Ctrl-C: that is for whoever starts it."""
    from pyspark.core import context

    given = context.signal
    nothing = types.SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda _number, _handler: None)
    context.signal = nothing
    try:
        yield
    finally:
        context.signal = given


def _no_checksum_files(session: SparkSession) -> None:
    """Spare Hadoop's `.crc` file, and the fork that sets its mode, for each file of a checkpoint.

    State and logs carry checksums of their own (RocksDB) or are read back whole.
    """
    java = session._jvm
    configuration = session._jsc.hadoopConfiguration()
    local = java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI("file:///"), configuration)
    local.setWriteChecksum(False)


def _no_installed_sources(session: SparkSession) -> None:
    """Spare two processes that look for data sources in Python packages of certain names."""
    java = session._jvm
    manager = getattr(java.org.apache.spark.sql.execution.datasources, "DataSourceManager$")
    none = java.PythonUtils.toScalaMap(java.java.util.HashMap())
    getattr(getattr(manager, "MODULE$"), "dataSourceBuilders_$eq")(java.scala.Option.apply(none))
