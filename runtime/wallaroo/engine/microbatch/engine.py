"""The engine that runs batches on Spark Structured Streaming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wallaroo.dataflow.packing import Packed
from wallaroo.dataflow.program import Program
from wallaroo.engine.base import EngineSettings, Launch, OnBatch
from wallaroo.engine.gateway_api import CheckpointProgress, Connect
from wallaroo.engine.microbatch.running import RunningMicroBatch
from wallaroo.engine.reports import Reports
from wallaroo.engine.spark.checkpoint import owner
from wallaroo.engine.spark.checkpoint.files import check_files
from wallaroo.engine.spark.checkpoint.partitions import (
    has_batch,
    is_needed,
    last_batch,
    repartition,
)
from wallaroo.engine.spark.checkpoint.progress import progress_of
from wallaroo.engine.spark.checkpoint.saved_state import CheckpointState
from wallaroo.engine.spark.engine import SparkEngine, executor_environment, session_for
from wallaroo.engine.spark.session import Launch as SparkLaunch
from wallaroo.engine.spark.session import SparkSettings
from wallaroo.engine.spark.user_settings import check
from wallaroo.engine.stored import LastBatch, StateLayout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class MicroBatch(SparkEngine):
    """Runs applications in batches of Structured Streaming."""

    name = "micro-batch"

    def launch(self, settings: EngineSettings, layout: StateLayout, scratch: Path) -> SparkLaunch:
        """See `Engine.launch`."""
        check(settings.spark)
        chosen = executor_environment(settings)
        if not settings.master.startswith("local"):
            chosen["spark.executor.instances"] = str(settings.workers)
        directory = settings.application.directory
        return SparkLaunch(
            layout.application,
            SparkSettings(
                settings.master,
                layout.partitions,
                scratch / "spark",
                settings.memory,
                {**chosen, **settings.spark},
            ),
            [str(directory)] if directory else [],
            Reports().spark_line,
        )

    def start(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        connect: Connect,
        launched: Launch,
        scratch: Path,
        on_batch: OnBatch = lambda _batch: None,
    ) -> RunningMicroBatch:
        """See `Engine.start`."""
        assert isinstance(launched, SparkLaunch)
        return RunningMicroBatch(settings, program, layout, connect, launched, scratch, on_batch)

    def progress(self, checkpoint: Path) -> CheckpointProgress:
        """See `Engine.progress`."""
        owner.check(checkpoint, self.name)
        check_files(checkpoint)
        return progress_of(checkpoint)

    def is_new(self, checkpoint: Path) -> bool:
        """See `Engine.is_new`."""
        return not has_batch(checkpoint)

    @contextmanager
    def open(self, layout: StateLayout) -> Iterator[_Stopped]:
        """See `Engine.open`."""
        with session_for(layout.application, "local[1]", layout.partitions) as session:
            yield _Stopped(session, layout.checkpoint)

    def write_rows(self, program: Program, packed: Iterable[Sequence[Packed]], rows: Path) -> None:
        """See `Engine.write_rows`."""
        from wallaroo.engine.microbatch.state_import import write_rows

        write_rows(program, packed, rows)

    def import_progress(self, layout: StateLayout, name: str) -> Literal["none", "begun", "done"]:
        """See `Engine.import_progress`."""
        from wallaroo.engine.microbatch.state_import import progress

        return progress(layout.checkpoint, name)

    def last_batch(self, layout: StateLayout) -> LastBatch:
        """See `Engine.last_batch`."""
        return last_batch(layout.checkpoint)

    def repartition(self, layout: StateLayout, partitions: int, master: str, memory: str) -> None:
        """See `Engine.repartition`."""
        if is_needed(layout.checkpoint, partitions):
            with session_for("repartition", master, partitions, memory) as session:
                repartition(session, layout.checkpoint, partitions)


class _Stopped:
    """See `StoppedState`."""

    def __init__(self, session: SparkSession, checkpoint: Path) -> None:
        self._session, self._checkpoint = session, checkpoint

    def saved(self, program: Program) -> CheckpointState:
        """See `StoppedState.saved`."""
        return CheckpointState(self._session, self._checkpoint, program)

    def import_rows(self, program: Program, rows: Path, name: str) -> None:
        """See `StoppedState.import_rows`."""
        from wallaroo.engine.microbatch.state_import import import_state

        import_state(self._session, self._checkpoint, program.levels.count, rows, name)
