"""A query and its processes: they count the messages of each key, in one level or in two."""

from __future__ import annotations

import functools
import json
import random
import struct
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.gateway.simulation.clock import VirtualLoop
from tests.gateway.simulation.network import SimulatedPeer, Wire
from wallaroo.gateway.chunks.peers import Session
from wallaroo.gateway.chunks.server import ChunkServer
from wallaroo.wire.chunk_messages import (
    BEGIN,
    CHANGES,
    DONE,
    DRIVER,
    END,
    HELLO,
    LEVEL,
    READER,
    READY,
    RECORD,
    SAVABLE,
    TASK,
    CheckpointPosition,
    Hello,
    Report,
    next_in,
    pack_json,
    pack_report,
    task_in,
)
from wallaroo.wire.records import Outputs, Packed, Tally

MESSAGE = struct.Struct(">BBI")
"""Key, stream and number of a message."""
OUTPUT = struct.Struct(">BBIIBI")
"""The message, how many its key has had; its group, and how many that has had."""
GROUPS = 2
NAME = "the query"
_State = dict[str, int]


class Checkpoint(NamedTuple):
    """What Spark has."""

    place: CheckpointPosition
    states: Sequence[_State]
    """Counts by key, of each partition."""


class _Partition:
    """A process with a part of the state."""

    def __init__(self, query: Query, number: int, state: _State) -> None:
        self._query, self._number, self.state = query, number, dict(state)
        self._is_ready = False
        self._waiting: deque[Callable[[], object]] = deque()
        self._ended: tuple[int, _State] | None = None
        """The last chunk of an epoch, and the state at its end."""
        self.applied = 0

    def take(self, frame: bytes) -> None:
        """Take what the gateway sends."""
        if frame[:1] == RECORD:
            self.state.update(json.loads(frame[1:]))
            self.applied += 1
        elif frame[:1] == DONE:
            self._is_ready = True
            while self._waiting:
                self._waiting.popleft()()
        elif frame[:1] == END:
            chunk = CheckpointPosition.from_json(frame[1:]).chunk
            self.when_ready(functools.partial(self.state_at_end, chunk))
        elif frame[:1] == LEVEL:
            number, level, _, sent = next_in(frame)
            self.when_ready(functools.partial(self.run, number, level, list(sent[self._number])))

    def state_at_end(self, chunk: int) -> _State:
        """The state at the end of an epoch, of which *chunk* was the last one."""
        if self._ended is None or self._ended[0] != chunk:
            self._ended = chunk, dict(self.state)
        return self._ended[1]

    def when_ready(self, do: Callable[[], object]) -> None:
        """Do something, once it has its state."""
        if self._is_ready:
            do()
        else:
            self._waiting.append(do)

    def run(self, number: int, level: int, blobs: list[bytes]) -> None:
        """Run a level of a chunk."""
        changed: _State = {}
        outputs: list[bytes] = []
        sent: dict[int, bytearray] = defaultdict(bytearray)
        for key, stream, message, count, group, _ in OUTPUT.iter_unpack(b"".join(blobs)):
            name = f"group {group}" if level == 2 else f"key {key}"
            seen = changed[name] = self.state[name] = self.state.get(name, 0) + 1
            of_key, of_group = (count, seen) if level == 2 else (seen, 0)
            packed = OUTPUT.pack(key, stream, message, of_key, group, of_group)
            if level == self._query.levels:
                outputs.append(packed)
            else:
                sent[group % self._query.partitions] += packed
        report = Report(
            number,
            [_outputs(outputs)] if outputs else [],
            Tally(),
            level,
            sent=[Packed(2, partition, bytes(blob)) for partition, blob in sent.items()],
            changes=json.dumps(changed).encode() if changed else b"",
        )
        self._query.report(self._number, report)


