"""The engine that runs chunks of messages on Spark's real-time mode."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from wallaroo.dataflow.packing import Packed
from wallaroo.dataflow.program import Program
from wallaroo.dataflow.records import JOURNAL
from wallaroo.engine.base import (
    Engine,
    EngineSettings,
    LastBatch,
    Launch,
    OnBatch,
    StateLayout,
    StoppedState,
)
from wallaroo.engine.gateway_api import CheckpointProgress, Connect
from wallaroo.engine.realtime import refusals
from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.realtime.messages import Addressed, Place
from wallaroo.engine.realtime.placement import is_local
from wallaroo.engine.realtime.running import RunningRealTime
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark import kubernetes
from wallaroo.engine.spark.checkpoint import owner
from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.engine.spark.session import Launch as SparkLaunch
from wallaroo.engine.spark.session import SparkSettings
from wallaroo.system.pod import Pod

_SETTINGS = {
    # each row leaves at once, and the thread that flushes buffers sleeps
    "spark.shuffle.streaming.networkBufferSize": "32",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1000",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.plugins": "wallaroo.realtime.Plugin",
    "spark.wallaroo.python": sys.executable,
}
_ON_EXECUTORS = {
    # a task that fails is not tried again alone: the gateway has cut off the others
    "spark.task.maxFailures": "1",
    # a partition stays where its process is
    "spark.locality.wait": "3s",
}
_CORES, _CORES_REQUESTED = "spark.executor.cores", "spark.kubernetes.executor.request.cores"


class RealTime(Engine):
    """Runs applications in chunks on Spark's real-time mode."""

    name = "real-time"
    takes_chunks = True

    def launch(self, settings: EngineSettings, layout: StateLayout, scratch: Path) -> SparkLaunch:
        """See `Engine.launch`."""
        slots = layout.partitions + 1  # all tasks run at once, and mostly wait
        chosen = {**_SETTINGS, **settings.spark}
        chosen |= {
            f"spark.executorEnv.{name}": value for name, value in settings.environment.items()
        }
        if is_local(settings.master):
            master = f"local[{slots},1]"
        else:
            master = settings.master
            chosen = {**_ON_EXECUTORS, **chosen, "spark.jars": _with_jar(chosen)}
            chosen["spark.executor.instances"] = str(settings.workers)
        if master.startswith("k8s://"):
            # one executor is enough, and the tasks are spread over all that are there
            chosen.setdefault(_CORES_REQUESTED, chosen.get(_CORES, "1"))
            chosen[_CORES] = str(slots)
        spark = SparkSettings(
            master, layout.partitions, scratch / "spark", settings.memory, chosen, (jar(),)
        )
        return SparkLaunch(layout.application, spark, (), Reports().spark_line)

    def start(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        connect: Connect,
        launched: Launch,
        scratch: Path,
        on_batch: OnBatch = lambda _batch: None,
    ) -> RunningRealTime:
        """See `Engine.start`."""
        assert isinstance(launched, SparkLaunch)
        refusals.check(program)
        assert isinstance(connect, Addressed)
        owner.take(layout.checkpoint, self.name)
        return RunningRealTime(settings, program, layout, connect, launched, scratch, on_batch)

    def on_kubernetes(
        self, pod: Pod, image: str, prefix: str, template: Path | None, token_file: Path
    ) -> dict[str, str]:
        """See `Engine.on_kubernetes`."""
        os.environ["SPARK_LOCAL_IP"] = pod.ip
        return kubernetes.settings(pod, image, prefix, template, token_file)

    def progress(self, checkpoint: Path) -> CheckpointProgress:
        """See `Engine.progress`."""
        owner.check(checkpoint, self.name)
        offsets = checkpoint / "offsets"
        numbers = [int(file.name) for file in offsets.glob("*") if file.name.isdecimal()]
        if not numbers:
            return CheckpointProgress()
        text = (offsets / str(max(numbers))).read_text()
        place = Place.from_json(text.splitlines()[-1])
        run = (checkpoint / "metadata").read_text()
        # what the outbox has published, the gateway compares when the query begins
        reached = {JOURNAL: place.offset}
        return CheckpointProgress(run, max(numbers), reached, place.opening, reached)

    def settle(self, checkpoint: Path) -> bool:
        """See `Engine.settle`."""
        return relocate(checkpoint)

    def open(self, layout: StateLayout) -> AbstractContextManager[StoppedState]:
        """See `Engine.open`."""
        refusals.refuse("a look at the state of a stopped application")

    def write_rows(self, program: Program, packed: Iterable[Sequence[Packed]], rows: Path) -> None:
        """See `Engine.write_rows`."""
        refusals.refuse("an import of state")

    def import_progress(self, checkpoint: Path, name: str) -> Literal["none", "begun", "done"]:
        """See `Engine.import_progress`."""
        refusals.refuse("an import of state")

    def last_batch(self, checkpoint: Path) -> LastBatch:
        """See `Engine.last_batch`."""
        refusals.refuse("another number of partitions")

    def repartition(self, layout: StateLayout, partitions: int, master: str, memory: str) -> None:
        """See `Engine.repartition`."""
        refusals.refuse("another number of partitions")


def _with_jar(chosen: Mapping[str, str]) -> str:
    """The jars that executors fetch from the driver: this engine's, and those that were chosen."""
    return ",".join([str(jar()), *filter(None, [chosen.get("spark.jars")])])
