"""Files that are rotated, while they are followed or not: nothing is lost or doubled."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from wallaroo.api.connectors import MessageSource
from wallaroo.connectors import rotation
from wallaroo.connectors.csv.source import CSVRows
from wallaroo.connectors.files.source import FileSource
from wallaroo.wire.framing import DEFAULT_MAX_FRAME, Framing
from wallaroo.wire.rows import decoding_rows

U32 = Framing(4, ">I")


class Log:
    """A followed file, and what it is written and read with."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.path = directory / f"log.{kind}"
        self.kind = kind
        self._clock = 1_000_000_000
        self.position: Any = None
        self.write([], "w")

    def source(self) -> MessageSource[Any]:
        if self.kind == "csv":
            return CSVRows(self.path, ",", None, DEFAULT_MAX_FRAME, follow=True)
        framing = U32 if self.kind == "frames" else None
        return FileSource(self.path, framing, DEFAULT_MAX_FRAME, follow=True)

    def write(self, words: list[str], mode: str = "a", file: Path | None = None) -> None:
        data = b"".join(
            U32.frame(word.encode()) if self.kind == "frames" else f"{word}\n".encode()
            for word in (["a"] if self.kind == "csv" and mode == "w" else []) + words
        )
        with (file or self.path).open(f"{mode}b") as opened:
            opened.write(data)
        self._clock += 1_000_000_000  # each in a second of its own, all long ago
        os.utime(file or self.path, ns=(self._clock, self._clock))

    def rename(self, suffix: str) -> Path:
        return self.path.rename(f"{self.path}{suffix}")

    def copy_and_truncate(self, suffix: str) -> None:
        shutil.copy2(self.path, f"{self.path}{suffix}")
        self.write([], "w")

    def taken(self, reading: Iterator[Any]) -> list[str]:
        """What can be read now."""
        found: list[str] = []
        for item in reading:
            if item is None:
                return found
            payload, self.position = item
            found.append(self._word(payload))
        return found

    def read(self) -> list[str]:
        """What an application reads that is started, and stopped again."""
        with closing(self.source().read(self.position)) as reading:  # type: ignore[type-var]
            return self.taken(reading)

    def _word(self, payload: bytes) -> str:
        if self.kind == "csv":
            return str(decoding_rows(lambda row: row["a"])(payload))
        return payload.decode()


@pytest.fixture(params=["lines", "frames", "csv"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return Log(tmp_path, request.param)


def renamed(log: Log) -> None:
    log.rename(".1")
    log.write([], "w")


def copied(log: Log) -> None:
    log.copy_and_truncate(".1")


ROTATIONS = pytest.mark.parametrize("rotate", [renamed, copied])


@ROTATIONS
@pytest.mark.parametrize("unread", [[], ["three", "four"]])
@pytest.mark.parametrize("new", [["x"], ["five", "six", "seven", "eight", "nine"]])
def test_a_file_that_was_rotated_while_nobody_read_is_finished_first(
    log: Log, rotate: Callable[[Log], None], unread: list[str], new: list[str]
) -> None:
    log.write(["one", "two"])
    assert log.read() == ["one", "two"]
    log.write(unread)
    rotate(log)
    log.write(new)
    with capture_logs() as logs:
        assert log.read() == unread + new
    assert [entry for entry in logs if entry["log_level"] == "warning"] == []
    assert log.read() == []
    log.write(["last"])
    assert log.read() == ["last"]


@ROTATIONS
def test_a_file_that_is_rotated_while_it_is_followed_is_finished_first(
    log: Log, rotate: Callable[[Log], None]
) -> None:
    log.write(["one", "two"])
    with closing(log.source().read(None)) as reading:  # type: ignore[type-var]
        assert log.taken(reading) == ["one", "two"]
        log.write(["three"])
        rotate(log)
        log.write(["four", "five", "six", "seven", "eight"])
        assert log.taken(reading) == ["three", "four", "five", "six", "seven", "eight"]
        log.write(["nine"])
        assert log.taken(reading) == ["nine"]
    assert log.read() == []


def test_several_files_that_were_rotated_are_read_in_order(log: Log) -> None:
    log.write(["one", "two"])
    assert log.read() == ["one", "two"]
    log.write(["three"])
    for number, word in enumerate(["four", "five", "six"], 1):
        for later in range(number - 1, 0, -1):
            Path(f"{log.path}.{later}").rename(f"{log.path}.{later + 1}")
        log.rename(".1")
        log.write([word], "w")
    assert log.read() == ["three", "four", "five", "six"]
    assert log.read() == []


def test_a_stop_between_two_files_loses_and_repeats_nothing(log: Log) -> None:
    log.write(["one", "two"])
    assert log.read() == ["one", "two"]
    log.write(["three", "four"])
    log.rename("-20260701")
    log.write(["five", "six"], "w")
    found = []
    for _ in range(4):
        with closing(log.source().read(log.position)) as reading:  # type: ignore[type-var]
            payload, log.position = next(item for item in reading if item is not None)
            found.append(log._word(payload))
    assert found == ["three", "four", "five", "six"]


def test_a_program_that_still_writes_to_the_renamed_file_is_waited_for(log: Log) -> None:
    log.write(["one"])
    with closing(log.source().read(None)) as reading:  # type: ignore[type-var]
        assert log.taken(reading) == ["one"]
        old = log.rename(".1")
        log.write(["four"], "w")
        os.utime(old)  # a moment ago
        assert log.taken(reading) == []
        log.write(["two", "three"], file=old)
        os.utime(log.path)
        assert log.taken(reading) == ["two", "three", "four"]


def test_a_name_that_is_gone_is_waited_for(log: Log) -> None:
    log.write(["one"])
    with closing(log.source().read(None)) as reading:  # type: ignore[type-var]
        assert log.taken(reading) == ["one"]
        log.rename(".1")
        assert log.taken(reading) == []
        log.write(["two"], "w")
        assert log.taken(reading) == ["two"]


def test_a_file_that_is_gone_is_told_and_the_new_one_is_read(log: Log) -> None:
    log.write(["one", "two"])
    assert log.read() == ["one", "two"]
    log.path.unlink()
    log.write(["three", "four", "five", "six", "seven"], "w")
    with capture_logs() as logs:
        assert log.read() == ["three", "four", "five", "six", "seven"]
    (entry,) = [one for one in logs if one["log_level"] == "warning"]
    assert entry["event"] == "file was replaced"
    assert f"is not in {log.path.parent} any more" in entry["reason"]


def test_a_file_that_was_moved_with_its_directory_is_read_on(log: Log) -> None:
    log.write(["one", "two"])
    assert log.read() == ["one", "two"]
    copy = log.path.with_name("copy")
    shutil.copy2(log.path, copy)
    copy.rename(log.path)
    log.write(["three"])
    assert log.read() == ["three"]


def test_other_files_beside_it_are_not_read(log: Log) -> None:
    log.write(["one"])
    assert log.read() == ["one"]
    log.rename(".1")
    for name in ("other.1", f"{log.path.name}.position", f"{log.path.name}.1.gz", "xlog.1"):
        log.write(["foreign"], "w", log.path.with_name(name))
    log.write(["two"], "w")
    assert log.read() == ["two"]


def test_what_is_before_a_position_is_checked_to_a_bounded_length(log: Log) -> None:
    log.write(["w" * rotation._BEFORE_BYTES, "x"])
    assert len(log.read()) == 2
    log.write(["y"])
    assert log.read() == ["y"]
