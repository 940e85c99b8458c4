"""What tests of all folders share: one Spark for all that run the engine in the test's process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.helpers import ROOT

if TYPE_CHECKING:
    from tests.spark.in_process import InProcess


@pytest.fixture(scope="session")
def on_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """Runs applications on local Spark, without sockets."""
    from tests.spark.in_process import InProcess
    from wallaroo.engine.spark.session import Launch, SparkSettings

    settings = SparkSettings("local[3]", 1, tmp_path_factory.mktemp("spark"))
    spark = Launch("tests", settings, [str(ROOT)]).finish()
    yield InProcess(spark.session, partial(tmp_path_factory.mktemp, "run"))
    spark.stop()
