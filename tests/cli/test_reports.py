"""What batches report is told, and no flood of it."""

from __future__ import annotations

from structlog.testing import capture_logs

from wallaroo.cli.reports import Reports
from wallaroo.engine.ports import Tally
from wallaroo.engine.running import Batch


def unknown(state: str, keys: range) -> Tally:
    return Tally(unknown_keys={(state, f"'{key}'"): 2 for key in keys})


def test_an_unknown_key_is_told_once() -> None:
    reports = Reports()
    with capture_logs() as logs:
        for number in range(5):
            reports.batch(Batch(number, unknown("symbols", range(3))))
    assert [log["key"] for log in logs] == ["'0'", "'1'", "'2'"]
    assert {(log["event"], log["state"], log["messages"]) for log in logs} == {
        ("unknown key dropped", "symbols", 2)
    }


def test_a_flood_of_unknown_keys_is_told_in_few_lines() -> None:
    reports = Reports()
    with capture_logs() as logs:
        for number in range(50):
            tally = unknown("symbols", range(1000 * number, 1000 * number + 1000))
            reports.batch(Batch(number, tally))
        reports.batch(Batch(50, unknown("users", range(1))))
    told = [log for log in logs if log["event"] == "unknown key dropped"]
    assert [log["state"] for log in told] == ["symbols"] * 20 + ["users"]
    others = [log["messages"] for log in logs if log["event"] == "other unknown keys dropped"]
    assert others == [1960, 2000, 2000, 2000]  # of the batches 1, 2, 3 and 10
    assert len(logs) == len(told) + len(others)
