"""One Spark for each process."""

from __future__ import annotations

from pathlib import Path

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
