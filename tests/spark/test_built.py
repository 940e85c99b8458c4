"""What was added for pipelines, in an application of the builder: on Spark as in the simulation."""

from __future__ import annotations

import pytest

import wallaroo
from tests.applications import built
from tests.spark.in_process import InProcess
from wallaroo.loading.loader import ApplicationRef
from wallaroo.testing import simulate

pytestmark = pytest.mark.spark


def test_async_steps_timers_and_windows_of_the_builder(on_spark: InProcess) -> None:
    reference = ApplicationRef("tests.applications.built", ())
    sent = [
        (built.SOURCE, f"{letter}{number}".encode())
        for number in range(5)
        for letter in "abcdefghijklmnop"
    ]
    due = simulate(reference.load(), sent, until_ns=int(wallaroo.seconds(3)))
    assert len(due.outputs) == 32
    assert b"a: a3, a4, a was silent after 5" in due.outputs
    made = on_spark.run(
        reference, sent, until=lambda outputs: len(outputs[built.SOURCE]) >= len(due.outputs)
    )
    assert sorted(made.by_sink[built.SOURCE]) == sorted(due.outputs)
    assert made.tally.set_aside == 0
