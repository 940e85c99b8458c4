"""Outputs as files of Parquet: each in one complete file, wherever the writer is killed."""

from __future__ import annotations

import itertools
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.publishing import PublishingOutbox
from tests.gateway.harness import NOWHERE
from tests.helpers import wait_until
from wallaroo.connectors import threads
from wallaroo.connectors.parquet import directory as directory_module
from wallaroo.connectors.parquet import sink as module
from wallaroo.connectors.parquet.directory import FileSeries
from wallaroo.connectors.parquet.resolve import ParquetSink
from wallaroo.connectors.parquet.sink import ParquetSinkWriter
from wallaroo.connectors.parquet.source import ParquetRows
from wallaroo.errors import RuntimeFailure
from wallaroo.gateway.outbox.outbox import Outbox
from wallaroo.metrics import catalogue
from wallaroo.wire.rows import decoding_rows, packed_row


class Writing(PublishingOutbox):
    """An outbox and the sink that writes its outputs; may be stopped and started."""

    def __init__(self, path: Path, **how: Any) -> None:
        super().__init__(path)
        self.directory = path / "out"
        sink = ParquetSink("totals", bytes, NOWHERE, self.directory, seconds=0.01)
        self.sink = replace(sink, **how)
        self.start()

    def start(self) -> None:
        self.open()
        self.writer = ParquetSinkWriter(self.context, 0, self.sink)

    def stop(self) -> None:
        self.writer.stop()
        self.close()

    def publish_rows(self, *rows: dict[str, Any]) -> None:
        self.publish(*map(packed_row, rows))

    @property
    def files(self) -> list[Path]:
        return sorted(self.directory.glob("[!.]*"))

    def rows(self) -> list[Any]:
        """All rows, as the source reads them."""
        if not self.files:
            return []
        decode = decoding_rows(dict)
        items = ParquetRows(self.directory, None, follow=False).read(None)
        return [decode(item[0]) for item in items if item is not None]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_WAIT_S", 0.01)
    monkeypatch.setattr(threads, "RETRY_FIRST_S", 0.001)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    made = Writing(tmp_path)
    yield made
    made.stop()


def test_a_file_has_the_numbers_of_its_outputs_in_its_name(writing: Writing) -> None:
    writing.publish_rows({"n": 0}, {"n": 1})
    writing.wait_until_delivered()
    writing.publish_rows({"n": 2, "t": "è"})
    writing.wait_until_delivered()
    series = writing.outbox.numbering(writing.writer._sink.name, 8)
    assert [file.name for file in writing.files] == [
        f"{series}-{0:020}-{1:020}.parquet",
        f"{series}-{2:020}-{2:020}.parquet",
    ]
    assert writing.rows() == [{"n": 0}, {"n": 1}, {"n": 2, "t": "è"}]
    assert {stat.S_IMODE(file.stat().st_mode) & 0o044 for file in writing.files} == {0o044}
    (sample,) = writing.writer.samples()
    assert (sample.metric, sample.value) == (catalogue.PARQUET_FILES, 2)


def test_outputs_wait_until_there_are_enough_of_them(tmp_path: Path) -> None:
    writing = Writing(tmp_path, rows=5, seconds=3600.0)
    for number in range(4):
        writing.publish_rows({"n": number})
    assert writing.outbox.undelivered == 4
    writing.stop()  # they stay in the outbox
    assert not writing.files
    writing.start()
    writing.publish_rows({"n": 4})
    writing.wait_until_delivered()
    assert len(writing.files) == 1
    assert writing.rows() == [{"n": number} for number in range(5)]
    writing.stop()


def test_a_file_is_complete_by_its_bytes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FILE_BYTES", 1000)
    writing = Writing(tmp_path, seconds=3600.0)
    writing.publish_rows({"text": "x" * 1000})
    writing.wait_until_delivered()
    writing.stop()


def test_rows_that_do_not_fit_are_dead_letters(tmp_path: Path) -> None:
    writing = Writing(tmp_path, schema=pa.schema([("n", pa.int8())]))
    writing.publish_rows({"n": 1}, {"n": 1000}, {"n": 2})
    writing.wait_until_delivered()
    writing.publish_rows({"m": 1})  # makes no file
    writing.wait_until_delivered()
    writing.publish_rows({"n": None})
    writing.wait_until_delivered()
    assert writing.rows() == [{"n": 1}, {"n": 2}, {"n": None}]
    assert pq.read_schema(writing.files[-1]) == writing.sink.schema
    one, other = writing.letters()
    assert (one.payload, one.place, one.step) == (b'{"n":1000}', "output 2", "sink totals")
    assert other.error == "the schema has no column 'm'"
    writing.stop()


