"""A schema that is not as Spark wrote it is named before Spark reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.engine.spark.checkpoint.schemas import check_schemas, note_schemas
from wallaroo.errors import RESTORE, DamagedFile


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """A schema in a checkpoint, `tmp_path`, whose checksum is kept."""
    file = tmp_path / "state" / "0" / "_stateSchema" / "default" / "0_5e1f"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"v3 binary")
    note_schemas(tmp_path)
    check_schemas(tmp_path)
    return file


@pytest.mark.parametrize("content", [b"", b"v3", b"v3 bi.ary"])
def test_a_changed_schema_is_found(schema: Path, tmp_path: Path, content: bytes) -> None:
    schema.write_bytes(content)
    note_schemas(tmp_path)  # what is kept stays
    with pytest.raises(DamagedFile) as refused:
        check_schemas(tmp_path)
    due = f"{schema} is damaged: it does not match its checksum; {RESTORE}"
    assert str(refused.value) == due


def test_a_missing_schema_is_found(schema: Path, tmp_path: Path) -> None:
    schema.unlink()
    with pytest.raises(DamagedFile, match="0_5e1f is damaged: No such file or directory"):
        check_schemas(tmp_path)


@pytest.mark.usefixtures("schema")
def test_changed_checksums_are_found(tmp_path: Path) -> None:
    file = tmp_path / "schemas"
    file.write_text(file.read_text().replace("0_5e1f", "0_5e1e"))
    with pytest.raises(DamagedFile, match="schemas is damaged: its contents do not match"):
        check_schemas(tmp_path)


def test_a_checkpoint_without_a_committed_batch_is_fine(tmp_path: Path) -> None:
    check_schemas(tmp_path)
