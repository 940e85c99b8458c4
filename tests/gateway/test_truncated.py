"""Logs that were cut, emptied or mixed up: told, or exact, and never less."""

from __future__ import annotations

import itertools
import os
import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.gateway.harness import opened, outputs, publish
from tests.gateway.log_files import flip, places, segments
from tests.helpers import PATIENCE_S
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway import writer
from wallaroo.gateway.damage import LOG
from wallaroo.gateway.dead_letters.store import Choice
from wallaroo.gateway.journal.request_keys import KeyedRequest
from wallaroo.gateway.journal.stream_positions import Opener, StreamName
from wallaroo.gateway.journal.write_buffer import Reached
from wallaroo.gateway.log.log import Log
from wallaroo.gateway.log.records import HEADER
from wallaroo.gateway.marks import Mark, MarkWriter, mark_file, read_mark
from wallaroo.gateway.outbox.chunks import FinishedChunk
from wallaroo.gateway.store import Store
from wallaroo.wire.records import TICK_SOURCE, Tally

NAME, RUN = "Votes", "run"
BLOCK = 4096
WRITTEN, MORE = 6, 4
"""Chunks before the log was closed once, and after it was opened again."""


class Content(NamedTuple):
    """All that must not be lost, or changed."""

    messages: list[tuple[int, int, int, bytes]]
    """The blocks of the journal: first message, messages, source, bytes."""
    outputs: list[tuple[int, bytes]]
    """What is to be delivered: number and bytes."""
    changes: list[bytes]
    """Changes of state."""


class Positions(NamedTuple):
    """What else must not change unnoticed."""

    stream: int
    opener: object
    reached: bytes | None
    requests: list[bytes]
    accepted: dict[int, int]
    consumed: int
    openings: list[object]
    progress: object
    forgotten: object
    delivered: tuple[int, int, int]
    numbered: bool | None
    identity: str
    kept: list[tuple[int, bytes]]
    published: int
    letters: int


class Found(NamedTuple):
    """All of it."""

    content: Content
    positions: Positions

    def __repr__(self) -> str:
        """Without the megabyte that it has."""
        return f"Found({len(self.content.messages)} blocks)"


def fill(directory: Path, tag: bytes, copy: Path) -> None:
    """Write to the log of *directory*, and leave copies as of an earlier time, and of a kill."""
    numbers = iter(range(100))
    stream = StreamName(0, "stream")
    for number_of in (WRITTEN, MORE):
        with opened(directory, application=NAME) as store:
            journal, outbox = store.journal, store.outbox
            journal.stream_positions.open(stream, Opener("a subject", "10.0.0.1"))
            for number in itertools.islice(numbers, number_of):
                text = b"%s message %d " % (tag, number)
                request = KeyedRequest(0, b"key %d" % number, b"digest", 1)
                reached = Reached("lines", b"%d" % number)
                journal.submit(0, 2, text * 2_000, (stream, number + 1), reached, request)
                assert journal.flush(PATIENCE_S)
                made = [outputs(b"%s output %d " % (tag, number) * 1_500, to=0)]
                made.append(outputs(b"%s to another %d" % (tag, number), to=1))
                changes = [(0, b"%s change %d " % (tag, number) * 1_000)]
                tally = Tally(set_aside=1)
                publish(store, FinishedChunk(number + 1, 2 * number + 2, made, tally, changes))
                outbox.note_numbered(1, numbered=True)
                if number in {2, 7}:
                    outbox.delivered(1, number, keep_bytes=1_000)
                    outbox.sent(1, number + 1)
            store.writer.flush()
            if number_of == MORE:
                shutil.copytree(directory, copy)
        if number_of == WRITTEN:
            shutil.copytree(directory, copy.with_name(f"{copy.name}-older"))


