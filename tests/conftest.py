"""What tests of all folders share: their spread over processes, and one Spark in each of these."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

from tests.processes import (
    pytest_collect_file,
    pytest_collection_modifyitems,
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.in_process import InProcess

__all__ = [  # hooks
    "pytest_collect_file",
    "pytest_collection_modifyitems",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
]

_JAVA = """\
#!/bin/sh
# with the cache of the driver's classes, which executors use if they are given its class path, and
# without a module that Spark asks of each executor, and that small Javas do not have
for argument do
    shift
    case $argument in
    --add-modules=*) ;;
    */jars/\\*) set -- "$@" "${{CACHED_CLASSES:-$argument}}" ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} {cached} "$@"
"""

settings.register_profile("unhurried", settings(), deadline=None)  # machines can be busy
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def log_settings() -> Iterator[None]:
    """What a command that a test calls in its process sets for logs is forgotten afterwards."""
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    if before is None:
        structlog.reset_defaults()
    else:
        structlog.configure(**before)


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Local Spark: there is one in a process."""
    from tests.spark.in_process import launch

    spark = launch("tests", tmp_path_factory.mktemp("spark"))
    yield spark.session
    spark.stop()


@pytest.fixture
def on_spark(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    """Runs applications on local Spark, without sockets."""
    from tests.spark.in_process import InProcess

    return InProcess(session, partial(tmp_path_factory.mktemp, "run"))


@pytest.fixture
def executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment in which local Spark starts executors; returns their directory."""
    from wallaroo.engine.spark.class_cache import using
    from wallaroo.engine.spark.java import find_java

    java, real = tmp_path / "java" / "bin" / "java", find_java()
    java.parent.mkdir(parents=True)
    cached = shlex.join(using(real, _classes()))
    java.write_text(_JAVA.format(java=shlex.quote(real), cached=cached))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    directory = tmp_path / "executors"
    monkeypatch.setenv("SPARK_WORKER_DIR", str(directory))
    return directory


@pytest.fixture
def cached_executors(executors: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with executors that have the driver's class path, by which they start sooner."""
    monkeypatch.setenv("CACHED_CLASSES", ":".join(map(str, _classes())))
    return executors


def _classes() -> list[Path]:
    """The class path of a driver."""
    from wallaroo.engine.realtime.jar import jar
    from wallaroo.engine.spark.java import class_path

    return class_path([jar()])
