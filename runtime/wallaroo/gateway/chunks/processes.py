"""The connections to a query's processes, by role."""

from __future__ import annotations

from wallaroo.gateway.chunks.peers import Peer
from wallaroo.wire.chunk_messages import (
    DRIVER,
    END,
    READER,
    CheckpointPosition,
    NextLevel,
    Task,
    pack_next,
    pack_task,
)


class Processes:
    """The connections to the first stage, the partitions and the driver.

    Args:
        partitions: How many partitions there are.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._roles = {READER, DRIVER, *range(partitions)}
        self._peers: dict[int, Peer] = {}
        self._reached: dict[int, int] = {}
        """By partition: the chunk before the last epoch in which Spark's shuffle has reached it."""

    def __contains__(self, role: int) -> bool:
        """Whether the process *role* is there."""
        return role in self._peers

    def __getitem__(self, role: int) -> Peer:
        """The connection to the process *role*, which is there."""
        return self._peers[role]

    def join(self, role: int, peer: Peer) -> None:
        """Note that the process *role* is there."""
        self._peers[role] = peer

    @property
    def are_there(self) -> bool:
        """Whether all of them are there."""
        return self._peers.keys() >= self._roles

    @property
    def driver(self) -> Peer | None:
        """The connection to the driver, if it is there."""
        return self._peers.get(DRIVER)

    def ask(self, frame: bytes) -> None:
        """Send *frame* to all partitions."""
        for role in self._roles:
            if role >= 0:
                self._peers[role].send(frame)

    def run(self, task: Task) -> None:
        """Let the first stage run a chunk."""
        self._peers[READER].send(*pack_task(task))

    def run_level(self, following: NextLevel, *, direct: bool) -> None:
        """Let partitions run a level of a chunk: through the first stage, unless it is direct."""
        if not direct:
            self._peers[READER].send(*pack_next(following))
            return
        for partition, blobs in following.sent.items():
            to_one = following._replace(sent={partition: blobs})
            self._peers[partition].send(*pack_next(to_one))

    def end_epoch(self, place: CheckpointPosition) -> None:
        """Let Spark take over what has changed until *place*."""
        end = place.to_json().encode()
        for role, peer in self._peers.items():
            if role != DRIVER:
                peer.send(END, end)

    def note_reached(self, partition: int, before: int) -> None:
        """Note that Spark's shuffle reaches a partition in the epoch after the chunk *before*."""
        self._reached[partition] = before

    def are_reached(self, before: int) -> bool:
        """Whether it reaches all partitions in that epoch."""
        return all(role < 0 or self._reached.get(role) == before for role in self._roles)

    def close(self) -> None:
        """Close all connections; that of the driver once it has taken what was sent to it."""
        for role, peer in self._peers.items():
            if role == DRIVER:
                peer.close()
            else:
                peer.abort()
