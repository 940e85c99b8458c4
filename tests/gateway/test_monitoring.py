"""What a gateway reports while it works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gateway.harness import finished, outputs
from wallaroo.gateway.journal.journal import Journal
from wallaroo.gateway.journal.write_buffer import JournalLimits
from wallaroo.gateway.monitoring import Monitor
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.model.application import Application


class Delivering(Outbox):
    """An outbox that delivers an output whenever its counters have been read."""

    def counters(self) -> dict[str, int]:
        counters = super().counters()
        if (delivery := self.next(0, 0, 0.0)) is not None:
            self.delivered(0, delivery.position)
        return counters


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    with closing(Delivering(tmp_path / "outbox.db", 1 << 20)) as made:
        yield made


def test_an_output_that_is_delivered_meanwhile_is_counted_or_reported_as_waiting(
    tmp_path: Path, outbox: Outbox
) -> None:
    sources: Any = SimpleNamespace(connections=0)
    with closing(Journal(tmp_path / "journal.db", JournalLimits())) as journal:
        monitor = Monitor(Application("app", (), {}), journal, outbox, sources, ())
        outbox.publish("run", [finished(1, outputs(b"x"))])
        status = monitor.status()
        assert (status.undelivered, status.delivered) == (1, 0)
        status = monitor.status()
        assert (status.undelivered, status.delivered) == (0, 1)
