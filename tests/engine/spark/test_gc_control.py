"""The garbage collector keeps away from state, and cycles of user code are found all the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from wallaroo.engine.spark import gc_control
from wallaroo.engine.spark.gc_control import no_garbage_collection


class Node:
    """Refers to itself: only the collector finds out that nobody else does."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_cycles_of_a_task_are_gone_behind_it() -> None:
    with no_garbage_collection():
        assert not gc.isenabled()
        node = weakref.ref(Node())
        assert node() is not None
    assert node() is None
    assert gc.isenabled()


def test_what_is_alive_behind_a_task_is_not_looked_at_after_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with no_garbage_collection():
        entity = Node()
    node = weakref.ref(entity)
    del entity
    with no_garbage_collection():
        pass
    assert node() is not None  # frozen
    monkeypatch.setattr(gc_control, "_FULL_EVERY_S", -1.0)
    with no_garbage_collection():
        pass
    assert node() is None
