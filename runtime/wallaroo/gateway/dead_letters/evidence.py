"""Evidence: what the journal has of a failed message, which its dead letter keeps."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.journal.journal import Journal
from wallaroo.model.application import Application
from wallaroo.wire.records import Block, FailedMessage


class Stopped(RuntimeFailure):
    """A message that failed stops the application."""


class Evidence(NamedTuple):
    """What the journal has of a failed message."""

    arrived_ns: int
    header: int
    """Bytes of the header."""
    frame: bytes


class EvidenceFinder:
    """Decides which failed messages become dead letters, and finds what the journal has of them.

    Args:
        application: The application.
        journal: Where messages arrived.
        policies: What to do, by the source's name; messages of other sources are kept.
    """

    def __init__(
        self, application: Application, journal: Journal, policies: Mapping[str, Policy]
    ) -> None:
        self._journal = journal
        self._policies = policies
        self._sources = application.sources
        self._source_of = {
            pipeline.name: self._sources.index(pipeline.source)
            for pipeline in application.pipelines
        }

    def kept(
        self, letters: Sequence[FailedMessage], end: int | None
    ) -> list[tuple[int, str, FailedMessage, Evidence | None]]:
        """The *letters* to keep, with index and name of their source.

        Args:
            letters: The failed messages.
            end: Offset after their chunks, if that is known.

        Raises:
            Stopped: One of them is of a source whose policy is to stop.
        """
        chosen: list[tuple[int, str, FailedMessage]] = []
        for letter in letters:
            source = self._source_of[letter.pipeline]
            name = self._sources[source].name
            policy = self._policies.get(name, Policy.SET_ASIDE)
            if policy is Policy.STOP:
                msg = (
                    f"stopped because of --on-error: a message of source {name!r}, "
                    f"pipeline {letter.pipeline!r}, step {letter.step!r}, {letter.place}: "
                    f"{letter.error}" + f"; the message: {letter.message}" * bool(letter.message)
                )
                raise Stopped(" ".join(msg.split()))
            if policy is Policy.SET_ASIDE:
                chosen.append((source, name, letter))
        found = self._evidence(chosen, end)
        return [(*choice, found.get(number)) for number, choice in enumerate(chosen)]

    def _evidence(
        self, chosen: Sequence[tuple[int, str, FailedMessage]], end: int | None
    ) -> dict[int, Evidence]:
        """What the journal has before offset *end*, by the place in *chosen*."""
        of_arrival: dict[int, list[int]] = defaultdict(list)
        for number, (_, _, letter) in enumerate(chosen):
            if letter.arrival is not None:
                of_arrival[letter.arrival].append(number)
        found: dict[int, Evidence] = {}
        arrivals = sorted(of_arrival)
        last = max(arrivals, default=-1)
        for chunk in self._journal.unprocessed(end):
            if chunk.first > last:
                break
            if _has_one_of(chunk, arrivals):
                for arrival, evidence in self._messages(chunk):
                    for number in of_arrival.get(arrival, ()):
                        found[number] = evidence
        return found

    def _messages(self, chunk: Block) -> Iterator[tuple[int, Evidence]]:
        pieces = self._sources[chunk.source].framing.pieces(chunk.data)
        for number, (header, frame) in enumerate(pieces, chunk.first):
            yield number, Evidence(chunk.arrived_ns, header, frame)


def _has_one_of(chunk: Block, arrivals: Sequence[int]) -> bool:
    place = bisect_left(arrivals, chunk.first)
    return place < len(arrivals) and arrivals[place] < chunk.end
