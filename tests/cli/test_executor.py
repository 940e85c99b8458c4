"""What an executor's pod logs, without a cluster: its Java, which finds no driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime

import pytest

from wallaroo.engine.spark import kubernetes

pytestmark = pytest.mark.spark


def test_an_executor_runs_as_many_tasks_as_the_engine_says() -> None:
    told = dict.fromkeys(kubernetes._EXECUTOR_ARGUMENTS.values(), "1")
    told |= {"SPARK_EXECUTOR_MEMORY": "256m"}

    def cores(environment: dict[str, str]) -> str:
        command = kubernetes.executor_command(environment)
        return command[command.index("--cores") + 1]

    assert cores(told) == "1"
    assert cores({**told, kubernetes.SLOTS_VARIABLE: "6"}) == "6"


def test_what_an_executors_java_logs_has_the_fields_of_all_other_events() -> None:
    told_by_kubernetes = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "256m",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "app-exec-1",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "wallaroo", "executor"],
        env=os.environ | told_by_kubernetes,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode != 0
    events = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    assert events, ended.stderr
    for event in events:
        assert event["part"] == "spark"
        assert event["level"] in {"warning", "error"}
        assert event["event"]
        assert event["logger"].startswith("org.apache.")
        assert datetime.fromisoformat(event["timestamp"]).tzinfo is not None


def test_a_large_chunk_is_no_warning() -> None:
    """Under load there would be one each second, in every executor's log."""
    name = "org.apache.spark.shuffle.streaming.StreamingShuffleWriter"
    guarded = "org.apache.spark.wallaroo.StreamingShuffleWriter"
    script = f"""
import sys
import structlog
from wallaroo.engine.spark.java import Java
from wallaroo.engine.spark.kubernetes import _LOGGING
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
java = Java("256m", [f"-Dlog4j2.configurationFile={{_LOGGING}}"])
java.connect()
from pyspark.java_gateway import launch_gateway
jvm = launch_gateway().jvm
jvm.java.lang.Class.forName({name!r})
for logger in ({name!r}, {guarded!r}, "org.apache.spark.executor.Executor"):
    print(jvm.org.slf4j.LoggerFactory.getLogger(logger).isWarnEnabled())
java.stop()
"""
    asked = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert asked.stdout.split() == ["False", "False", "True"], asked.stderr
