"""Look-ups that are under way: what partitions answer waits until it is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.wire.look_ups import Answers, answer_in, pack_answers


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
        partitions: Number of partitions.
        answer: Sends a frame to the driver.
    """

    def __init__(self, partitions: int, answer: Callable[..., None]) -> None:
        self._partitions, self._answer = partitions, answer
        self._questions: dict[int, _Question] = {}
        self._published = (0, 0)
        """The last chunk that is published, and the offset after its last message."""

    def begin(self, chunk: int, end: int) -> None:
        """Note what runs before have published."""
        self._published = chunk, end

    def asked(self, number: int) -> None:
        """Note that all partitions are asked."""
        chunk, end = self._published
        self._questions[number] = _Question({chunk: end})

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
        if len(one.frames) == self._partitions and one.newest <= self._published[0]:
            del self._questions[number]
            answers = Answers([*one.frames.values()], one.ends)
            self._answer(*pack_answers(number, answers))
