"""Where reading a topic resumes, and what is gone by then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.kafka.positions import Positions, lost_records
from wallaroo.connectors.kafka.problems import KafkaProblem

_OFFSETS = st.dictionaries(st.integers(0, 1000), st.integers(0, 2**63 - 1))


@given(st.text(), _OFFSETS)
def test_positions_are_decoded_as_they_were_encoded(topic: str, offsets: dict[int, int]) -> None:
    positions = Positions(topic, offsets)
    assert Positions.decoded(positions.encoded()) == positions


@pytest.mark.parametrize("data", [b"\x80\x05K\x07.", b"7", b'{"next": 7}', b"[]"])
def test_the_position_of_another_kind_of_source_is_refused(data: bytes) -> None:
    with pytest.raises(KafkaProblem, match="rename the pipeline"):
        Positions.decoded(data)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_records_are_lost_if_and_only_if_the_position_is_outside(
    offset: int, first: int, size: int
) -> None:
    found = lost_records(Positions("a", {0: offset}), "a", {0: (first, first + size)})
    assert bool(found) == (not first <= offset <= first + size)
