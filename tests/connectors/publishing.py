"""An outbox that is published to while a sink empties it."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.harness import finished, outputs, publish
from tests.helpers import wait_until
from wallaroo.gateway.connector import ConnectorContext
from wallaroo.gateway.dead_letters.policy import Policy
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.gateway.store import Store


class PublishingOutbox:
    """The outbox in *directory*; may be opened again after it is closed."""

    store: Store
    outbox: Outbox
    context: ConnectorContext
    refusals = Policy.SET_ASIDE

    def __init__(self, directory: Path, chunks: int = 0) -> None:
        self._directory = directory
        self.chunks = chunks

    def open(self) -> None:
        self._directory.mkdir(exist_ok=True)
        self.store = Store(self._directory)
        self.outbox = self.store.outbox
        self.outbox.refusals = self.refusals
        self.context = ConnectorContext(self.store.journal, self.outbox, application="app")

    def close(self) -> None:
        self.store.close()

    def publish(self, *made: bytes, to: int = 0) -> None:
        self.chunks += 1
        publish(self.outbox, finished(self.chunks, outputs(*made, to=to)))

    def wait_until_delivered(self) -> None:
        wait_until(lambda: not self.outbox.undelivered, "the delivery of everything")

    def letters(self) -> list[DeadLetter]:
        self.store.writer.flush()
        with self.outbox.letters.transaction() as letters:
            return letters.listed(Choice(), 100)
