"""What plain Python says is what happens: odd but ordinary user code, held against `simulate`."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import plain_python
from tests.dataflow.harness import Driven, chunks
from wallaroo.resolution.application import resolve
from wallaroo.testing import simulate


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 1_000_000),
    st.lists(
        st.tuples(
            st.sampled_from(plain_python.SOURCES),
            st.sampled_from("abc"),
            st.integers(0, 30),
            st.integers(0, 4),
        ),
        max_size=25,
    ),
)
def test_any_split_of_the_messages_gives_what_the_simulation_gives(
    seed: int, arrived: list[tuple[str, str, int, int]]
) -> None:
    application = resolve(plain_python.declared(random.Random(seed)))
    names = [source.name for source in application.sources]
    sent = [
        (name if name in names else names[0], f"{letter}{number}".encode())
        for name, letter, number, _ in arrived
    ]
    driven = Driven(application)
    for batch in chunks(application, sent, [cut for *_, cut in arrived]):
        driven.batch(batch)
        driven.restart()
    expected = simulate(application, sent)
    assert Counter(driven.outputs["one"]) == Counter(expected.outputs)
    assert Counter((e.pipeline, e.step) for e in driven.tally.letters) == Counter(
        (pipeline, step) for pipeline, step, _, _ in expected.set_aside
    )
