"""The Scala module and the compiler that PySpark ships."""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path

import pytest

from wallaroo.engine.realtime.jar import SOURCES, compiled, jar
from wallaroo.errors import UsageError


def test_the_jar_is_that_of_this_source_and_this_pyspark() -> None:
    made = jar()
    assert jar() == made
    with zipfile.ZipFile(made) as archive:
        assert "wallaroo/realtime/Query.class" in archive.namelist()


def test_an_interface_of_spark_that_moved_is_named(tmp_path: Path) -> None:
    sources = []
    for source in SOURCES:
        sources.append(tmp_path / source.name)
        moved = source.read_text().replace("SupportsRealTimeMode", "SupportsOtherMode")
        sources[-1].write_text(moved)
    with pytest.raises(UsageError) as refused:
        compiled(sources, tmp_path)
    assert "SupportsOtherMode" in str(refused.value)
    assert importlib.metadata.version("pyspark") in str(refused.value)
    assert "install the PySpark that this version of wallaroo requires" in str(refused.value)
