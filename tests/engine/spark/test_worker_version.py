"""Workers of another version than their driver: refused, with both versions."""

from __future__ import annotations

import pytest

from wallaroo.engine.spark.supervised_query import failure_of
from wallaroo.engine.spark.worker_version import check_version, version_here
from wallaroo.errors import OtherVersion

OTHER = "wallaroo 9.9 on Python 3.99"
TOLD = f"the driver runs {OTHER}, and a worker {version_here()}: give driver and executors the same"


def test_a_worker_of_another_version_takes_no_chunk() -> None:
    with pytest.raises(OtherVersion, match=TOLD):
        check_version(OTHER)


def test_a_driver_that_does_not_say_its_version_is_older() -> None:
    with pytest.raises(OtherVersion, match="the driver runs an older version of wallaroo, and a"):
        check_version(None)


def test_the_query_is_not_started_again() -> None:
    failure = failure_of(f"Traceback …\nwallaroo.errors.OtherVersion: {TOLD}\n\tat java.base")
    assert failure.final
    assert failure.reason == TOLD
