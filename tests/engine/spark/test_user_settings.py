"""Spark settings of the user: the driver's memory, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from wallaroo.engine.realtime.engine import launch
from wallaroo.engine.settings import EngineSettings
from wallaroo.engine.spark import user_settings
from wallaroo.engine.spark.java import Java
from wallaroo.engine.spark.session import Launch, SparkSettings
from wallaroo.engine.spark.supervised_query import failure_of
from wallaroo.engine.stored import StateLayout
from wallaroo.errors import RuntimeFailure, UsageError
from wallaroo.loading.loader import ApplicationRef


@pytest.mark.parametrize(
    ("chosen", "heap"),
    [({}, "1g"), ({"spark.driver.memory": "3g"}, "3g"), ({"spark.driver.memory": "700"}, "700m")],
)
def test_java_gets_the_drivers_memory(
    chosen: dict[str, str], heap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert _FakeJava.of_driver(chosen, "1g").memory == heap


@pytest.mark.parametrize("size", ["much", "-1g", "1.5g", ""])
def test_a_memory_that_is_no_size_is_named(size: str) -> None:
    with pytest.raises(UsageError, match=f"--conf spark.driver.memory={size}: a size is"):
        user_settings.driver_memory({"spark.driver.memory": size}, "1g")
    with pytest.raises(UsageError, match=f"--driver-memory={size}: a size is"):
        user_settings.driver_memory({}, size)


@pytest.mark.parametrize("size", ["0", "511m", "524287k", "500"])
def test_less_memory_than_spark_needs_is_refused_with_the_least(size: str) -> None:
    least = "is too little: Spark needs at least 512m"
    with pytest.raises(UsageError, match=f"--conf spark.driver.memory={size} {least}"):
        user_settings.driver_memory({"spark.driver.memory": size}, "1g")
    with pytest.raises(UsageError, match=f"--driver-memory={size} {least}"):
        user_settings.driver_memory({}, size)
    assert user_settings.driver_memory({}, "524288k") == "524288k"


class _FakeJava(Java):
    """Java whose exceptions can be read only while it runs, as those of Py4J."""

    is_up = True

    def __init__(self, memory: str = "", *_arguments: object) -> None:
        """Start nothing."""
        self.memory = memory

    def connect(self) -> None:
        raise _OfJava

    def ended(self, wait_s: float = 0.0) -> None:
        """It runs."""

    def stop(self) -> None:
        type(self).is_up = False


class _OfJava(Exception):
    def __str__(self) -> str:
        assert _FakeJava.is_up
        return ": java.lang.IllegalArgumentException: the setting makes no sense"


def test_why_spark_refuses_its_settings_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)  # other tests may have started it
    started = Launch("refused", SparkSettings("local[1]", 1, tmp_path), _FakeJava())
    with pytest.raises(
        RuntimeFailure, match=r"Spark did not start on local\[1\]: .*makes no sense"
    ):
        started.finish()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("spark.executor.instances", "use --workers"),
        ("spark.sql.shuffle.partitions", "use --partitions"),
        ("spark.driver.extraClassPath", "use spark.jars"),
    ],
)
def test_a_setting_without_effect_is_refused_by_name(
    name: str, instead: str, tmp_path: Path
) -> None:
    reference = ApplicationRef("application")
    settings = EngineSettings(reference, "local[1]", spark={name: "7"})
    layout = StateLayout("refused", 1, 8, tmp_path)
    with pytest.raises(UsageError, match=f"--conf {name}=7 cannot be set: {instead}"):
        launch(settings, layout, tmp_path)


@pytest.mark.parametrize("code", [3, 52])
def test_java_that_ran_out_of_memory_is_told_with_what_it_had(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = tmp_path / "java"
    ending.write_text(f"#!/bin/sh\nexit {code}\n")
    ending.chmod(0o700)
    monkeypatch.setattr("wallaroo.engine.spark.java.find_java", lambda: str(ending))
    java = Java("512m", [])
    try:
        with pytest.raises(
            RuntimeFailure, match=r"ran out of memory .* \(-Xmx512m\): give it more"
        ):
            java.connect()
    finally:
        java.stop()


def test_a_java_that_cannot_be_started_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_bytes(b"\x7fELF of another architecture")
    program.chmod(0o700)
    (tmp_path / "release").write_text('JAVA_VERSION="25.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=f"{program} cannot be started .*; set JAVA_HOME"):
        Java("512m", [])


def test_java_ends_at_once_when_its_memory_runs_out() -> None:
    problem = r"Spark's Java ran out of memory .* \(-Xmx6m\)"
    with capture_logs() as logs:
        java = Java("6m", [])
        try:
            with pytest.raises(RuntimeFailure, match=problem):
                java.connect()
        finally:
            java.stop()
    assert any("OutOfMemoryError" in log["line"] for log in logs)


def test_a_query_that_ran_out_of_memory_says_where_to_give_it_more() -> None:
    failure = failure_of("Job aborted\njava.lang.OutOfMemoryError: Java heap space\n")
    assert failure.reason.endswith(
        "--conf spark.executor.memory (java.lang.OutOfMemoryError: Java heap space)"
    )
    assert not failure.final
