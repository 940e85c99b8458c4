"""What tests of all folders share: the engine, and one Spark for all that run in their process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.engines import engines_of
from wallaroo.engine.registry import DEFAULT, VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.in_process import InProcess


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on Spark on each of its engines."""
    if metafunc.definition.get_closest_marker("spark") is not None:
        engines = engines_of(metafunc.definition.nodeid)
        metafunc.parametrize("engine_name", engines, indirect=True, scope="module")


@pytest.fixture(autouse=True, scope="module")
def engine_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of the engine that runs start on; a fixture of a module that starts one asks for it."""
    name: str | None = getattr(request, "param", None)
    if name is None:  # it starts no Spark
        yield DEFAULT
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, name)
        yield name


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Local Spark: there is one in a process, so it suits all engines."""
    from tests.spark.in_process import launch

    spark = launch("tests", tmp_path_factory.mktemp("spark"))
    yield spark.session
    spark.stop()


@pytest.fixture
def on_spark(
    session: SparkSession, engine_name: str, tmp_path_factory: pytest.TempPathFactory
) -> InProcess:
    """Runs applications on local Spark, without sockets."""
    from tests.spark.in_process import InProcess

    return InProcess(session, partial(tmp_path_factory.mktemp, "run"), engine_name)
