"""What an executor's pod logs, without a cluster: its Java, which finds no driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime

import pytest

pytestmark = pytest.mark.spark


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
        timeout=120,
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
