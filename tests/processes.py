"""The spread of tests over processes: what is left out, what comes first, what stays together."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import Counter
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

_ROOT = Path(__file__).parents[1]
_FOLDERS = ("tests/kafka/", "tests/connectors/sql/")
"""Folders whose tests share a broker or a database."""
_SESSION = re.compile(r"\b(on_spark: InProcess|session: SparkSession)\b")
"""What a test has among its arguments that uses the session of its process."""
_LAST = "three_brokers"
"""Fixture whose tests come last in their scope: those brokers need a tenth of a core while idle."""
_ASKED_FOR = ("cluster", "slow")
"""Marks of tests that only their mark asks for."""
_MOST = 8

# the many processes that tests start need not compile again what they import
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def scope_of(test: str) -> str:
    """The scope of *test*, an id, which is that of its file."""
    return _scope_of_file(test.split("::", 1)[0])


@cache
def _scope_of_file(file: str) -> str:
    """*file*, its folder, or one scope for all that use a session: one process alone starts it."""
    if file.startswith("tests/") and _SESSION.search((_ROOT / file).read_text()):
        return "session"
    return next(filter(file.startswith, _FOLDERS), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: tests start processes, which keep all cores busy, and wait."""
    return min(len(os.sched_getaffinity(0)) + 1, _MOST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Have one process run all tests of a scope, so that what they share starts once."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

        def _reschedule(self, node: Any) -> None:
            """Give *node* at least two tests: it runs one only once it knows the next one."""
            with contextlib.suppress(OSError):  # its process has ended, which comes to be known
                super()._reschedule(node)
                while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                    super()._reschedule(node)

        def remove_node(self, node: Any) -> str | None:
            """Give what *node* has not run to others, but not the test in which it ended."""
            work = self.assigned_work.pop(node)
            left = (
                (tests, test) for tests in work.values() for test, run in tests.items() if not run
            )
            tests, ended_in = next(left, (None, None))
            if tests is None:
                return None
            tests[ended_in] = True
            self.workqueue.update(work)
            for other in self.assigned_work:
                self._reschedule(other)
            return ended_in

    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no doctests in tests: each process would look through all of them."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not asked for, and begin with the scopes that take longest."""
    marks = [mark for mark in _ASKED_FOR if mark not in str(config.option.markexpr)]
    out = [item for item in items if any(map(item.get_closest_marker, marks))]
    config.hook.pytest_deselected(items=out)
    left = set(items).difference(out)
    starts = Counter(scope_of(item.nodeid) for item in left if item.get_closest_marker("spark"))

    def place(item: pytest.Item) -> tuple[bool, int, bool]:
        scope = scope_of(item.nodeid)
        return scope not in _FOLDERS, -starts[scope], _LAST in getattr(item, "fixturenames", ())

    items[:] = sorted(filter(left.__contains__, items), key=place)
