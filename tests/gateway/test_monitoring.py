"""What a gateway reports while it works."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gateway.harness import finished, opened, outputs, publish
from wallaroo.gateway.monitoring import Monitor
from wallaroo.gateway.tables import Tables
from wallaroo.model.application import Application


def test_an_output_that_is_delivered_meanwhile_is_counted_or_reported_as_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an output is delivered whenever counters have been read."""
    sources: Any = SimpleNamespace(connections=0)
    with opened(tmp_path) as store:
        outbox, counted = store.outbox, store.outbox.counters

        def counters() -> dict[str, int]:
            counters = counted()
            if (delivery := outbox.next(0, 0, 0.0)) is not None:
                outbox.delivered(0, delivery.position)
            return counters

        monkeypatch.setattr(outbox, "counters", counters)
        monitor = Monitor(Application("app", (), {}), store.journal, outbox, sources, (), Tables())
        publish(store, finished(1, outputs(b"x")))
        status = monitor.status()
        assert (status.undelivered, status.delivered) == (1, 0)
        status = monitor.status()
        assert (status.undelivered, status.delivered) == (0, 1)
