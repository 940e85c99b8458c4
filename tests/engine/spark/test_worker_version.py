"""Workers of another version than their driver: refused, with both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from wallaroo.engine.microbatch.job import Job, Readers, worker_context
from wallaroo.engine.spark.supervised_query import failure_of
from wallaroo.engine.spark.worker_version import check_version, version_here
from wallaroo.errors import OtherVersion
from wallaroo.gateway.internal_api.connector import Connector
from wallaroo.model.loader import ApplicationRef

OTHER = "wallaroo 9.9 on Python 3.99"
TOLD = f"the driver runs {OTHER}, and a worker {version_here()}: give driver and executors the same"


def test_a_worker_of_another_version_takes_no_batch(tmp_path: Path) -> None:
    connector = Connector("grpc+tcp://127.0.0.1:9", 1)
    job = Job(
        *("run", ApplicationRef("none"), connector, 8, (), Readers("")),
        checkpoint=tmp_path,
        version=OTHER,
    )
    with pytest.raises(OtherVersion, match=TOLD):
        worker_context(job, lambda reference: reference)


def test_a_driver_that_does_not_say_its_version_is_older() -> None:
    with pytest.raises(OtherVersion, match="the driver runs an older version of wallaroo, and a"):
        check_version(None)


def test_the_query_is_not_started_again() -> None:
    failure = failure_of(f"Traceback …\nwallaroo.errors.OtherVersion: {TOLD}\n\tat java.base")
    assert failure.final
    assert failure.reason == TOLD
