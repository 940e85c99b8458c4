"""The interface of engines: what runs an application between the gateway's journal and outbox.

An `Engine` is a way to run applications, and to maintain their state while they do not run; a
`RunningEngine` is an application that an engine runs. `registry` has the engines by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from wallaroo.dataflow.program import Program
from wallaroo.engine.batch_sizing import BatchCosts, BatchLimits
from wallaroo.engine.gateway_api import GatewayAPI
from wallaroo.engine.stored import LastBatch, SavedState, StateLayout, StoppedState
from wallaroo.metrics.catalogue import Metric
from wallaroo.metrics.samples import Sample
from wallaroo.model.loader import ApplicationRef
from wallaroo.system.pod import Pod
from wallaroo.system.restarts import Restart
from wallaroo.wire.checkpoint_progress import CheckpointProgress
from wallaroo.wire.records import Packed, Tally

if TYPE_CHECKING:
    from wallaroo.engine.metrics import EngineMetrics


@dataclass(frozen=True)
class Batch:
    """One committed batch."""

    number: int
    """Number of the batch since the state directory was new."""
    tally: Tally
    """What its tasks reported."""
    timed: Sequence[TimedBatch] = ()
    """If that is known already, how long it took; it may stand for several, and be the last."""


@dataclass(frozen=True)
class Unit:
    """What an engine commits at a time, as its metrics describe it.

    The documentation of this interface calls it a batch.
    """

    name: str
    """What it is called."""
    phases: Mapping[str, str]
    """What it spends its time in, in order, with descriptions."""
    messages: Metric
    """Its messages."""
    seconds: Metric
    """Its seconds by phase."""


@dataclass(frozen=True)
class Progress:
    """How long a committed batch took."""

    number: int
    """Number of the batch."""
    started: float
    """Wall clock at its start, in seconds since the epoch."""
    phases: Mapping[str, float]
    """Seconds in each phase."""


@dataclass(frozen=True)
class TimedBatch:
    """A committed batch with its number of messages and its duration."""

    messages: int
    """Number of messages from the journal."""
    progress: Progress


OnBatch = Callable[[Batch], None]
"""Called after each committed batch, in a thread of the engine; must be quick."""


@dataclass(frozen=True)
class Failure:
    """Why an application that was started no longer runs."""

    reason: str
    final: bool = False
    """Whether it would fail for the same reason when started again."""
    damage: bool = False
    """Whether files of its state cannot be read, which few further attempts decide."""


@dataclass(frozen=True)
class EngineSettings:
    """How an engine runs an application."""

    application: ApplicationRef
    """The application and its arguments."""
    master: str
    """Spark master URL."""
    workers: int = 1
    """Number of workers at the start: processes of local Spark, executors of a cluster. A batch is
    read in as many ranges."""
    batch: BatchLimits = field(default_factory=BatchLimits)
    """Limits of a batch."""
    memory: str = "1g"
    """Java heap of the driver."""
    everywhere: bool = False
    """Whether workers find the application at the driver's path, as in copies of one image."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the workers."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Additional Spark settings."""
    call_limit_s: float = 60.0
    """Seconds that a function of the application may take for one message; 0 for no limit."""
    entity_limit_bytes: int = 64 * 1024**2
    """Bytes that an entity may take when it is saved; the message that lets it grow beyond becomes
    a dead letter. While it is saved, worker and gateway hold several copies of it."""


class Launch(Protocol):
    """An engine's libraries while they load, so that the caller can do other work."""

    def stop(self) -> None:
        """Stop everything that has started; does nothing if it has stopped."""


