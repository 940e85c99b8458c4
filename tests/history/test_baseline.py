"""Old code that runs what new code has run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history import spent_time
from tests.history.harness import Recorded
from tests.history.totals import totals
from wallaroo.gateway.damage import LOG
from wallaroo.history.baseline import baseline_of
from wallaroo.history.records import records
from wallaroo.history.rehearsal import Rehearsal


def test_both_begin_with_the_same_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent_time.use(monkeypatch)
    recorded = Recorded(tmp_path, totals())
    recorded.run([("numbers", b"ada 5"), ("numbers", b"bob 1")])
    beginning = recorded.committed()
    recorded.run([("numbers", b"ada 2"), ("numbers", b"bob -1"), ("numbers", b"ada 3")])
    recorded.close()
    with baseline_of(totals, 0) as baseline:
        beside = baseline.beside(totals(), records(tmp_path / LOG), beginning)
        rehearsal = Rehearsal(totals(), beside, beginning, baseline.times)
        rehearsal.run()
        baseline.finish()
    assert (baseline.problem, rehearsal.differing_names()) == (None, set())
    (turn,) = baseline.turns
    assert (turn.messages, turn.old.keys()) == (3, turn.new.keys())
    assert [step for _, step in turn.new] == ["decoder", "split", "key of add", "add", "encoder"]
