"""Files as sinks: outputs are written exactly once, wherever a writer is killed."""

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

from wallaroo.connectors.files.sink import FileSink
from wallaroo.errors import RuntimeFailure


class Kill(BaseException):
    """What ends a process in the midst of a write."""


@contextlib.contextmanager
def killed_at(call: int) -> Iterator[None]:
    """Die at the *call*-th call of the system that changes a file, or go through to the end."""
    calls = itertools.count()

    def dying(function: Any) -> Any:
        def die_or_do(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == call:
                raise Kill
            return function(*args, **kwargs)

        return die_or_do

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Kill):
        for name in ("pwrite", "fsync", "ftruncate", "replace"):
            patch.setattr(os, name, dying(getattr(os, name)))
        yield


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(0, 10), max_size=3)), max_size=8))
def test_wherever_a_writer_is_killed_each_output_is_there_once(
    deliveries: list[tuple[int, list[int]]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path, first = Path(directory, "out"), 0
        for count, kills in deliveries:
            outputs = [b"%d" % number for number in range(first, first + count)]
            for call in kills:
                sink = FileSink(path, lines=True)
                with killed_at(call):
                    sink.open("a")
                    sink.write(first, outputs)  # nobody learns whether this has returned
                sink.close()
            sink = FileSink(path, lines=True)
            sink.open("a")
            sink.write(first, outputs)
            sink.close()
            first += count
        written = path.read_bytes() if deliveries else b""
        assert written == b"".join(b"%d\n" % number for number in range(first))


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "out"
    names = {path.name for path in tmp_path.iterdir()}
    assert names <= {"out", "out.position"}


def write(path: Path, first: int, *outputs: bytes, numbering: str = "a") -> None:
    sink = FileSink(path, lines=False)
    sink.open(numbering)
    sink.write(first, outputs)
    sink.close()


def test_outputs_are_written_as_they_are_where_no_lines_are_asked_for(out: Path) -> None:
    write(out, 0, b"a", b"", b"b\n")
    assert out.read_bytes() == b"ab\n"


def test_what_a_file_has_before_its_first_output_stays(out: Path) -> None:
    out.write_bytes(b"old\n")
    write(out, 0, b"new\n")
    assert out.read_bytes() == b"old\nnew\n"


def test_what_is_torn_is_cut_off(out: Path) -> None:
    write(out, 0, b"a\n")
    with out.open("ab") as file:
        file.write(b"to")
    write(out, 1, b"torn\n")
    assert out.read_bytes() == b"a\ntorn\n"


def test_a_new_numbering_begins_behind_what_is_there(out: Path) -> None:
    write(out, 0, b"a", b"b", b"c")
    write(out, 0, b"d", b"e", numbering="another")
    write(out, 1, b"e", b"f", numbering="another")
    assert out.read_bytes() == b"abcdef"


@pytest.mark.parametrize("done", ["removed", "replaced"])
def test_a_file_that_is_removed_or_replaced_while_it_is_written_is_told(
    out: Path, done: str
) -> None:
    sink = FileSink(out, lines=True)
    sink.open("a")
    sink.write(0, [b"one"])
    moved = out.rename(out.with_name("out.1"))
    if done == "replaced":
        out.touch()
    with pytest.raises(
        RuntimeFailure, match="was removed or replaced: a new file gets the next ou"
    ):
        sink.write(1, [b"two"])
    sink.close()
    sink.open("a")  # as it is after an error
    sink.write(0, [b"one", b"two", b"three"])
    sink.close()
    assert moved.read_bytes() == b"one\n"
    moved.unlink()
    assert out.read_bytes() == b"two\nthree\n"


def test_a_file_has_one_writer(out: Path) -> None:
    one, other = FileSink(out, lines=False), FileSink(out, lines=False)
    one.open("a")
    with pytest.raises(RuntimeFailure, match="is locked: another process is writing to it"):
        other.open("b")
    one.close()
    other.open("b")
    other.close()


def test_a_note_that_somebody_changed_is_told(out: Path) -> None:
    write(out, 0, b"a")
    out.with_name("out.position").write_text("seven")
    sink = FileSink(out, lines=False)
    with pytest.raises(RuntimeFailure, match=r"out.position is corrupt; move it"):
        sink.open("a")


def test_a_file_that_was_shortened_is_told_with_both_sizes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = FileSink(out, lines=True)
    sink.open("a")
    sink.write(0, [b"one", b"two"])
    told = "has 4 bytes, and 8 bytes of outputs were written: it was shortened"
    os.truncate(out, 4)
    with pytest.raises(RuntimeFailure, match=told):
        sink.write(2, [b"three"])  # a gap of zeros would be the alternative
    sink.close()
    with pytest.raises(RuntimeFailure, match=told):
        sink.open("a")
    sink = FileSink(out, lines=True, skips_lost=True)
    sink.open("a")
    sink.write(2, [b"three"])
    os.truncate(out, 4)
    sink.write(3, [b"four"])
    sink.close()
    assert out.read_bytes() == b"one\nfour\n"


def test_an_empty_file_in_the_place_of_the_old_one_gets_the_next_outputs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = FileSink(out, lines=True)
    sink.open("a")
    sink.write(0, [b"one"])
    sink.close()
    out.rename(tmp_path / "out.1")
    out.touch()
    sink.open("a")
    sink.write(1, [b"two"])
    sink.close()
    assert out.read_bytes() == b"two\n"


def test_a_file_that_was_restored_with_its_note_is_told_with_both_numbers(out: Path) -> None:
    write(out, 0, b"a", b"b")
    note = out.with_name("out.position")
    backup, backup_note = out.read_bytes(), note.read_bytes()
    write(out, 2, b"c", b"d")
    out.write_bytes(backup)
    note.write_bytes(backup_note)
    told = "has the first 2 outputs, and 4 were delivered: it was restored"
    for skips in (False, True):
        sink = FileSink(out, lines=False, skips_lost=skips)
        sink.open("a")
        with contextlib.nullcontext() if skips else pytest.raises(RuntimeFailure, match=told):
            sink.write(4, [b"e"])
        sink.close()
    assert out.read_bytes() == b"abe"


def test_a_new_file_gets_the_outputs_from_the_next_one_on(out: Path) -> None:
    write(out, 4)  # no output comes before the next start
    write(out, 4, b"e")
    assert out.read_bytes() == b"e"