class RunningEngine(ABC):
    """An application that runs."""

    figures: EngineMetrics
    """What it has done since it started."""

    @abstractmethod
    def failure(self) -> str | None:
        """Supervise it; returns why it is not restarted, or None while it runs or will run."""

    @abstractmethod
    def restarts(self) -> Sequence[Restart]:
        """Its last restarts after failures, with the reasons; the oldest first."""

    @abstractmethod
    def interruption(self) -> str | None:
        """Why it does not run at the moment, although it will again; None while it runs."""

    @abstractmethod
    def samples(self) -> list[Sample]:
        """What it has done since it started, as metrics."""

    @abstractmethod
    def costs(self) -> BatchCosts | None:
        """What a batch is known to cost; None before the first has ended."""

    @abstractmethod
    def workers(self) -> tuple[int, int]:
        """Workers that are requested, and workers that take tasks."""

    @abstractmethod
    def saved_state(self) -> AbstractContextManager[SavedState]:
        """The state as of the last committed batch; one caller at a time."""

    @abstractmethod
    def waits(self) -> bool:
        """Whether it waits for messages, with no batch in progress."""

    @abstractmethod
    def finish_batch(self) -> None:
        """Wait until the batch in progress, if there is one, is committed."""

    @abstractmethod
    def scale(self, workers: int) -> None:
        """Run on *workers* workers from now on."""

    @abstractmethod
    def remove_surplus(self) -> None:
        """Release workers that are no longer requested."""

    @abstractmethod
    def hold(self) -> None:
        """Start no further batch until `release`; the one in progress ends.

        A query that fails meanwhile is started again, and held.
        """

    @abstractmethod
    def release(self) -> None:
        """Start batches again."""

    @abstractmethod
    def reload(
        self, application: ApplicationRef, program: Program, between: Callable[[], None]
    ) -> None:
        """Go on with other code of the application, as if it had been started again.

        Args:
            application: The application.
            program: The same, ready to run.
            between: Called while nothing runs.

        Raises:
            RuntimeFailure: It could not be started.
        """

    @abstractmethod
    def stop(self, *, at_once: bool = False) -> None:
        """Stop it; what is not committed will be reprocessed at the next start.

        Args:
            at_once: Whether to wait for nothing in progress: calls to a gateway that will not come
                back would be repeated until they time out.
        """


class Engine(ABC):
    """A way to run applications."""

    name: ClassVar[str]
    """What it is called on a command line."""

    @abstractmethod
    def launch(self, settings: EngineSettings, layout: StateLayout, scratch: Path) -> Launch:
        """Begin to start what applications run on; `start` gets the same arguments.

        Raises:
            UsageError: Something that it needs is not installed.
        """

    @abstractmethod
    def start(
        self,
        settings: EngineSettings,
        program: Program,
        layout: StateLayout,
        gateway: GatewayAPI,
        launched: Launch,
        scratch: Path,
        on_batch: OnBatch = lambda _batch: None,
    ) -> RunningEngine:
        """Run an application, resuming from its state.

        Args:
            settings: How to run it.
            program: The application, ready to run.
            layout: Its state.
            gateway: Its gateway.
            launched: What `launch` returned.
            scratch: Directory for temporary files.
            on_batch: Called after each committed batch.

        Raises:
            WallarooError: It did not start.
        """

    @abstractmethod
    def on_kubernetes(
        self, pod: Pod, image: str, prefix: str, template: Path | None, secret_file: Path | None
    ) -> dict[str, str]:
        """Settings for `EngineSettings.spark` with which workers are pods.

        Args:
            pod: The driver's pod; workers end when it ends.
            image: Image of the workers.
            prefix: Prefix of the names of their pods; not that of the last driver, whose workers
                may still exist.
            template: Pod template.
            secret_file: File with a secret that driver and workers prove to each other, at the same
                path on both; None if the engine is to create one.
        """

    @abstractmethod
    def progress(self, checkpoint: Path) -> CheckpointProgress:
        """How far the application whose state is in *checkpoint* is; it must not run.

        Raises:
            UsageError: A file cannot be read.
        """

    @abstractmethod
    def is_new(self, checkpoint: Path) -> bool:
        """Whether no application has begun to change the state in *checkpoint*."""

    @abstractmethod
    def settle(self, checkpoint: Path) -> bool:
        """Make *checkpoint* usable at its present path; returns whether it was moved or copied."""

    @abstractmethod
    def open(self, layout: StateLayout) -> AbstractContextManager[StoppedState]:
        """The state of an application that does not run."""

    @abstractmethod
    def write_rows(self, program: Program, packed: Iterable[Sequence[Packed]], rows: Path) -> None:
        """Write the entities to import to the file *rows*, for `StoppedState.import_rows`."""

    @abstractmethod
    def import_progress(self, layout: StateLayout, name: str) -> Literal["none", "begun", "done"]:
        """How far the import *name* is; the state has a batch.

        Raises:
            RuntimeFailure: The application was not stopped cleanly.
        """

    @abstractmethod
    def last_batch(self, layout: StateLayout) -> LastBatch:
        """The last batch that was planned; the state has one."""

    @abstractmethod
    def repartition(self, layout: StateLayout, partitions: int, master: str, memory: str) -> None:
        """Divide the state into *partitions*; does nothing if it already is.

        A call after one that was interrupted finishes it.

        Raises:
            RuntimeFailure: It failed, or the application was not stopped cleanly.
        """
