"""What tests of all folders share: their spread over processes, and the Spark of each process."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

from tests.engines import MICRO_BATCH, engines_of
from wallaroo.engine.registry import DEFAULT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.in_process import InProcess

_FOLDERS = ("tests/kafka/", "tests/gateway/connectors/sql/")
"""Folders whose tests share a broker or a database."""
_MOST_PROCESSES = 8

# the many processes that tests start need not compile again what they import
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("unhurried", settings(), deadline=None)  # machines can be busy
settings.load_profile("unhurried")


def scope_of(test: str) -> str:
    """The file of *test*, an id, or its folder: one process runs all tests of it."""
    return next(filter(test.startswith, _FOLDERS), test.split("::", 1)[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes for each core: tests mostly wait for processes that they start."""
    return min(2 * len(os.sched_getaffinity(0)), _MOST_PROCESSES)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Have one process run all tests of a scope, so that what they share starts once."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = scope_of
    return scheduler


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only its mark asks for, and begin with the scopes that take longest."""
    asked = str(config.option.markexpr)
    marks = [mark for mark in ("cluster", "slow") if mark not in asked]
    out = [item for item in items if any(map(item.get_closest_marker, marks))]
    # what the real-time engine does not have
    out += [item for item in items if MICRO_BATCH in engines_of(item.nodeid)[:1]]
    config.hook.pytest_deselected(items=out)
    left = set(items).difference(out)
    starts = Counter(scope_of(item.nodeid) for item in left if item.get_closest_marker("spark"))

    def place(item: pytest.Item) -> tuple[bool, int]:
        scope = scope_of(item.nodeid)
        return scope not in _FOLDERS, -starts[scope]

    items[:] = sorted(filter(left.__contains__, items), key=place)


@pytest.fixture(autouse=True, scope="module")
def engine_name() -> str:
    """Name of the engine that runs start on."""
    return DEFAULT


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
