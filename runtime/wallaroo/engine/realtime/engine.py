"""The engine that runs chunks of messages on Spark's real-time mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from wallaroo.engine.realtime.messages import Addressed, Place, chunks_socket
from wallaroo.engine.realtime.running import RunningRealTime
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark.checkpoint import owner
from wallaroo.engine.spark.checkpoint.leftovers import remove_leftovers
from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.engine.spark.session import Launch as SparkLaunch
from wallaroo.engine.spark.session import SparkSettings
from wallaroo.system.pod import Pod

_SETTINGS = {
    # each row leaves at once, and the thread that flushes buffers sleeps
    "spark.shuffle.streaming.networkBufferSize": "32",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1000",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}


class RealTime(Engine):
    """Runs applications in chunks on Spark's real-time mode."""

    name = "real-time"

    def launch(self, settings: EngineSettings, layout: StateLayout, scratch: Path) -> SparkLaunch:
        """See `Engine.launch`."""
        refusals.check_master(settings.master)
        # all tasks run at once, and mostly wait
        master = f"local[{layout.partitions + 1},1]"
        chosen = {**_SETTINGS, **settings.spark}
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
        gateway = chunks_socket(connect.location)
        if gateway is None:
            refusals.refuse("--gateway")
        assert connect.claim is not None
        owner.take(layout.checkpoint, self.name)
        remove_leftovers(layout.checkpoint)
        return RunningRealTime(
            settings, program, layout, gateway, connect.claim, launched, scratch, on_batch
        )

    def on_kubernetes(
        self, pod: Pod, image: str, prefix: str, template: Path | None, token_file: Path
    ) -> dict[str, str]:
        """See `Engine.on_kubernetes`."""
        refusals.refuse("Kubernetes")

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