def test_a_directory_that_cannot_be_written_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    writing = Writing(tmp_path)
    writing.publish_rows({"n": 1})
    wait_until(lambda: writing.writer.problem, "a failure")
    assert "File exists" in str(writing.writer.problem)
    (tmp_path / "out").unlink()
    writing.wait_until_delivered()
    assert writing.writer.problem is None
    writing.stop()


def test_files_may_be_taken_away(writing: Writing) -> None:
    for number in range(3):
        writing.publish_rows({"n": number})
        writing.wait_until_delivered()
        for file in writing.files:
            file.unlink()
        writing.stop()
        writing.start()
    writing.publish_rows({"n": 3})
    writing.wait_until_delivered()
    assert writing.rows() == [{"n": 3}]


def test_a_series_has_one_writer(tmp_path: Path) -> None:
    one = FileSeries(tmp_path, "a")
    with pytest.raises(RuntimeFailure, match="is locked: another process is writing to it"):
        FileSeries(tmp_path, "a")
    FileSeries(tmp_path, "b").close()
    one.close()
    FileSeries(tmp_path, "a").close()


class Kill(Exception):
    """What ends a writer in the midst of its work."""


PLACES = ["store", "before-note", "after-note", "after-publish", "delivered"]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.sampled_from(PLACES), max_size=6),
    st.sets(st.integers(0, 12), max_size=3),
    st.booleans(),
)
def test_wherever_a_writer_is_killed_each_output_is_there_once_or_a_letter(
    tmp_path_factory: pytest.TempPathFactory,
    deliveries: list[int],
    kills: list[str],
    bad: set[int],
    restart: bool,
) -> None:
    waiting = list(kills)

    def reach(place: str) -> None:
        if waiting and place.endswith(waiting[0]):
            waiting.pop(0)
            raise Kill

    delivered, store = Outbox.delivered, FileSeries._store

    def die_or_deliver(self: Outbox, *args: Any, **kwargs: Any) -> None:
        reach("delivered")
        delivered(self, *args, **kwargs)

    def die_or_store(self: FileSeries, *args: Any) -> None:
        store(self, *args)
        reach("store")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directory_module, "fault", reach)
        patch.setattr(Outbox, "delivered", die_or_deliver)
        patch.setattr(FileSeries, "_store", die_or_store)
        schema = pa.schema([("n", pa.int64())])
        writing = Writing(tmp_path_factory.mktemp("kills"), schema=schema, rows=3)
        numbers = itertools.count()
        for count in deliveries:
            made = [next(numbers) for _ in range(count)]
            writing.publish_rows(*[{"n": "bad" if n in bad else n} for n in made])
            if restart:
                writing.stop()
                writing.start()
        writing.wait_until_delivered()
        letters = writing.letters()
        writing.stop()
    total = next(numbers)
    assert [row["n"] for row in writing.rows()] == [n for n in range(total) if n not in bad]
    assert [one.place for one in letters] == [f"output {n + 1}" for n in range(total) if n in bad]
    hidden = {file.suffix for file in writing.directory.glob(".*")}
    assert hidden <= {".lock", ".position"}


def test_a_directory_that_was_restored_from_a_backup_is_told_with_both_numbers(
    tmp_path: Path,
) -> None:
    writing = Writing(tmp_path)
    writing.publish_rows({"n": 0}, {"n": 1})
    writing.wait_until_delivered()
    note = next(writing.directory.glob(".*.position"))
    backup = note.read_bytes()
    writing.publish_rows({"n": 2}, {"n": 3})
    writing.wait_until_delivered()
    writing.stop()
    note.write_bytes(backup)
    writing.files[1].unlink()
    writing.start()
    writing.publish_rows({"n": 4})
    wait_until(lambda: writing.writer.problem)
    problem = writing.writer.problem or ""
    assert "has the first 2 outputs, and 4 were delivered" in problem
    assert "Output 3 to 4 is no longer kept" in problem
    assert "on_lost='skip'" in problem
    writing.stop()
    writing.sink = replace(writing.sink, skips_lost=True)
    writing.start()
    writing.wait_until_delivered()
    assert writing.rows() == [{"n": 0}, {"n": 1}, {"n": 4}]
    assert writing.files[1].name.endswith(f"-{4:020}-{4:020}.parquet")
    writing.stop()


def test_a_new_directory_gets_the_next_outputs_under_their_numbers(tmp_path: Path) -> None:
    writing = Writing(tmp_path)
    writing.publish_rows({"n": 0}, {"n": 1})
    writing.wait_until_delivered()
    writing.stop()
    writing.directory.rename(tmp_path / "moved")
    writing.start()
    writing.publish_rows({"n": 2})
    writing.wait_until_delivered()
    assert [file.name[-48:-8] for file in writing.files] == [f"{2:020}-{2:020}"[-40:]]
    writing.stop()
