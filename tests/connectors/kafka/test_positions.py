"""Where reading topics resumes, and what is gone by then."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.connectors.kafka.positions import Partition, Positions, lost_records
from wallaroo.connectors.kafka.problems import KafkaProblem
from wallaroo.connectors.kafka.topic import Topic

_OFFSETS = st.dictionaries(st.integers(0, 1000), st.integers(0, 2**63 - 1))
_TOPICS = st.dictionaries(st.text(), st.tuples(st.text(), _OFFSETS), max_size=5)
ORDERS = Topic("orders", "a:1")


def positions_of(topics: dict[str, tuple[str, dict[int, int]]]) -> Positions:
    """The positions in *topics*: ID and offsets by name."""
    return Positions(
        {name: topic_id for name, (topic_id, _) in topics.items()},
        {
            Partition(name, number): offset
            for name, (_, offsets) in topics.items()
            for number, offset in offsets.items()
        },
    )


@given(_TOPICS)
def test_positions_are_decoded_as_they_were_encoded(
    topics: dict[str, tuple[str, dict[int, int]]],
) -> None:
    positions = positions_of(topics)
    assert Positions.decoded(positions.encoded()) == positions


@pytest.mark.parametrize(
    "data",
    [b"\x80\x05K\x07.", b"7", b'{"next": 7}', b"[]", b'{"topic": "x", "next": {}, "name": "t"}'],
)
def test_the_position_of_another_kind_of_source_is_refused(data: bytes) -> None:
    with pytest.raises(KafkaProblem, match="rename the pipeline"):
        Positions.decoded(data)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_records_are_lost_if_and_only_if_the_position_is_outside(
    offset: int, first: int, size: int
) -> None:
    before = positions_of({"orders": ("a", {0: offset})})
    ids, bounds = {"orders": "a"}, {Partition("orders", 0): (first, first + size)}
    found = lost_records(before, ORDERS, ids, bounds)
    assert bool(found) == (not first <= offset <= first + size)
    (resumed,) = before.resumed(ids, bounds).offsets.values()
    assert first <= resumed <= first + size
    assert (resumed == offset) == (not found)


@pytest.mark.parametrize(
    ("before", "why"), [("orders", "deleted and recreated"), ("quotes", "has read topic quotes")]
)
def test_another_topic_is_not_called_one_that_was_recreated(before: str, why: str) -> None:
    positions = positions_of({before: ("a", {0: 7})})
    (found,) = lost_records(positions, ORDERS, {"orders": "b"}, {Partition("orders", 0): (0, 9)})
    assert why in found


def test_each_reason_names_its_topic() -> None:
    several = Topic("orders", "a:1", others=("returns", "quotes"))
    before = positions_of(
        {"orders": ("a", {0: 7, 1: 7}), "returns": ("b", {0: 7}), "quotes": ("c", {0: 7})}
    )
    bounds = {Partition("orders", 0): (9, 9), Partition("returns", 0): (0, 9)}
    assert lost_records(before, several, {"orders": "a", "returns": "x"}, bounds) == [
        "topic returns is not the one that was read before: it was deleted and recreated",
        "records 7 to 8 of partition 0 of topic orders were deleted before they were read",
        "partition 1 of topic orders is gone",
    ]


def test_topics_that_match_a_pattern_may_be_deleted_and_recreated() -> None:
    topic = Topic("ord.*", "a:1", pattern=re.compile("ord.*"))
    before = positions_of({"orders": ("a", {0: 7}), "ordinary": ("b", {0: 3})})
    ids, bounds = {"orders": "x"}, {Partition("orders", 0): (2, 9)}
    assert lost_records(before, topic, ids, bounds) == []
    after = positions_of({"orders": ("x", {0: 2}), "ordinary": ("b", {0: 3})})
    assert before.resumed(ids, bounds) == after


def test_the_position_in_a_topic_that_is_away_is_kept_until_it_is_there_again() -> None:
    before = positions_of({"orders": ("a", {0: 7}), "returns": ("b", {0: 3})})
    bounds = {Partition(name, 0): (0, 9) for name in ("orders", "returns")}
    away = before.resumed({"orders": "a"}, {Partition("orders", 0): (0, 9)})
    assert away.resumed({"orders": "a", "returns": "b"}, bounds) == before
