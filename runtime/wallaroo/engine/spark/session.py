"""A Spark session set up for short batches of large rows, and why each setting is as it is."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.spark.cause import cause_of
from wallaroo.engine.spark.java import start_java, stop_java
from wallaroo.errors import RuntimeFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STREAMING = "org.apache.spark.sql.execution.streaming"

_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # nothing listens beyond this machine unless the master asks for it
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "wallaroo.engine.spark.daemon",
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
    # a failed task means a failed batch, which is done over with the query's restart
    "spark.task.maxFailures": "4",
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


class Spark:
    """Spark, started by `start_session`.

    Args:
        session: The session.
        java: Its virtual machine.
    """

    def __init__(self, session: SparkSession, java: subprocess.Popen[bytes]) -> None:
        self.session = session
        self._java = java

    def stop(self) -> None:
        """Stop Spark and its virtual machine."""
        self.session.stop()
        stop_java(self._java)


def start_session(
    name: str,
    settings: SparkSettings,
    python_path: Sequence[str],
    log_line: Callable[[str], None],
) -> Spark:
    """Start Spark.

    Args:
        name: Name of the application.
        settings: How to start it.
        python_path: Directories that workers must be able to import from.
        log_line: Called with each line that Spark or a worker prints.

    Raises:
        UsageError: There is no usable Java.
        RuntimeFailure: Spark did not start.
    """
    # workers must run this interpreter, with what it can import
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java_options = shlex.split(settings.extra.get("spark.driver.extraJavaOptions", ""))
    java = start_java(settings.memory, java_options, log_line)

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(settings.master).appName(name)
    builder = builder.config("spark.sql.shuffle.partitions", str(settings.partitions))
    builder = builder.config("spark.local.dir", str(settings.local_dir))
    for setting, value in {**_SETTINGS, **settings.extra}.items():
        builder = builder.config(setting, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        msg = f"Spark did not start on {settings.master}: {cause_of(str(error))}"
        raise RuntimeFailure(msg) from error
    _no_checksum_files(session)
    return Spark(session, java)


def _no_checksum_files(session: SparkSession) -> None:
    """Spare Hadoop's `.crc` file, and the fork that sets its mode, for each file of a checkpoint.

    State and logs carry checksums of their own (RocksDB) or are read back whole.
    """
    java = session._jvm
    configuration = session._jsc.hadoopConfiguration()
    local = java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI("file:///"), configuration)
    local.setWriteChecksum(False)
