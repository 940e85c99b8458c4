"""The spread of tests over processes: what is left out, what comes first, what stays together."""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

_FOLDERS = ("tests/kafka/", "tests/connectors/sql/")
"""Folders whose tests share a broker or a database."""
_ASKED_FOR = ("cluster", "slow")
"""Marks of tests that only their mark asks for."""
_MOST = 8

# the many processes that tests start need not compile again what they import
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def scope_of(test: str) -> str:
    """The file of *test*, an id, or its folder: one process runs all tests of it."""
    return next(filter(test.startswith, _FOLDERS), test.split("::", 1)[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes for each core: tests mostly wait for processes that they start."""
    return min(2 * len(os.sched_getaffinity(0)), _MOST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Have one process run all tests of a scope, so that what they share starts once."""
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = scope_of
    return scheduler


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not asked for, and begin with the scopes that take longest."""
    marks = [mark for mark in _ASKED_FOR if mark not in str(config.option.markexpr)]
    out = [item for item in items if any(map(item.get_closest_marker, marks))]
    config.hook.pytest_deselected(items=out)
    left = set(items).difference(out)
    starts = Counter(scope_of(item.nodeid) for item in left if item.get_closest_marker("spark"))

    def place(item: pytest.Item) -> tuple[bool, int]:
        scope = scope_of(item.nodeid)
        return scope not in _FOLDERS, -starts[scope]

    items[:] = sorted(filter(left.__contains__, items), key=place)
