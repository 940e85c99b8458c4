"""A checkpoint names the places of its own schemas, wherever it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from wallaroo.engine.spark.checkpoint.relocate import relocate
from wallaroo.errors import RESTORE, DamagedFile


def _metadata(checkpoint: Path, operator: int, batch: int, *schemas: str) -> Path:
    """A file of operator metadata as Spark 4.3 writes it."""
    file = checkpoint / "state" / str(operator) / "_metadata" / "v2" / str(batch)
    file.parent.mkdir(parents=True, exist_ok=True)
    store = {"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": list(schemas)}
    told = {"operatorInfo": {"operatorId": operator}, "stateStoreInfo": [store]}
    file.write_text(f"v2\n{json.dumps(told)}")
    return file


def _schemas(file: Path) -> list[str]:
    version, _, body = file.read_text().partition("\n")
    assert version == "v2"
    told = json.loads(body)
    assert told["stateStoreInfo"][0]["numPartitions"] == 2
    return list(told["stateStoreInfo"][0]["stateSchemaFilePaths"])


def test_the_places_of_all_schemas_move_with_the_checkpoint(tmp_path: Path) -> None:
    old = "file:/elsewhere/checkpoint/state"
    files = [
        _metadata(tmp_path, 0, 0, f"{old}/0/_stateSchema/default/0_aa"),
        _metadata(tmp_path, 0, 7, f"{old}/0/_stateSchema/default/0_aa", f"{old}/0/_stateSchema/b"),
        _metadata(tmp_path, 1, 7, f"{old}/1/_stateSchema/default/0_cc"),
    ]
    assert relocate(tmp_path)
    here = f"file:{tmp_path}/state"
    assert [_schemas(file) for file in files] == [
        [f"{here}/0/_stateSchema/default/0_aa"],
        [f"{here}/0/_stateSchema/default/0_aa", f"{here}/0/_stateSchema/b"],
        [f"{here}/1/_stateSchema/default/0_cc"],
    ]


def test_a_checkpoint_that_is_where_it_was_is_left_alone(tmp_path: Path) -> None:
    file = _metadata(tmp_path, 0, 3, f"file:{tmp_path}/state/0/_stateSchema/default/0_aa")
    before = file.read_bytes(), file.stat().st_ino
    assert not relocate(tmp_path)
    assert (file.read_bytes(), file.stat().st_ino) == before


def test_there_need_be_no_checkpoint(tmp_path: Path) -> None:
    assert not relocate(tmp_path / "none")


@pytest.mark.parametrize(
    "text", [b"", b"v2\n{", b"v2\n[]", b'v2\n{"stateStoreInfo": [{}]}', b"\xff", b"v2\n{}"]
)
def test_damaged_metadata_is_named(tmp_path: Path, text: bytes) -> None:
    file = _metadata(tmp_path, 0, 3, f"file:{tmp_path}/state/0/_stateSchema/default/0_aa")
    file.write_bytes(text)
    problem = f"^{re.escape(str(file))} is damaged: .*; {re.escape(RESTORE)}$"
    with pytest.raises(DamagedFile, match=problem):
        relocate(tmp_path)
