"""A sink that is numbered no longer, or now, is remarked on at the start."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from wallaroo.api.places import Place
from wallaroo.connectors.tcp.numbering import remark_on_change
from wallaroo.connectors.tcp.resolve import TCPSink
from wallaroo.gateway.store import Store


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([False, False], []),
        ([True, True], []),
        ([True, False, False], ["sink is numbered no longer"]),
        ([False, True, True], ["sink is numbered now"]),
    ],
)
def test_a_change_is_told_once(tmp_path: Path, runs: list[bool], told: list[str]) -> None:
    with capture_logs() as logs:
        for numbered in runs:
            store = Store(tmp_path)
            sink = TCPSink("Votes", str, Place("", 0), "receiver", 7002, sequenced=numbered)
            remark_on_change(0, sink, store.outbox)
            store.close()
    found = [(one["event"], one["sink"], one["address"], one["outputs"]) for one in logs]
    assert found == [(event, "Votes", "receiver:7002", 0) for event in told]
