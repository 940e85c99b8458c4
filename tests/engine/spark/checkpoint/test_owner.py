"""A checkpoint belongs to the engine that made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.engine.registry import VARIABLE, engine_of
from wallaroo.engine.spark.checkpoint.owner import check, owner_of, take
from wallaroo.errors import DamagedFile, UsageError


def test_a_checkpoint_has_an_owner_once_spark_has_used_it(tmp_path: Path) -> None:
    assert owner_of(tmp_path / "none") is None
    take(tmp_path / "state", "real-time")
    assert owner_of(tmp_path / "state") is None
    (tmp_path / "state" / "metadata").touch()
    assert owner_of(tmp_path / "state") == "real-time"
    (tmp_path / "metadata").touch()
    assert owner_of(tmp_path) == "micro-batch"  # it is older than the second engine


def test_another_engine_is_refused_with_the_way_over(tmp_path: Path) -> None:
    (tmp_path / "metadata").touch()
    check(tmp_path, "micro-batch")
    with pytest.raises(UsageError) as refused:
        check(tmp_path, "real-time")
    for part in ("--engine micro-batch", "state export", "state import --engine real-time"):
        assert part in str(refused.value)


def test_commands_use_the_engine_of_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert engine_of(tmp_path).name == "real-time"
    assert engine_of(tmp_path, "micro-batch").name == "micro-batch"
    monkeypatch.setenv(VARIABLE, "micro-batch")
    assert engine_of(tmp_path).name == "micro-batch"
    monkeypatch.setenv(VARIABLE, "real-time")
    (tmp_path / "metadata").touch()
    assert engine_of(tmp_path).name == "micro-batch"
    with pytest.raises(UsageError, match="is of the micro-batch engine"):
        engine_of(tmp_path, "real-time")


@pytest.mark.parametrize("name", ["", "real", "rmal-time"])
def test_a_damaged_name_is_not_taken_for_an_option(tmp_path: Path, name: str) -> None:
    take(tmp_path, name)
    (tmp_path / "metadata").touch()
    for used in (None, "real-time"):
        with pytest.raises(DamagedFile) as refused:
            engine_of(tmp_path, used)
        assert str(refused.value).startswith(f"{tmp_path / 'engine'} is damaged: '{name}' is no")


@pytest.mark.parametrize("mark", ["begun", "noted"])
def test_a_missing_name_is_not_taken_for_that_of_the_first_engine(
    tmp_path: Path, mark: str
) -> None:
    for name in ("metadata", mark):
        (tmp_path / name).touch()
    with pytest.raises(DamagedFile, match="engine is damaged: it is missing"):
        owner_of(tmp_path)
