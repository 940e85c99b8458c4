"""What is reported of published chunks is told, and no flood of it."""

from __future__ import annotations

from structlog.testing import capture_logs

import wallaroo
from wallaroo.engine.realtime.reports import Reports
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.wire.chunk_messages import News
from wallaroo.wire.records import Tally
from wallaroo.wire.task_metrics import TaskMetrics


def unknown(state: str, keys: range) -> Tally:
    return Tally(unknown_keys={(state, f"'{key}'"): 2 for key in keys})


def test_an_unknown_key_is_told_once() -> None:
    reports = Reports()
    with capture_logs() as logs:
        for _ in range(5):
            reports.published(News(unknown("symbols", range(3))))
    assert [log["key"] for log in logs] == ["'0'", "'1'", "'2'"]
    assert {(log["event"], log["state"], log["messages"]) for log in logs} == {
        ("unknown key dropped", "symbols", 2)
    }


def test_a_flood_of_unknown_keys_is_told_in_few_lines() -> None:
    reports = Reports()
    with capture_logs() as logs:
        for number in range(50):
            tally = unknown("symbols", range(1000 * number, 1000 * number + 1000))
            reports.published(News(tally))
        reports.published(News(unknown("users", range(1))))
    told = [log for log in logs if log["event"] == "unknown key dropped"]
    assert [log["state"] for log in told] == ["symbols"] * 20 + ["users"]
    others = [log["messages"] for log in logs if log["event"] == "other unknown keys dropped"]
    assert others == [1960, 2000, 2000, 2000]  # of the publications 1, 2, 3 and 10
    assert len(logs) == len(told) + len(others)


@wallaroo.state_computation(name="count")
def count(word: str, seen: set[str]) -> tuple[str, bool]:
    seen.add(word)
    return (word, True)


def letters() -> Application:
    text = wallaroo.decoder(header_length=4, length_fmt=">I")(bytes.decode)
    builder = wallaroo.ApplicationBuilder("app")
    builder.new_pipeline("Letters", wallaroo.TCPSourceConfig("", 0, text))
    builder.to_state_partition(count, set, "seen", wallaroo.partition(str), ["a", "b"], "drop")
    return resolve(builder.done().build())


def test_a_source_of_unlisted_keys_is_warned_of_once_and_loudly() -> None:
    reports, figures = Reports(letters()), TaskMetrics()
    figures.step("Letters", "count").unlisted = 15
    figures.step("Letters", "count").entered = 2
    tally = Tally(unknown_keys={("seen", "97"): 15}, metrics=figures)
    with capture_logs() as logs:
        for _ in range(4):
            reports.published(News(tally))
    assert [log["event"] for log in logs] == ["unknown key dropped", "most messages dropped"]
    dropped, most = logs
    assert dropped["listed"] == "'a', 'b' (2 keys)"
    assert most["log_level"] == "warning"
    assert (most["source"], most["step"], most["state"]) == ("Letters", "count", "seen")
    assert (most["dropped"], most["processed"]) == (30, 4)
    assert 'other_keys="add"' in most["advice"]


def test_a_few_unlisted_keys_of_many_are_not_warned_of() -> None:
    reports, figures = Reports(letters()), TaskMetrics()
    figures.step("Letters", "count").unlisted = 30
    figures.step("Letters", "count").entered = 40
    with capture_logs() as logs:
        reports.published(News(Tally(metrics=figures)))
    assert logs == []
