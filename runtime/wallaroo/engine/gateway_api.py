"""What an engine needs of the gateway: a replayable journal and an outbox that publishes by epoch.

The gateway implements `GatewayAPI`. Engines reach it through a `Connect` function, which must be
picklable because workers in other processes, and on other machines, call it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from wallaroo.dataflow.records import Chunk, Outputs, Tally
from wallaroo.errors import RuntimeFailure


class Stopped(RuntimeFailure):
    """The application is to stop because of a message; its batch can never be published."""


JOURNAL = "journal"
"""Name of the log that all sources write to."""
Offsets = Mapping[str, int]
"""By log, the offset of the first message that has not been processed."""


class Latest(NamedTuple):
    """Where the next batch ends."""

    end: int
    """Offset behind its last message."""
    opening: str
    """Name of the journal's opening at that time: an offset belongs to one journal."""


class Position(NamedTuple):
    """How far the query of a checkpoint is; by default, one that has planned no batch."""

    run: str | None = None
    """Name under which the query publishes its batches."""
    batch: int = -1
    """Number of the last batch that was planned."""
    planned: int = 0
    """Offset behind that batch."""
    opening: str | None = None
    """Opening of the journal under which it was planned; None where that was not noted."""
    committed: int = 0
    """Offset behind the last batch that is committed."""
    published: int = -1
    """Number of the last batch that must have been published."""


class GatewayAPI(Protocol):
    """The journal and the outbox, from wherever the engine runs."""

    def latest(
        self,
        after: int,
        max_bytes: int,
        max_messages: int,
        wait_s: float,
        opening: str | None = None,
    ) -> Latest:
        """The end of the next batch: the largest offset within its bounds.

        Args:
            after: Offset up to which messages are taken already.
            max_bytes: Bytes of messages at most, one chunk at least.
            max_messages: Number of messages at most, one chunk at least.
            wait_s: Seconds to wait where there is nothing after *after*, or where the outbox is
                too full to take more.
            opening: The opening that *after* came with; None where that was not noted.

        Returns:
            An offset (the arrival number of the first message that is not in the batch), *after*
            itself if there is nothing to do.

        Raises:
            WallarooError: *after* belongs to another journal.
        """

    def plan(self, start: int, end: int, parts: int) -> Sequence[tuple[int, int]]:
        """Begin a batch of the offsets [*start*, *end*).

        Returns:
            The offsets in at most *parts* ranges of about equal bytes.
        """

    def read(self, start: int, end: int) -> Iterator[Sequence[Chunk]]:
        """The chunks of [*start*, *end*) in order of arrival, in blocks of a few MiB."""

    def stage(
        self, run: str, epoch: int, token: str, outputs: Sequence[Outputs], tally: Tally
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

    def wake(self, at_ns: int | None) -> None:
        """Put a tick into the journal when the wall clock shows *at_ns*; None for never.

        Takes the place of what was asked before.
        """

    def consume(self, end: int) -> None:
        """Forget the messages before offset *end*: no batch will ask for them again."""


Connect = Callable[[], GatewayAPI]
"""Makes a connection to the gateway; picklable."""
