"""Look-ups that are under way: what partitions answer waits until it is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wallaroo.gateway.chunks.processes import Processes
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.wire.chunk_messages import DRIVER
from wallaroo.wire.look_ups import Answers, answer_in, number_of, pack_answers


@dataclass
class _Question:
    """A question that is under way."""

    ends: dict[int, int]
    """See `Answers`."""
    frames: dict[int, bytes] = field(default_factory=dict)
    """By partition."""
    newest: int = 0
    """The last chunk that an entity has seen."""


class LookUps:
    """The look-ups of one run.

    Args:
        processes: Its processes.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._questions: dict[int, _Question] = {}
        self._published: tuple[int, int] | None = None
        """The last chunk that is published, and the offset after its last message; None until the
        first epoch begins."""

    def begin(self, chunk: int, end: int) -> None:
        """Note what runs before have published."""
        self._published = chunk, end

    def ask(self, frame: bytes) -> None:
        """Ask all partitions for entities, if they are there."""
        number = number_of(frame)
        if self._published is None or not self._processes.are_there:
            self._answer(number, None)
            return
        chunk, end = self._published
        self._questions[number] = _Question({chunk: end})
        self._processes.ask(frame)

    def answered(self, partition: int, frame: bytes) -> None:
        """Take a partition's answer."""
        number, newest = answer_in(frame)
        question = self._questions[number]
        question.frames[partition] = frame
        question.newest = max(question.newest, newest)
        self._answer_if_complete(number)

    def published(self, chunks: Sequence[FinishedChunk]) -> None:
        """Note that *chunks* are on disk."""
        self._published = chunks[-1].number, chunks[-1].end
        for question in self._questions.values():
            question.ends.update((chunk.number, chunk.end) for chunk in chunks)
        for number in list(self._questions):
            self._answer_if_complete(number)

    def _answer_if_complete(self, number: int) -> None:
        one = self._questions[number]
        assert self._published is not None
        if len(one.frames) == self._processes.partitions and one.newest <= self._published[0]:
            del self._questions[number]
            self._answer(number, Answers([*one.frames.values()], one.ends))

    def _answer(self, number: int, answers: Answers | None) -> None:
        self._processes[DRIVER].send(*pack_answers(number, answers))
