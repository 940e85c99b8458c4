"""The engine that runs chunks of messages on Spark's real-time mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wallaroo.dataflow.program import Program
from wallaroo.engine.base import EngineSettings, Launch, OnBatch
from wallaroo.engine.gateway_api import GatewayAPI
from wallaroo.engine.realtime.checkpoint import (
    check_partitions,
    check_that_spark_has_all,
    has_begun,
    is_imported,
    place_of,
)
from wallaroo.engine.realtime.jar import jar
from wallaroo.engine.realtime.placement import is_local
from wallaroo.engine.realtime.running import RunningRealTime
from wallaroo.engine.realtime.settings import SETTINGS, local_master, slots_of
from wallaroo.engine.realtime.stopped import Stopped, session_for
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark.checkpoint import owner
from wallaroo.engine.spark.checkpoint.files import check_files
from wallaroo.engine.spark.checkpoint.leftovers import remove_leftovers
from wallaroo.engine.spark.checkpoint.partitions import (
    has_batch,
    is_needed,
    last_batch,
    repartition,
)
from wallaroo.engine.spark.checkpoint.progress import run_of
from wallaroo.engine.spark.checkpoint.reader import last_commit
from wallaroo.engine.spark.engine import SparkEngine, executor_environment
from wallaroo.engine.spark.kubernetes import SLOTS_VARIABLE
from wallaroo.engine.spark.session import Launch as SparkLaunch
from wallaroo.engine.spark.session import SparkSettings
from wallaroo.engine.spark.user_settings import check
from wallaroo.engine.stored import LastBatch, StateLayout
from wallaroo.wire.checkpoint_progress import CheckpointProgress
from wallaroo.wire.chunk_messages import Place
from wallaroo.wire.records import JOURNAL, Packed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ON_EXECUTORS = {
    # a task that fails is not tried again alone: the gateway has cut off the others
    "spark.task.maxFailures": "1",
    # a partition stays where its process is
    "spark.locality.wait": "3s",
}
_CORES, _CORES_REQUESTED = "spark.executor.cores", "spark.kubernetes.executor.request.cores"


class RealTime(SparkEngine):
    """Runs applications in chunks on Spark's real-time mode."""

    name = "real-time"

    def launch(self, settings: EngineSettings, layout: StateLayout, scratch: Path) -> SparkLaunch:
        """See `Engine.launch`."""
        check(settings.spark)
        chosen = {**SETTINGS, **settings.spark, **executor_environment(settings)}
        if is_local(settings.master):
            master = local_master(layout.partitions)
        else:
            master = settings.master
            chosen = {**_ON_EXECUTORS, **chosen, "spark.jars": _with_jar(chosen)}
            chosen["spark.executor.instances"] = str(settings.workers)
        if master.startswith("k8s://"):
            # one executor is enough, and the tasks are spread over all that are there; one task
            # more reads the state for a look-up
            chosen.setdefault(_CORES_REQUESTED, chosen.get(_CORES, "1"))
            slots = str(slots_of(layout.partitions) + 1)
            chosen[_CORES] = chosen[f"spark.executorEnv.{SLOTS_VARIABLE}"] = slots
        spark = SparkSettings(
            master, layout.partitions, scratch / "spark", settings.memory, chosen, (jar(),)
        )
        return SparkLaunch(layout.application, spark, (), Reports(reruns=False).spark_line)

    def start(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        gateway: GatewayAPI,
        launched: Launch,
        scratch: Path,
        on_batch: OnBatch = lambda _batch: None,
    ) -> RunningRealTime:
        """See `Engine.start`."""
        assert isinstance(launched, SparkLaunch)
        check_partitions(layout)
        owner.take(layout.checkpoint, self.name)
        remove_leftovers(layout.checkpoint)
        return RunningRealTime(settings, program, layout, gateway, launched, scratch, on_batch)

    def progress(self, checkpoint: Path) -> CheckpointProgress:
        """See `Engine.progress`."""
        owner.check(checkpoint, self.name)
        check_files(checkpoint)
        if not (checkpoint / "metadata").exists():
            return CheckpointProgress()
        place = place_of(checkpoint, last_commit(checkpoint))
        reached = {JOURNAL: place.offset}
        return CheckpointProgress(
            run_of(checkpoint),
            place.chunk,
            reached,
            place.opening,
            reached,
            published=place.chunk or -1,
            in_chunks=True,
        )

    def is_new(self, checkpoint: Path) -> bool:
        """See `Engine.is_new`."""
        return not (has_batch(checkpoint) or has_begun(checkpoint, Place()))

    @contextmanager
    def open(self, layout: StateLayout) -> Iterator[Stopped]:
        """See `Engine.open`."""
        with ExitStack() as opened:
            started: list[SparkSession] = []

            def session() -> SparkSession:
                if not started:
                    starts = session_for(layout.application, layout.partitions)
                    started.append(opened.enter_context(starts))
                return started[0]

            yield Stopped(session, layout)

    def write_rows(self, program: Program, packed: Iterable[Sequence[Packed]], rows: Path) -> None:
        """See `Engine.write_rows`."""
        from wallaroo.engine.realtime.state_import import write_rows

        write_rows(packed, rows)

    def import_progress(self, layout: StateLayout, name: str) -> Literal["none", "begun", "done"]:
        """See `Engine.import_progress`; Spark drops an import that was interrupted."""
        if is_imported(layout.checkpoint, name):
            return "done"
        check_partitions(layout)
        check_that_spark_has_all(layout)
        return "none"

    def last_batch(self, layout: StateLayout) -> LastBatch:
        """See `Engine.last_batch`."""
        checkpoint = layout.checkpoint
        if not has_batch(checkpoint):
            return LastBatch(-1, ended=False, partitions=layout.partitions)
        last = last_batch(checkpoint)
        place = place_of(checkpoint, last_commit(checkpoint))
        return last._replace(ended=last.ended and not has_begun(checkpoint, place))

    def repartition(self, layout: StateLayout, partitions: int, master: str, memory: str) -> None:
        """See `Engine.repartition`."""
        check_that_spark_has_all(layout)
        if last_commit(layout.checkpoint) is not None and is_needed(layout.checkpoint, partitions):
            with session_for("repartition", partitions, master, memory) as session:
                repartition(session, layout.checkpoint, partitions)


def _with_jar(chosen: Mapping[str, str]) -> str:
    """The jars that executors fetch from the driver: this engine's, and those that were chosen."""
    return ",".join([str(jar()), *filter(None, [chosen.get("spark.jars")])])
