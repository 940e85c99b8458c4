"""State classes whose attributes or pickling are odd: simulation and engine agree on each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import wallaroo
from tests.applications.counting import Count, count, decode, encode, first_letter
from tests.dataflow.single_bucket import Engine
from wallaroo.model.application import Application
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate


class Forwards(Count):
    """Finds what it does not have in what it wraps, also while it is loaded and has nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.wrapped: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return self.wrapped[name]


class ForwardsOnlyNames(Forwards):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "wrapped" not in vars(self):
            raise AttributeError(name)
        return self.wrapped.get(name)


class AnswersAnything(Count):
    def __getattr__(self, name: str) -> Any:
        return 0


class GivesNothing(Count):
    """Python then calls no `__setstate__`: the count would be gone."""

    messages = 0

    def __getstate__(self) -> Any:
        return None


class GivesNoDictionary(Count):
    def __getstate__(self) -> Any:
        return [self.messages]


class RaisesLater(Count):
    def __getstate__(self) -> Any:
        if self.messages >= 2:
            raise SystemExit(2)
        return vars(self)


class Slotted:
    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class LooksItUp(Count):
    def __getattribute__(self, name: str) -> Any:
        if name == "__reduce_ex__":
            raise RuntimeError(name)
        return super().__getattribute__(name)


KINDS = [
    *(Forwards, ForwardsOnlyNames, AnswersAnything, GivesNothing, GivesNoDictionary),
    *(RaisesLater, Slotted, LooksItUp),
]


def application(kind: Any) -> Application:
    builder = wallaroo.ApplicationBuilder("odd")
    builder.new_pipeline("p", wallaroo.TCPSourceConfig("", 0, decode))
    builder.to_state_partition(count, kind, "counts", first_letter)
    builder.to_sink(wallaroo.TCPSinkConfig("", 0, encode))
    return resolve(builder.build())


@pytest.fixture(autouse=True)
def low_limit() -> Iterator[None]:
    """`Forwards` recurses up to the limit, which must be far from what the stack can hold."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_the_simulation_refuses_the_engine_refuses_in_the_same_words(kind: Any) -> None:
    engine, sent = Engine(application(kind)), ["a", "b", "a", "a", "b", "c"]
    engine.batch(sent[:3])
    engine.batch(sent[3:])
    due = simulate(engine.application, [("p", text.encode()) for text in sent])
    assert sorted(engine.outputs) == sorted(due.outputs)
    assert sorted(letter.error for letter in engine.tally.letters) == sorted(
        f"Unsavable: {error}" for *_, error in due.set_aside
    )
