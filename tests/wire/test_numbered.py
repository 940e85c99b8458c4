"""Outputs behind numbers: what comes again is dropped, what is missing is told."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallaroo.errors import FrameError
from wallaroo.wire.numbered import SequenceCutter, sequenced

NAME = sequenced(0, [b"numbering"])


@given(
    st.lists(st.binary(max_size=20)),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))),
    st.integers(1, 25),
)
def test_each_output_comes_out_once_however_often_its_tail_is_sent(
    outputs: list[bytes], connections: list[tuple[int, int]], size: int
) -> None:
    seen: dict[str, int] = {}
    found: list[bytes] = []
    for back, count in [*connections, (30, len(outputs))]:
        start = max(0, len(found) - back)
        cutter = SequenceCutter(seen)
        data = NAME + sequenced(start + 1, outputs[start : start + back + count])
        for place in range(0, len(data), size):
            found += cutter.feed(data[place : place + size])
        assert not cutter.rest
    assert found == outputs


def test_another_numbering_begins_anew() -> None:
    seen: dict[str, int] = {}
    assert SequenceCutter(seen).feed(NAME + sequenced(1, [b"a"])) == [b"a"]
    assert SequenceCutter(seen).feed(sequenced(0, [b"other"]) + sequenced(1, [b"a"])) == [b"a"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (sequenced(1, [b"a"]), "output 1: a connection starts with number 0"),
        (NAME + NAME, "output 0: a connection starts with number 0, once"),
        (NAME + sequenced(1, [b"a"]) + sequenced(3, [b"c"]), "output 3 comes after 1"),
    ],
)
def test_what_is_no_sequence_is_told(data: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        SequenceCutter({}).feed(data)


@given(st.lists(st.binary(max_size=100)))
def test_arbitrary_bytes_are_outputs_or_a_frame_error(pieces: list[bytes]) -> None:
    cutter = SequenceCutter({})
    with contextlib.suppress(FrameError):
        for piece in pieces:
            cutter.feed(piece)
