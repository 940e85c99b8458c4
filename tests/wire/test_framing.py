"""Frames are cut the same however their bytes come in."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.errors import FrameError
from wallaroo.wire.framing import Framing, Scan

FORMATS = [(2, ">H"), (4, "<I"), (1, "B"), (8, ">Q"), (4, ">i"), (4, ">I")]
U32 = Framing(4, ">I")
MARKED = Framing(6, lambda header: int.from_bytes(header[2:4], "big") - 6)
"""A header of a mark, the length of the whole frame, and some flags."""


def marked(payload: bytes) -> bytes:
    return b"#!" + (len(payload) + 6).to_bytes(2, "big") + b"ab" + payload


framings = st.sampled_from(FORMATS).map(lambda layout: Framing(*layout))
mixed_lengths = st.lists(st.binary(max_size=40), max_size=30)
runs_of_equal_lengths = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 60), st.integers(0, 255)), max_size=6
).map(lambda runs: [bytes([fill]) * size for size, count, fill in runs for _ in range(count)])
payload_lists = mixed_lengths | runs_of_equal_lengths


def cut(framing: Framing, stream: bytes, reads: list[int]) -> list[bytes]:
    """The payloads of *stream* when it is read in pieces of the sizes *reads*, over and over."""
    payloads: list[bytes] = []
    rest, position, turn = b"", 0, 0
    while position < len(stream):
        size = reads[turn % len(reads)]
        rest += stream[position : position + size]
        position, turn = position + size, turn + 1
        end = framing.scan(rest).end
        payloads += framing.split(rest[:end])
        rest = rest[end:]
    assert rest == b""
    return payloads


@settings(max_examples=150, deadline=None)
@given(framings, payload_lists, st.lists(st.integers(1, 70), min_size=1, max_size=8))
def test_any_split_of_a_stream_into_reads_gives_the_same_frames(
    framing: Framing, payloads: list[bytes], reads: list[int]
) -> None:
    stream = b"".join(map(framing.frame, payloads))
    assert cut(framing, stream, reads) == payloads


@settings(max_examples=150, deadline=None)
@given(payload_lists, st.lists(st.integers(1, 70), min_size=1, max_size=8))
def test_frames_that_a_function_reads_are_cut_the_same_however_they_come_in(
    payloads: list[bytes], reads: list[int]
) -> None:
    assert cut(MARKED, b"".join(map(marked, payloads)), reads) == payloads


@settings(max_examples=150, deadline=None)
@given(framings, payload_lists, st.binary(max_size=30))
def test_a_function_that_reads_headers_as_a_format_does_finds_the_same(
    framing: Framing, payloads: list[bytes], garbage: bytes
) -> None:
    layout = framing.length_fmt
    assert isinstance(layout, str)
    called = Framing(framing.header_length, lambda header: int(struct.unpack(layout, header)[0]))
    stream = b"".join(map(framing.frame, payloads))
    assert called.scan_until_error(stream + garbage) == framing.scan_until_error(stream + garbage)
    assert called.split(stream) == payloads


@settings(max_examples=150, deadline=None)
@given(framings, payload_lists, st.data())
def test_a_scan_finds_the_complete_frames_before_any_place(
    framing: Framing, payloads: list[bytes], data: st.DataObject
) -> None:
    ends = [0]
    for payload in payloads:
        ends.append(ends[-1] + framing.header_length + len(payload))
    stream = b"".join(map(framing.frame, payloads))
    size = data.draw(st.integers(0, len(stream)))
    complete = sum(end <= size for end in ends[1:])
    scan = framing.scan(stream[:size])
    assert (scan.frames, scan.end) == (complete, ends[complete])


@given(framings, payload_lists)
@settings(max_examples=100, deadline=None)
def test_splitting_gives_back_what_was_framed(framing: Framing, payloads: list[bytes]) -> None:
    assert framing.split(b"".join(map(framing.frame, payloads))) == payloads


def test_a_long_run_of_one_length_is_followed_by_frames_of_another() -> None:
    payloads = [b"abc"] * 10_000 + [b"", b"abcd"] + [b""] * 1_000 + [b"x"]
    stream = b"".join(map(U32.frame, payloads))
    assert U32.scan(stream) == Scan(len(stream), len(payloads), 0)
    assert U32.split(stream) == payloads


def test_payloads_that_look_like_headers_do_not_lengthen_a_run() -> None:
    payloads = [b"\0\0\0\4"] * 50 + [b"\0\0\0\4\0\0\0\4"] + [b"\0\0\0\4"] * 50
    assert U32.split(b"".join(map(U32.frame, payloads))) == payloads


def test_zero_length_payloads_are_messages() -> None:
    assert U32.scan(bytes(4 * 100)) == Scan(400, 100, 0)
    assert U32.split(bytes(4 * 100)) == [b""] * 100


def test_a_scan_tells_how_much_the_next_frame_takes() -> None:
    whole = U32.frame(b"done")
    assert U32.scan(whole).needs == 0
    assert U32.scan(whole + b"\0\0").needs == 4
    assert U32.scan(whole + U32.frame(b"x" * 100)[:50]).needs == 104


def test_a_payload_of_the_limit_is_accepted_and_one_byte_more_is_not() -> None:
    framing = Framing(4, ">I", max_frame=10)
    assert framing.scan(framing.frame(b"x" * 10)).frames == 1
    with pytest.raises(FrameError, match="a frame of 11 bytes; the limit is 10"):
        framing.scan(framing.frame(b"x" * 11))


@settings(max_examples=80, deadline=None)
@given(runs_of_equal_lengths, st.binary(max_size=60))
def test_the_complete_frames_before_one_over_the_limit_are_given_with_the_error(
    payloads: list[bytes], garbage: bytes
) -> None:
    framing = Framing(4, ">I", max_frame=20)
    good = b"".join(map(framing.frame, payloads))
    scan, problem = framing.scan_until_error(good + struct.pack(">I", 21) + garbage)
    assert (scan.end, scan.frames) == (len(good), len(payloads))
    assert problem == "a frame of 21 bytes; the limit is 20"


def test_a_header_over_the_limit_is_an_error_before_its_payload_comes() -> None:
    _, problem = Framing(4, ">I", max_frame=10).scan_until_error(struct.pack(">I", 11))
    assert problem is not None


def test_a_length_below_zero_is_an_error() -> None:
    _, problem = Framing(4, ">i").scan_until_error(struct.pack(">i", -1))
    assert problem is not None
    assert "-1 bytes" in problem


@pytest.mark.parametrize(
    ("header_length", "length_fmt", "reason"),
    [
        (4, ">?x", "takes 2 bytes"),
        (2, ">I", "takes 4 bytes, and header_length is 2"),
        (4, "I love structs", "is not a valid struct format"),
        (4, ">f", "one whole number"),
        (1, ">?", "one whole number"),
        (4, ">HH", "one whole number"),
        (4, "4s", "one whole number"),
        (4, "4x", "one whole number"),
        (0, "", "one whole number"),
    ],
)
def test_a_header_that_is_not_one_integer_is_refused(
    header_length: int, length_fmt: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Framing(header_length, length_fmt)


def no_length(_header: bytes) -> Any:
    return "7"


def raises(header: bytes) -> int:
    if header == b"bad!":
        msg = "no such header"
        raise LookupError(msg)
    return len(header)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (no_length, r"payload_length\(b'bad!'\): TypeError: 'str' object cannot be interpreted"),
        (raises, r"payload_length\(b'bad!'\): LookupError: no such header"),
        (lambda _: -1, "a frame of -1 bytes; the limit is 20"),
        (lambda _: 21, "a frame of 21 bytes; the limit is 20"),
        (lambda _: sys.exit(3), "SystemExit: 3"),
    ],
)
def test_a_function_that_gives_no_length_is_an_error_with_its_header(
    function: Callable[[bytes], int], reason: str
) -> None:
    with pytest.raises(FrameError, match=reason):
        Framing(4, function, max_frame=20).scan(b"bad!1234")


def test_the_complete_frames_before_a_header_that_a_function_refuses_are_given() -> None:
    scan, problem = Framing(4, raises).scan_until_error(b"good1234good1234bad!")
    assert (scan.end, scan.frames) == (16, 2)
    assert problem is not None


def test_a_function_that_changes_its_mind_is_an_error() -> None:
    answers = iter([4, -4])
    framing = Framing(4, lambda _: next(answers))
    assert framing.scan(b"head1234").frames == 1
    with pytest.raises(FrameError, match="a frame of -4 bytes"):
        framing.split(b"head1234")


@pytest.mark.parametrize(
    ("size", "read"),
    [
        (3, lambda header: int.from_bytes(header, "big")),
        (2, lambda header: int.from_bytes(header, "little")),
        (8, lambda header: int(header.decode())),
        (4, lambda header: int(header) if header[:1] == b" " else -1),
    ],
)
def test_frames_are_made_for_functions_that_read_usual_headers(
    size: int, read: Callable[[bytes], int]
) -> None:
    framing = Framing(size, read)
    assert framing.split(framing.frame(b"ab") + framing.frame(bytes(99))) == [b"ab", bytes(99)]


def raising(header: bytes) -> int:
    raise KeyError(header)


@pytest.mark.parametrize("read", [lambda header: header[0] - 2 - 7 * len(header), raising])
def test_frames_cannot_be_made_for_functions_that_read_other_headers(
    read: Callable[[bytes], int],
) -> None:
    with pytest.raises(FrameError, match="gets a length of 7 bytes from no binary or decimal"):
        Framing(2, read).frame(b"payload")


@pytest.mark.parametrize("header_length", [0, -1, "4", None, 2.0])
def test_a_header_that_a_function_reads_has_a_length(header_length: Any) -> None:
    with pytest.raises(ValueError, match=r"header_length is .*; expected a number of bytes"):
        Framing(header_length, len)


@given(framings | st.just(Framing(3, int)), payload_lists)
def test_all_payloads_are_framed_as_one_by_one(framing: Framing, payloads: list[bytes]) -> None:
    assert framing.frame_all(payloads) == b"".join(map(framing.frame, payloads))
    assert framing.split(framing.frame_all(payloads)) == payloads


def test_a_payload_among_others_that_its_header_cannot_hold_is_an_error() -> None:
    with pytest.raises(struct.error):
        Framing(1, "B").frame_all([b"a", bytes(256)])