def content(store: Store) -> Content:
    """What a gateway finds."""
    delivered, after = [], 0
    while (found := store.outbox.next(0, after, 0.0)) is not None:
        delivered.append((found.number, found.outputs.data))
        after = found.position
    changes = list(store.outbox.changes(RUN, 0, 0))
    blocks = store.journal.read(0, store.journal.end)
    rows = [(one.first, one.messages, one.source, one.data) for one in blocks]
    return Content(rows, delivered, changes)


def positions(store: Store) -> Positions:
    journal, outbox = store.journal, store.outbox
    stream = StreamName(0, "stream")
    return Positions(
        journal.stream_positions.last(stream),
        journal.stream_positions._openers.get(stream),
        journal.reached("lines"),
        list(journal.request_keys(0)),
        journal.accepted,
        journal.consumed,
        list(journal.openings[:-1]),
        outbox.progress(),
        outbox.chunks.forgotten,
        (outbox.delivered_to(1), outbox.sent_to(1), outbox.undelivered),
        outbox.note_numbered(1, numbered=True),
        outbox.identity,
        [(one.number, one.outputs.data) for one in outbox.kept(1)],
        outbox.counters()["published"],
        outbox.counters()["set_aside"],
    )


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a gateway that was killed.

    Beside it are `other`, that of another one, and `killed-older`, as it was before.
    """
    made = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "Log", partial(Log, segment_bytes=200_000))
        for name in ("one", "another"):
            (made / name).mkdir()
        fill(made / "one", b"one", made / "killed")
        fill(made / "another", b"another", made / "other")
    assert len(segments(made / "killed")) > 3
    return made / "killed"


@pytest.fixture(scope="module")
def intact(killed: Path) -> Found:
    """What is in `killed`."""
    copy = copied(killed)
    with opened(copy, application=NAME) as store:
        found = Found(content(store), positions(store))
    assert [len(part) for part in found.content] == [WRITTEN + MORE] * 3
    assert found.positions.stream == WRITTEN + MORE
    assert found.positions.kept
    return found


names = itertools.count()


def copied(killed: Path) -> Path:
    copy = killed.with_name(f"copy-{next(names)}")
    shutil.copytree(killed, copy)
    return copy


def damaged(killed: Path, file: str, damage: str, place: float) -> Path:
    """A copy of *killed* in which *file* is damaged."""
    copy = copied(killed)
    path = copy / file
    data = bytearray(path.read_bytes())
    at = int(place * len(data))
    ends = [one.end for one in places(killed) if one.file.name == path.name] or [0]
    end = max([one for one in ends if one <= at], default=ends[0])
    if damage == "cut":
        path.write_bytes(data[:at])
    elif damage == "cut behind a record":
        path.write_bytes(data[:end])
    elif damage == "zeros":
        start = at // BLOCK * BLOCK
        data[start : start + BLOCK] = bytes(len(data[start : start + BLOCK]))
        path.write_bytes(data)
    elif damage == "flipped":
        flip(path, at)
    elif damage == "lacks bytes":
        path.write_bytes(data[:at] + data[at + 100 :])
    elif damage == "removed":
        path.unlink()
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage in {"of another", "older"}:
        of = killed.with_name("other" if damage == "of another" else "killed-older")
        if (of / file).exists():
            shutil.copy(of / file, path)
        else:
            path.unlink()
    return copy


DAMAGES = [
    *("cut", "cut behind a record", "zeros", "flipped", "lacks bytes", "removed", "emptied"),
    *("of another", "older"),
]
MARK = f"{LOG}-mark"


def check(killed: Path, intact: Found, file: str, damage: str, place: float) -> str:
    """Start on a damaged directory: what was told; empty if nothing is lost."""
    copy = damaged(killed, file, damage, place)
    kept = copied(copy)
    try:
        with opened(copy, application=NAME) as store:
            found = Found(content(store), positions(store))
    except RuntimeFailure as error:
        told = str(error)
        assert str(copy / LOG) in told, told
        assert "estore" in told or "--state-dir" in told, told
        skipped(kept, intact.content)
        return told
    else:
        assert found == intact
        return ""
    finally:
        shutil.rmtree(copy)
        shutil.rmtree(kept)


def skipped(copy: Path, intact: Content) -> None:
    """With `--skip-damaged` there is what is intact, under its numbers, or the log is named."""
    told = ""
    try:
        with opened(copy, application=NAME, skip_damaged=True) as store:
            found = content(store)
    except RuntimeFailure as error:
        told = str(error)
    if told:
        assert str(copy) in told
        return
    assert {one for one in found.messages if one[2] != TICK_SOURCE} <= set(intact.messages)
    assert set(found.outputs) <= set(intact.outputs)
    assert found.changes == intact.changes[: len(found.changes)]
    with opened(copy, application=NAME) as store:  # nothing is missing any more
        assert content(store) == found


@settings(max_examples=120, deadline=None)
@given(segment=st.integers(0, 99), damage=st.sampled_from(DAMAGES), place=st.floats(0, 0.999))
def test_a_damaged_segment_is_told_or_nothing_is_lost(
    killed: Path, intact: Found, segment: int, damage: str, place: float
) -> None:
    files = segments(killed)
    file = f"{LOG}/{files[segment % len(files)].name}"
    check(killed, intact, file, damage, place)


def test_a_flipped_bit_of_any_record_is_told(killed: Path, intact: Found) -> None:
    """In its header and in what it says: positions, numbers and counters, too."""
    all_places = places(killed)
    mark = read_mark(killed / LOG)
    assert mark is not None
    for number, place in enumerate(all_places):
        length = place.end - place.at
        for at in {(7 * number) % HEADER.size, min(HEADER.size + 3, length - 1), length - 1}:
            copy = copied(killed)
            flip(copy / LOG / place.file.name, place.at + at)
            told = ""
            try:
                with opened(copy, application=NAME) as store:
                    assert Found(content(store), positions(store)) == intact
            except RuntimeFailure as error:
                told = str(error)
            shutil.rmtree(copy)
            if place.record.number <= mark.record:
                assert str(copy / LOG) in told
                assert f"{place.record.number}" in told


def test_a_log_that_is_cut_anywhere_is_told(killed: Path, intact: Found) -> None:
    *_, last = segments(killed)
    in_last = [one for one in places(killed) if one.file == last]
    mark = read_mark(killed / LOG)
    assert mark is not None
    for place in in_last:
        copy = copied(killed)
        os.truncate(copy / LOG / last.name, place.at)
        if place.record.number <= mark.record:
            with pytest.raises(RuntimeFailure, match="missing"), opened(copy, application=NAME):
                pass
        else:  # it was never synced
            with opened(copy, application=NAME) as store:
                assert Found(content(store), positions(store)) == intact
        shutil.rmtree(copy)
    for name in [file.name for file in segments(killed)]:
        assert check(killed, intact, f"{LOG}/{name}", "removed", 0.0)


@pytest.mark.parametrize("damage", ["cut", "zeros", "removed", "emptied"])
def test_a_mark_that_is_gone_is_not_missed(killed: Path, intact: Found, damage: str) -> None:
    assert check(killed, intact, MARK, damage, 0.5) == ""


def replaced(killed: Path, by: str, *but: str) -> Path:
    """A copy of *killed* with the log of another directory."""
    copy = copied(killed)
    shutil.rmtree(copy / LOG)
    shutil.copytree(killed.with_name(by) / LOG, copy / LOG)
    return copy


@pytest.mark.parametrize("by", ["killed-older", "other"])
def test_another_log_is_told(killed: Path, by: str) -> None:
    copy = replaced(killed, by)
    first, end = (2 * WRITTEN if by == "killed-older" else 0), 2 * (WRITTEN + MORE)
    told = rf"log is damaged: messages {first} to {end - 1}, which were accepted, are missing"
    with pytest.raises(RuntimeFailure, match=told), opened(copy, application=NAME):
        pass
    (copy / MARK).unlink()  # a backup that has none
    with opened(copy, application=NAME) as store:
        assert len(content(store).messages) == (WRITTEN if by == "killed-older" else WRITTEN + MORE)


def test_a_log_that_is_gone_is_told(killed: Path) -> None:
    copy = copied(killed)
    shutil.rmtree(copy / LOG)
    end = 2 * (WRITTEN + MORE)
    told = rf"log is damaged: messages 0 to {end - 1}, which were accepted, are missing"
    for _ in range(2):  # the first start has made another log
        with pytest.raises(RuntimeFailure, match=told), opened(copy, application=NAME):
            pass
    with opened(copy, application=NAME, skip_damaged=True) as store:
        assert store.journal.end == 0
    with opened(copy, application=NAME):
        pass


def test_a_copy_that_was_continued_is_told_however_much_it_has(killed: Path) -> None:
    copy = replaced(killed, "killed-older")
    elsewhere = copied(killed.with_name("killed-older"))
    with opened(elsewhere, application=NAME) as store:
        for _ in range(100):
            store.journal.submit(0, 1, b"another way")
            assert store.journal.flush(PATIENCE_S)
    shutil.rmtree(copy / LOG)
    shutil.copytree(elsewhere / LOG, copy / LOG)
    found, mark = list(places(copy)), read_mark(copy / LOG)
    assert mark is not None
    assert found[-1].record.number > mark.record
    with (
        pytest.raises(RuntimeFailure, match=r"messages 0 to \d+, which were accepted, are missing"),
        opened(copy, application=NAME),
    ):
        pass


def test_a_log_of_another_run_that_has_more_is_told(killed: Path) -> None:
    copy = copied(killed)
    mark = MarkWriter(copy / LOG)
    mark.note(Mark("f" * 32, 3, 3, "e" * 32))
    mark.close()
    told = r"log is damaged: messages 0 to 2, which were accepted, are missing"
    with pytest.raises(RuntimeFailure, match=told), opened(copy, application=NAME):
        pass


def test_missing_messages_are_named_and_skipped_if_asked(killed: Path, intact: Found) -> None:
    copy = replaced(killed, "killed-older")
    first, end = 2 * WRITTEN, 2 * (WRITTEN + MORE)
    with pytest.raises(RuntimeFailure) as told, opened(copy, application=NAME):
        pass
    assert str(told.value).startswith(
        f"{copy / LOG} is damaged: messages {first} to {end - 1}, which were accepted, are "
        "missing; was the end of the log cut, or the log replaced by an older copy?"
    )
    assert "from one backup, remove log-mark; or start with --skip-damaged" in str(told.value)
    with opened(copy, application=NAME, skip_damaged=True) as store:
        assert content(store).messages == [
            *intact.content.messages[:WRITTEN],
            (first, end - first, TICK_SOURCE, b""),
        ]
        with store.outbox.letters.transaction() as letters:
            (letter,) = letters.listed(Choice(), 10)
    assert letter.place == f"log: messages {first} to {end - 1}"


def test_a_tail_that_was_never_accepted_is_not_missed(killed: Path, intact: Found) -> None:
    copy = copied(killed)
    with segments(copy)[-1].open("ab") as log:
        log.write(os.urandom(BLOCK // 2))
    with opened(copy, application=NAME) as store:
        assert Found(content(store), positions(store)) == intact


@pytest.mark.parametrize(("size", "is_told"), [(22, True), (0, False)])
def test_a_damaged_mark_is_told_and_ignored_unless_nothing_was_noted(
    killed: Path, size: int, is_told: bool
) -> None:
    copy = copied(killed)
    mark = mark_file(copy / LOG)
    mark.write_bytes(mark.read_bytes()[:size])
    with capture_logs() as logs, opened(copy, application=NAME):
        pass
    told = [log["file"] for log in logs if log["event"] == "damaged mark ignored"]
    assert told == [str(mark)] * is_told
