"""Generators that are refused."""

from __future__ import annotations

from typing import Any

import pytest

import wallaroo
from tests.applications.counting import Count
from tests.resolution.declared import begun, only_problem, problems, this_line

HERE = "test_resolve.py"
unchecked: Any = wallaroo
"""The API as an author has it who uses no type checker."""


class Numbers:
    def initial_value(self) -> int:
        return 1

    def apply(self, previous: int) -> int:
        return previous + 1


@pytest.mark.parametrize(
    ("gen", "described"),
    [
        (Numbers, "the class Numbers"),
        (7, "7"),
        (iter([]), "an object of class list_iterator"),
        (Count(), "an object of class Count"),
    ],
)
def test_a_generator_is_an_object_with_its_two_methods(gen: Any, described: str) -> None:
    builder, at = begun(wallaroo.GenSourceConfig(gen)).done(), this_line()
    assert only_problem(builder) == (
        f"{HERE}:{at}: pipeline 'lines': {described} is not a generator; "
        "expected an object with initial_value() and apply(previous)"
    )


def test_a_generators_methods_take_what_they_are_given() -> None:
    class Odd:
        def initial_value(self, seed: int) -> int:
            return seed

        def apply(self) -> int:
            return 1

    told = problems(begun(unchecked.GenSourceConfig(Odd())).done())
    assert "pipeline 'lines': generator's initial_value is called with ()" in told[0]
    assert "pipeline 'lines': generator's apply is called with (previous)" in told[1]
