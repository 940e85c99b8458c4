"""What an engine needs of the gateway: a replayable journal and an outbox that publishes by epoch.

The gateway implements `GatewayAPI`. Engines reach it through a `Connect` function, which must be
picklable because workers in other processes, and on other machines, call it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from wallaroo.dataflow.records import Chunk, Outputs, Position, Tally
from wallaroo.errors import RuntimeFailure


class Stopped(RuntimeFailure):
    """A message that failed stops the application; its epoch can never be published."""


Offsets = Mapping[str, int]
"""By log, the number of the first message that has not been taken; a log that is missing has 0."""


class Range(NamedTuple):
    """Successive messages of one log."""

    start: Position
    """Position of the first."""
    end: int
    """Number after the last."""


class Latest(NamedTuple):
    """Where the next batch ends."""

    end: Offsets
    """Offsets after its last messages."""
    opening: str
    """Name of the journal's opening at that time: an offset belongs to one journal."""


@dataclass(frozen=True)
class CheckpointProgress:
    """How far the query of a checkpoint is; by default, one that has planned no batch."""

    run: str | None = None
    """Name under which the query publishes its epochs."""
    batch: int = -1
    """Number of the last batch that was planned."""
    planned: Offsets = field(default_factory=dict)
    """Offsets after that batch."""
    opening: str | None = None
    """Opening of the journal under which it was planned; None if that was not noted."""
    committed: Offsets = field(default_factory=dict)
    """Offsets after the last batch that is committed."""
    published: int = -1
    """Number of the last batch that must have been published."""
    in_chunks: bool = False
    """Whether what is published after that batch lies in the outbox, and `batch` is the number of
    the last chunk that the checkpoint has."""


class StateChange(NamedTuple):
    """A change of the entities of one bucket, which the gateway does not look into."""

    state: str
    """Name of the state."""
    bucket: int
    """Number of the bucket."""
    change: bytes
    """The change, in the engine's own format."""


class PublishedChange(NamedTuple):
    """A change that has been published."""

    epoch: int
    """Number of the epoch that it belongs to."""
    number: int
    """Its number among all changes: within an epoch, they grow in the order of staging."""
    change: StateChange


class GatewayAPI(Protocol):
    """The journal and the outbox, from wherever the engine runs."""

    def latest(
        self,
        after: Offsets,
        max_bytes: int,
        max_messages: int,
        wait_s: float,
        opening: str | None = None,
    ) -> Latest:
        """The end of the next batch: the largest offsets within its bounds.

        Args:
            after: Offsets up to which messages are taken already.
            max_bytes: Bytes of messages at most, one chunk at least.
            max_messages: Number of messages at most, one chunk at least.
            wait_s: Seconds to wait if there is nothing after *after*, or if the outbox is too full
                to take more.
            opening: The opening that *after* came with; None if that was not noted.

        Returns:
            The offsets after the batch; *after* itself if there is nothing to do.

        Raises:
            WallarooError: *after* belongs to another journal.
        """

    def plan(self, start: Offsets, end: Offsets, parts: int) -> Sequence[Range]:
        """Begin a batch of the messages from *start* up to *end*.

        Returns:
            These messages in at most *parts* ranges of about equal bytes; more if there are more
            logs with messages.
        """

    def read(self, messages: Range) -> Iterator[Sequence[Chunk]]:
        """The chunks of a range in order of arrival, in blocks of a few MiB."""

    def stage(
        self,
        run: str,
        epoch: int,
        token: str,
        outputs: Sequence[Outputs],
        tally: Tally,
        changes: Sequence[StateChange] = (),
    ) -> None:
        """Leave the *outputs* of a task under *token*; they count once `publish` names the token.

        May be called several times with one token. What is staged for an epoch is forgotten when
        that epoch, or a later one of the same run, is published without it.

        Args:
            run: Name of the query that numbers the epochs.
            epoch: Number of the epoch that the task is part of.
            token: A name that no other task attempt uses.
            outputs: The outputs, in order.
            tally: What else the task reports.
            changes: Changes of state, in order, to be published together with the outputs; for
                engines whose checkpoints come less often than outputs.
        """

    def publish(
        self, run: str, epoch: int, tokens: Sequence[str], offsets: Offsets
    ) -> Tally | None:
        """Commit the outputs left under *tokens*, in that order, as those of *epoch*.

        The messages before *offsets* count as processed from then on. Epochs of one run are
        published in the order of their numbers. If *epoch* of *run* has been published before,
        nothing else happens, however often this is called.

        Returns:
            What the tasks reported, all together; None if the epoch was published before, perhaps
            by a call whose answer was lost.

        Raises:
            Stopped: A message of the epoch failed whose source is configured to stop then.
        """

    def changes(self, run: str, after_epoch: int) -> Iterator[Sequence[PublishedChange]]:
        """The changes that *run* has published after an epoch, in blocks of a few MiB.

        They come in the order of their epochs, and within an epoch in the order of staging.
        """

    def forget_changes(self, run: str, epoch: int) -> None:
        """Drop the published changes of *run* up to *epoch*, which a checkpoint contains now."""

    def wake(self, at_ns: int | None, *, has_outputs: bool = True) -> None:
        """Put a tick into the journal when the wall clock shows *at_ns*; None for never.

        Replaces the time of the call before. *has_outputs* tells whether this tick or a later one
        may have outputs, for which a run that ends by itself waits.
        """

    def consume(self, end: Offsets) -> None:
        """Forget the messages before the offsets *end*: no batch will ask for them again."""


Connect = Callable[[], GatewayAPI]
"""Makes a connection to the gateway; picklable."""
