"""Dead letters as outputs, if the application publishes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wallaroo.gateway.dead_letters.letters import Letter
from wallaroo.model.application import Application
from wallaroo.model.lost_messages import LostMessage
from wallaroo.wire.records import Outputs


class LetterOutputs:
    """Makes outputs of dead letters, and knows which are also kept.

    Args:
        application: The application.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._to = application.dead_letters
        self.sink = None if self._to is None else len(application.output_sinks)
        """Index of their sink; None if they are not published."""

    def of(self, letters: Sequence[Letter], failed_ns: int) -> Iterator[Outputs]:
        """The outputs for *letters*, of messages that failed at this time."""
        if self._to is None or self.sink is None:
            return
        sources = self._application.sources
        for letter in letters:
            evidence = letter.evidence
            lost = LostMessage(
                self._application.name,
                letter.message,
                failed_ns,
                sources[letter.source] if letter.name else None,
                letter.data if evidence is None else evidence.frame[evidence.header :],
            )
            output = self._to.sink.encode(lost)
            assert isinstance(output, bytes)
            yield Outputs.of(self.sink, [output])

    def kept(self, letters: list[Letter]) -> list[Letter]:
        """Those of *letters* that are to be kept."""
        return letters if self._to is None or self._to.keeps else []
