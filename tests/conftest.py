"""What tests of all folders share: the engine, and one Spark for all that run in their process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

from tests.engines import MICRO_BATCH, engines_of
from wallaroo.engine.registry import DEFAULT, VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.in_process import InProcess

_BOTH_UNTIL = float(os.environ.get("WALLAROO_TEST_BOTH_UNTIL", "inf"))
"""From then on, in seconds since 1970, tests of both engines run on one: for a slow machine."""


settings.register_profile("unhurried", settings(), deadline=None)  # machines can be busy
settings.load_profile("unhurried")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the slower engine when it is late, except where it is the only one."""
    callspec = getattr(item, "callspec", None)
    if time.time() < _BOTH_UNTIL or callspec is None:
        return
    if callspec.params.get("engine_name") == MICRO_BATCH and len(engines_of(item.nodeid)) > 1:
        pytest.skip("the time for tests on both engines is over")


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
