"""The copies of Spark's streaming shuffle, whose connections are authenticated."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from wallaroo.engine.realtime.guarded_shuffle import guarded_classes
from wallaroo.engine.spark.java import spark_jars
from wallaroo.errors import UsageError

THEIRS, OURS = b"org/apache/spark/network/TransportContext", b"org/apache/spark/wallaroo/"


def test_no_copy_creates_connections_as_spark_does() -> None:
    copies = dict(guarded_classes(spark_jars()))
    assert {name.rpartition("/")[2] for name in copies} >= {
        "StreamingShuffleReader.class",
        "StreamingShuffleWriter.class",
    }
    assert not [name for name, content in copies.items() if THEIRS in content]
    guarded = [name for name, content in copies.items() if OURS + b"GuardedContext" in content]
    assert len(guarded) == 2


def test_a_spark_that_connects_in_another_way_is_refused(tmp_path: Path) -> None:
    (jar,) = spark_jars().glob("spark-core_*.jar")
    with (
        zipfile.ZipFile(jar) as archive,
        zipfile.ZipFile(tmp_path / "spark-core_2.13.jar", "w") as moved,
    ):
        for name in archive.namelist():
            if "/StreamingShuffleReader" in name:
                moved.writestr(name, archive.read(name))
    with pytest.raises(UsageError, match=r"1 classes .* in place of 2.*install the PySpark"):
        list(guarded_classes(tmp_path))