class Query:
    """An attempt to run the query.

    Args:
        loop: The clock.
        rng: Decides how long things take.
        server: The gateway.
        checkpoint: Where it begins.
        attempt: Its number.
        partitions: Of the state.
        levels: One or two.
        commit: Lets Spark have a checkpoint.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        rng: random.Random,
        server: ChunkServer,
        checkpoint: Checkpoint,
        attempt: int,
        partitions: int,
        levels: int,
        commit: Callable[[Checkpoint], None],
    ) -> None:
        self._loop, self._rng, self._server, self._commit = loop, rng, server, commit
        self.attempt, self.partitions, self.levels = attempt, partitions, levels
        self._place = checkpoint.place
        self.is_alive = True
        self.committing: Checkpoint | None = None
        """What Spark is about to have."""
        self.windows: Counter[str] = Counter()
        self._direct = 0
        """Direct chunks since an epoch began."""
        self._processes = [
            _Partition(self, number, state) for number, state in enumerate(checkpoint.states)
        ]
        self._spark = [Wire(loop, rng) for _ in range(partitions)]
        """From the first stage to each partition."""
        self._saved: list[_State] = []
        self._peers: dict[int, SimulatedPeer] = {}
        self._sessions: dict[int, Session] = {}
        for role in (DRIVER, READER, *range(partitions)):
            take = self._take if role == READER else self._taker(role)
            self._peers[role] = SimulatedPeer(loop, rng, take, self._cut_off)
            self._peers[role].up.send(self._introduce, role)

    def kill(self) -> None:
        """One of its processes is gone, and so are all soon."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.windows["killed with direct chunks"] += self._direct > 0
        for wire in self._spark:
            wire.cut()
        for role, peer in self._peers.items():
            session = self._sessions.get(role)
            peer.abort()
            if session is not None:
                session.close()
        if self.committing is not None and self._rng.random() < 0.5:
            self.windows["committed after its end"] += 1
            self._commit(self.committing)
        self.committing = None

    def report(self, role: int, report: Report) -> None:
        """Report to the gateway."""
        self._tell(role, b"".join(pack_report(report)))

    @property
    def applied(self) -> int:
        """Records of changes that its partitions have begun with."""
        return sum(process.applied for process in self._processes)

    def _taker(self, role: int) -> Callable[[bytes], None]:
        return self._processes[role].take if role >= 0 else self._take_of_driver

    def _introduce(self, role: int) -> None:
        hello = pack_json(HELLO, Hello(1, self.attempt, role, self.partitions))
        admitted = self._server.introduce(self._peers[role], hello)  # type: ignore[arg-type]
        if admitted is None:
            self._peers[role].close()
            self._cut_off()
            return
        self._sessions[role] = admitted[1]
        if role == READER:
            self._begin(self._place)
        elif role >= 0:
            self._tell(role, pack_json(CHANGES, [NAME, self._place.chunk]))

    def _cut_off(self) -> None:
        self.kill()

    def _tell(self, role: int, frame: bytes) -> None:
        peer, session = self._peers[role], self._sessions[role]
        peer.up.send(session.receive, role, frame)

    # --- the first stage, and Spark --------------------------------------------------------------

    def _begin(self, place: CheckpointPosition) -> None:
        self._direct = 0
        self._tell(READER, pack_json(BEGIN, [NAME, False, *place]))
        for partition, wire in enumerate(self._spark):
            ready = functools.partial(self._tell, partition, pack_json(READY, place.chunk))
            wire.send(self._processes[partition].when_ready, ready)

    def _take(self, frame: bytes) -> None:
        if frame[:1] == TASK:
            task = task_in(frame)
            parts: dict[int, bytearray] = defaultdict(bytearray)
            for block in task.chunks:
                for key, stream, message in MESSAGE.iter_unpack(block.data):
                    packed = OUTPUT.pack(key, stream, message, 0, key % GROUPS, 0)
                    parts[key % self.partitions] += packed
            if task.direct:
                self.windows["direct chunk"] += 1
                self._direct += 1
                sent = [Packed(1, partition, bytes(blob)) for partition, blob in parts.items()]
                self.report(READER, Report(task.number, [], Tally(), sent=sent))
                return
            for partition, blob in parts.items():
                self._hand_on(task.number, 1, {partition: [bytes(blob)]})
            expected = {1: list(parts)} if parts else {}
            self.report(READER, Report(task.number, [], Tally(), partitions=expected))
        elif frame[:1] == LEVEL:
            following = next_in(frame)
            later = {partition: list(blobs) for partition, blobs in following.sent.items()}
            self._hand_on(following.number, following.level, later)
        elif frame[:1] == END:
            place = CheckpointPosition.from_json(frame[1:])
            self._saved = []
            for partition, wire in enumerate(self._spark):
                save = functools.partial(self._save, partition, place)
                wire.send(self._processes[partition].when_ready, save)

    def _take_of_driver(self, frame: bytes) -> None:
        if frame[:1] == SAVABLE:  # the store of the state may be away for a while
            answer = functools.partial(self._tell, DRIVER, SAVABLE)
            self._loop.call_later(self._rng.expovariate(10), answer)

    def _hand_on(self, number: int, level: int, blobs: dict[int, list[bytes]]) -> None:
        for partition, of_partition in blobs.items():
            process = self._processes[partition]
            run = functools.partial(process.run, number, level, of_partition)
            self._spark[partition].send(process.when_ready, run)

    def _save(self, partition: int, place: CheckpointPosition) -> None:
        saved = self._processes[partition].state_at_end(place.chunk)
        self._saved.append({"at": partition, **saved})
        if len(self._saved) == self.partitions:
            states = sorted(self._saved, key=lambda state: state["at"])
            for state in states:
                del state["at"]
            self.committing = Checkpoint(place, states)
            self._loop.call_later(self._rng.expovariate(20), self._commit_now)

    def _commit_now(self) -> None:
        if self.is_alive and self.committing is not None:
            committed, self.committing = self.committing, None
            self._commit(committed)
            self._loop.call_later(self._rng.expovariate(100), self._next_epoch, committed.place)

    def _next_epoch(self, place: CheckpointPosition) -> None:
        if self.is_alive:
            self._begin(place)


def _outputs(outputs: list[bytes]) -> Outputs:
    return Outputs.of(0, outputs)
