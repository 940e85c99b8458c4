"""Which file of a checkpoint is damaged, without Spark."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from wallaroo.engine.spark.checkpoint.damage import damaged_files, diagnose
from wallaroo.engine.spark.checkpoint.xxhash import xxhash32
from wallaroo.errors import RESTORE


def block(content: bytes) -> bytes:
    """A block of a changelog, as Spark writes it."""
    packed = pa.compress(content, codec="lz4_raw", asbytes=True)
    (total,) = xxhash32([content], 0x9747B28C)
    checksum = total & 0x0FFFFFFF
    sizes = [len(packed), len(content), checksum]
    header = b"LZ4Block\x25" + b"".join(size.to_bytes(4, "little") for size in sizes)
    return header + bytes(packed)


TABLE = "000008-5e1f.sst"
END = b"LZ4Block\x15" + bytes(12)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of three batches and two partitions, with a snapshot after the second."""
    (tmp_path / "commits").mkdir()
    for batch in range(3):
        (tmp_path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for partition in "01":
        directory = tmp_path / "state" / "0" / partition
        directory.mkdir(parents=True)
        for version in range(1, 4):
            content = block(b"record " * 100) + block(b"more") + END
            (directory / f"{version}.changelog").write_bytes(content)
        with zipfile.ZipFile(directory / "2.zip", "w") as archive:
            tables = [{"dfsSstFileName": TABLE, "sizeBytes": 5}]
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": tables}))
        (directory / "SSTs").mkdir()
        (directory / "SSTs" / TABLE).write_bytes(b"table")
    return tmp_path


def no_problem(_file: Path) -> None:
    """No table is damaged."""


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def test_an_intact_checkpoint_has_no_damaged_file(checkpoint: Path) -> None:
    assert list(damaged_files(checkpoint)) == []


@pytest.mark.parametrize("place", [3, 10, 14, 18, 30, -25, -15])
def test_a_flipped_bit_of_a_changelog_is_found(checkpoint: Path, place: int) -> None:
    file = checkpoint / "state/0/1/3.changelog"
    flip(file, place)
    assert [found for found, _ in damaged_files(checkpoint)] == [file]
    told, is_sure = diagnose(checkpoint, no_problem, "Stream is corrupted")
    assert told.startswith(f"{file} is damaged: ")
    assert told.endswith(RESTORE)
    assert is_sure


@pytest.mark.parametrize("left", [0, 5, 40, -1, -30])
def test_a_truncated_changelog_is_found(checkpoint: Path, left: int) -> None:
    file = checkpoint / "state/0/0/3.changelog"
    file.write_bytes(file.read_bytes()[:left])
    assert [found for found, _ in damaged_files(checkpoint)] == [file]


@pytest.mark.parametrize("damaged", [0, 255, 256, 599])
def test_a_damaged_block_among_many_is_named_by_its_place(checkpoint: Path, damaged: int) -> None:
    (file,) = checkpoint.glob("state/0/1/3.changelog")
    blocks = [block(b"%d " % number * 20) for number in range(600)]
    file.write_bytes(b"".join(blocks) + END)
    assert list(damaged_files(checkpoint, no_problem)) == []
    place = sum(map(len, blocks[:damaged]))
    flip(file, place + len(blocks[damaged]) - 1)
    problem = f"the block at byte {place} is incomplete or does not match its checksum"
    assert list(damaged_files(checkpoint, no_problem)) == [(file, problem)]


def test_a_missing_changelog_and_a_damaged_snapshot_are_found(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/3.changelog").unlink()
    flip(checkpoint / "state/0/1/2.zip", 60)
    first, second = damaged_files(checkpoint)
    assert first == (checkpoint / "state/0/0/3.changelog", "it is missing")
    assert second[0] == checkpoint / "state/0/1/2.zip"


@pytest.mark.parametrize("names", ["{}.changelog", "{}_5d-1a.changelog"])
def test_a_gap_between_a_snapshot_and_the_newest_changelog_is_found(
    checkpoint: Path, names: str
) -> None:
    directory = checkpoint / "state/0/1"
    for file in directory.glob("[0-9]*"):
        file.unlink()
    unique = {"stateUniqueIds": {"0": [[], ["5d-1a"]]}} if "_" in names else {}
    for version in (3, 4):
        content = block(b"record") + END
        (directory / names.format(version)).write_bytes(content)
        (checkpoint / "state/0/0" / f"{version}.changelog").write_bytes(content)
    (checkpoint / "commits/3").write_text(f"v2\n{json.dumps(unique)}")
    missing = directory / ("2_*.changelog" if unique else "2.changelog")
    assert list(damaged_files(checkpoint)) == [(missing, "it is missing")]


def test_files_that_the_last_commit_does_not_need_are_not_looked_at(checkpoint: Path) -> None:
    flip(checkpoint / "state/0/0/1.changelog", 30)
    (checkpoint / "state/0/0/4.changelog").write_bytes(b"of a batch that was not committed")
    assert list(damaged_files(checkpoint)) == []


def test_a_damaged_table_of_a_snapshot_is_found(checkpoint: Path) -> None:
    missing, short, bad = (
        (checkpoint / "state" / "0" / partition / "SSTs" / TABLE, problem)
        for partition, problem in (
            ("0", "it is missing"),
            ("1", "it has 4 bytes instead of 5"),
            ("1", "a block does not match its checksum"),
        )
    )
    missing[0].unlink()
    assert list(damaged_files(checkpoint)) == [missing]
    assert list(damaged_files(checkpoint, lambda _file: bad[1])) == [missing, bad]
    short[0].write_bytes(b"tabl")
    assert list(damaged_files(checkpoint)) == [missing, short]


def test_where_no_file_is_damaged_nothing_is_to_be_deleted(checkpoint: Path) -> None:
    advice = "Please create a new checkpoint location or clear the existing checkpoint location."
    told, is_sure = diagnose(checkpoint, no_problem, f"[CANNOT_LOAD] An error occurred. {advice}")
    assert not is_sure
    assert "although no file of it is damaged by itself: [CANNOT_LOAD] An error occurred." in told
    assert "checkpoint location" not in told
    assert told.endswith(f"start again, and if that does not help, {RESTORE}")


def test_before_the_first_commit_no_file_is_needed(tmp_path: Path) -> None:
    (tmp_path / "state" / "0" / "0").mkdir(parents=True)
    assert list(damaged_files(tmp_path)) == []
