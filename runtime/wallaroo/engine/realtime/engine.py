"""Starts what an application runs on: Spark in its real-time mode, as chunks need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.realtime.placement import is_local
from wallaroo.engine.realtime.settings import SETTINGS, local_master, slots_of
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark.java import TUNING, Java
from wallaroo.engine.spark.kubernetes import SLOTS_VARIABLE
from wallaroo.engine.spark.s3 import jars_for, settings_for
from wallaroo.engine.spark.session import Launch, SparkSettings
from wallaroo.engine.spark.user_settings import check
from wallaroo.engine.stored import StateLayout

_ON_EXECUTORS = {
    # a task that fails is not tried again alone: the gateway has cut off the others
    "spark.task.maxFailures": "1",
    # a partition stays where its process is
    "spark.locality.wait": "3s",
}
_JAVA_OPTIONS = "spark.executor.defaultJavaOptions"
_CORES, _CORES_REQUESTED = "spark.executor.cores", "spark.kubernetes.executor.request.cores"


def launch(
    settings: EngineSettings, layout: StateLayout, scratch: Path, java: Java | None = None
) -> Launch:
    """Begin to start Spark; `RunningEngine` gets the same first arguments.

    *java* is its virtual machine, if it has been started already.

    Raises:
        UsageError: Something that it needs is not installed.
    """
    check(settings.spark)
    environment = {
        f"spark.executorEnv.{name}": value for name, value in settings.environment.items()
    }
    jars = (jar(), *jars_for(layout.checkpoint))
    local = is_local(settings.master)
    stored = settings_for(layout.checkpoint, scratch if local else None)
    chosen = {**SETTINGS, **stored, **settings.spark, **environment}
    if local:
        master = local_master(layout.partitions)
    else:
        master = settings.master
        chosen = {**_ON_EXECUTORS, **chosen, "spark.jars": _with_jars(jars, chosen)}
        chosen["spark.executor.instances"] = str(settings.workers)
    if master.startswith("k8s://"):
        # one executor is enough, and the tasks are spread over all that are there; one task
        # more reads the state for a look-up
        chosen.setdefault(_CORES_REQUESTED, chosen.get(_CORES, "1"))
        slots = str(slots_of(layout.partitions) + 1)
        chosen[_CORES] = chosen[f"spark.executorEnv.{SLOTS_VARIABLE}"] = slots
    elif not is_local(master):  # in pods, `wallaroo executor` starts Java with them
        chosen.setdefault(_JAVA_OPTIONS, " ".join(TUNING))
    spark = SparkSettings(
        master, layout.partitions, scratch / "spark", settings.memory, chosen, jars
    )
    return Launch(layout.application, spark, java)


def _with_jars(jars: Sequence[Path], chosen: Mapping[str, str]) -> str:
    """The jars that executors fetch from the driver: the engine's, and those that were chosen."""
    return ",".join([*map(str, jars), *filter(None, [chosen.get("spark.jars")])])
