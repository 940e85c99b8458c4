"""Estimates of the number of different values."""

from __future__ import annotations

import math
from typing import Any

import pytest

import wallaroo
from tests.api.test_ready_aggregations import accumulated

pytest.importorskip("datasketches", reason="there are no wheels of it for Python 3.14")


@pytest.mark.parametrize("parts", [1, 3])
def test_many_different_values_are_counted_within_five_standard_errors(parts: int) -> None:
    estimate = wallaroo.ApproxDistinct()
    accumulator = estimate.initial_accumulator()
    for part in range(parts):
        values = [f"{value}" for value in range(part * 5_000, 20_000)]
        accumulator = estimate.combine(accumulator, accumulated(estimate, values))
    assert estimate.value(accumulator) == pytest.approx(20_000, rel=5 * 1.04 / 64)
    assert sum(map(len, accumulator)) < 4_200


def test_values_are_different_if_python_says_so() -> None:
    values = [1, 1.0, True, "1", b"1", 2**64, float(2**64), 0.5, -1, "i1", "s1", 2**63, math.inf]
    found = wallaroo.ApproxDistinct().value(accumulated(wallaroo.ApproxDistinct(), values))
    assert found == len(set(values))


@pytest.mark.parametrize("value", [None, (1, 2), ["a"], "\ud800"])
def test_what_cannot_be_told_apart_is_refused(value: Any) -> None:
    estimate = wallaroo.ApproxDistinct()
    accumulator = accumulated(estimate, ["a"])
    with pytest.raises((TypeError, ValueError)):
        estimate.update(value, accumulator)
    assert estimate.value(accumulator) == 1


@pytest.mark.parametrize("precision", [3, 22])
def test_a_precision_that_does_not_exist_is_refused(precision: int) -> None:
    with pytest.raises(wallaroo.WallarooParameterError, match="expected 4 to 21"):
        wallaroo.ApproxDistinct(precision=precision)
