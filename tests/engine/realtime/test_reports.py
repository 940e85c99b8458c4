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


A_WORKER_IS_KILLED = """\
26/11/24 20:21:00 ERROR Executor: Exception in task 0.0 in stage 1.0 (TID 1)
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
26/11/24 20:21:00 ERROR Utils: Aborting task
26/11/24 20:21:00 ERROR DataWritingSparkTask: Aborting commit for partition 0 (task 1, attempt 0, stage 1.0)
26/11/24 20:21:00 ERROR DataWritingSparkTask: Aborted commit for partition 0 (task 1, attempt 0, stage 1.0)
26/11/24 20:21:01 ERROR TaskSetManager: [queryId = 7029b] [batchId = 0] Task 1 in stage 1.0 failed 1 times; aborting job
26/11/24 20:21:01 ERROR WriteToDataSourceV2Exec: Data source write support MicroBatchWrite[epoch: 0] is aborting.
26/11/24 20:21:01 ERROR WriteToDataSourceV2Exec: Data source write support MicroBatchWrite[epoch: 0] aborted.
26/11/24 20:21:01 ERROR MicroBatchExecution: Query Levels [id = 7029b354, runId = 802] terminated with error
26/11/24 20:21:01 ERROR ErrorNotifier: A fatal error has occurred.
26/11/24 20:21:01 ERROR StreamingShuffleReader: 7029b 1 Task discovery thread failed.
26/11/25 19:26:08 ERROR TransportResponseHandler: Still have 1 requests outstanding when connection from localhost/127.0.0.1:36739 is closed
26/11/25 19:26:08 ERROR TransportClientFactory: Exception while bootstrapping client after 115 ms
26/11/25 19:26:08 ERROR TransportClient: Failed to send RPC RPC 4806659832801108536 to localhost/127.0.0.1:36739
26/11/25 19:15:18 ERROR TransportRequestHandler: Error sending result RpcResponse[requestId=7036479185394378757,body=NioManagedBuffer[buf=java.nio.HeapByteBuffer[pos=0 lim=108 cap=108]]] to /127.0.0.1:53858; closing connection
26/11/25 19:26:12 ERROR StreamingShuffleClientHandler: 8f690 7 Streaming shuffle client handler caught exception.
"""  # noqa: E501


def test_a_query_that_fails_is_told_once_by_the_driver() -> None:
    reports = Reports()
    with capture_logs() as logs:
        for line in A_WORKER_IS_KILLED.splitlines():
            reports.spark_line(line)
    assert not [log for log in logs if log["log_level"] == "error"]
    assert len(logs) == len(A_WORKER_IS_KILLED.splitlines())  # at level debug, all are there


def test_other_errors_of_spark_stay_errors() -> None:
    reports = Reports()
    with capture_logs() as logs:
        reports.spark_line("26/11/24 20:21:00 ERROR BlockManager: No space left on device")
    assert [log["log_level"] for log in logs] == ["error"]
