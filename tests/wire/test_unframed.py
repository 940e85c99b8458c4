"""Lines, delimited messages and messages of one length are cut the same however they come in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.wire.unframed import Delimited, FixedLength, StreamFormat

LINES = Delimited(b"\n", max_size=12, ends_with_stream=True)
reads = st.lists(st.integers(1, 20), min_size=1, max_size=6)
delimiters = st.sampled_from([b"\n", b"\r\n", b"aa", b"aba", b"\0"])


def cut(cutter: StreamFormat, stream: bytes, sizes: list[int]) -> tuple[list[bytes], bytes]:
    """Messages and rest of *stream*, read in pieces of the sizes *sizes*, over and over."""
    found, rest, position, turn = list[bytes](), b"", 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        rest += stream[position : position + size]
        position, turn = position + size, turn + 1
        scan, problem = cutter.scan_until_error(rest)
        assert problem is None
        messages = cutter.split(rest[: scan.end])
        assert len(messages) == scan.frames
        found, rest = found + messages, rest[scan.end :]
        assert bool(rest) == (scan.needs > 0)
    return found, rest


@settings(max_examples=150, deadline=None)
@given(delimiters, st.text("ab\r\n\0", max_size=60).map(str.encode), reads)
def test_any_split_into_reads_gives_the_pieces_between_delimiters(
    delimiter: bytes, stream: bytes, sizes: list[int]
) -> None:
    *expected, rest = stream.split(delimiter)
    assert cut(Delimited(delimiter), stream, sizes) == (expected, rest)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.binary(max_size=60), reads)
def test_any_split_into_reads_gives_pieces_of_one_length(
    length: int, stream: bytes, sizes: list[int]
) -> None:
    found, rest = cut(FixedLength(length), stream, sizes)
    assert {len(message) for message in found} <= {length}
    assert b"".join(found) + rest == stream
    assert len(rest) < length


@settings(max_examples=150, deadline=None)
@given(delimiters, st.text("ab\r\n\0", max_size=60).map(str.encode), st.integers(0, 60))
def test_a_delimiter_is_found_in_what_came_last(
    delimiter: bytes, stream: bytes, start: int
) -> None:
    cutter, start = Delimited(delimiter), min(start, len(stream))
    if delimiter not in stream[:start]:
        assert cutter.ends_in(stream, start, len(stream)) == (delimiter in stream)


def test_a_message_of_the_largest_size_is_taken_and_a_longer_one_is_not() -> None:
    at_limit = b"x" * 12
    assert LINES.scan_until_error(at_limit + b"\n" + at_limit)[0].end == 13
    for over in (b"ok\n" + b"x" * 13, b"ok\n" + b"x" * 13 + b"\nmore\n"):
        scan, problem = LINES.scan_until_error(over)
        assert (scan.end, scan.frames) == (3, 1)
        assert problem == "a line of more than 12 bytes without its line feed"


def test_a_delimiter_of_which_all_but_its_last_byte_has_come_does_not_count() -> None:
    cutter = Delimited(b"<end>", max_size=4)
    assert cutter.scan_until_error(b"1234<end")[1] is None
    assert cutter.scan_until_error(b"1234<end>")[0].frames == 1
    assert cutter.scan_until_error(b"12345<end")[1] is not None


def test_only_the_last_line_is_ended_by_the_end_of_the_stream() -> None:
    assert LINES.last(b"half") == b"half"
    assert LINES.last(b"") is None
    assert Delimited(b"\n").last(b"half") is None


def test_impossible_layouts_are_refused() -> None:
    with pytest.raises(ValueError, match="one byte at least"):
        Delimited(b"")
    for length in (0, -1, 11):
        with pytest.raises(ValueError, match="1 to 10 bytes"):
            FixedLength(length, max_size=10)
