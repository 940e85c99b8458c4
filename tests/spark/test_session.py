"""One Spark for each process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.in_process import InProcess
from wallaroo.engine.spark.session import Launch, SparkSettings
from wallaroo.errors import UsageError

pytestmark = pytest.mark.spark


def test_a_process_that_runs_spark_cannot_start_another(
    on_spark: InProcess, tmp_path: Path
) -> None:
    with pytest.raises(
        UsageError, match="'other' cannot start Spark, because it is already running"
    ):
        Launch("other", SparkSettings("local[1]", 1, tmp_path))
    assert on_spark.session.range(2).count() == 2


def test_spark_has_its_temporary_files_in_a_directory_that_goes_with_java(
    on_spark: InProcess,
) -> None:
    java: Any = on_spark.session._jvm
    directory = Path(java.java.lang.System.getProperty("java.io.tmpdir"))
    assert directory.name.startswith("wallaroo-java-")
    assert list(directory.glob("artifacts-*"))
    assert not (directory / "connection").exists()  # it had the secret
