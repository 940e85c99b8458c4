"""The narrow interface behind which an engine stands: an application in, a running one out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from wallaroo.engine.ports import Tally


@dataclass(frozen=True)
class Batch:
    """One committed batch."""

    number: int
    """Number of the batch since the state directory was new."""
    tally: Tally
    """What its tasks reported."""


OnBatch = Callable[[Batch], None]
"""Called after each committed batch, in a thread of the engine; must be quick."""


class RunningApplication(Protocol):
    """An application that an engine has started."""

    def failure(self) -> str | None:
        """Why it stopped by itself; None while it runs."""

    def finish_batch(self) -> None:
        """Wait until the batch under way, if there is one, is committed."""

    def stop(self) -> None:
        """Stop it; what is not committed is done over at the next start."""
