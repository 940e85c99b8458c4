"""What engines on Spark have in common while no application runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wallaroo.engine.base import Engine, EngineSettings
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark import kubernetes
from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.engine.spark.session import Launch, SparkSettings
from wallaroo.system.pod import Pod

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine(Engine):
    """An engine whose state is in a checkpoint of Spark."""

    def on_kubernetes(
        self, pod: Pod, image: str, prefix: str, template: Path | None, secret_file: Path | None
    ) -> dict[str, str]:
        """See `Engine.on_kubernetes`."""
        os.environ["SPARK_LOCAL_IP"] = pod.ip
        return kubernetes.settings(pod, image, prefix, template, secret_file)

    def settle(self, checkpoint: Path) -> bool:
        """See `Engine.settle`."""
        return relocate(checkpoint)


def executor_environment(settings: EngineSettings) -> dict[str, str]:
    """Spark's settings for the environment variables of the workers."""
    return {f"spark.executorEnv.{name}": value for name, value in settings.environment.items()}


@contextmanager
def session_for(
    name: str,
    master: str,
    partitions: int,
    memory: str = "1g",
    spark: Mapping[str, str] | None = None,
    jars: Sequence[Path] = (),
) -> Iterator[SparkSession]:
    """A Spark for the state of an application that does not run.

    Args:
        name: What it is called.
        master: Spark master URL.
        partitions: Partitions of the state.
        memory: Its Java heap.
        spark: Additional Spark settings.
        jars: Additional jars of the driver.
    """
    with tempfile.TemporaryDirectory(prefix="wallaroo-") as scratch:
        settings = SparkSettings(
            master, partitions, Path(scratch, "spark"), memory, spark or {}, tuple(jars)
        )
        session = Launch(name, settings, (), Reports().spark_line).finish()
        try:
            yield session.session
        finally:
            session.stop()
