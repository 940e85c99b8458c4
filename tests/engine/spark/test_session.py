"""Where the sockets of Spark's Python workers are."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wallaroo.engine.spark.session import _sockets_in

SETTING = "spark.python.unix.domain.socket.dir"


def test_on_one_machine_they_are_in_a_directory_that_only_this_user_can_enter() -> None:
    with tempfile.TemporaryDirectory(prefix="sockets-", dir="/tmp") as directory:
        place = Path(directory, "spark")
        assert _sockets_in(place, "local[2,8]") == {SETTING: str(place)}
        assert place.stat().st_mode & 0o777 == 0o700


def test_elsewhere_or_with_a_long_path_spark_chooses(tmp_path: Path) -> None:
    assert _sockets_in(tmp_path / "spark", "k8s://https://kubernetes") == {}
    assert _sockets_in(tmp_path / ("long" * 20), "local[2]") == {}
