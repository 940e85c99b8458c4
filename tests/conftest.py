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
# without a module that Spark asks of each executor, and that small Javas do not have
for argument do
    shift
    case $argument in --add-modules=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
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
    from wallaroo.engine.spark.java import find_java

    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA.format(java=shlex.quote(find_java())))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    directory = tmp_path / "executors"
    monkeypatch.setenv("SPARK_WORKER_DIR", str(directory))
    return directory
