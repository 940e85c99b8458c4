"""Files as sources: any content, read exactly once, wherever it is cut."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wallaroo.connectors import rotation
from wallaroo.connectors.files import source as module
from wallaroo.connectors.files.source import FileSource
from wallaroo.errors import FrameError
from wallaroo.wire.framing import DEFAULT_MAX_FRAME, Framing
from wallaroo.wire.refusals import refusal_reason

U32 = Framing(4, ">I")


def lines(path: Path, *, follow: bool = False, limit: int = DEFAULT_MAX_FRAME) -> FileSource:
    return FileSource(path, None, limit, follow=follow)


def frames(path: Path, framing: Framing = U32, *, follow: bool = False) -> FileSource:
    return FileSource(path, framing, framing.max_frame, follow=follow)


def read(source: FileSource, position: Any = None) -> list[tuple[bytes, Any]]:
    items: list[Any] = list(source.read(position))
    assert None not in items
    return items


def ends(following: Iterator[Any], count: int) -> list[tuple[bytes, int] | None]:
    """The next of what is followed, with the offset of each alone."""
    items = [next(following) for _ in range(count)]
    return [item and (item[0], item[1][0]) for item in items]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=20)), st.integers(1, 50), st.booleans(), st.data())
def test_a_file_can_be_read_on_from_behind_any_of_its_messages(
    messages: list[bytes], block: int, in_lines: bool, data: st.DataObject
) -> None:
    if in_lines:
        messages = [message.replace(b"\n", b"") for message in messages]
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_BYTES", block)
        path = Path(directory, "messages")
        path.write_bytes(
            b"".join(m + b"\n" for m in messages)
            if in_lines
            else b"".join(map(U32.frame, messages))
        )
        source = lines(path) if in_lines else frames(path)
        whole = read(source)
        assert [payload for payload, _ in whole] == messages
        taken = data.draw(st.integers(0, len(whole)))
        position = whole[taken - 1][1] if taken else None
        assert read(source, position) == whole[taken:]


def test_a_last_line_without_a_line_feed_is_a_message(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\r\ntwo")
    assert read(lines(path)) == [(b"one\r", 5), (b"two", (8, 8))]
    assert read(lines(path), (8, 8)) == []


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_the_line_feed_that_ends_a_line_already_taken_is_no_message(
    tmp_path: Path, ending: bytes, follow: bool
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo")
    *_, (_, end) = read(lines(path))
    for grown in (ending, b"\nthree\n"):  # the second is an empty line, and one more
        with path.open("ab") as file:
            file.write(grown)
        reading: Any = lines(path, follow=follow).read(end)
        with contextlib.closing(reading):
            found = [item[0] for item in itertools.takewhile(bool, reading)]
    assert found == [b"", b"three"]


def test_what_comes_within_a_line_already_taken_is_told_and_the_source_goes_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo")
    end: Any = 4
    for rest in (b" and", b" more\nthree\n"):
        *_, (_, end) = read(lines(path), end)
        begin = path.stat().st_size
        with path.open("ab") as file:
            file.write(rest)
        dead_letter, *others = read(lines(path), end)
        line = rest.partition(b"\n")[0]
        assert refusal_reason(dead_letter[0]) == (
            f"{path}, byte {begin}: the rest of a line, {len(line)} bytes: what came before it was "
            f"taken as a message when the file ended there; it begins with {line!r}"
        )
    assert others == [(b"three", 23)]
    path.write_bytes(b"one\ntwo01234567890\nthree\n")
    long, *others = read(lines(path, limit=10), (7, 7))
    assert "byte 7: a message of 11 bytes" in (refusal_reason(long[0]) or "")
    assert others == [(b"three", 25)]


def test_a_rotated_file_may_end_within_a_line_and_grow_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "STILL_S", 0.0)
    path = tmp_path / "lines"
    old = tmp_path / "lines.1"
    old.write_bytes(b"one\ntwo")
    with old.open("rb") as file:
        seen = rotation.Trail(file.fileno(), 7).seen
    for grown, found in ((b"", []), (b"\n", []), (b"x\n", [b"x"])):
        with old.open("ab") as growing:
            growing.write(grown)
        path.unlink(missing_ok=True)
        path.write_bytes(b"three\n")
        following: Any = lines(path, follow=True).read(seen)
        with contextlib.closing(following):
            items = itertools.islice((item for item in following if item), len(found) + 1)
            assert [payload for payload, _ in items] == [*found, b"three"]


def test_a_file_that_is_followed_gives_what_comes_and_says_when_nothing_is_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntw")
    following: Any = lines(path, follow=True).read(None)
    with contextlib.closing(following), path.open("ab", buffering=0) as file:
        assert ends(following, 3) == [(b"one", 4), None, None]
        file.write(b"o\nthree\n")
        assert ends(following, 3) == [(b"two", 8), (b"three", 14), None]


def test_a_followed_file_may_be_in_mid_frame(tmp_path: Path) -> None:
    path, data = tmp_path / "frames", U32.frame(b"one") + U32.frame(b"two")
    path.write_bytes(data[:9])
    following: Any = frames(path, follow=True).read(None)
    with contextlib.closing(following), path.open("ab", buffering=0) as file:
        assert ends(following, 2) == [(b"one", 7), None]
        file.write(data[9:])
        assert ends(following, 1) == [(b"two", 14)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\0\0\1a\xff\xff\xff\xff", "byte 5: a frame of -1 bytes; the limit is 10"),
    ],
)
def test_bytes_that_are_no_frame_are_told_behind_the_messages_before_them(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    (tmp_path / "frames").write_bytes(data)
    reading = frames(tmp_path / "frames", Framing(4, ">i", 10)).read(None)
    assert next(reading) == (b"a", 5)
    with pytest.raises(FrameError, match=reason):
        next(reading)


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        (
            b"\0\0\0\4two",
            "the header announces 4 bytes, but the file has 3 of them; they begin with",
        ),
        (b"\0\0\0\x99two", "the header announces 153 bytes, but the file has 3 of them"),
        (b"\0\0", "the file ends after 2 of the 4 bytes of a header"),
    ],
)
def test_a_frame_that_the_file_has_in_part_is_told_once_and_read_when_it_is_whole(
    tmp_path: Path, rest: bytes, told: str
) -> None:
    path, framing = tmp_path / "frames", Framing(4, ">I", 100)
    path.write_bytes(U32.frame(b"one") + rest)
    source = frames(path, framing)
    found: list[Any] = list(source.read(None))
    first, (payload, position) = found
    assert first == (b"one", 7)
    assert f"{path}, byte 7: {told}" in (refusal_reason(payload) or "")
    assert list(source.read(position)) == []
    path.write_bytes(U32.frame(b"one") + U32.frame(b"four") + U32.frame(b"next"))
    assert list(source.read(position)) == [(b"four", 15), (b"next", 23)]


def test_a_rotated_file_that_ends_in_mid_frame_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "STILL_S", 0.0)
    path = tmp_path / "frames"
    path.write_bytes(U32.frame(b"one") + b"\0\0\0\4two")
    following: Any = frames(path, follow=True).read(None)
    with contextlib.closing(following):
        assert ends(following, 2) == [(b"one", 7), None]
        path.rename(tmp_path / "frames.1")
        path.write_bytes(U32.frame(b"three"))
        found: list[Any] = ends(following, 2)
    (payload, end), three = found
    assert "the header announces 4 bytes, but the file has 3" in (refusal_reason(payload) or "")
    assert (end, three) == (14, (b"three", 9))


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("block", [3, 1 << 20])
@pytest.mark.parametrize("in_lines", [True, False])
def test_a_message_over_the_limit_is_passed_over_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_lines: bool, block: int, follow: bool
) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", block)
    path, messages = tmp_path / "messages", [b"ab", b"0123456789" * 20, b"cd", b"e" * 11, b"f"]
    if in_lines:
        path.write_bytes(b"".join(message + b"\n" for message in messages))
        source = lines(path, limit=10, follow=follow)
    else:
        path.write_bytes(b"".join(map(U32.frame, messages)))
        source = frames(path, Framing(4, ">I", 10), follow=follow)
    opened: Any = source.read(None)
    with contextlib.closing(opened) as reading:
        found: list[Any] = list(itertools.islice((item for item in reading if item), 5))
    over = 1 if in_lines else 4
    ends = [*itertools.accumulate(len(message) + over for message in messages)]
    assert [position[0] if follow else position for _, position in found] == ends
    assert [payload for payload, _ in found[::2]] == messages[::2]
    reasons = [refusal_reason(payload) for payload, _ in found[1::2]]
    told = f"{path}, byte {{}}: a message of {{}} bytes; the limit is 10: raise --max-frame; it "
    begins = repr(messages[1][:100])
    assert reasons == [
        told.format(ends[0], 200) + f"begins with {begins}…",
        told.format(ends[2], 11) + "begins with b'eeeeeeeeeee'",
    ]
    for number, (_, position) in enumerate(found[:4]):  # read on from there
        opened = source.read(position)
        with contextlib.closing(opened) as reading:
            assert next(item for item in reading if item) == found[number + 1]


def test_a_last_line_over_the_limit_without_a_line_feed_is_told(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"ab\n01234567890")
    (_, (payload, end)) = read(lines(tmp_path / "lines", limit=10))
    assert "byte 3: a message of 11 bytes" in (refusal_reason(payload) or "")
    assert end == (14, 14)


def test_a_file_that_has_become_shorter_is_told(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\n")
    with pytest.raises(FrameError, match="has 4 bytes, but 8 bytes of it have already been read"):
        next(lines(tmp_path / "lines").read(8))


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FrameError, match="is a pipe, of which nothing can be read again"):
        read(lines(tmp_path / "pipe"))


def test_a_file_is_not_read_on_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo")
    assert [position for _, position in read(lines(path))] == [4, (7, 7)]
    path.write_bytes(b"one\ntwo\nthree\n")  # it had no line feed yet
    assert read(lines(path), 4) == [(b"two", 8), (b"three", 14)]
    assert read(lines(path), (7, 7)) == [(b"three", 14)]
    path.write_bytes(b"another\n")
    with pytest.raises(FrameError, match="has changed: no line ends at byte 4, up to which it has"):
        read(lines(path), 4)
