"""An outbox that is published to while a sink empties it."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.harness import finished, outputs
from tests.helpers import wait_until
from wallaroo.gateway.dead_letters.store import Choice, DeadLetter
from wallaroo.gateway.outbox.outbox import Outbox


class PublishingOutbox:
    """The outbox in *path*; may be opened again after it is closed."""

    outbox: Outbox

    def __init__(self, path: Path, chunks: int = 0) -> None:
        self._path = path
        self.chunks = chunks

    def open(self) -> None:
        self.outbox = Outbox(self._path, 1 << 30)

    def publish(self, *made: bytes) -> None:
        self.chunks += 1
        self.outbox.publish("run", [finished(self.chunks, outputs(*made))])

    def wait_until_delivered(self) -> None:
        wait_until(lambda: not self.outbox.undelivered, "the delivery of everything")

    def letters(self) -> list[DeadLetter]:
        with self.outbox.dead_letters() as letters:
            return letters.listed(Choice(), 100)
