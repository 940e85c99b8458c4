"""The narrow interface behind which an engine stands: an application in, a running one out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from wallaroo.dataflow.records import Tally


@dataclass(frozen=True)
class Batch:
    """One committed batch."""

    number: int
    """Number of the batch since the state directory was new."""
    tally: Tally
    """What its tasks reported."""


PHASES = ("wait", "plan", "log", "run", "commit")
"""What a batch spends its time in, in order; the first is waiting for messages."""


@dataclass(frozen=True)
class Progress:
    """How long a committed batch took."""

    number: int
    """Number of the batch."""
    started: float
    """Wall clock at its start, in seconds since the epoch."""
    phases: Mapping[str, float]
    """Seconds in each of `PHASES`."""


OnBatch = Callable[[Batch], None]
"""Called after each committed batch, in a thread of the engine; must be quick."""


@dataclass(frozen=True)
class Failure:
    """Why an application that was started does not run any more."""

    reason: str
    final: bool = False
    """Whether it would fail for the same reason when started again."""


class RunningApplication(Protocol):
    """An application that an engine has started."""

    def failure(self) -> Failure | None:
        """Why it stopped by itself; None while it runs."""

    def progress(self) -> Sequence[Progress]:
        """How the batches went that have ended since this was asked last; some of many."""

    def waits(self) -> bool:
        """Whether it waits for messages, with no batch under way."""

    def finish_batch(self) -> None:
        """Wait until the batch under way, if there is one, is committed."""

    def stop(self) -> None:
        """Stop it; what is not committed is done over at the next start."""
