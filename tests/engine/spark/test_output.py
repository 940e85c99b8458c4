"""What Spark prints is logged, except for errors that the driver explains."""

from __future__ import annotations

from structlog.testing import capture_logs

from wallaroo.engine.spark.output import SparkOutput

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
    output = SparkOutput()
    with capture_logs() as logs:
        for line in A_WORKER_IS_KILLED.splitlines():
            output.line(line)
    assert not [log for log in logs if log["log_level"] == "error"]
    assert len(logs) == len(A_WORKER_IS_KILLED.splitlines())  # at level debug, all are there


def test_other_errors_of_spark_stay_errors() -> None:
    output = SparkOutput()
    with capture_logs() as logs:
        output.line("26/11/24 20:21:00 ERROR BlockManager: No space left on device")
    assert [log["log_level"] for log in logs] == ["error"]
